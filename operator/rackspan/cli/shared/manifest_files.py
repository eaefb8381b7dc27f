"""Files of YAML documents to read, and manifests to write."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rackspan.cli.shared.command_errors import CommandError, not_written
from rackspan.cli.shared.scan_files import make_folder, write_file
from rackspan.imports.manifest_documents import Documents, read_documents
from rackspan.snapshots import SnapshotError
from rackspan.snapshots.reader import STDIN, read_bytes, shown_name

_SUFFIXES = (".yaml", ".yml", ".json")


def read_files(given: Sequence[str]) -> Documents:
    """Read files, the YAML and JSON files below directories, and standard input (`-`). Raises CommandError."""
    found = Documents()
    for file in _files(given):
        try:
            found += read_documents(read_bytes(file), shown_name(file))
        except SnapshotError as error:
            raise CommandError(str(error)) from error
    return found


def _files(given: Sequence[str]) -> Iterator[str]:
    """Yield the files to read, each once. Files of a directory are sorted by name, without hidden ones."""
    seen: set[str] = set()
    for one in given:
        directory = one not in ("", STDIN) and Path(one).is_dir()
        below = list(_below(Path(one))) if directory else [one]
        if directory and not below:
            raise CommandError(f"{shown_name(one)}: holds no file that ends in {', '.join(_SUFFIXES)}")
        for file in below:
            if file not in seen:
                seen.add(file)
                yield file


def _below(directory: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield str(Path(parent) / name)


def write_new_files(directory: Path, texts: Mapping[Path, str], *, overwrite: bool) -> None:
    """Write files below a directory: all of them, or none if one exists and may not be replaced.

    Raises CommandError.
    """
    if not overwrite:
        for path in texts:
            if os.path.lexists(directory / path):
                raise CommandError(f"{directory / path}: is there already", "pass --overwrite to replace it")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            target = directory / path
            make_folder(target.parent)
            if overwrite:
                write_file(target, text)
            else:
                with target.open("x", encoding="utf-8") as file:
                    written.append(target)
                    file.write(text)
    except BaseException as error:  # Ctrl-C, too
        for target in written:  # all of them are new
            with suppress(OSError):
                target.unlink()
        if isinstance(error, OSError):
            raise not_written(target, error) from error
        raise
