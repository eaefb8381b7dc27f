"""The commands in the manifests of examples/brokers give brokers the rack of their node."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dev.paths import REPOSITORY

from rackspan import rack_id

EXAMPLES = REPOSITORY / "examples" / "brokers"
SCRIPT = REPOSITORY / "images" / "strimzi-rack.sh"


def documents(name, kind):
    found = yaml.safe_load_all((EXAMPLES / name).read_text())
    return {one["metadata"]["name"]: one for one in found if one["kind"] == kind}


def test_brokers_of_the_statefulset_read_the_file_that_their_init_container_writes(tmp_path, capsys):
    spec = documents("statefulset.yaml", "StatefulSet")["kafka"]["spec"]["template"]["spec"]
    (init,), (container,) = spec["initContainers"], spec["containers"]
    command, written = re.fullmatch(r"rackspan rack-id (.*) > (\S+)", init["args"][0]).groups()
    nodes = tmp_path / "nodes"
    nodes.write_text("n1 /eu/eu-1a\n")
    assert rack_id.main(shlex.split(command.replace("/racks/nodes", str(nodes)).replace("$NODE_NAME", "n1"))) == 0
    assert capsys.readouterr().out == "broker.rack=/eu/eu-1a\n"
    assert written in container["args"][0].partition(" - >")[0]


def test_pods_mount_the_config_map_of_the_topology_in_the_same_file():
    for name, pods in (
        ("statefulset.yaml", documents("statefulset.yaml", "StatefulSet")["kafka"]["spec"]["template"]["spec"]),
        ("strimzi.yaml", documents("strimzi.yaml", "KafkaNodePool")["broker"]["spec"]["template"]["pod"]),
    ):
        (topology,) = documents(name, "RackTopology")
        (volume,) = [one for one in pods["volumes"] if one["name"] == "racks"]
        assert volume["configMap"] == {"name": f"{topology}-racks", "optional": True}


@pytest.fixture
def strimzi(tmp_path):
    """Return a function that runs the script for Strimzi and returns the process and the path of its output."""
    nodes = tmp_path / "nodes"
    nodes.write_text("n1 /eu/eu-1a\n")

    def run(**environment):
        bin_ = Path(sys.executable).parent
        own = {"PATH": f"{bin_}:{os.environ['PATH']}", "INIT_FOLDER": str(tmp_path), "RACKS_FILE": str(nodes)}
        every = {**own, "RACKS_WAIT": "0s", **environment}
        return subprocess.run([SCRIPT], env=every, capture_output=True, text=True, check=False), tmp_path / "rack.id"

    return run


def test_strimzi_script_writes_the_rack_without_a_newline(strimzi):
    done, written = strimzi(NODE_NAME="n1")
    assert done.returncode == 0, done.stderr
    assert written.read_text() == "/eu/eu-1a"


def test_strimzi_script_fails_for_an_unknown_node_or_external_addresses(strimzi):
    unknown, written = strimzi(NODE_NAME="n2")
    assert (unknown.returncode, written.exists()) == (1, False)
    assert "n2" in unknown.stderr
    addresses, written = strimzi(NODE_NAME="n1", EXTERNAL_ADDRESS="TRUE")
    assert (addresses.returncode, written.exists()) == (2, False)
    assert "nodeport" in addresses.stderr


def test_strimzi_init_container_mounts_the_racks_where_the_script_reads_them():
    (mount,) = documents("strimzi.yaml", "KafkaNodePool")["broker"]["spec"]["template"]["initContainer"]["volumeMounts"]
    assert f"{mount['mountPath']}/nodes" in SCRIPT.read_text()
    assert mount["mountPath"].startswith("/mnt/")
    kafka = documents("strimzi.yaml", "Kafka")["my-cluster"]["spec"]["kafka"]
    assert kafka["brokerRackInitImage"].partition(":")[0] == "rackspan"
    assert "images/strimzi-rack.sh /opt/strimzi/bin/kafka_init_run.sh" in (REPOSITORY / "Dockerfile").read_text()
