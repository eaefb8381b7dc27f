"""One module per subcommand, with its name: options and help. Each command passes its arguments to `cli.actions`."""
