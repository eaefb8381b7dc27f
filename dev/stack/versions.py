"""Which version of a program runs, of those that are pinned."""

import os
from collections.abc import Sequence

from dev.progress import AssetError


def chosen(what: str, variable: str, default: str, pinned: Sequence[str]) -> str:
    """The version that an environment variable names, else the default. Raises AssetError unless it is pinned."""
    version = os.environ.get(variable) or default
    if version not in pinned:
        raise AssetError(f"there is no {what} {version[:40]!r} here, but {', '.join(pinned)}")
    return version
