"""The options of `rackspan report`."""

from pathlib import Path
from typing import Annotated

import typer

from rackspan.cli.actions import showing_reports
from rackspan.cli.rendering.output_formats import ExportFormat, Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

OPEN_EPILOG = options.epilog(
    "$ rackspan report open scan.json",
    "$ rackspan report open - < scan.json",
    "$ rackspan report open --history /var/lib/rackspan --cluster kafka/prod",
)
EXPORT_EPILOG = options.epilog(
    "$ rackspan report export scan.json --page scan.html",
    "$ rackspan report export scan.json -o markdown >> ticket.md",
    "$ rackspan report export scan.json -o csv > findings.csv",
)

FLEET_EPILOG = options.epilog(
    "$ rackspan report fleet --history /var/lib/rackspan",
    "$ rackspan report fleet --history /var/lib/rackspan --pages site",
    "$ rackspan report fleet scans/*.json -o json | jq -r '.clusters[] | select(.worst == \"critical\").cluster'",
)

app = command_app(
    name="report",
    help="Show the result of a scan: as a page, as text, or for programs.",
    epilog=options.epilog("$ rackspan report open scan.json"),
    no_args_is_help=True,
)

DocumentFile = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="A document from `rackspan scan --report`; - is standard input.")
]
HistoryLocation = Annotated[
    str | None, typer.Option(metavar="DIR", help="Use the last scan of the history at this location instead.")
]
Cluster = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --history: the cluster. Default: the only one in the history.")
]
ScanId = Annotated[str | None, typer.Option(help="With --history: the scan. Default: the last one.")]


@app.command("open", epilog=OPEN_EPILOG)
def open_page(
    file: DocumentFile = None, history: HistoryLocation = None, cluster: Cluster = None, scan_id: ScanId = None
) -> None:
    """Write the page of a scan to a temporary file, open it in the browser, and print its path."""
    showing_reports.open_page(**locals())


@app.command(epilog=EXPORT_EPILOG)
def export(
    file: DocumentFile = None,
    history: HistoryLocation = None,
    cluster: Cluster = None,
    scan_id: ScanId = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="Write the page to this file: one HTML file that needs no network."
        ),
    ] = None,
    output: Annotated[
        ExportFormat | None,
        typer.Option("--output", "-o", help="Print the scan in this format. CSV contains the listed findings."),
    ] = None,
) -> None:
    """Write a scan as a page, print it as JSON, YAML, Markdown or CSV, or both."""
    showing_reports.export(**locals())


@app.command(epilog=FLEET_EPILOG)
def fleet(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", callback=options.once, help="What `rackspan scan --report` wrote."),
    ] = None,
    history: Annotated[
        str | None, typer.Option(metavar="DIR", help="Use the last scan of each cluster of this history instead.")
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=options.path,
            help="Write index.html and the page of each cluster to this folder.",
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TABLE,
) -> None:
    """Show the last scans of several clusters, the worst first: what is wrong, how much a fix copies, and the trend."""
    showing_reports.fleet(**locals())
