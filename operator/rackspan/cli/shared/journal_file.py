"""The journal of `rackspan apply`: one file per cluster, safe on disk before each call that needs it.

The journal decides what is done to a cluster, so no other user may write the file or redirect it by a symbolic link.
"""

import asyncio
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.reconcile.plans.plan_documents import (
    UNREADABLE,
    OtherVersionError,
    plan_document,
    progress_document,
    record_of,
)
from rackspan.reconcile.ports import Record

_MOST_BYTES = 256 << 20
"""More than a plan of a million partitions takes."""
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
_OWN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ELSEWHERE = "name a file in a directory of your own with --journal FILE"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A record in a file. Implements `Journal`."""

    path: Path
    _plan: list[tuple[object, str]] = field(default_factory=list, init=False, repr=False, compare=False)
    """The last written changes, and the JSON that stays the same with them, cached because it may have tens of MB."""

    @classmethod
    def of_cluster(cls, cluster_id: str, path: Path | None) -> "JournalFile":
        """Return the journal at `path`, or at the default path of the cluster. Raises CommandError."""
        if path is not None:
            return cls(path)
        if not _CLUSTER_ID.fullmatch(cluster_id):
            raise CommandError(f'the cluster id "{cluster_id}" is not a file name', "say where with --journal FILE")
        try:
            home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        except RuntimeError:
            raise CommandError("there is no home directory for a journal", "say where with --journal FILE") from None
        return cls(home / "rackspan" / "reassignments" / f"{cluster_id}.json")

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the journal. Raises CommandError if another command has locked it, or if the lock cannot be written."""
        lock = self._lock
        try:
            self.path.parent.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            _refuse_open_directory(self.path.parent)
            file = _opened(lock, os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise CommandError(
                f"{lock}: cannot be written: {error.strerror}", "say where with --journal FILE"
            ) from None
        try:
            _lock_soon(file)
        except BlockingIOError:
            os.close(file)
            raise CommandError(
                f"{self.path}: another rackspan apply is running", "rackspan watch shows how far it is"
            ) from None
        try:
            yield
        finally:
            os.close(file)

    @property
    def is_at_work(self) -> bool:
        """Whether a command has locked the journal."""
        try:
            file = _opened(self._lock, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def read(self, cluster_id: str) -> Record | None:
        """Return the record, None if there is no file. Raises CommandError, also for a record of another cluster."""
        try:
            with os.fdopen(_opened(self.path, os.O_RDONLY), "rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise CommandError(f"{self.path}: is too large to be a journal")
            record = record_of(text)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CommandError(f"{self.path}: cannot be read: {error.strerror}") from None
        except OtherVersionError as error:
            raise CommandError(f"{self.path}: {error}", "finish or cancel the plan with that version") from None
        except UNREADABLE as error:
            raise CommandError(
                f"{self.path}: is not a journal of rackspan apply: {error}",
                "see with Kafka's own tools what it has left of reassignments and throttles, then delete it",
            ) from None
        if record.cluster_id != cluster_id:
            raise CommandError(
                f"{self.path}: is of the cluster {record.cluster_id}, and this one is {cluster_id}",
                "leave --journal out, or name another file",
            )
        return record

    async def write(self, record: Record) -> None:
        """Return once the record is safe on disk. Raises CommandError if it cannot be written."""
        await asyncio.to_thread(self._write, record)

    def where_possible(self) -> "_WherePossible":
        """Return a journal that ignores write errors, for the end: an old record only lists too many throttles then."""
        return _WherePossible(self)

    def conclude(self, record: Record) -> None:
        """Remove an ended plan from the journal, and delete the journal if no throttle is left. Raises CommandError."""
        if record.throttles:
            self._write(replace(record, changes=(), started={}, cordoned=frozenset(), left=frozenset()))
        else:
            self.discard()

    def discard(self) -> None:
        """Delete the journal, which is not needed any more. Raises CommandError if it cannot be deleted."""
        try:
            self.path.unlink(missing_ok=True)
            _sync(self.path.parent)
        except OSError as error:
            raise CommandError(
                f"all is done, but {self.path} cannot be deleted: {error.strerror}", "delete it", ExitCode.OUTPUT
            ) from None

    def _write(self, record: Record) -> None:
        text = self._encoded(record)
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            if len(text) > _MOST_BYTES:
                raise CommandError(
                    f"{self.path}: the plan is too large for a journal", "carry it out in parts: --topic"
                )
            new.unlink(missing_ok=True)  # of a killed process
            with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _OWN, _PRIVATE), "wb") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(self.path)
            _sync(self.path.parent)
        except OSError as error:
            raise CommandError(
                f"{self.path}: cannot be written: {error.strerror}",
                "nothing goes on without it; free space, then run the same command again",
                ExitCode.OUTPUT,
            ) from None

    def _encoded(self, record: Record) -> bytes:
        if not self._plan or self._plan[0][0] is not record.changes:
            self._plan[:] = [(record.changes, _json(plan_document(record)))]
        return f"{self._plan[0][1][:-1]},{_json(progress_document(record))[1:]}".encode()


@dataclass(frozen=True, slots=True)
class _WherePossible:
    """A journal that ignores write errors. Implements `Journal`."""

    _kept: JournalFile

    async def write(self, record: Record) -> None:
        with suppress(CommandError):
            await self._kept.write(record)


def _lock_soon(file: int) -> None:
    """Lock a file. Raises BlockingIOError if another command holds the lock for longer than `is_at_work` does."""
    for _ in range(5):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _opened(path: Path, flags: int) -> int:
    """Open a regular file of this user. Raises OSError, and CommandError for symbolic links and other files."""
    try:
        file = os.open(path, flags | _OWN, _PRIVATE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CommandError(f"{path}: is a symbolic link", _ELSEWHERE) from None
        raise
    seen = os.fstat(file)
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid():
        os.close(file)
        raise CommandError(f"{path}: is not your file", _ELSEWHERE)
    return file


def _refuse_open_directory(directory: Path) -> None:
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise CommandError(f"{directory}: everybody may replace files there", _ELSEWHERE)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
