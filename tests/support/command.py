"""The `rackspan` command line, run in the process of the test, and snapshots as its input."""

import json
from dataclasses import dataclass

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
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def errors(self):
        """The error lines, without their prefix."""
        return [line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def error(self):
        """The only error line, without the hint."""
        assert len(self.errors) == 1, self.err
        return self.errors[0]

    @property
    def hint(self):
        return next((line.removeprefix("hint: ") for line in self.err.splitlines() if line.startswith("hint: ")), "")


def cli(*arguments, stdin=None):
    """Run the command: `cli("check", "--snapshot", file)`."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert "Traceback" not in done.stderr
    return Ran(done.exit_code, done.stdout, done.stderr)


def partition(number, *replicas, **more):
    return {"partition": number, "replicas": list(replicas), **more}


def topic(name, *lists, config=None, **more):
    """Return a topic with the replica lists of its partitions. `more` is added to each partition."""
    partitions = [partition(number, *replicas, **more) for number, replicas in enumerate(lists)]
    return {"name": name, "partitions": partitions, **({"config": config} if config else {})}


def cluster(*topics, racks=RACKS, name="prod"):
    """Return a snapshot. A rack of None is omitted."""
    brokers = [{"id": broker, **({} if rack is None else {"rack": rack})} for broker, rack in racks.items()]
    return {"clusterId": name, "brokers": brokers, "topics": list(topics)}
