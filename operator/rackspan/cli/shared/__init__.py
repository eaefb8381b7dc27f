"""What subcommands share: options, where a cluster is read from, which of its topics are meant, errors."""
