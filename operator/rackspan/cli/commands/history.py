"""`rackspan history`: the tables that scans leave behind."""

from typing import Annotated

import typer

from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.shared import options
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.later_command import command_app

app = command_app(name="history", help="Look after the history of scans.", no_args_is_help=True)


@app.callback()
def history() -> None:
    """Look after the history of scans."""


@app.command(epilog=options.epilog("$ rackspan history migrate /var/lib/rackspan /var/lib/rackspan-delta"))
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A history that an earlier version wrote. It stays.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where its scans are written as Delta tables.")],
) -> None:
    """Copy the scans of a history of the old layout into Delta tables.

    Scans that NEW has already are left out: a copy that was interrupted goes on.
    """
    try:
        from rackspan.jobs.history.migration import migrate as copied  # noqa: PLC0415 - needs pyarrow
        from rackspan.jobs.history.scan_history import History, HistoryError  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed", "pip install 'rackspan[scan]'") from error
    try:
        number = copied(old, History(new), note)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    print(f"scans copied: {number}")
