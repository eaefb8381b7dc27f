"""
The history of scans: append-only Parquet tables, and a manifest per scan that makes its files visible all at once.

    <root>/<table>/cluster=<name>/date=<day>/<attempt>/*.parquet
    <root>/documents/cluster=<name>/date=<day>/<attempt>.json.gz
    <root>/manifests/cluster=<name>/date=<day>/<sequence>-<scan>.json     a scan
    <root>/manifests/cluster=<name>/date=<day>/day-<sequence>-<random>.json   a day's scans, compacted
    <root>/unused/cluster=<name>.json                                     files that no manifest names, and since when

Readers only look at files that manifests name. A job that is killed leaves files that none does, and so do compacting
and forgetting; `sweep` deletes what has not been named for a day. Writers never share a file, so scans of any clusters
may be written side by side, and read meanwhile. Scans are ordered by their sequence, not by the clock. Any file system
of Arrow will do: `/path`, `s3://…`, `gs://…`.
"""

import gzip
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from rackspan.jobs.schemas import TABLES

_GRACE = timedelta(days=1)
"""How long files are kept once no manifest names them: their scan may be running, or a reader may be among them."""
_TRIES = 5
_VERSION = 1
_MERGED = "day-"


class HistoryError(Exception):
    """The history could not be read or written; the message says where and why."""


class ScanEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A scan in a manifest."""

    scan_id: str
    sequence: int
    observed_at: datetime
    document: str

    @property
    def place(self) -> tuple[int, str]:
        """Sorts scans; those of writers side by side may have the same sequence."""
        return (self.sequence, self.scan_id)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Scans, and by table the files that hold their rows, as paths below the root."""

    cluster: str
    day: date
    scans: list[ScanEntry]
    tables: dict[str, list[str]]
    version: int = _VERSION

    @property
    def newest(self) -> ScanEntry:
        """The last of its scans."""
        return max(self.scans, key=lambda scan: scan.place)

    @property
    def scan_ids(self) -> frozenset[str]:
        """Names of its scans."""
        return frozenset(scan.scan_id for scan in self.scans)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where one run writes what nobody sees before `History.commit`."""

    cluster: str
    scan_id: str
    day: date
    name: str

    def folder(self, table: str) -> str:
        """The folder of a table's files, below the root."""
        return f"{table}/{_of(self.cluster, self.day)}/{self.name}"

    @property
    def document(self) -> str:
        """The path of the scan document, below the root."""
        return f"documents/{_of(self.cluster, self.day)}/{self.name}.json.gz"


class History:
    """The tables at one location."""

    def __init__(self, location: str) -> None:
        """Raises HistoryError where the location makes no sense."""
        uri = location.replace("s3a://", "s3://", 1)
        try:
            if "://" in uri:
                self._fs, self._root = arrow_fs.FileSystem.from_uri(uri)
            else:
                self._fs, self._root = arrow_fs.LocalFileSystem(), os.path.abspath(uri)  # noqa: PTH100 - not resolved
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{location}: is no location that can be used: {error}") from error
        self.location = location.rstrip("/")

    @property
    def root(self) -> str:
        """The location as file systems name it in what they say."""
        root: str = self._root
        return root

    # --- reading -----------------------------------------------------------------------------------------------------

    def clusters(self) -> list[str]:
        """Names of the clusters that were scanned."""
        with self._told():
            folders = [info.base_name for info in self._listed("manifests")]
        return sorted(unquote(name.removeprefix("cluster=")) for name in folders if name.startswith("cluster="))

    def manifests(self, cluster: str, since: date | None = None) -> list[Manifest]:
        """Manifests of a cluster, by day and sequence; each scan is in one of them. Raises HistoryError."""
        for _ in range(_TRIES):
            with self._told():
                try:
                    return self._read_manifests(cluster, since)
                except FileNotFoundError:  # compacted while we looked
                    time.sleep(0.1)
        raise HistoryError(f"{self.location}: the manifests of {cluster} change faster than they can be read")

    def latest(self, cluster: str) -> Manifest | None:
        """The manifest with the last scan of a cluster. Raises HistoryError."""
        found = self.manifests(cluster)
        return max(found, key=lambda manifest: manifest.newest.place, default=None)

    def entry(self, cluster: str, scan_id: str) -> ScanEntry | None:
        """A scan, if it has been committed. Raises HistoryError."""
        every = (scan for manifest in self.manifests(cluster) for scan in manifest.scans)
        return next((scan for scan in every if scan.scan_id == scan_id), None)

    def document(self, entry: ScanEntry) -> bytes:
        """The document of a scan. Raises HistoryError."""
        with self._told(), self._fs.open_input_stream(self._at(entry.document), compression="gzip") as stream:
            text: bytes = stream.read()
            return text

    def paths(self, table: str, manifests: Iterable[Manifest]) -> list[str]:
        """Files of a table as Spark reads them."""
        return [f"{self.location}/{path}" for manifest in manifests for path in manifest.tables.get(table, ())]

    def rows(self, table: str, manifests: Iterable[Manifest], scan_id: str | None = None) -> pa.Table:
        """Rows of a table, of one scan or of all, with the declared columns. Raises HistoryError."""
        schema = TABLES[table]
        parts = []
        for path in (path for manifest in manifests for path in manifest.tables.get(table, ())):
            with self._told(path), self._fs.open_input_file(self._at(path)) as file:
                parts.append(_declared(pq.read_table(file), schema))
        found = pa.concat_tables([schema.empty_table(), *parts])
        return found if scan_id is None else found.filter(pa.compute.equal(found["scan_id"], scan_id))

    # --- writing -----------------------------------------------------------------------------------------------------

    def begin(self, cluster: str, scan_id: str, now: datetime) -> Attempt:
        """A place to write to."""
        return Attempt(
            cluster, scan_id, now.astimezone(UTC).date(), f"{quote(scan_id, safe='')}-{uuid.uuid4().hex[:8]}"
        )

    def write(self, attempt: Attempt, table: str, rows: pa.Table) -> None:
        """Write rows of a table. Raises HistoryError."""
        with self._told():
            self._write_rows(f"{attempt.folder(table)}/part-0.parquet", rows.cast(TABLES[table]))

    def spark_path(self, attempt: Attempt, table: str) -> str:
        """Where Spark writes the files of a table."""
        return f"{self.location}/{attempt.folder(table)}"

    def commit(self, attempt: Attempt, observed_at: datetime, document: bytes) -> Manifest:
        """
        Make an attempt visible, which has written all tables. The first commit of a scan id counts, and is given.

        Raises HistoryError.
        """
        with self._told():
            self._put(attempt.document, gzip.compress(document))
        tables = self._written(attempt)
        before = self.manifests(attempt.cluster)
        if (first := _with_scan(attempt.scan_id, before)) is not None:
            return first
        sequence = 1 + max((manifest.newest.sequence for manifest in before), default=0)
        entry = ScanEntry(attempt.scan_id, sequence, observed_at, attempt.document)
        manifest = Manifest(attempt.cluster, attempt.day, [entry], tables)
        self._put_manifest(f"{sequence:010d}-{quote(attempt.scan_id, safe='')}", manifest)
        return _with_scan(attempt.scan_id, self.manifests(attempt.cluster)) or manifest

    def compact(self, cluster: str, before: date) -> int:
        """Put each day's scans into one file per table; how many days it was. Raises HistoryError."""
        days: dict[date, list[Manifest]] = {}
        for manifest in self.manifests(cluster):
            if manifest.day < before:
                days.setdefault(manifest.day, []).append(manifest)
        crowded = {day: manifests for day, manifests in days.items() if len(manifests) > 1}
        for day, manifests in crowded.items():
            attempt = Attempt(cluster, "day", day, f"day-{uuid.uuid4().hex[:8]}")
            for table in TABLES:
                self.write(attempt, table, self.rows(table, manifests))
            scans = [scan for manifest in manifests for scan in manifest.scans]
            merged = Manifest(cluster, day, scans, self._written(attempt))
            # Somebody else may be compacting the same day: what neither of us has seen stays.
            self._put_manifest(f"{_MERGED}{merged.newest.sequence:010d}-{uuid.uuid4().hex[:8]}", merged)
            with self._told():
                for info in self._manifests_of(f"manifests/{_of(cluster, day)}"):
                    if self._covered(info, merged):
                        self._gone(info)
        return len(crowded)

    def expire(self, cluster: str, before: date) -> int:
        """Forget days; how many. Readers can go on: a later sweep deletes the files. Raises HistoryError."""
        gone = 0
        with self._told():
            for info in self._days("manifests", cluster):
                if _day(info) < before:
                    self._gone(info)
                    gone += 1
        return gone

    def sweep(self, cluster: str, now: datetime) -> int:
        """Delete what no manifest has named for a day, and note what just became so; how many. Raises HistoryError."""
        since = self._unused(cluster)
        manifests = self.manifests(cluster)
        used = {path.rpartition("/")[0] for one in manifests for paths in one.tables.values() for path in paths}
        used |= {scan.document for one in manifests for scan in one.scans}
        waiting: dict[str, datetime] = {}
        gone = 0
        with self._told():
            for info in self._everything(cluster):
                path = self._below(info.path)
                if path in used:
                    continue
                if since.get(path, now) > now - _GRACE:
                    waiting[path] = min(since.get(path, now), now)
                    continue
                self._gone(info)
                gone += 1
            if waiting or since:
                self._put(_unused_file(cluster), msgspec.json.encode(waiting))
        return gone

    # --- files -------------------------------------------------------------------------------------------------------

    def _read_manifests(self, cluster: str, since: date | None) -> list[Manifest]:
        found: list[Manifest] = []
        for day in self._days("manifests", cluster):
            if since is not None and _day(day) < since:
                continue
            names = self._manifests_of(self._below(day.path))
            merged = [self._manifest(info.path) for info in names if info.base_name.startswith(_MERGED)]
            widest = max(merged, key=lambda one: len(one.scans), default=None)  # each has all scans of narrower ones
            covered = set(widest.scan_ids) if widest else set()
            if widest:
                found.append(widest)
            for info in names:
                if info.base_name.startswith(_MERGED) or _scan_id(info.base_name) in covered:
                    continue
                covered.add(_scan_id(info.base_name))
                found.append(self._manifest(info.path))
        return sorted(found, key=lambda one: (one.day, one.newest.place))

    def _manifests_of(self, folder: str) -> list[Any]:
        return [
            info
            for info in self._listed(folder)
            if info.extension == "json" and info.base_name.startswith((_MERGED, *"0123456789"))
        ]

    def _manifest(self, path: str) -> Manifest:
        with self._fs.open_input_stream(path) as stream:
            try:
                manifest = msgspec.json.decode(stream.read(), type=Manifest)
            except msgspec.DecodeError as error:
                raise HistoryError(f"{path}: is no manifest: {error}") from error
        if manifest.version > _VERSION:
            raise HistoryError(f"{path}: is of version {manifest.version}, which a newer rackspan wrote")
        if not manifest.scans:
            raise HistoryError(f"{path}: is no manifest: it names no scan")
        return manifest

    def _covered(self, info: Any, merged: Manifest) -> bool:
        """Whether a manifest says nothing that a merged one does not say as well."""
        if not info.base_name.startswith(_MERGED):
            return _scan_id(info.base_name) in merged.scan_ids
        try:
            return self._manifest(info.path).scan_ids < merged.scan_ids
        except FileNotFoundError:
            return True

    def _put_manifest(self, name: str, manifest: Manifest) -> None:
        with self._told():
            self._put(f"manifests/{_of(manifest.cluster, manifest.day)}/{name}.json", msgspec.json.encode(manifest))

    def _unused(self, cluster: str) -> dict[str, datetime]:
        """Since when files have been known to be named by no manifest. A note that is lost only costs a day."""
        try:
            with self._fs.open_input_stream(self._at(_unused_file(cluster))) as stream:
                return msgspec.json.decode(stream.read(), type=dict[str, datetime])
        except (OSError, msgspec.DecodeError):
            return {}

    def _put(self, path: str, text: bytes) -> None:
        """All of it or nothing: object stores show what is complete, a local file is renamed when it is."""
        target = self._at(path)
        folder = target.rpartition("/")[0]
        self._fs.create_dir(folder, recursive=True)
        if not isinstance(self._fs, arrow_fs.LocalFileSystem):
            with self._fs.open_output_stream(target) as stream:
                stream.write(text)
            return
        partial = f"{folder}/.{uuid.uuid4().hex}"  # short, whatever the length of the name
        try:
            with open(partial, "wb") as stream:  # noqa: PTH123 - the path is the file system's
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, target)  # noqa: PTH105
        except OSError:
            with suppress(OSError):
                os.unlink(partial)  # noqa: PTH108
            raise

    def _write_rows(self, path: str, rows: pa.Table) -> None:
        target = self._at(path)
        self._fs.create_dir(target.rpartition("/")[0], recursive=True)
        with self._fs.open_output_stream(target) as stream:
            pq.write_table(rows, stream, compression="zstd")

    def _files(self, folder: str) -> list[str]:
        return [
            self._below(info.path)
            for info in self._listed(folder)
            if info.extension == "parquet" and not info.base_name.startswith((".", "_"))
        ]

    def _listed(self, folder: str) -> list[Any]:
        selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True)
        return sorted(self._fs.get_file_info(selector), key=lambda info: info.path)

    def _written(self, attempt: Attempt) -> dict[str, list[str]]:
        """Files of an attempt by table. A clock that jumped may have let somebody sweep them away."""
        with self._told():
            tables = {table: self._files(attempt.folder(table)) for table in TABLES}
        lost = [table for table, files in tables.items() if not files]
        if lost:
            raise HistoryError(f"history {self.location}: what was written to {', '.join(lost)} is not there any more")
        return tables

    def _days(self, table: str, cluster: str) -> list[Any]:
        return [info for info in self._listed(f"{table}/{_cluster(cluster)}") if info.base_name.startswith("date=")]

    def _everything(self, cluster: str) -> Iterator[Any]:
        """What attempts have written: folders of tables, and documents."""
        for table in (*TABLES, "documents"):
            for day in self._days(table, cluster):
                yield from self._listed(self._below(day.path))

    def _gone(self, info: Any) -> None:
        """Delete; somebody may have done so before."""
        with suppress(FileNotFoundError):
            if info.type == arrow_fs.FileType.Directory:
                self._fs.delete_dir(info.path)
            else:
                self._fs.delete_file(info.path)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self._root}/")

    def _told(self, path: str = "") -> "_Told":
        return _Told(f"{self.location}/{path}" if path else self.location)


class _Told:
    """Turns what file systems raise into one error that says which history it is about."""

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise HistoryError(f"history {self._location}: {error}") from error


def _cluster(cluster: str) -> str:
    return f"cluster={quote(cluster, safe='')}"


def _of(cluster: str, day: date) -> str:
    return f"{_cluster(cluster)}/date={day.isoformat()}"


def _unused_file(cluster: str) -> str:
    return f"unused/{_cluster(cluster)}.json"


def _day(folder: Any) -> date:
    return date.fromisoformat(folder.base_name.removeprefix("date="))


def _scan_id(file: str) -> str:
    return unquote(file.removesuffix(".json").partition("-")[2])


def _with_scan(scan_id: str, manifests: Iterable[Manifest]) -> Manifest | None:
    return next((manifest for manifest in manifests if scan_id in manifest.scan_ids), None)


def _declared(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the declared columns: what a file from before does not have is null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


__all__: Final = ["Attempt", "History", "HistoryError", "Manifest", "ScanEntry"]
