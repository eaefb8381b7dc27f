"""Files at one location of any file system of Arrow, by their paths below it. What goes wrong is told in one way."""

import gzip
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from rackspan.reconcile.scans.locations import without_secrets


class HistoryError(Exception):
    """The history could not be read or written; the message says where and why."""


class GoneError(HistoryError):
    """A file was there when it was listed, and is not any more."""


class Storage:
    """Files below `location`: a path, or a URI like `s3://…`."""

    def __init__(self, location: str) -> None:
        """Raises HistoryError where the location makes no sense."""
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
        """The location as file systems name it in what they say."""
        root: str = self._root
        return root

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none where there is no folder."""
        with self._told():
            selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True)
            return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def paths(self, folder: str, suffix: str) -> list[str]:
        """Paths of all files below a folder that end so, sorted; none where there is no folder."""
        with self._told():
            selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True, recursive=True)
            return sorted(
                info.path.removeprefix(f"{self._root}/")
                for info in self._fs.get_file_info(selector)
                if info.is_file and info.base_name.endswith(suffix)
            )

    def read(self, path: str) -> bytes:
        """All of a file; what ends in `.gz` is unpacked."""
        compression = "gzip" if path.endswith(".gz") else None
        with self._told(), self._fs.open_input_stream(self._at(path), compression=compression) as stream:
            text: bytes = stream.read()
            return text

    def rows(self, path: str) -> pa.Table:
        """All of a Parquet file."""
        with self._told(path), self._fs.open_input_file(self._at(path)) as file:
            return pq.read_table(file)

    def put(self, path: str, text: bytes) -> None:
        """Write all of a file or nothing of it, in the place of one that is there; what ends in `.gz` is packed."""
        data = gzip.compress(text) if path.endswith(".gz") else text
        target = self._at(path)
        with self._told():
            self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            if isinstance(self._fs, arrow_fs.LocalFileSystem):
                _replace(target, data)
                return
            with self._fs.open_output_stream(target, compression=None) as stream:  # shown when it is complete
                stream.write(data)

    def put_rows(self, path: str, rows: pa.Table) -> None:
        """Write a Parquet file, which may be seen before it is complete."""
        target = self._at(path)
        with self._told():
            self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(target) as stream:
                pq.write_table(rows, stream, compression="zstd")

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all that is in it; somebody may have done so before."""
        target = self._at(path)
        with self._told(), suppress(FileNotFoundError):
            if self._fs.get_file_info(target).type == arrow_fs.FileType.Directory:
                self._fs.delete_dir(target)
            else:
                self._fs.delete_file(target)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextmanager
    def _told(self, path: str = "") -> Iterator[None]:
        place = f"{self.location}/{path}" if path else self.location
        try:
            yield
        except FileNotFoundError as error:
            raise GoneError(f"history {place}: {error}") from error
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"history {place}: {error}") from error


def _replace(target: str, data: bytes) -> None:
    partial = f"{target.rpartition('/')[0]}/.{uuid.uuid4().hex}"  # short, whatever the length of the name
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
