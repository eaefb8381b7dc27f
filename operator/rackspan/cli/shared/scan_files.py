"""Scan documents and pages as files."""

import sys
from pathlib import Path

import msgspec

from rackspan.cli.shared.command_errors import CommandError
from rackspan.reports.document import SCHEMA, ScanDocument, decode
from rackspan.reports.page import NoPlottingLibraryError, render


def read_document(file: str) -> ScanDocument:
    """Read a scan document; `-` is standard input. Raises CommandError."""
    name = "standard input" if file == "-" else file
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: no scan document: {error}", f"its schema has to be {SCHEMA}") from error


def page_of(document: ScanDocument) -> str:
    """Give the page of a scan as HTML. Raises CommandError where Bokeh is not installed."""
    try:
        return render(document)
    except NoPlottingLibraryError as error:
        raise CommandError(str(error), error.remedy) from error


def write_file(path: Path, text: str) -> None:
    """Write or replace a file at once, so that nobody sees half of it. Raises CommandError."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise CommandError(f"{path}: {error.strerror or error}") from error
