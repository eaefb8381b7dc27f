"""One module per subcommand, named like it: its options, what it reads, what it asks the core, what it prints."""
