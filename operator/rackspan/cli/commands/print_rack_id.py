"""`rackspan rack-id`, as the other commands list it. It runs without typer: see `rackspan.rack_id`."""

import typer

from rackspan.cli.shared.later_command import command_app
from rackspan.rack_id import NAME, SUMMARY, main

app = command_app()
_SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All options are read by the command that runs without typer."""


@app.command(NAME, help=SUMMARY, context_settings=_SETTINGS)
def rack_id(context: typer.Context) -> None:
    """Hand the arguments on."""
    raise typer.Exit(main(context.args))
