"""Kinds of other projects, from their published definitions in a folder outside the repository."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from dev.paths import REPOSITORY

_FOLDER = Path(os.environ.get("RACKSPAN_PUBLISHED_CRDS") or REPOSITORY.parent / "shared" / "data" / "crds")


@contextmanager
def served(kubectl, group, plural):
    """Serve a kind, without a controller, during the block. Skip the test if its definition is not available."""
    file, name = _FOLDER / f"{group}_{plural}.yaml", f"{plural}.{group}"
    if not file.exists():
        pytest.skip(f"the published definition of {plural}.{group} is not here ({file}): set RACKSPAN_PUBLISHED_CRDS")
    kubectl.apply(file, arguments=["--server-side"])
    try:
        kubectl.wait_until_served(name)
        yield
    finally:
        kubectl("delete", "crd", name, "--wait=true", "--timeout=300s")
