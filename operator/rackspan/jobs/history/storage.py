"""Files at one location of any file system that Arrow knows. Every error of a file system becomes a HistoryError."""

import errno
import gzip
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from rackspan.reconcile.scans.history_location import without_secrets

_TRIED = ".rackspan"


class HistoryError(Exception):
    """A history that cannot be read or written; the message says where and why."""


class GoneError(HistoryError):
    """A file that was listed is gone by the time it is read."""


class Storage:
    """Files below `location`, a path or a URI like `s3://…`, by their paths below it. Methods raise HistoryError."""

    def __init__(self, location: str) -> None:
        """Raises HistoryError for a location that no file system of Arrow can use."""
        uri, shown = location.replace("s3a://", "s3://", 1), without_secrets(location)
        try:
            if "://" in uri:
                self._fs, self._root = arrow_fs.FileSystem.from_uri(uri)
            else:
                self._fs, self._root = arrow_fs.LocalFileSystem(), os.path.abspath(uri)  # noqa: PTH100 - not resolved
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{shown}: is no location that can be used: {error}") from error
        self.location = shown.rstrip("/")

    @property
    def root(self) -> str:
        """The location as it stands in the errors of file systems, without the scheme."""
        root: str = self._root
        return root

    def try_writing(self) -> None:
        """Write a small file and delete it."""
        try:
            self.put(_TRIED, bytes(4096))
            self.delete(_TRIED)
        except HistoryError as error:
            sentence = f"history {self.location} cannot be written: {error.__cause__}"
            raise HistoryError(f"{sentence}; give the right to write there, or name another --history") from error

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none where there is no folder."""
        with self._as_history_errors():
            selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True)
            return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def paths(self, folder: str, suffix: str) -> list[str]:
        """Paths of all files below a folder that end so, sorted; none where there is no folder."""
        with self._as_history_errors():
            selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True, recursive=True)
            return sorted(
                info.path.removeprefix(f"{self._root}/")
                for info in self._fs.get_file_info(selector)
                if info.is_file and info.base_name.endswith(suffix)
            )

    def sizes(self, paths: Iterable[str]) -> list[int | None]:
        """Bytes of files, in their order; None where there is none."""
        with self._as_history_errors():
            found = self._fs.get_file_info([self._at(path) for path in paths])
        return [info.size if info.is_file else None for info in found]

    def read(self, path: str) -> bytes:
        """Content of a file, unpacked where the name ends in `.gz`. Raises GoneError where there is none."""
        compression = "gzip" if path.endswith(".gz") else None
        with self._as_history_errors(), self._fs.open_input_stream(self._at(path), compression=compression) as stream:
            text: bytes = stream.read()
            return text

    def rows(self, path: str) -> pa.Table:
        """Rows of a Parquet file. Raises GoneError where there is none."""
        with self._as_history_errors(path), self._fs.open_input_file(self._at(path)) as file:
            return pq.read_table(file)

    def put(self, path: str, text: bytes) -> None:
        """Write or replace a file at once, so that no reader sees half of it; packed where the name ends in `.gz`."""
        data = gzip.compress(text) if path.endswith(".gz") else text
        target = self._at(path)
        with self._as_history_errors():
            self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            if self._is_local:
                _replace(target, data)
                self._sync_folders({target.rpartition("/")[0]})
                return
            with self._fs.open_output_stream(target, compression=None) as stream:  # object stores show whole files only
                stream.write(data)

    def put_rows(self, path: str, rows: pa.Table) -> None:
        """Write a Parquet file. A reader may see half of it, so nothing may name it before this returns."""
        target = self._at(path)
        with self._as_history_errors():
            self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(target) as stream:
                pq.write_table(rows, stream, compression="zstd")

    def sync(self, paths: Iterable[str]) -> None:
        """Have files on the disk, and the folders that lead to them. Object stores acknowledge what is stored."""
        if not self._is_local:
            return
        with self._as_history_errors():
            targets = [self._at(path) for path in paths]
            for target in targets:
                _sync(target)
            self._sync_folders({target.rpartition("/")[0] for target in targets})

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; it is no error where another did so first."""
        target = self._at(path)
        with self._as_history_errors(), suppress(FileNotFoundError):
            if self._fs.get_file_info(target).type == arrow_fs.FileType.Directory:
                self._fs.delete_dir(target)
            else:
                self._fs.delete_file(target)

    @property
    def _is_local(self) -> bool:
        return isinstance(self._fs, arrow_fs.LocalFileSystem)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _sync_folders(self, folders: set[str]) -> None:
        """Have the entries of these folders on the disk, and those of all that lead to them from above the root."""
        above = {folder[:at] for folder in folders for at, sign in enumerate(folder) if sign == "/"} | folders
        for folder in above:
            if len(folder) >= len(self._root.rpartition("/")[0]):
                _sync(folder or "/")

    @contextmanager
    def _as_history_errors(self, path: str = "") -> Iterator[None]:
        place = f"{self.location}/{path}" if path else self.location
        try:
            yield
        except FileNotFoundError as error:
            raise GoneError(f"history {place}: {error}") from error
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"history {place}: {error}") from error


def _sync(path: str) -> None:
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


def _replace(target: str, data: bytes) -> None:
    partial = f"{target.rpartition('/')[0]}/.{uuid.uuid4().hex}"  # a suffix could make a long name too long
    try:
        with open(partial, "wb") as stream:  # noqa: PTH123 - the path is the file system's
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)  # noqa: PTH105
    except OSError:
        with suppress(OSError):
            os.unlink(partial)  # noqa: PTH108
        raise
