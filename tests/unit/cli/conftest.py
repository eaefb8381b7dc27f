"""The command, and files for it."""

import json

import pytest
from tests.support.command import cli


@pytest.fixture
def rackspan():
    """Run it: `rackspan("check", "--snapshot", file)`."""
    return cli


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """Write a snapshot file, `prod.json` in the working directory: `snapshot(document or text)`."""
    monkeypatch.chdir(tmp_path)

    def write(document, name="prod.json"):
        text = document if isinstance(document, bytes | str) else json.dumps(document)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write
