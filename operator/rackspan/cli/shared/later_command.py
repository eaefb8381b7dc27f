"""Commands whose modules are imported when they are called, so that `--help` and completion of names are fast."""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand

MARKUP: Final = "markdown"


def command_app(**settings: Any) -> typer.Typer:
    """Return the typer app of a module in `rackspan.cli.commands`, for one command or a group."""
    return typer.Typer(add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_enable=False, **settings)


class LaterCommand(TyperCommand):
    """The name, the panel in `rackspan --help` and the summary of a command.

    `app` is the location of its typer app, by default `app` in the module of the same name in `rackspan.cli.commands`.
    """

    def __init__(self, name: str, panel: str, summary: str, app: str = "") -> None:
        super().__init__(name, help=summary, rich_help_panel=panel, rich_markup_mode=MARKUP)
        self._app = app or f"{name.replace('-', '_')}.app"

    def loaded(self, context: Any) -> Any:
        """Import and return the command itself, for the context of the group."""
        module, app = self._app.split(".")
        command = typer.main.get_command(getattr(import_module(f"rackspan.cli.commands.{module}"), app))
        for one in (command, *getattr(command, "commands", {}).values()):
            flags_as_flags(one.get_params(context))
        return command


def flags_as_flags(parameters: list[Any]) -> list[Any]:
    """Return the same options, with flags that `--help` prints as `--watch`. Typer prints `--watch <bool>`."""
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return parameters
