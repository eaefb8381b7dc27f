"""The command as a user types it: output, errors and exit code, without a process of its own."""

import json
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from rackspan.cli import app

RACKS = {
    0: "/eu/eu-1a/r1",
    1: "/eu/eu-1a/r2",
    2: "/eu/eu-1b/r1",
    3: "/us/us-1a/r1",
    4: "/us/us-1a/r2",
    5: "/us/us-1b/r1",
}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The one line of the error, without its hint."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")

    @property
    def hint(self):
        return next((line.removeprefix("hint: ") for line in self.err.splitlines() if line.startswith("hint: ")), "")


@pytest.fixture
def rackspan():
    """Run it: `rackspan("check", "--snapshot", file)`."""

    def run(*arguments, stdin=None):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert "Traceback" not in done.stderr
        return Ran(done.exit_code, done.stdout, done.stderr)

    return run


def partition(number, *replicas, **more):
    return {"partition": number, "replicas": list(replicas), **more}


def topic(name, *lists, config=None, **more):
    """A topic from the replica lists of its partitions; `more` goes into each partition."""
    partitions = [partition(number, *replicas, **more) for number, replicas in enumerate(lists)]
    return {"name": name, "partitions": partitions, **({"config": config} if config else {})}


def cluster(*topics, racks=RACKS):
    brokers = [{"id": broker, "rack": rack} for broker, rack in racks.items()]
    return {"clusterId": "a-cluster", "brokers": brokers, "topics": list(topics)}


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """Write a snapshot file, `prod.json` in the working directory: `snapshot(document or text)`."""
    monkeypatch.chdir(tmp_path)

    def write(document, name="prod.json"):
        text = document if isinstance(document, bytes | str) else json.dumps(document)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write
