"""Fixtures that run `rackspan` and write snapshot files for it."""

import json

import pytest
from tests.support.command import cli


@pytest.fixture
def rackspan():
    """A function that runs the command: `rackspan("check", "--snapshot", file)`."""
    return cli


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """A function that writes `prod.json` to the working directory: `snapshot(document or text)`."""
    monkeypatch.chdir(tmp_path)

    def write(document, name="prod.json"):
        text = document if isinstance(document, bytes | str) else json.dumps(document)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write
