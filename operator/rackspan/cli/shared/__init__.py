"""Code that subcommands share: options, the source of a cluster, the selection of its topics, and errors."""
