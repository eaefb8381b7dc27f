"""Kinds of other projects, by the definitions that they publish; these may lie beside the repository."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from dev.paths import REPOSITORY

_FOLDER = Path(os.environ.get("RACKSPAN_PUBLISHED_CRDS") or REPOSITORY.parent / "shared" / "data" / "crds")


@contextmanager
def served(kubectl, group, plural):
    """The kind is there for as long; where its definition is not at hand the test is skipped. Nobody acts on it."""
    file, name = _FOLDER / f"{group}_{plural}.yaml", f"{plural}.{group}"
    if not file.exists():
        pytest.skip(f"the published definition of {plural}.{group} is not here ({file}): set RACKSPAN_PUBLISHED_CRDS")
    kubectl.apply(file, arguments=["--server-side"])
    try:
        kubectl.wait_until_served(name)
        yield
    finally:
        kubectl("delete", "crd", name, "--wait=true", "--timeout=300s")
