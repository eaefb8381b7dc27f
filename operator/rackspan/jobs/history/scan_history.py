"""The history of scans: one Delta table per kind of record, partitioned by cluster and month.

A scan adds its files to each table, and its row in `scans` last. Readers use rows of other tables only if `scans` has
the same `attempt`, so a scan is visible completely or not at all. Only the first commit of a scan id counts. Scans are
ordered by their sequence, not by the clock.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from rackspan.core.text import shown
from rackspan.jobs.batches.schemas import KEPT, PARTITIONED_BY, TABLES
from rackspan.jobs.history.delta_tables import KEPT_HOURS, DeltaTables, HistoryError, cluster_folder
from rackspan.reports.document import ScanDocument, decode

_WRITTEN: Final = ("brokers", *(table for table in TABLES if table not in ("brokers", "scans")), "scans")
"""Tables in the order in which a scan writes them. Every scan has brokers, so `brokers` has rows of every attempt."""
_LONGEST_NAME: Final = 255
"""The longest name of a file or folder, in bytes."""
_WAITING: Final = timedelta(hours=KEPT_HOURS)
COPIED: Final = "copied-"
"""The prefix of attempts that copy old scans. The dates of their rows do not say when the attempt began."""


@dataclass(frozen=True, slots=True)
class ScanEntry:
    """A scan of `cluster`. `observed_at` is when the scan ran (UTC). Its rows have the same `attempt` in all tables."""

    cluster: str
    scan_id: str
    sequence: int
    observed_at: datetime
    attempt: str

    @property
    def place(self) -> tuple[int, str]:
        """The sort key of scans. Two concurrent writers may take the same sequence, so the id is the tie-breaker."""
        return (self.sequence, self.scan_id)

    @property
    def day(self) -> date:
        """The day (UTC) on which the scan ran."""
        return self.observed_at.astimezone(UTC).date()

    @property
    def month(self) -> str:
        """The month of the scan, as in the partitions of the tables."""
        return f"{self.day:%Y-%m}"


class History:
    """The history at a location: a path, or the URI of an object store. Methods raise HistoryError."""

    def __init__(self, location: str) -> None:
        """Raise HistoryError if the location cannot be used."""
        self._tables = DeltaTables(location)
        self.location = self._tables.location
        """The given location, without secrets."""
        self.try_writing = self._tables.try_writing

    # --- reading -----------------------------------------------------------------------------------------------------

    def clusters(self) -> list[str]:
        """Return the names of the clusters that have scans, sorted."""
        table = self._tables.opened("scans")
        return sorted({partition["cluster"] for partition in table.partitions()}) if table else []

    def scans(self, cluster: str) -> list[ScanEntry]:
        """Return the scans of a cluster, sorted by sequence."""
        table = self._tables.opened("scans")
        if table is None:
            return []
        columns = ["scan_id", "sequence", "finished_at", "attempt"]
        parts = self._tables.read(table, "scans", cluster, columns, pc.scalar(True))  # noqa: FBT003 - every row
        rows = (row for part in parts for row in zip(*(part[name].to_pylist() for name in columns), strict=True))
        entries = [ScanEntry(cluster, *row) for row in rows]
        return sorted(entries, key=lambda entry: entry.place)

    def document(self, entry: ScanEntry) -> ScanDocument:
        """Return the scan document of an entry."""
        rows = (row for part in self.parts("scans", [entry], ["document"]) for row in part["document"].to_pylist())
        place = f"history {self.location}: the document of {entry.scan_id}"
        if (packed := next(rows, None)) is None:
            raise HistoryError(f"{place} is not there any more")
        try:
            return decode(gzip.decompress(packed))
        except (OSError, EOFError, zlib.error) as error:
            raise HistoryError(f"{place} is damaged") from error
        except msgspec.DecodeError as error:
            raise HistoryError(f"{place} cannot be read: {error}") from error

    def rows(self, table: str, scans: Sequence[ScanEntry], *columns: str) -> pa.Table:
        """Return a table's rows about scans of one cluster: these columns of `schemas.TABLES`, or all columns."""
        schema = pa.schema([TABLES[table].field(name) for name in columns or TABLES[table].names])
        return pa.concat_tables([schema.empty_table(), *self.parts(table, scans, schema.names)])

    def parts(self, table: str, scans: Sequence[ScanEntry], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield a table's rows about scans of one cluster, part by part, so that not all rows are in memory at once."""
        if not scans:
            return
        opened = self._tables.existing(table)
        first, cluster = min(scans, key=lambda entry: entry.day), scans[0].cluster
        where = pc.field("date") >= pa.scalar(first.day)
        if len(scans) == 1:
            where &= (pc.field("attempt") == first.attempt) & (pc.field("scan_id") == first.scan_id)
        attempts = pa.array({entry.attempt for entry in scans}, pa.string())
        for part in self._tables.read(opened, table, cluster, [*columns, "attempt"], where):
            yield part.filter(pc.is_in(part["attempt"], attempts)).select(columns)

    # --- writing -----------------------------------------------------------------------------------------------------

    def writer(self, entry: ScanEntry) -> "ScanWriter":
        """Return the writer of an attempt. Readers do not see the attempt before its commit."""
        return ScanWriter(self._tables, entry)

    def compact(self, last: ScanEntry) -> None:
        """Merge each table's files of a scan's month into one, and delete the rows of scans that were killed."""
        uncommitted = self._attempts("brokers", last) - self._attempts("scans", last)
        killed = sorted(attempt for attempt in uncommitted if not attempt.startswith(COPIED))
        for name in _WRITTEN:
            self._tables.compact(name, last.cluster, last.month)
            if killed:
                self._tables.delete(name, last.cluster, pc.field("attempt").isin(killed))

    def _attempts(self, name: str, last: ScanEntry) -> set[str]:
        """Return a table's attempts of a scan's month and the month before, except for the last two days."""
        table = self._tables.opened(name)
        first = (last.day.replace(day=1) - timedelta(days=1)).replace(day=1)
        where = (pc.field("date") >= pa.scalar(first)) & (pc.field("date") < pa.scalar(last.day - _WAITING))
        parts = self._tables.read(table, name, last.cluster, ["attempt"], where) if table else ()
        return {attempt for part in parts for attempt in part["attempt"].unique().to_pylist()}

    def expire(self, cluster: str, before: date) -> None:
        """Delete days before `before`. A reader may have listed scans, so other tables keep a day more than `scans`."""
        for name in reversed(_WRITTEN):
            day = before if name == "scans" else before - _WAITING
            self._tables.delete(name, cluster, pc.field("date") < pa.scalar(day))

    def vacuum(self) -> None:
        """Delete files that no table has referred to for a day."""
        for name in _WRITTEN:
            self._tables.vacuum(name)


class ScanWriter:
    """The writer of an attempt. It writes files first, then commits them to their tables, to `scans` last."""

    def __init__(self, tables: DeltaTables, entry: ScanEntry) -> None:
        """Raise HistoryError if the cluster's name is too long. All methods may raise HistoryError."""
        if len(cluster_folder(entry.cluster)) > _LONGEST_NAME:
            raise HistoryError(
                f"history {tables.location}: the cluster's name is too long for a folder ({shown(entry.cluster, 60)}): "
                "name fewer bootstrap servers, or give the snapshot file a shorter name"
            )
        self._tables = tables
        self._entry = entry
        self._files: dict[str, list[AddAction]] = {name: [] for name in _WRITTEN[:-1]}

    def write(self, table: str, rows: pa.Table) -> None:
        """Write rows of any table except `scans` into a new file, which `append` adds to the table later."""
        if len(rows):
            self._files[table].append(self._file(table, rows, len(self._files[table])))

    def append(self) -> None:
        """Add the files to their tables."""
        for table, files in self._files.items():
            self._tables.append(table, files)
        self._files = {}

    def commit(self, scans: pa.Table, documents: Sequence[bytes]) -> bool:
        """Add rows of `scans`, which make the attempt visible. Return False if one of the scans exists already.

        Files that are not part of their tables yet are added first. `documents` are JSON, in the order of the rows.
        """
        self.append()
        packed = pa.array([gzip.compress(document) for document in documents], pa.binary())
        file = self._file("scans", scans.append_column("document", packed), 0)
        return self._tables.append_once("scans", self._entry.cluster, scans["scan_id"].to_pylist(), file)

    def _file(self, table: str, rows: pa.Table, number: int) -> AddAction:
        """Write rows into a file, without the partition columns."""
        entry = self._entry
        for column, value in (("attempt", entry.attempt), ("date", entry.day)):
            rows = rows.append_column(column, pa.repeat(value, len(rows)))
        kept = pa.schema([field for field in KEPT[table] if field.name not in PARTITIONED_BY])
        file = f"{entry.attempt}-{number}"
        return self._tables.file(table, entry.cluster, entry.month, file, rows.select(kept.names).cast(kept))


__all__: Final = ["COPIED", "History", "HistoryError", "ScanEntry", "ScanWriter"]
