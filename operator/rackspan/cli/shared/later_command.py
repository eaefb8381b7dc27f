"""Commands whose modules are imported when they are called, so that `--help` and completion of names are fast."""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand

MARKUP: Final = "markdown"


def command_app(**settings: Any) -> typer.Typer:
    """The typer app of a module in `rackspan.cli.commands`: of one command, or of a group."""
    return typer.Typer(add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_enable=False, **settings)


class LaterCommand(TyperCommand):
    """
    The name, the panel in `rackspan --help` and the summary of a command.

    `app` is where its typer app is: by default `app` of the module in `rackspan.cli.commands` of that name.
    """

    def __init__(self, name: str, panel: str, summary: str, app: str = "") -> None:
        super().__init__(name, help=summary, rich_help_panel=panel, rich_markup_mode=MARKUP)
        self._app = app or f"{name.replace('-', '_')}.app"

    def loaded(self, context: Any) -> Any:
        """The command itself, for the context of the group."""
        module, app = self._app.split(".")
        command = typer.main.get_command(getattr(import_module(f"rackspan.cli.commands.{module}"), app))
        for one in (command, *getattr(command, "commands", {}).values()):
            flags_as_flags(one.get_params(context))
        return command


def flags_as_flags(parameters: list[Any]) -> list[Any]:
    """The same options; `--help` prints a flag as `--watch`, where typer prints `--watch <bool>`."""
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return parameters
