"""`rackspan report`: a scan document in the forms in which people read it."""

import tempfile
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from rackspan.cli.rendering.printed_documents import Format, print_document, printed_json
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.shared import options
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.later_command import command_app
from rackspan.cli.shared.scan_files import page_of, read_document, write_file
from rackspan.cli.shared.selection import first_of
from rackspan.reports.document import ScanDocument, decode, encode
from rackspan.reports.texts import comma_separated, markdown

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

app = command_app(
    name="report", help="Show what a scan found: as a page, as text, or for programs.", no_args_is_help=True
)

DocumentFile = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="What `rackspan scan --report` wrote; - is standard input.")
]
HistoryLocation = Annotated[
    str | None, typer.Option(metavar="DIR", help="Take the last scan of the history that is kept there instead.")
]
Cluster = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --history: of this cluster. Default: the only one there is.")
]
ScanId = Annotated[str | None, typer.Option(help="With --history: this scan. Default: the last one.")]


class ExportFormat(StrEnum):
    """The forms of a scan document on standard output."""

    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"


@app.command("open", epilog=OPEN_EPILOG)
def open_page(
    file: DocumentFile = None, history: HistoryLocation = None, cluster: Cluster = None, scan_id: ScanId = None
) -> None:
    """Write the page of a scan to a temporary file, open it in the browser, and print its path."""
    text = page_of(_wanted(file, history, cluster, scan_id))
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="rackspan-", suffix=".html", delete=False
    ) as written:
        written.write(text)
    print(written.name)
    if not webbrowser.open(Path(written.name).as_uri()):
        note("no browser could be started; open the file yourself")


@app.command(epilog=EXPORT_EPILOG)
def export(
    file: DocumentFile = None,
    history: HistoryLocation = None,
    cluster: Cluster = None,
    scan_id: ScanId = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page there: one HTML file that needs no network.")
    ] = None,
    output: Annotated[
        ExportFormat | None, typer.Option("--output", "-o", help="Print it. CSV holds the listed findings.")
    ] = None,
) -> None:
    """Write a scan as a page, print it as JSON, YAML, Markdown or CSV, or both."""
    if page is None and output is None:
        raise CommandError("say what to write", "--page FILE, -o json, yaml, markdown or csv")
    document = _wanted(file, history, cluster, scan_id)
    if page is not None:
        write_file(page, page_of(document))
    if output is not None:
        _print(document, output)


def _wanted(file: str | None, location: str | None, cluster: str | None, scan_id: str | None) -> ScanDocument:
    if (file is None) == (location is None):
        raise CommandError("say which scan", "name a FILE, or --history DIR")
    if file is not None:
        if cluster is not None or scan_id is not None:
            raise CommandError("--cluster and --scan-id are for --history")
        return read_document(file)
    return _kept(location or "", cluster, scan_id)


def _kept(location: str, cluster: str | None, scan_id: str | None) -> ScanDocument:
    """Read the document of a scan out of a history."""
    try:
        from rackspan.jobs.history.scan_history import History, HistoryError  # noqa: PLC0415 - the only lines that need pyarrow
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed", "pip install 'rackspan[scan]'") from error
    try:
        history = History(location)
        name = cluster or _only(history.clusters(), location)
        scans = history.scans(name)
        if not scans:
            raise CommandError(
                f"{location}: holds no scan of {name}", f"it has {first_of(history.clusters(), 5) or 'none'}"
            )
        wanted = [entry for entry in scans if scan_id in (None, entry.scan_id)]
        if not wanted:
            raise CommandError(f"{location}: holds no scan {scan_id} of {name}", f"the last is {scans[-1].scan_id}")
        return decode(history.document(wanted[-1]))
    except HistoryError as error:
        raise CommandError(str(error)) from error


def _only(clusters: list[str], location: str) -> str:
    if not clusters:
        raise CommandError(f"{location}: holds no scans", "rackspan scan --history writes them")
    if len(clusters) > 1:
        raise CommandError(f"{location}: holds scans of {len(clusters)} clusters", f"--cluster {first_of(clusters, 5)}")
    return clusters[0]


def _print(document: ScanDocument, output: ExportFormat) -> None:
    match output:
        case ExportFormat.JSON:
            print(printed_json(encode(document).decode()))
        case ExportFormat.YAML:
            print_document(to_builtins(document), Format.YAML)
        case ExportFormat.MARKDOWN:
            print(markdown(document), end="")
        case ExportFormat.CSV:
            print(comma_separated(document), end="")
