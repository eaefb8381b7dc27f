"""The options of `rackspan history`."""

from typing import Annotated

import typer

from rackspan.cli.actions import querying_histories
from rackspan.cli.rendering.output_formats import RowsFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app(
    name="history",
    help="Query and maintain the history of scans.",
    epilog=options.epilog('$ rackspan history sql /var/lib/rackspan "SELECT * FROM open_findings"'),
    no_args_is_help=True,
)


@app.callback()
def history() -> None:
    """Query and maintain the history of scans."""


@app.command(
    epilog=options.epilog(
        '$ rackspan history sql /var/lib/rackspan "SELECT * FROM compliance_by_day ORDER BY day"',
        '$ rackspan history sql s3://audit/rackspan "SELECT * FROM open_findings" -o csv > findings.csv',
    )
)
def sql(
    location: Annotated[str, typer.Argument(metavar="HISTORY", help="The location of the history: a path or a URI.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT, in the SQL of DataFusion.")],
    output: Annotated[RowsFormat, typer.Option("--output", "-o", help="How to print the rows.")] = RowsFormat.TABLE,
) -> None:
    """Print the result of a SQL query on the history. Changes nothing.

    `rackspan history views` lists what can be queried.
    """
    querying_histories.sql(**locals())


@app.command(epilog=options.epilog("$ rackspan history views"))
def views() -> None:
    """List the views that `rackspan history sql` can query."""
    querying_histories.views()


@app.command(epilog=options.epilog("$ rackspan history migrate /var/lib/rackspan /var/lib/rackspan-delta"))
def migrate(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The history that an earlier version wrote. It is not changed.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The location of the new Delta tables.")],
) -> None:
    """Copy the scans of a history of the old layout into Delta tables.

    Skips scans that NEW has already, so an interrupted copy can be continued.
    """
    querying_histories.migrate(**locals())
