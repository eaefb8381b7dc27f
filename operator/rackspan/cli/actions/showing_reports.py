"""`rackspan report`: a scan document as a page, as text or for programs."""

import tempfile
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from msgspec import to_builtins

from rackspan.cli.rendering.output_formats import ExportFormat, Format
from rackspan.cli.rendering.printed_documents import print_document, printed_json
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.rendering.tables import console, count, table
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.kept_scans import kept_scan, last_scans
from rackspan.cli.shared.scan_files import page_of, read_document, write_file, write_fleet
from rackspan.core.text import size
from rackspan.reports.document import ScanDocument, encode
from rackspan.reports.page.fleet import FleetRow, fleet_rows
from rackspan.reports.page.formats import moment
from rackspan.reports.texts import comma_separated, markdown


def open_page(*, file: str | None, history: str | None, cluster: str | None, scan_id: str | None) -> None:
    """Carry out `rackspan report open` with these options. Raises CommandError."""
    text = page_of(_wanted(file, history, cluster, scan_id))
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="rackspan-", suffix=".html", delete=False
    ) as written:
        written.write(text)
    print(written.name)
    if not webbrowser.open(Path(written.name).as_uri()):
        note("no browser could be started; open the file yourself")


def export(
    *,
    file: str | None,
    history: str | None,
    cluster: str | None,
    scan_id: str | None,
    page: Path | None,
    output: ExportFormat | None,
) -> None:
    """Carry out `rackspan report export` with these options. Raises CommandError."""
    if page is None and output is None:
        raise CommandError("say what to write", "--page FILE, -o json, yaml, markdown or csv")
    document = _wanted(file, history, cluster, scan_id)
    if page is not None:
        write_file(page, page_of(document))
    if output is not None:
        _print(document, output)


def fleet(*, files: list[str] | None, history: str | None, pages: Path | None, output: Format) -> None:
    """Carry out `rackspan report fleet` with these options. Raises CommandError."""
    if bool(files) == (history is not None):
        raise _unclear("scans", "FILEs", both=bool(files))
    rows = fleet_rows(map(read_document, files or ()) if history is None else last_scans(history))
    if pages is not None:
        write_fleet(pages, rows)
    if output is Format.TABLE:
        _print_fleet(rows)
    else:
        print_document({"clusters": [row.as_document() for row in rows]}, output)


def _wanted(file: str | None, location: str | None, cluster: str | None, scan_id: str | None) -> ScanDocument:
    if (file is None) == (location is None):
        raise _unclear("scan", "a FILE", both=file is not None)
    if file is not None:
        if cluster is not None or scan_id is not None:
            raise CommandError("--cluster and --scan-id are for --history")
        return read_document(file)
    return kept_scan(location or "", cluster, scan_id)


def _unclear(what: str, files: str, *, both: bool) -> CommandError:
    if both:
        return CommandError(f"say which {what}: only one of FILE and --history can be used", "leave one of them out")
    return CommandError(f"say which {what}", f"name {files}, or --history DIR")


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


def _print_fleet(rows: Iterable[FleetRow]) -> None:
    """Print a row per cluster: what is wrong, since when, and what a fix copies."""
    shown = table("cluster", "worst", "#offline", "#behind", "#unfair", "#moves", "#bytes to copy", "scanned", "note")
    for row in rows:
        counted = row.scan.summary
        numbers = (
            count(counted.offline, "bold red"),
            count(counted.under_replicated, "red"),
            count(counted.non_compliant, "red"),
            count(counted.moves),
            size(counted.move_bytes, "?") if counted.moves else "",
        )
        cells = ("?",) * len(numbers) if row.failed else numbers
        since = row.assessment.details[0] if counted.findings else ""
        why = row.scan.message if row.failed else since
        shown.add_row(row.scan.cluster, row.assessment.tone, *cells, moment(row.scan.finished_at), why)
    console().print(shown)
