"""Selection of one of the pinned versions of a program."""

import os
from collections.abc import Sequence

from dev.progress import AssetError


def chosen(what: str, variable: str, default: str, pinned: Sequence[str]) -> str:
    """Return the version in an environment variable, else the default. Raise AssetError if it is not pinned."""
    version = os.environ.get(variable) or default
    if version not in pinned:
        raise AssetError(f"there is no {what} {version[:40]!r} here, but {', '.join(pinned)}")
    return version
