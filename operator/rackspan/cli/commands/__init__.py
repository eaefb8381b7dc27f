"""One module per subcommand, named like it: its options and its help. It hands on what it is given to `actions`."""
