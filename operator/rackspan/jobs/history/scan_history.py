"""
The history of scans: append-only Parquet tables, and a manifest per scan that makes its files visible all at once.

    <root>/<table>/cluster=<name>/date=<day>/<attempt>/*.parquet
    <root>/documents/cluster=<name>/date=<day>/<attempt>.json.gz
    <root>/manifests/cluster=<name>/date=<day>/<sequence>-<scan>.json     a scan
    <root>/manifests/cluster=<name>/date=<day>/day-<sequence>-<random>.json   a day's scans, compacted
    <root>/unused/cluster=<name>.json                                     files that no manifest names, and since when

Readers only look at files that manifests name. A job that is killed leaves files that no manifest names, and so do
compaction and retention; `sweep` deletes what has not been named for a day. Writers never share a file, so scans of any
clusters can be written at once, and read meanwhile. Scans are ordered by their sequence, not by the clock.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from rackspan.core.text import plural
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.storage import GoneError, HistoryError, Storage

_UNNAMED_KEPT = timedelta(days=1)
"""How long files that no manifest names are kept: their scan may still be running, or a reader may have listed them."""
_MANIFEST_READS = 5
_VERSION = 1
_COMPACTED = "day-"
_NAME = re.compile(r"(?!\.{1,2}$)[\w.~%-]+", re.ASCII)
"""What attempts and their files are called: no step up, no pattern, and nothing that makes a path a URI."""


class ScanEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A scan in a manifest. `observed_at` is when it ran (UTC), `document` the path of its document below the root."""

    scan_id: str
    sequence: int
    observed_at: datetime
    document: str

    @property
    def place(self) -> tuple[int, str]:
        """Key that sorts scans. Two writers at once may take the same sequence, so the id decides between those."""
        return (self.sequence, self.scan_id)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """
    Scans of one day (UTC), and for each table the files that hold their rows, as paths below the root.

    `sizes` are bytes by path; manifests of before they were kept have none.
    """

    cluster: str
    day: date
    scans: list[ScanEntry]
    tables: dict[str, list[str]]
    sizes: dict[str, int] = {}
    version: int = _VERSION

    @property
    def newest(self) -> ScanEntry:
        """The scan with the highest sequence."""
        return max(self.scans, key=lambda scan: scan.place)

    @property
    def scan_ids(self) -> frozenset[str]:
        """Ids of its scans."""
        return frozenset(scan.scan_id for scan in self.scans)

    @property
    def paths(self) -> list[str]:
        """Paths of all its files."""
        return [*(path for paths in self.tables.values() for path in paths), *(scan.document for scan in self.scans)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The files of one run of a scan. Readers do not see them before `History.commit`."""

    cluster: str
    scan_id: str
    day: date
    name: str

    def folder(self, table: str) -> str:
        """The folder of a table's files, below the root."""
        return f"{table}/{_folder(self.cluster, self.day)}/{self.name}"

    @property
    def document(self) -> str:
        """The path of the scan document, below the root."""
        return f"documents/{_folder(self.cluster, self.day)}/{self.name}.json.gz"


class History:
    """
    A history at one location: a path, or a URI of any file system that Arrow knows.

    All methods raise HistoryError where what they need cannot be read or written.
    """

    def __init__(self, location: str) -> None:
        """Raises HistoryError for a location that no file system of Arrow can use."""
        self._files = Storage(location)
        self._compacted: dict[str, Manifest] = {}
        """Manifests of compacted days by path: they are never changed, so each is read once."""

    @property
    def location(self) -> str:
        """The location as it was given, without secrets."""
        return self._files.location

    # --- reading -----------------------------------------------------------------------------------------------------

    def clusters(self) -> list[str]:
        """Names of the clusters that have scans, sorted."""
        folders = self._files.names("manifests")
        return sorted(unquote(name.removeprefix("cluster=")) for name in folders if name.startswith("cluster="))

    def manifests(self, cluster: str) -> list[Manifest]:
        """Manifests of a cluster, by day and sequence. Each scan is in exactly one of them."""
        for _ in range(_MANIFEST_READS):
            try:
                return self._read_manifests(cluster)
            except GoneError:  # another writer has compacted the day between listing and reading
                time.sleep(0.1)
        raise HistoryError(f"{self.location}: the manifests of {cluster} change faster than they can be read")

    def latest(self, cluster: str) -> Manifest | None:
        """The manifest with the newest scan of a cluster, None where there is none."""
        return max(self.manifests(cluster), key=lambda manifest: manifest.newest.place, default=None)

    def entry(self, cluster: str, scan_id: str) -> ScanEntry | None:
        """The entry of a scan, None where it has not been committed."""
        every = (scan for manifest in self.manifests(cluster) for scan in manifest.scans)
        return next((scan for scan in every if scan.scan_id == scan_id), None)

    def document(self, entry: ScanEntry) -> bytes:
        """The scan document of an entry, as JSON."""
        text = self._files.read(entry.document)
        if not text:
            raise HistoryError(f"history {self.location}/{entry.document}: is empty")
        return text

    def rows(self, table: str, manifests: Iterable[Manifest], scan_id: str | None = None) -> pa.Table:
        """Rows of a table, of one scan or of all, with the columns of `schemas.TABLES`."""
        found = pa.concat_tables([TABLES[table].empty_table(), *self.parts(table, manifests)])
        return found if scan_id is None else found.filter(pa.compute.equal(found["scan_id"], scan_id))

    def parts(self, table: str, manifests: Iterable[Manifest]) -> Iterator[pa.Table]:
        """Rows of a table, file by file, so that not all have to be in memory."""
        for path in self._whole_files(table, manifests):
            yield _with_declared_columns(self._files.rows(path), TABLES[table])

    # --- writing -----------------------------------------------------------------------------------------------------

    def try_writing(self) -> None:
        """See that files can be written and deleted, and leave none."""
        self._files.try_writing()

    def begin(self, cluster: str, scan_id: str, now: datetime) -> Attempt:
        """Choose the paths of a run that is about to write. Nothing is written yet."""
        return Attempt(cluster, scan_id, now.astimezone(UTC).date(), f"{quote(scan_id, safe='')}-{_random_suffix()}")

    def write(self, attempt: Attempt, table: str, rows: pa.Table) -> None:
        """Write rows of a table, whose columns are those of `schemas.TABLES`."""
        self._files.put_rows(f"{attempt.folder(table)}/part-0.parquet", rows.cast(TABLES[table]))

    def commit(self, attempt: Attempt, observed_at: datetime, document: bytes) -> Manifest:
        """
        Make an attempt that has written all tables visible, and give the manifest with its scan.

        The first commit of a scan id wins: where there is one, that one's manifest is given.
        """
        self._files.put(attempt.document, document)
        tables, sizes = self._tables_of(attempt)
        before = self.manifests(attempt.cluster)
        if (first := _with_scan(attempt.scan_id, before)) is not None:
            return first
        sequence = 1 + max((manifest.newest.sequence for manifest in before), default=0)
        entry = ScanEntry(attempt.scan_id, sequence, observed_at, attempt.document)
        manifest = Manifest(attempt.cluster, attempt.day, [entry], tables, sizes)
        self._put_manifest(f"{sequence:010d}-{quote(attempt.scan_id, safe='')}", manifest)
        return _with_scan(attempt.scan_id, self.manifests(attempt.cluster)) or manifest

    def commit_day(self, cluster: str, day: date, scans: list[ScanEntry], tables: Mapping[str, pa.Table]) -> Manifest:
        """Write a day's scans into one file per table, and a manifest that replaces those of the single scans."""
        attempt = Attempt(cluster, "day", day, f"{_COMPACTED}{_random_suffix()}")
        for table, rows in tables.items():
            self.write(attempt, table, rows)
        compacted = Manifest(cluster, day, scans, *self._tables_of(attempt))
        self._put_manifest(f"{_COMPACTED}{compacted.newest.sequence:010d}-{_random_suffix()}", compacted)
        return compacted

    def compact(self, cluster: str, before: date) -> int:
        """Compact every day before this one that has several manifests, and give the number of days."""
        days: dict[date, list[Manifest]] = {}
        for manifest in self.manifests(cluster):
            if manifest.day < before:
                days.setdefault(manifest.day, []).append(manifest)
        crowded = {day: manifests for day, manifests in days.items() if len(manifests) > 1}
        for day, manifests in crowded.items():
            scans = [scan for manifest in manifests for scan in manifest.scans]
            tables = {table: self.rows(table, manifests) for table in TABLES}
            compacted = self.commit_day(cluster, day, scans, tables)
            # Another writer may be compacting the same day: manifests of scans that are not in ours stay.
            for path in self._manifest_paths(_folder(cluster, day)):
                if self._covered(path, compacted):
                    self._files.delete(path)
        return len(crowded)

    def expire(self, cluster: str, before: date) -> int:
        """Delete the manifests of days before this one, and give their number. A later sweep deletes the files."""
        old = [day for day in self._days("manifests", cluster) if _day(day) < before]
        for day in old:
            self._files.delete(day)
        return len(old)

    def sweep(self, cluster: str, now: datetime) -> int:
        """
        Delete files that no manifest has named for a day, and give their number.

        Those that no manifest names for the first time are noted with the time, for a later sweep.
        """
        since = self._read_unused(cluster)
        manifests = self.manifests(cluster)
        used = {at for one in manifests for path in one.paths for at in (path, path.rpartition("/")[0])}
        unused = {path: min(since.get(path, now), now) for path in self._written_paths(cluster) if path not in used}
        gone = {path for path, noted in unused.items() if noted <= now - _UNNAMED_KEPT}
        for path in gone:
            self._files.delete(path)
        if unused or since:
            waiting = {path: noted for path, noted in unused.items() if path not in gone}
            self._files.put(_unused_file(cluster), msgspec.json.encode(waiting))
        return len(gone)

    # --- files -------------------------------------------------------------------------------------------------------

    def _read_manifests(self, cluster: str) -> list[Manifest]:
        days: dict[str, list[str]] = {}
        for path in self._manifest_paths(_cluster(cluster)):
            days.setdefault(path.rpartition("/")[0], []).append(path)
        found = (manifest for paths in days.values() for manifest in self._manifests_of_day(paths))
        return sorted(found, key=lambda one: (one.day, one.newest.place))

    def _manifests_of_day(self, paths: list[str]) -> Iterator[Manifest]:
        compacted = [self._manifest(path) for path in paths if _is_compacted(path)]
        widest = max(compacted, key=lambda one: len(one.scans), default=None)  # each has all scans of narrower ones
        seen = set(widest.scan_ids) if widest else set()
        if widest:
            yield widest
        for path in paths:
            if not _is_compacted(path) and (scan_id := _scan_id(path)) not in seen:
                seen.add(scan_id)
                yield self._manifest(path)

    def _manifest_paths(self, folder: str) -> list[str]:
        paths = self._files.paths(f"manifests/{folder}", ".json")
        return [path for path in paths if _is_compacted(path) or _base_name(path)[0].isdigit()]

    def _manifest(self, path: str) -> Manifest:
        if path in self._compacted:
            return self._compacted[path]
        place = f"{self._files.root}/{path}"
        try:
            manifest = msgspec.json.decode(self._files.read(path), type=Manifest)
        except msgspec.DecodeError as error:
            raise HistoryError(f"{place}: is no manifest: {error}") from error
        if manifest.version > _VERSION:
            raise HistoryError(f"{place}: is of version {manifest.version}, which a newer rackspan wrote")
        if not manifest.scans:
            raise HistoryError(f"{place}: is no manifest: it names no scan")
        outside = [name for name in manifest.paths if not _is_of(name, path)]
        if outside:
            raise HistoryError(f"{place}: names a file that no scan of its day wrote: {outside[0]!r}")
        if _is_compacted(path):
            self._compacted[path] = manifest
        return manifest

    def _covered(self, path: str, compacted: Manifest) -> bool:
        """Whether `compacted` replaces the manifest at `path`: a single scan's, or a smaller compacted one's."""
        if not _is_compacted(path):
            return _scan_id(path) in compacted.scan_ids
        try:
            return self._manifest(path).scan_ids < compacted.scan_ids
        except GoneError:
            return True

    def _put_manifest(self, name: str, manifest: Manifest) -> None:
        """Write a manifest, the last file of a scan or of a compacted day, once all that it names is on the disk."""
        path = f"manifests/{_folder(manifest.cluster, manifest.day)}/{name}.json"
        self._files.sync(one for paths in manifest.tables.values() for one in paths)  # `put` syncs documents
        self._files.put(path, msgspec.json.encode(manifest))

    def _read_unused(self, cluster: str) -> dict[str, datetime]:
        """Unnamed files, and since when each has been. A note that cannot be read only delays the sweep by a day."""
        try:
            return msgspec.json.decode(self._files.read(_unused_file(cluster)), type=dict[str, datetime])
        except (HistoryError, msgspec.DecodeError):
            return {}

    def _whole_files(self, table: str, manifests: Iterable[Manifest]) -> list[str]:
        """Paths of a table's files. Raises HistoryError for one that has not the size with which it was committed."""
        known = {path: one.sizes.get(path) for one in manifests for path in one.tables.get(table, ())}
        for (path, committed), size in zip(known.items(), self._files.sizes(known), strict=True):
            if size is None:
                raise GoneError(f"history {self.location}/{path}: is not there any more")
            if size == 0 or size != (size if committed is None else committed):
                whole = "" if committed is None else f", and {committed:,} when its scan was committed"
                raise HistoryError(f"history {self.location}/{path}: has {plural(size, 'byte')}{whole}: restore it")
        return list(known)

    def _tables_of(self, attempt: Attempt) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Files of an attempt by table, and their sizes. Raises HistoryError where they are gone or empty."""
        tables = {table: self._parquet_files(attempt.folder(table)) for table in TABLES}
        paths = [path for files in tables.values() for path in files]
        sizes = {path: size for path, size in zip(paths, self._files.sizes(paths), strict=True) if size}
        lost = [table for table, files in tables.items() if not files or not sizes.keys() >= set(files)]
        if lost:  # a sweep of a wrong clock, for example
            raise HistoryError(f"history {self.location}: what was written to {', '.join(lost)} is not there any more")
        return tables, sizes

    def _parquet_files(self, folder: str) -> list[str]:
        """Parquet files in a folder."""
        return [f"{folder}/{name}" for name in self._files.names(folder) if name.endswith(".parquet")]

    def _days(self, table: str, cluster: str) -> list[str]:
        """Folders of a cluster's days."""
        folder = f"{table}/{_cluster(cluster)}"
        return [f"{folder}/{name}" for name in self._files.names(folder) if name.startswith("date=")]

    def _written_paths(self, cluster: str) -> Iterator[str]:
        """Paths of all that attempts have written: their folders in the tables, and their documents."""
        for table in (*TABLES, "documents"):
            for day in self._days(table, cluster):
                yield from (f"{day}/{name}" for name in self._files.names(day))


def _cluster(cluster: str) -> str:
    return f"cluster={quote(cluster, safe='')}"


def _folder(cluster: str, day: date) -> str:
    return f"{_cluster(cluster)}/date={day.isoformat()}"


def _unused_file(cluster: str) -> str:
    return f"unused/{_cluster(cluster)}.json"


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _day(folder: str) -> date:
    return date.fromisoformat(_base_name(folder).removeprefix("date="))


def _is_of(path: str, manifest: str) -> bool:
    """Whether a path that a manifest names is one of its cluster and day, as attempts write them."""
    table, _, rest = path.partition("/")
    day = manifest.partition("/")[2].rpartition("/")[0]
    names = rest.removeprefix(f"{day}/").split("/")
    return table in (*TABLES, "documents") and rest.startswith(f"{day}/") and all(map(_NAME.fullmatch, names))


def _is_compacted(manifest: str) -> bool:
    return _base_name(manifest).startswith(_COMPACTED)


def _scan_id(manifest: str) -> str:
    return unquote(_base_name(manifest).removesuffix(".json").partition("-")[2])


def _random_suffix() -> str:
    return uuid.uuid4().hex[:8]


def _with_scan(scan_id: str, manifests: Iterable[Manifest]) -> Manifest | None:
    return next((manifest for manifest in manifests if scan_id in manifest.scan_ids), None)


def _with_declared_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of `schema`: those that an older file does not have are null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


__all__: Final = ["Attempt", "History", "HistoryError", "Manifest", "ScanEntry"]
