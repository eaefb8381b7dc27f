"""Where things are kept: downloads and builds in the cache, running stacks in the state directory, never in here."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def cache_root() -> Path:
    """Directory of everything that is slow to get and safe to delete: `$RACKSPAN_CACHE`, else `~/.cache/rackspan`."""
    return _root("RACKSPAN_CACHE", "~/.cache/rackspan")


def state_root() -> Path:
    """Directory of running stacks, one folder per name: `$RACKSPAN_STATE`, else `~/.local/state/rackspan`."""
    return _root("RACKSPAN_STATE", "~/.local/state/rackspan")


def _root(variable: str, default: str) -> Path:
    root = Path(os.environ.get(variable) or default).expanduser().absolute()
    root.mkdir(parents=True, exist_ok=True)
    return root
