"""Scan documents from a history."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rackspan.api.codec import timestamp
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.selection import first_of
from rackspan.reports.document import ScanDocument, ScanOutcome

if TYPE_CHECKING:
    from rackspan.jobs.history.scan_history import History, ScanEntry


def kept_scan(location: str, cluster: str | None, scan_id: str | None) -> ScanDocument:
    """Read a scan, by default the last scan of the only cluster. Raises CommandError."""
    with _opened(location) as history:
        name = cluster or _only(history)
        scans = history.scans(name)
        if not scans:
            raise CommandError(
                f"{history.location}: holds no scan of {name}", f"it has {first_of(history.clusters(), 5) or 'none'}"
            )
        wanted = [entry for entry in scans if scan_id in (None, entry.scan_id)]
        if not wanted:
            raise CommandError(
                f"{history.location}: holds no scan {scan_id} of {name}", f"the last is {scans[-1].scan_id}"
            )
        return history.document(wanted[-1])


def last_scans(location: str) -> list[ScanDocument]:
    """Read the last scan of each cluster. Raises CommandError if the history cannot be read or has no scans.

    A damaged document is replaced by the document of a failed scan, so that the other clusters are still shown.
    """
    with _opened(location) as history:
        scans = [entry for name in history.clusters() for entry in history.scans(name)[-1:]]
        if not scans:
            raise _empty(history)
        return [_readable(history, entry) for entry in scans]


@contextmanager
def scan_packages() -> Iterator[None]:
    """Raise CommandError if the packages for scans are not installed, or if a history cannot be used."""
    try:
        from rackspan.jobs.history.delta_tables import HistoryError  # noqa: PLC0415 - the only lines that need pyarrow
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed", "pip install 'rackspan[scan]'") from error
    try:
        yield
    except HistoryError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _opened(location: str) -> "Iterator[History]":
    with scan_packages():
        from rackspan.jobs.history.scan_history import History  # noqa: PLC0415

        yield History(location)


def _readable(history: "History", entry: "ScanEntry") -> ScanDocument:
    from rackspan.jobs.history.scan_history import HistoryError  # noqa: PLC0415

    try:
        return history.document(entry)
    except HistoryError as error:
        at = timestamp(entry.observed_at)
        state, reason = ScanOutcome.FAILED, "HistoryUnavailable"
        return ScanDocument(entry.scan_id, entry.cluster, at, at, state, reason, str(error))


def _only(history: "History") -> str:
    clusters = history.clusters()
    if not clusters:
        raise _empty(history)
    if len(clusters) > 1:
        what = f"{history.location}: holds scans of {len(clusters)} clusters"
        raise CommandError(what, f"--cluster {first_of(clusters, 5)}")
    return clusters[0]


def _empty(history: "History") -> CommandError:
    return CommandError(f"{history.location}: holds no scans", "rackspan scan --history writes them")
