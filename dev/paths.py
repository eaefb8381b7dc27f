"""Directories for files outside of the clone: downloads and builds in the cache, running stacks in the state."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def cache_root() -> Path:
    """Return the directory of downloads and builds, safe to delete: `$RACKSPAN_CACHE` or `~/.cache/rackspan`."""
    return _root("RACKSPAN_CACHE", "~/.cache/rackspan")


def state_root() -> Path:
    """Return the directory of running stacks, one folder per name: `$RACKSPAN_STATE` or `~/.local/state/rackspan`."""
    return _root("RACKSPAN_STATE", "~/.local/state/rackspan")


def _root(variable: str, default: str) -> Path:
    root = Path(os.environ.get(variable) or default).expanduser().absolute()
    root.mkdir(parents=True, exist_ok=True)
    return root
