"""The options of `rackspan history`."""

from typing import Annotated

import typer

from rackspan.cli.actions import querying_histories
from rackspan.cli.rendering.output_formats import RowsFormat
from rackspan.cli.shared import options
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
    querying_histories.sql(**locals())


@app.command(epilog=options.epilog("$ rackspan history views"))
def views() -> None:
    """List the views that `rackspan history sql` can query."""
    querying_histories.views()


@app.command(epilog=options.epilog("$ rackspan history migrate /var/lib/rackspan /var/lib/rackspan-delta"))
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A history that an earlier version wrote. It stays.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where its scans are written as Delta tables.")],
) -> None:
    """Copy the scans of a history of the old layout into Delta tables.

    Scans that NEW has already are left out: a copy that was interrupted goes on.
    """
    querying_histories.migrate(**locals())
