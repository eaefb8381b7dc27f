"""What is wrong with a kubeconfig, for people. The client's library logs it, or names one of its own fields."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from rackspan.core.text import few, shown

HINT: Final = "pass --kubeconfig FILE, or set KUBECONFIG"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def kubeconfig_files(given: Path | None) -> Sequence[Path]:
    """Return the files that the client reads: the given one, else those of KUBECONFIG, else ~/.kube/config.

    Empty if the client uses the service account of a Pod.
    """
    if given is not None:
        return [given]
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ()
    named = os.environ.get("KUBECONFIG")
    return [Path(one) for one in named.split(os.pathsep)] if named else [Path.home() / ".kube" / "config"]


def kubeconfig_problem(files: Sequence[Path]) -> str | None:
    """Return why no credentials can be read from these files, None if that is not seen from the files alone."""
    there = [one for one in files if one.exists()]
    if not there:
        return f"{few([*map(str, files)])}: there is no such file" if files else None
    try:
        read = [_read(one) for one in there]
    except _UnusableError as error:
        return str(error)
    current = next((one["current-context"] for one in read if one.get("current-context")), None)
    if current is None:
        return f"{there[0]}: has no current-context"
    contexts = [str(one.get("name")) for found in read for one in found.get("contexts") or () if isinstance(one, dict)]
    if current not in contexts:
        return f'{there[0]}: has no context "{shown(str(current))}", only {few(contexts) or "none"}'
    return None


class _UnusableError(Exception):
    pass


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
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
