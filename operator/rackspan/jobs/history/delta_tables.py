"""Delta tables at one location: a path, or an object store. Errors of the libraries are raised as HistoryError."""

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
"""How long files that no table refers to are kept: a reader may have listed them, or their writer may still run."""
_SETTINGS: Final = {
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.setTransactionRetentionDuration": "interval 7 days",
}
_SCANS, _BROKERS = "scans", "brokers"
_EMPTY = '""'
_OF_EACH: Final = ("scan_id", "attempt", "date")
"""Columns that the files of every table have."""


class HistoryError(Exception):
    """An error while reading or writing a history. The message says where and why."""


class DeltaTables:
    """The tables below `location`, by name. Methods raise HistoryError."""

    def __init__(self, location: str) -> None:
        """Raise HistoryError if the location cannot be used."""
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
        """The lowest version that each table must have: recorded in its `_recorder` table, or committed here."""
        self._seen: set[str] = set()
        """Tables that exist."""
        self._options = {"aws_conditional_put": "etag"} if self._uri.startswith("s3:") else {}

    def try_writing(self) -> None:
        """Check that files can be written and deleted and that the tables belong to a history. Leaves no file."""
        name = f".rackspan-{uuid.uuid4().hex}"  # unique, because another scan may do the same at the same time
        try:
            self._write(name, bytes(4096))
            self._files.delete_file(name)
        except (OSError, pa.ArrowException, DeltaError) as error:
            sentence = f"history {self.location} cannot be written: {one_line(error)}"
            raise HistoryError(f"{sentence}; give the right to write there, or name another --history") from error
        for name in KEPT:
            self.opened(name)

    def opened(self, name: str) -> DeltaTable | None:
        """Return a table, or None if it does not exist. Raises HistoryError if the table had a newer version before."""
        had = self._version(name)
        table = self._loaded(name)
        has = -1 if table is None else table.version()
        if has < had:
            gone = name if table is None else f"{name}/_delta_log/{has + 1:020d}.json"
            raise HistoryError(f"history {self.location}/{gone}: is not there any more: restore it")
        return table

    def existing(self, name: str) -> DeltaTable:
        """Return a table. Raises HistoryError if it does not exist or had a newer version before."""
        table = self.opened(name)
        if table is None:
            raise HistoryError(f"history {self.location}/{name}: is not there any more: restore it")
        return table

    def read(
        self, table: DeltaTable, name: str, cluster: str, columns: Sequence[str], where: pc.Expression
    ) -> Iterator[pa.Table]:
        """Yield columns of a cluster's rows, part by part. A column that the table does not have yet is null.

        `where` may use only the columns that every table has. Files without such rows according to the log are skipped.
        """
        schema = _columns(name, dict.fromkeys((*columns, *_OF_EACH)))
        with self.errors(name):
            for path in self._paths_where(table, name, cluster, where):
                for rows in self._rows(f"{name}/{path}", schema):
                    if len(some := rows.filter(where)):
                        yield some.select(columns)

    def _paths_where(self, table: DeltaTable, name: str, cluster: str, where: pc.Expression) -> list[str]:
        """Return a cluster's files that may have such rows according to the log. Raises as `_whole_files` does."""
        dataset = table.to_pyarrow_dataset(file_pruning_predicate=[("cluster", "=", cluster)])
        paths = [fragment.path for fragment in dataset.get_fragments(filter=where)]
        self._whole_files(table, name, paths)
        return paths

    def _written_anew(
        self, table: DeltaTable, name: str, path: str, where: pc.Expression, cluster: str, month: str
    ) -> Iterator[AddAction]:
        """Write the rows of a file that match `where` into new files."""
        # The table's own columns, not those of KEPT: a newer version may have added some.
        schema = pa.schema(
            [one.remove_metadata() for one in pa.schema(table.schema()) if one.name not in PARTITIONED_BY]
        )
        staying = (rows.filter(where) for rows in self._rows(f"{name}/{path}", schema))
        for rows in gathered(staying, _ROWS_OF_A_FILE):
            yield self.file(name, cluster, month, uuid.uuid4().hex, rows)

    def _rows(self, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of a file, part by part.

        The rows are read in this thread: a dataset uses other threads, for which Python does not wait when it exits.
        Text is cast, because files that an earlier version has changed may have another type than is declared.
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
        """Check that all files of a table exist and have the sizes with which they were committed."""
        with self.errors(name):
            self._whole_files(table, name, [one.path for one in table.to_pyarrow_dataset().get_fragments()])

    def file(self, name: str, cluster: str, month: str, file: str, rows: pa.Table) -> AddAction:
        """Write rows of a cluster's month into a file. The file belongs to the table only after `append`."""
        path = f"{cluster_folder(cluster)}/month={month}/{file}.parquet"
        packed = pa.BufferOutputStream()
        pq.write_table(rows, packed, compression="zstd")
        data = packed.getvalue().to_pybytes()
        with self.errors(name):
            if name not in self._seen:  # a file without a log looks like a table that lost its log
                self._made(name)
            self._write(f"{name}/{path}", data)
            self._written.append(f"{name}/{path}")
        values = dict(zip(PARTITIONED_BY, (cluster, month), strict=True))
        return AddAction(path, len(data), values, int(time.time() * 1000), data_change=True, stats=_statistics(rows))

    def append(self, name: str, files: Sequence[AddAction]) -> None:
        """Add files to a table. Creates the table if it does not exist."""
        with self.errors(name):
            table = self._made(name)
            if files:
                self._commit(name, table, files)

    def append_once(self, name: str, cluster: str, scans: Sequence[str], file: AddAction) -> bool:
        """Add a file of scans. Return False, and add nothing, if the table already has one of these scans.

        This holds for two concurrent writers, too. Everything added before is synced to the disk first.
        """
        recorder = _recorder(name)
        with self.errors(name):
            self._sync()
            if not self._commit(name, self._made(name), [file], cluster, scans):
                return False
            self._sync()
        with suppress(HistoryError), self.errors(recorder):  # the scans are visible already, even if this fails
            self._commit(recorder, self._made(recorder), [])
            self._sync()
        return True

    def compact(self, name: str, cluster: str, month: str) -> None:
        """Merge the files of a cluster's month into one."""
        with self._changing(name, cluster) as table:
            self._whole_files(table, name, self._paths(table, name, cluster))  # refuse files outside of the table
            table.optimize.compact(
                [("cluster", "=", cluster), ("month", "=", month)],
                writer_properties=WriterProperties(compression="ZSTD"),
            )

    def delete(self, name: str, cluster: str, where: pc.Expression) -> None:
        """Delete rows of a cluster. `where` may use only the columns that every table has.

        The other rows of the same files are written to new files, in the format of `file`. The deletion of delta-rs is
        not used, because it writes text as a type that Arrow cannot filter (delta-rs, issue 4579).
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
                # Not retried: another writer may have removed the same files.
                table.create_write_transaction(changed, "append", table.schema(), PARTITIONED_BY)
                table.update_incremental()

    def vacuum(self, name: str) -> None:
        """Delete files that the table has not referred to for KEPT_HOURS, including files of killed writers.

        The storage dates files by its own clock, and this machine's clock may be ahead of it. So the hours since the
        table's newest commit, by these two clocks, are added.
        """
        with self._changing(name) as table:
            committed = self._files.get_file_info(f"{name}/_delta_log/{table.version():020d}.json").mtime_ns or 0
            ahead = max(0, int(time.time() - committed / 1e9)) // 3600
            table.vacuum(KEPT_HOURS + ahead, dry_run=False, enforce_retention_duration=False, full=True)

    # --- parts -------------------------------------------------------------------------------------------------------

    @property
    def _files(self) -> arrow_fs.FileSystem:
        if self._folder is None:
            return arrow_fs.PyFileSystem(DeltaStorageHandler(self._uri, self._options))
        return arrow_fs.SubTreeFileSystem(self._folder, arrow_fs.LocalFileSystem())

    def _write(self, path: str, data: bytes) -> None:
        if self._folder is None:
            # Arrow's file system would pass its own buffers to this stream, which accepts only bytes.
            stream = DeltaStorageHandler(self._uri, self._options)._handler.open_output_stream(path)  # noqa: SLF001
            stream.write(data)
            stream.close()  # type: ignore[attr-defined]
        else:
            file = Path(self._folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _sync(self) -> None:
        """Sync the written files and the folders above them to the disk. Object stores do not need this."""
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
        """Commit files, with the versions of the tables that this one records. Return False if it has one of `once`."""
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
                time.sleep(random.random() * _PAUSE_SECONDS)  # noqa: S311 - so that writers do not collide again
                table = self._made(name)
        since = table.version()
        table.update_incremental()
        self._versions[name] = table.version()
        self._note_entries(name, table, since)
        return True

    def _note_entries(self, name: str, table: DeltaTable, since: int) -> None:
        self._written += [f"{name}/_delta_log/{at:020d}.json" for at in range(since, table.version() + 1)]

    def _version(self, name: str) -> int:
        """Return the lowest version that a table must have, or -1 if none is known."""
        if name not in self._versions:
            with self.errors(name):
                recorder = self._loaded(_recorder(name))
                for other in KEPT:  # all at once, because loading a table reads its whole log
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
                if orphaned and not DeltaTable.is_deltatable(uri, self._options):  # else a writer just created it
                    raise HistoryError(f"history {self.location}/{name}: its _delta_log is gone: restore it")
                if not orphaned:
                    return None
            for info in self._files.get_file_info(arrow_fs.FileSelector(f"{name}/_delta_log")):
                if info.size == 0 and info.extension == "json":  # delta-rs reads such a file as an empty commit
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
        """Return a table for writing. Creates the table, or its missing columns and settings."""
        uri, declared = f"{self._uri}/{name}", Schema.from_arrow(KEPT[name])
        table = self.opened(name)
        if table is None:
            with suppress(CommitFailedError):  # another writer was first
                DeltaTable.create(uri, declared, "ignore", PARTITIONED_BY, name, ABOUT[name], _SETTINGS, self._options)
            table = self.existing(name)
        known = {field.name for field in table.schema().fields}
        with suppress(CommitFailedError):  # another writer was first: a commit on the old version is retried from here
            if new := [field for field in declared.fields if field.name not in known]:
                table.alter.add_columns(new)
            if unset := {key: value for key, value in _SETTINGS.items() if key not in table.metadata().configuration}:
                table.alter.set_table_properties(unset)
        return table

    def _has(self, table: DeltaTable, name: str, cluster: str, scans: Sequence[str]) -> bool:
        among = pc.field("scan_id").isin(list(scans))
        return any(len(part) for part in self.read(table, name, cluster, ["scan_id"], among))

    def _paths(self, table: DeltaTable, name: str, cluster: str) -> list[str]:
        """Return a cluster's files in a table. Raises HistoryError if a file is outside of the table."""
        added = pa.table(table.get_add_actions(flatten=True)).filter(pc.field("partition.cluster") == cluster)
        paths = list(map(unquote, added["path"].to_pylist()))
        if not all(map(_BELOW.fullmatch, paths)):
            raise HistoryError(f"history {self.location}/{name}: its log names a file outside of the table: restore it")
        return paths

    def _whole_files(self, table: DeltaTable, name: str, paths: Sequence[str]) -> None:
        """Raise HistoryError if a file does not exist or does not have the size with which it was committed."""
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
        """Yield a table for maintenance, then sync it. If another writer commits first, the other's changes count."""
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
        """Raise errors of libraries as HistoryError, with the place in the message."""
        try:
            yield
        except (OSError, EOFError, pa.ArrowException, DeltaError) as error:
            raise HistoryError(f"history {self.location}/{place}: {one_line(error)}") from error


def cluster_folder(cluster: str) -> str:
    """Return the name of the folder that has a table's files of a cluster."""
    return f"cluster={quote(cluster, safe='')}"


def _columns(name: str, columns: Iterable[str]) -> pa.Schema:
    return pa.schema([KEPT[name].field(one).remove_metadata() for one in columns])


def one_line(error: Exception) -> str:
    """Return an error as one line without colours. For an object store: its response, or why there is no response."""
    lines = re.sub("\x1b\\[[0-9;]*m", "", str(error)).replace("\u21b3", "").splitlines()
    text = ": ".join(line.strip() for line in lines if line.strip())
    if answer := _ANSWER.search(text):
        message = answer["message"].partition(": RequestId:")[0]  # which Azure adds
        return html.unescape(f"{message} ({answer['code']})")
    return f"{failed['where']}: {failed['what']}" if (failed := _FAILED.search(text)) else text


def _recorder(name: str) -> str:
    """Return the table whose commits record the version of table `name`, as an application transaction `name`.

    A table with a lower version than the recorded one has lost the newest entries of its log.
    """
    return _BROKERS if name == _SCANS else _SCANS


def _next_transaction(table: DeltaTable, cluster: str, scan: str) -> Transaction:
    """Return a transaction whose id is the same for all writers of a scan, so that Delta refuses the second writer.

    A checkpoint drops a transaction with a time after the retention time. Those of `_recorder` have none and stay.
    """
    app = json.dumps([cluster, scan])
    return Transaction(app, 1 + (table.transaction_version(app) or 0), int(time.time() * 1000))


def _statistics(rows: pa.Table) -> str:
    """Return Delta's statistics of a file, of all columns: Arrow may take a column for null and skip the file."""
    columns = {field.name: rows[field.name] for field in rows.schema}
    bounds = {
        name: pc.min_max(column).as_py()
        for name, column in columns.items()
        if column.null_count < len(column) and (pa.types.is_primitive(column.type) or pa.types.is_string(column.type))
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
        # Some file systems cannot sync folders, and the folder above the history may not be readable.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise
