"""`rackspan history`: the tables that scans leave behind."""

import sys
from typing import Annotated

import typer

from rackspan.cli.rendering.output_formats import RowsFormat
from rackspan.cli.rendering.query_rows import UnprintableError, print_rows
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.rendering.tables import console, table
from rackspan.cli.shared import options
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.kept_scans import scan_packages
from rackspan.cli.shared.later_command import command_app

app = command_app(name="history", help="Query the history of scans, and look after it.", no_args_is_help=True)


@app.callback()
def history() -> None:
    """Query the history of scans, and look after it."""


@app.command(
    epilog=options.epilog(
        '$ rackspan history sql /var/lib/rackspan "SELECT * FROM compliance_by_day ORDER BY day"',
        '$ rackspan history sql s3://audit/rackspan "SELECT * FROM open_findings" -o csv > findings.csv',
    )
)
def sql(
    location: Annotated[str, typer.Argument(metavar="HISTORY", help="Where scans keep their tables: a path or a URI.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT, in the SQL of DataFusion.")],
    output: Annotated[RowsFormat, typer.Option("--output", "-o", help="How to print the rows.")] = RowsFormat.TABLE,
) -> None:
    """Print what a query over the history gives. Changes nothing.

    `rackspan history views` lists what can be queried.
    """
    if output is RowsFormat.PARQUET and sys.stdout.isatty():
        raise CommandError("Parquet is not for a terminal", "write it to a file: > rows.parquet")
    with scan_packages():
        from rackspan.jobs.history.queries import query as answered  # noqa: PLC0415 - needs pyarrow

        rows = answered(location, query)
    try:
        print_rows(rows, output)
    except UnprintableError as error:
        raise CommandError(str(error), error.hint) from error


@app.command(epilog=options.epilog("$ rackspan history views"))
def views() -> None:
    """List the views that `rackspan history sql` can query."""
    with scan_packages():
        from rackspan.jobs.history.queries import described  # noqa: PLC0415 - needs pyarrow

        rows = described()
    listed = table("VIEW", "HOLDS")
    for name, about in rows:
        listed.add_row(name, about)
    console().print(listed)


@app.command(epilog=options.epilog("$ rackspan history migrate /var/lib/rackspan /var/lib/rackspan-delta"))
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A history that an earlier version wrote. It stays.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where its scans are written as Delta tables.")],
) -> None:
    """Copy the scans of a history of the old layout into Delta tables.

    Scans that NEW has already are left out: a copy that was interrupted goes on.
    """
    with scan_packages():
        from rackspan.jobs.history.migration import migrate as copied  # noqa: PLC0415 - needs pyarrow
        from rackspan.jobs.history.scan_history import History  # noqa: PLC0415

        number = copied(old, History(new), note)
    print(f"scans copied: {number}")
