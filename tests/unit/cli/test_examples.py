"""Examples in `--help` are commands that work as they are written."""

import json
import re
import shlex

import msgspec
import pytest
import typer
import yaml
from dev import example_scan
from tests.support.command import cli, cluster, topic
from tests.support.kubeconfigs import write_kubeconfig
from typer.main import get_command

from rackspan.cli.app import app
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.later_command import LaterCommand

NOBODY = "127.0.0.1:1"
RACKS = dict.fromkeys(range(1, 9), "/eu/eu-1a/r1") | {12: "/eu/eu-1a/r7", 13: "/eu/eu-1b/r1"}
OWN = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "KafkaTopic",
    "metadata": {"name": "payments"},
    "spec": {"topologyRef": {"name": "prod"}, "partitions": 2, "replicationFactor": 3},
}
STRIMZI = [
    {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": name}},
        "spec": {"partitions": 2, "replicas": 3},
    }
    for name in ("east", "my-cluster")
]
TOPICCTL = {"meta": {"name": "payments", "cluster": "east"}, "spec": {"partitions": 2, "replicationFactor": 3}}


REDIRECTIONS = {"|", "||", ">", ">>", "<"}


def epilogs(command):
    if isinstance(command, LaterCommand):
        command = command.loaded(typer.Context(get_command(app)))
    yield command.epilog or ""
    for inner in getattr(command, "commands", {}).values():
        yield from epilogs(inner)


def examples():
    """Yield examples without their shell. Those with a history are left out, because there is none."""
    for line in "\n".join(epilogs(get_command(app))).splitlines():
        called = re.search(r"^\$ .*?\brackspan (.*)", line)
        if called and "/var/lib/" not in line and "s3" not in line and not called[1].startswith("operator"):
            words = shlex.split(called[1])
            yield " ".join(words[: next((at for at, word in enumerate(words) if word in REDIRECTIONS), len(words))])


def _refused(servers, _):
    """Refuse at once, because a client tries for seconds."""
    assert servers
    raise CommandError(f"{servers} cannot be reached: Connection refused", code=ExitCode.KAFKA)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_kubeconfig(tmp_path / "kubeconfig", {"server": f"https://{NOBODY}"}, {"token": "0"})
    monkeypatch.setenv("RACKSPAN_KUBECONFIG", str(file))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setattr(Connection, "by_options", _refused)
    written = {
        "prod.json": cluster(topic("payments", [1, 12, 13], [12, 13, 2]), racks=RACKS),
        "scan.json": msgspec.to_builtins(example_scan.example()),
        "scans/a.json": msgspec.to_builtins(example_scan.example()),
        "topics.yaml": OWN,
        "east/topics/a.yaml": TOPICCTL,
    }
    for name, document in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "client.properties").touch()


@pytest.mark.parametrize("line", sorted({*examples()}))
def test_example_in_help_is_accepted_and_ends_no_earlier_than_at_the_connection(files, tmp_path, line):
    of = STRIMZI if "strimzi" in line else [TOPICCTL] if "topicctl" in line else [OWN]
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "all.yaml").write_text(yaml.safe_dump_all(of))
    line = re.sub(r"kafka(-east)?:9092", NOBODY, line).replace("scans/*", "scans/a")
    stdin = yaml.safe_dump_all(STRIMZI) if "strimzi" in line else (tmp_path / "scan.json").read_text()
    ran = cli(*line.split(), stdin=stdin)
    live = NOBODY in line or "--topology " in line or line.startswith("release")
    assert (f"{NOBODY} cannot be reached: Connection refused" in ran.errors[0]) if live else ran.code in (0, 1), ran.err
