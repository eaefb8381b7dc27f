"""`rackspan rack-id` among the other commands, for their list and for completion; see `rackspan.rack_id`."""

import typer

from rackspan.rack_id import NAME, SUMMARY, main

__all__ = ["NAME", "SETTINGS", "SUMMARY", "rack_id"]

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All options are read by the command that runs without typer."""


def rack_id(context: typer.Context) -> None:
    """Hand the arguments on."""
    raise typer.Exit(main(context.args))
