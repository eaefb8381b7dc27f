"""Scan documents and pages as files."""

import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from rackspan.cli.shared.command_errors import CommandError, not_written
from rackspan.reports.document import SCHEMA, ScanDocument, decode
from rackspan.reports.page.fleet import FleetRow
from rackspan.snapshots import SnapshotError
from rackspan.snapshots.reader import STDIN, read_bytes, shown_name
from rackspan.snapshots.schema import SnapshotDocument


def read_document(file: str) -> ScanDocument:
    """Read a scan document; `-` is standard input. Raises CommandError."""
    name = shown_name(file)
    try:
        text = read_bytes(file)
    except SnapshotError as error:
        raise CommandError(str(error)) from error
    if not text.strip():
        raise CommandError(f"{name}: is empty")
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if _is_snapshot(text):
            hint = "" if file == STDIN else f"rackspan scan --snapshot {shlex.quote(file)} --report FILE writes one"
            raise CommandError(f"{name}: is a snapshot and no scan document", hint) from error
        raise CommandError(f"{name}: no scan document: {error}", f"its schema has to be {SCHEMA}") from error


def _is_snapshot(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=SnapshotDocument)  # leaves topics undecoded
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def page_of(document: ScanDocument) -> str:
    """Return the page of a scan as HTML. Raises CommandError if Bokeh is not installed."""
    with _page_packages():
        from rackspan.reports.page.rendering import render  # noqa: PLC0415 - installed only with rackspan[page]
    return render(document)


def write_fleet(folder: Path, rows: Sequence[FleetRow]) -> None:
    """Write the page of each cluster, then index.html, which links to the pages. Raises CommandError."""
    with _page_packages():
        from rackspan.reports.page.fleet_page import render_fleet  # noqa: PLC0415
    make_folder(folder)
    for row in rows:
        write_file(folder / row.page, page_of(row.scan))
    write_file(folder / "index.html", render_fleet(rows))


@contextmanager
def _page_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise CommandError(
            "the page of a scan is drawn with Bokeh, which is not installed", "pip install 'rackspan[page]'"
        ) from error


def make_folder(path: Path) -> None:
    """Create a folder, unless it is there. Raises CommandError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise CommandError(f"{path}: is not a directory") from error
    except OSError as error:
        raise not_written(path, error) from error


def write_file(path: Path, text: str) -> None:
    """Write or replace a file atomically, so that readers never see a part of it. Raises CommandError.

    A link is kept and its target replaced. A path that is not a file, such as a pipe or /dev/stdout, is written to.
    """
    target = path.resolve()
    scratch = target.with_name(f".rackspan-{secrets.token_hex(8)}.part")  # other commands may write the same file
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(target)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
