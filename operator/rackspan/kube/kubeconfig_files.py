"""What is wrong with a kubeconfig, for people. The client's library logs it, or names one of its own fields."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rackspan.core.text import few, shown

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def kubeconfig_files(given: Path | None) -> Sequence[str]:
    """Return the files that the client reads: the given one, else those of KUBECONFIG, else ~/.kube/config."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep) if given is None else [str(given)]
    # Path.expanduser and Path.exists raise errors, such as for a folder that may not be searched.
    return [os.path.expanduser(one) for one in named if one] or [os.path.expanduser("~/.kube/config")]  # noqa: PTH111


def files_there(files: Sequence[str]) -> Sequence[str]:
    """Return those of the files that exist. The client leaves out the others."""
    return [one for one in files if os.path.exists(one)]  # noqa: PTH110


def kubeconfig_problem(files: Sequence[str]) -> str | None:
    """Return why the client cannot use these files, which exist. None if that is not seen from the files alone."""
    if any(Path(one).is_fifo() for one in files):  # the client has read all of it
        return None
    try:
        read = [_read(one) for one in files]
    except _UnusableError as error:
        return str(error)
    # The client takes the last one, and looks for its context in all files.
    current = [one["current-context"] for one in read if "current-context" in one][-1:]
    if current in ([], [None], [""]):
        return f"{few(files)}: has no current-context"
    contexts = [str(one.get("name")) for found in read for one in found.get("contexts") or () if isinstance(one, dict)]
    if str(current[0]) not in contexts:
        return f'{few(files)}: has no context "{shown(str(current[0]))}", only {few(contexts) or "none"}'
    return None


class _UnusableError(Exception):
    pass


def _read(file: str) -> dict[str, Any]:
    try:
        text = Path(file).read_text(encoding="utf-8")
        found = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except OSError as error:
        raise _UnusableError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _UnusableError(f"{file}: is not UTF-8") from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f":{mark.line + 1}" if mark else ""
        raise _UnusableError(f"{file}{line}: is not YAML: {problem or shown(str(error))}") from error
    if not text.strip():
        raise _UnusableError(f"{file}: is empty")
    if not isinstance(found, dict) or not isinstance(found.get("contexts") or [], list):
        raise _UnusableError(f"{file}: is not a kubeconfig")
    return found
