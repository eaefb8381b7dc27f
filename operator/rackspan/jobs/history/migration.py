"""Migration of histories in the layout before Delta tables: Parquet files, and manifests that name the files."""

import gzip
import re
import uuid
import zlib
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import COPIED, History, HistoryError, ScanEntry

_MANIFESTS: Final = "manifests"
_STEP: Final = re.compile(r"[\w.~%-]+", re.ASCII)
"""One step of a path below a day's folder. No allowed character can turn the path into a URI."""


def _is_below(path: str) -> bool:
    """Return whether a path stays below the folder from which it starts."""
    return all(_STEP.fullmatch(step) and step not in {".", ".."} for step in path.split("/"))


class _Scan(msgspec.Struct, frozen=True, rename="camel"):
    scan_id: str
    sequence: int
    observed_at: datetime
    document: str


class _Manifest(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    day: date
    scans: list[_Scan]
    tables: dict[str, list[str]]
    sizes: dict[str, int] = {}


def migrate(old: str, history: History, announce: Callable[[str], None]) -> int:
    """Copy all scans of the old layout that `history` does not have, and return their number. Does not change `old`.

    `announce` is called with every cluster and month before its scans. Raises HistoryError if a file of `old` cannot
    be read, or `history` cannot be written. Another call continues with the missing scans.
    """
    if not old:  # an empty path would be the current folder
        raise HistoryError('history "": is not a usable location')
    try:
        uri = old if "://" in old else Path(old).absolute().as_uri()
        files, root = arrow_fs.FileSystem.from_uri(uri)
        source = _Source(arrow_fs.SubTreeFileSystem(root, files))
        if not source.is_there():
            raise HistoryError(f"history {old}: has no folder manifests: it is not one that an earlier version wrote")
        history.try_writing()
        return sum(_copied(source, history, manifests, announce) for manifests in source.months())
    except (OSError, EOFError, zlib.error, pa.ArrowException, msgspec.MsgspecError) as error:
        raise HistoryError(f"history {old}: {error}") from error


class _Source:
    def __init__(self, files: arrow_fs.FileSystem) -> None:
        self._files = files

    def is_there(self) -> bool:
        """Return whether the location has a history of the old layout."""
        return self._files.get_file_info(_MANIFESTS).type is arrow_fs.FileType.Directory

    def months(self) -> Iterator[list[_Manifest]]:
        """Yield the manifests of each month of each cluster, by sequence. They include every scan."""
        months: dict[tuple[str, str], list[_Manifest]] = {}
        for day, paths in sorted(self._days().items()):
            read = {path: self._manifest(path, day) for path in paths}
            # A compacted day has one manifest with all scans, which replaces the day's other manifests of these scans.
            seen: set[str] = set()
            for one in sorted(read.values(), key=lambda one: -len(one.scans)):
                ids = {scan.scan_id for scan in one.scans}
                if not ids <= seen:
                    months.setdefault((one.cluster, f"{one.day:%Y-%m}"), []).append(one)
                seen |= ids
        for manifests in months.values():
            yield sorted(manifests, key=lambda one: min(scan.sequence for scan in one.scans))

    def table(self, manifest: _Manifest, name: str) -> pa.Table:
        parts = [TABLES[name].empty_table()]
        for path in manifest.tables.get(name, ()):
            (info,) = self._files.get_file_info([path])
            if info.size != manifest.sizes.get(path, info.size) or not info.size:
                raise HistoryError(f"{path}: is not there, or not as it was committed: restore it")
            with self._files.open_input_file(path) as file:
                parts.append(pq.read_table(file))
        return pa.concat_tables(parts, promote_options="default").select(TABLES[name].names)

    def document(self, scan: _Scan) -> bytes:
        with self._files.open_input_file(scan.document) as file:
            text = gzip.decompress(file.read())
        if not text:
            raise HistoryError(f"{scan.document}: is empty: restore it")
        return text

    def _days(self) -> dict[str, list[str]]:
        days: dict[str, list[str]] = {}
        for info in self._files.get_file_info(arrow_fs.FileSelector(_MANIFESTS, recursive=True)):
            if info.is_file and re.fullmatch(r"(day-.+|\d+-.*)\.json", info.base_name):
                days.setdefault(info.path.rpartition("/")[0].removeprefix(f"{_MANIFESTS}/"), []).append(info.path)
        return days

    def _manifest(self, path: str, day: str) -> _Manifest:
        with self._files.open_input_file(path) as file:
            manifest = msgspec.json.decode(file.read(), type=_Manifest)
        named = [
            *(one for paths in manifest.tables.values() for one in paths),
            *(one.document for one in manifest.scans),
        ]
        for one in named:
            folder, _, rest = one.partition(f"/{day}/")
            if folder not in (*TABLES, "documents") or not _is_below(rest):
                raise HistoryError(f"{path}: names a file that no scan of its day wrote: {one!r}")
        return manifest


def _copied(source: _Source, history: History, manifests: list[_Manifest], announce: Callable[[str], None]) -> int:
    """Copy the missing scans of a cluster's month, and return their number."""
    cluster, copied, last = manifests[0].cluster, 0, None
    announce(f"{cluster}, {manifests[0].day:%Y-%m}")
    there = {entry.scan_id for entry in history.scans(cluster)}
    for manifest in manifests:
        new = [scan for scan in manifest.scans if scan.scan_id not in there]
        if not new:
            continue
        there |= {scan.scan_id for scan in new}
        ids = pa.array([scan.scan_id for scan in new])
        tables = {name: source.table(manifest, name) for name in TABLES}
        tables = {name: rows.filter(pc.is_in(rows["scan_id"], ids)) for name, rows in tables.items()}
        scans = tables.pop("scans")
        scans = scans.take(pc.index_in(ids, scans["scan_id"].combine_chunks()))
        sequences = pa.array([scan.sequence for scan in new], pa.int64())
        scans = scans.set_column(scans.column_names.index("sequence"), "sequence", sequences)
        attempt = COPIED + uuid.uuid4().hex
        last = ScanEntry(cluster, new[-1].scan_id, new[-1].sequence, new[-1].observed_at, attempt)
        writer = history.writer(last)
        for name, rows in tables.items():
            writer.write(name, rows)
        writer.commit(scans, [source.document(scan) for scan in new])
        copied += len(new)
    if last is not None:
        history.compact(last)
    return copied
