"""Kinds of other projects, by the definitions that they publish; these may lie beside the repository."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from dev.paths import REPOSITORY
from tests.support.waiting import until

_FOLDER = Path(os.environ.get("RACKSPAN_PUBLISHED_CRDS") or REPOSITORY.parent / "shared" / "data" / "crds")


@contextmanager
def served(kubectl, group, plural):
    """The kind is there for as long; where its definition is not at hand the test is skipped. Nobody acts on it."""
    file, name = _FOLDER / f"{group}_{plural}.yaml", f"crd/{plural}.{group}"
    if not file.exists():
        pytest.skip(f"the published definition of {plural}.{group} is not here ({file}): set RACKSPAN_PUBLISHED_CRDS")
    kubectl.apply(file, arguments=["--server-side"])
    try:
        until(lambda: _is_established(kubectl.json("get", name)), f"{name} to be served")
        yield
    finally:
        kubectl("delete", name, "--wait=true", "--timeout=300s")


def _is_established(definition):
    """What was published may bring a status without conditions, on which `kubectl wait` stumbles."""
    found = definition.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in found)
