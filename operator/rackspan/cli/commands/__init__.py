"""One module per subcommand: its options and its help. The work is in `actions`."""
