"""Delta tables at one location: a path, or an object store. Every error of a library becomes a HistoryError."""

import errno
import html
import json
import os
import random
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from rackspan.core.text import plural
from rackspan.jobs.batches.aggregates import gathered
from rackspan.jobs.batches.schemas import ABOUT, KEPT, PARTITIONED_BY
from rackspan.reconcile.scans.history_location import without_secrets

_URI: Final = re.compile("file:///|(s3|s3a|s3n|gs|abfs|abfss)://[^/]")
_ANSWER: Final = re.compile("<Code>(?P<code>[^<]*)</Code>.*<Message>(?P<message>[^<]*)</Message>")
_FAILED: Final = re.compile(r"Error performing [A-Z]+ (?P<where>https?://[^/ ]+).* - HTTP error: (?P<what>.*)")
_BELOW: Final = re.compile("cluster=[^/]+/month=[^/]+/[^/]+")
_COMMITS, _PAUSE_SECONDS = 20, 0.2
_ROWS_OF_A_FILE: Final = 1_000_000
KEPT_HOURS: Final = 24
"""How long files stay that no table names any more: a reader may have listed them, or their writer may still run."""
_SETTINGS: Final = {
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.setTransactionRetentionDuration": "interval 7 days",
}
_SCANS, _BROKERS = "scans", "brokers"
_EMPTY = '""'
_OF_EACH: Final = ("scan_id", "attempt", "date")
"""Columns that the files of each table have."""


class HistoryError(Exception):
    """A history that cannot be read or written; the message says where and why."""


class DeltaTables:
    """The tables below `location`, by name. Methods raise HistoryError."""

    def __init__(self, location: str) -> None:
        """Raises HistoryError for a location that cannot be used."""
        self.location = without_secrets(location).rstrip("/")
        scheme, is_uri, rest = location.partition("://")
        path = unquote(rest) if is_uri else location
        if (is_uri and not _URI.match(location)) or "%" in path or not location:
            raise HistoryError(f"{self.location or _EMPTY}: is not a usable location: give a path without %, or a URI")
        self._folder = None if is_uri and scheme != "file" else os.path.abspath(path)  # noqa: PTH100 - not resolved
        self._uri = Path(self._folder).as_uri() if self._folder else re.sub("^s3[an]:", "s3:", location).rstrip("/")
        self._written: list[str] = []
        """Files that may not be on the disk yet."""
        self._versions: dict[str, int] = {}
        """A version that each table has at least, as `_recorder` says or as was committed here."""
        self._seen: set[str] = set()
        """Tables that are there."""
        self._options = {"aws_conditional_put": "etag"} if self._uri.startswith("s3:") else {}

    def try_writing(self) -> None:
        """See that files can be written and deleted and that the tables are of a history; leave nothing."""
        name = f".rackspan-{uuid.uuid4().hex}"  # another scan may do the same at this moment
        try:
            self._write(name, bytes(4096))
            self._files.delete_file(name)
        except (OSError, pa.ArrowException, DeltaError) as error:
            sentence = f"history {self.location} cannot be written: {one_line(error)}"
            raise HistoryError(f"{sentence}; give the right to write there, or name another --history") from error
        for name in KEPT:
            self.opened(name)

    def opened(self, name: str) -> DeltaTable | None:
        """A table as it is now, None where there is none. Raises HistoryError where it had a newer version."""
        had = self._version(name)
        table = self._loaded(name)
        has = -1 if table is None else table.version()
        if has < had:
            gone = name if table is None else f"{name}/_delta_log/{has + 1:020d}.json"
            raise HistoryError(f"history {self.location}/{gone}: is not there any more: restore it")
        return table

    def existing(self, name: str) -> DeltaTable:
        """A table as it is now. Raises HistoryError where there is none."""
        table = self.opened(name)
        if table is None:
            raise HistoryError(f"history {self.location}/{name}: is not there any more: restore it")
        return table

    def read(
        self, table: DeltaTable, name: str, cluster: str, columns: Sequence[str], where: pc.Expression
    ) -> Iterator[pa.Table]:
        """
        Columns of a cluster's rows, part by part; columns that the table does not have yet are null.

        `where` is about the columns that each table has. Files that have no such row by the log are not opened.
        """
        schema = _columns(name, dict.fromkeys((*columns, *_OF_EACH)))
        with self.errors(name):
            for path in self._paths_where(table, name, cluster, where):
                for rows in self._rows(f"{name}/{path}", schema):
                    if len(some := rows.filter(where)):
                        yield some.select(columns)

    def _paths_where(self, table: DeltaTable, name: str, cluster: str, where: pc.Expression) -> list[str]:
        """Files of a cluster that may have such rows by the log. Raises HistoryError where one is not whole."""
        dataset = table.to_pyarrow_dataset(file_pruning_predicate=[("cluster", "=", cluster)])
        paths = [fragment.path for fragment in dataset.get_fragments(filter=where)]
        self._whole_files(table, name, paths)
        return paths

    def _written_anew(
        self, table: DeltaTable, name: str, path: str, where: pc.Expression, cluster: str, month: str
    ) -> Iterator[AddAction]:
        """Write the rows of a file that stay into others."""
        known = {field.name for field in table.schema().fields}
        schema = _columns(name, [one for one in KEPT[name].names if one in known and one not in PARTITIONED_BY])
        staying = (rows.filter(where) for rows in self._rows(f"{name}/{path}", schema))
        for rows in gathered(staying, _ROWS_OF_A_FILE):
            yield self.file(name, cluster, month, uuid.uuid4().hex, rows)

    def _rows(self, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """
        Rows of a file, part by part.

        They are read in this thread: a dataset is read by others, which the end of Python does not wait for. In files
        that an earlier version has changed, text may have another type than is declared.
        """
        with self._files.open_input_file(path) as opened, pq.ParquetFile(opened, pre_buffer=False) as file:
            has = [one for one in schema.names if one in file.schema_arrow.names]
            for batch in file.iter_batches(columns=has, use_threads=False):
                rows = pa.Table.from_batches([batch])
                columns = [
                    rows[one] if one in has else pa.nulls(len(rows), schema.field(one).type) for one in schema.names
                ]
                yield pa.table(columns, schema.names).cast(schema)

    def check_files(self, table: DeltaTable, name: str) -> None:
        """See that all files of a table are there, as large as they were when they were committed."""
        with self.errors(name):
            self._whole_files(table, name, [one.path for one in table.to_pyarrow_dataset().get_fragments()])

    def file(self, name: str, cluster: str, month: str, file: str, rows: pa.Table) -> AddAction:
        """Write rows of a cluster's month into a file, which is no part of the table before it is appended."""
        path = f"{cluster_folder(cluster)}/month={month}/{file}.parquet"
        packed = pa.BufferOutputStream()
        pq.write_table(rows, packed, compression="zstd")
        data = packed.getvalue().to_pybytes()
        with self.errors(name):
            if name not in self._seen:  # else the file would be one of a table whose log is lost
                self._made(name)
            self._write(f"{name}/{path}", data)
            self._written.append(f"{name}/{path}")
        values = dict(zip(PARTITIONED_BY, (cluster, month), strict=True))
        return AddAction(path, len(data), values, int(time.time() * 1000), data_change=True, stats=_statistics(rows))

    def append(self, name: str, files: Sequence[AddAction]) -> None:
        """Add files to a table, which is made where there is none."""
        with self.errors(name):
            table = self._made(name)
            if files:
                self._commit(name, table, files)

    def append_once(self, name: str, cluster: str, scans: Sequence[str], file: AddAction) -> bool:
        """
        Add a file of scans; False where the table has one of these scans, and then nothing is added.

        That holds for two writers at the same instant, too. What was added before is on the disk by then.
        """
        recorder = _recorder(name)
        with self.errors(name):
            self._sync()
            if not self._commit(name, self._made(name), [file], cluster, scans):
                return False
            self._sync()
        with suppress(HistoryError), self.errors(recorder):  # what is visible stays so, even where this fails
            self._commit(recorder, self._made(recorder), [])
            self._sync()
        return True

    def compact(self, name: str, cluster: str, month: str) -> None:
        """Write the files of a cluster's month into one."""
        with self._changing(name, cluster) as table:
            self._whole_files(table, name, self._paths(table, name, cluster))  # else a foreign file would become ours
            table.optimize.compact(
                [("cluster", "=", cluster), ("month", "=", month)],
                writer_properties=WriterProperties(compression="ZSTD"),
            )

    def delete(self, name: str, cluster: str, where: pc.Expression) -> None:
        """
        Delete rows of a cluster. `where` is about the columns that each table has.

        What else is in their files is written anew, as `file` writes: the library's own deletion writes text as a type
        that Arrow cannot filter (delta-rs, issue 4579).
        """
        with self._changing(name, cluster) as table:
            changed: list[AddAction | RemoveAction] = []
            for path in self._paths_where(table, name, cluster, where):
                of_each = self._rows(f"{name}/{path}", _columns(name, _OF_EACH))
                if any(len(rows.filter(where)) for rows in of_each):
                    month = path.split("/")[1].removeprefix("month=")
                    values: dict[str, str | None] = dict(zip(PARTITIONED_BY, (cluster, month), strict=True))
                    now = int(time.time() * 1000)
                    changed.append(
                        RemoveAction(path, data_change=True, deletion_timestamp=now, partition_values=values)
                    )
                    changed += self._written_anew(table, name, path, ~where, cluster, month)
            if changed:
                # Not tried again: another one may have removed the same files.
                table.create_write_transaction(changed, "append", table.schema(), PARTITIONED_BY)
                table.update_incremental()

    def vacuum(self, name: str) -> None:
        """Delete files that the table has not named for as long as it keeps them: also those of killed writers."""
        with self._changing(name) as table:
            table.vacuum(KEPT_HOURS, dry_run=False, enforce_retention_duration=False, full=True)

    # --- parts -------------------------------------------------------------------------------------------------------

    @property
    def _files(self) -> arrow_fs.FileSystem:
        if self._folder is None:
            return arrow_fs.PyFileSystem(DeltaStorageHandler(self._uri, self._options))
        return arrow_fs.SubTreeFileSystem(self._folder, arrow_fs.LocalFileSystem())

    def _write(self, path: str, data: bytes) -> None:
        if self._folder is None:
            # Arrow writes buffers of its own to a stream, and this one takes nothing but bytes.
            stream = DeltaStorageHandler(self._uri, self._options)._handler.open_output_stream(path)  # noqa: SLF001
            stream.write(data)
            stream.close()  # type: ignore[attr-defined]
        else:
            file = Path(self._folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _sync(self) -> None:
        """Have what was written on the disk, with the folders that lead to it. Object stores do so by themselves."""
        written, self._written = self._written, []
        if self._folder is not None:
            root = Path(self._folder)
            files = [file for file in (root / path for path in written) if file.exists()]
            above = {folder for file in files for folder in file.parents if folder.is_relative_to(root.parent)}
            for path in (*files, *above):
                _sync(path)

    def _commit(
        self,
        name: str,
        table: DeltaTable,
        added: Sequence[AddAction],
        cluster: str = "",
        once: Sequence[str] = (),
    ) -> bool:
        """Commit to a table, with the versions of those that it records; False where it has one of `once`."""
        for left in reversed(range(_COMMITS)):
            if once and self._has(table, name, cluster, once):
                return False
            applied = [_next_transaction(table, cluster, scan) for scan in once]
            for other, version in self._versions.items():
                if _recorder(other) == name:
                    applied.append(Transaction(other, max(version, table.transaction_version(other) or 0)))
            properties = CommitProperties(app_transactions=applied)
            try:
                table.create_write_transaction(
                    list(added), "append", table.schema(), PARTITIONED_BY, commit_properties=properties
                )
                break
            except CommitFailedError:  # another writer was first
                if not left:
                    raise
                time.sleep(random.random() * _PAUSE_SECONDS)  # noqa: S311 - so that writers do not meet again
                table = self._made(name)
        since = table.version()
        table.update_incremental()
        self._versions[name] = table.version()
        self._note_entries(name, table, since)
        return True

    def _note_entries(self, name: str, table: DeltaTable, since: int) -> None:
        self._written += [f"{name}/_delta_log/{at:020d}.json" for at in range(since, table.version() + 1)]

    def _version(self, name: str) -> int:
        """A version that a table has at least; -1 where none is known."""
        if name not in self._versions:
            with self.errors(name):
                recorder = self._loaded(_recorder(name))
                for other in KEPT:  # at once: loading a table reads its whole log
                    if recorder is not None and _recorder(other) == _recorder(name):
                        version = recorder.transaction_version(other)
                        if version is not None:
                            self._versions.setdefault(other, version)
        return self._versions.get(name, -1)

    def _loaded(self, name: str) -> DeltaTable | None:
        with self.errors(name):
            uri = f"{self._uri}/{name}"
            if not DeltaTable.is_deltatable(uri, self._options):
                if self._folder and Path(self._folder, "manifests").is_dir():
                    hint = f"rackspan history migrate {self.location} NEW"
                    raise HistoryError(f"history {self.location}: has the layout of an earlier version: {hint}")
                orphaned = self._folder and any(Path(self._folder, name).rglob("*.parquet"))
                if orphaned and not DeltaTable.is_deltatable(uri, self._options):  # else another one made it meanwhile
                    raise HistoryError(f"history {self.location}/{name}: its _delta_log is gone: restore it")
                if not orphaned:
                    return None
            for info in self._files.get_file_info(arrow_fs.FileSelector(f"{name}/_delta_log")):
                if info.size == 0 and info.extension == "json":  # which delta-rs takes for a commit of nothing
                    raise HistoryError(f"history {self.location}/{info.path}: is empty: restore it")
            table = DeltaTable(uri, storage_options=self._options)
            declared = {field.name for field in table.schema().fields}
            if table.metadata().partition_columns != PARTITIONED_BY or not {*_OF_EACH} <= declared:
                raise HistoryError(
                    f"history {self.location}/{name}: is not a table of a history: use another --history"
                )
            self._seen.add(name)
            return table

    def _made(self, name: str) -> DeltaTable:
        """A table with all declared columns, to add to."""
        uri, declared = f"{self._uri}/{name}", Schema.from_arrow(KEPT[name])
        table = self.opened(name)
        if table is None:
            with suppress(CommitFailedError):  # another writer was first
                DeltaTable.create(uri, declared, "ignore", PARTITIONED_BY, name, ABOUT[name], _SETTINGS, self._options)
            table = self.existing(name)
        known = {field.name for field in table.schema().fields}
        with suppress(CommitFailedError):  # another writer was first: a commit on the old version begins again here
            if new := [field for field in declared.fields if field.name not in known]:
                table.alter.add_columns(new)
            if unset := {key: value for key, value in _SETTINGS.items() if key not in table.metadata().configuration}:
                table.alter.set_table_properties(unset)
        return table

    def _has(self, table: DeltaTable, name: str, cluster: str, scans: Sequence[str]) -> bool:
        among = pc.field("scan_id").isin(list(scans))
        return any(len(part) for part in self.read(table, name, cluster, ["scan_id"], among))

    def _paths(self, table: DeltaTable, name: str, cluster: str) -> list[str]:
        """The files of a cluster in a table. Raises HistoryError where one is not below it."""
        added = pa.table(table.get_add_actions(flatten=True)).filter(pc.field("partition.cluster") == cluster)
        paths = list(map(unquote, added["path"].to_pylist()))
        if not all(map(_BELOW.fullmatch, paths)):
            raise HistoryError(f"history {self.location}/{name}: its log names a file outside of the table: restore it")
        return paths

    def _whole_files(self, table: DeltaTable, name: str, paths: Sequence[str]) -> None:
        """Raises HistoryError for a file that is gone, or has not the size with which it was committed."""
        added = pa.table(table.get_add_actions())
        committed = dict(zip(map(unquote, added["path"].to_pylist()), added["size_bytes"].to_pylist(), strict=True))
        for path, info in zip(paths, self._files.get_file_info([f"{name}/{path}" for path in paths]), strict=True):
            place = f"history {self.location}/{name}/{path}"
            if not info.is_file:
                raise HistoryError(f"{place}: is not there any more: restore it")
            if info.size != committed[path]:
                was = f"{committed[path]:,} when it was committed"
                raise HistoryError(f"{place}: has {plural(info.size, 'byte')}, and {was}: restore it")

    @contextmanager
    def _changing(self, name: str, cluster: str | None = None) -> Iterator[DeltaTable]:
        """A table that is tidied, with files of a cluster; where another does so at this moment, its work counts."""
        table = self.existing(name)
        since = table.version() + 1
        with self.errors(name), suppress(CommitFailedError):
            yield table
            self._note_entries(name, table, since)
            if cluster is not None:
                self._written += [f"{name}/{path}" for path in self._paths(table, name, cluster)]
            self._sync()

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Name the place in errors of libraries."""
        try:
            yield
        except (OSError, EOFError, pa.ArrowException, DeltaError) as error:
            raise HistoryError(f"history {self.location}/{place}: {one_line(error)}") from error


def cluster_folder(cluster: str) -> str:
    """The folder that a table's files of a cluster are in."""
    return f"cluster={quote(cluster, safe='')}"


def _columns(name: str, columns: Iterable[str]) -> pa.Schema:
    return pa.schema([KEPT[name].field(one).remove_metadata() for one in columns])


def one_line(error: Exception) -> str:
    """An error on one line, without colours; of an object store, what it answers or why it gives no answer."""
    lines = re.sub("\x1b\\[[0-9;]*m", "", str(error)).replace("\u21b3", "").splitlines()
    text = ": ".join(line.strip() for line in lines if line.strip())
    if answer := _ANSWER.search(text):
        message = answer["message"].partition(": RequestId:")[0]  # which Azure adds
        return html.unescape(f"{message} ({answer['code']})")
    return f"{failed['where']}: {failed['what']}" if (failed := _FAILED.search(text)) else text


def _recorder(name: str) -> str:
    """The table whose commits record the version of another one, as an application transaction with its name.

    A table with a lower version than the recorded one has lost the newest entries of its log.
    """
    return _BROKERS if name == _SCANS else _SCANS


def _next_transaction(table: DeltaTable, cluster: str, scan: str) -> Transaction:
    """Of two writers that add the same scan at once, Delta refuses the second, which has the same id here.

    A transaction with a time goes with a checkpoint after the retention time. One of `_recorder` has none, and stays.
    """
    app = json.dumps([cluster, scan])
    return Transaction(app, 1 + (table.transaction_version(app) or 0), int(time.time() * 1000))


def _statistics(rows: pa.Table) -> str:
    """Delta's statistics of a file, of all columns: Arrow leaves out files of which it takes a column for null."""
    columns = {field.name: rows[field.name] for field in rows.schema}
    bounds = {
        name: pc.min_max(column).as_py()
        for name, column in columns.items()
        if column.null_count < len(column) and not pa.types.is_binary(column.type)
    }
    statistics = {
        "numRecords": len(rows),
        "minValues": {name: both["min"] for name, both in bounds.items()},
        "maxValues": {name: both["max"] for name, both in bounds.items()},
        "nullCount": {name: column.null_count for name, column in columns.items()},
    }
    return json.dumps(statistics, default=_iso)


def _iso(when: date) -> str:
    if isinstance(when, datetime):
        return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return when.isoformat()


def _sync(path: Path) -> None:
    try:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        # Some file systems cannot do so with folders, and the one above the history may not be readable.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise
