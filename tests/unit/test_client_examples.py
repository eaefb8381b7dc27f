"""The init containers in the manifests of examples/clients give clients the rack of their node."""

import re
import shlex

import pytest
import yaml
from dev.paths import REPOSITORY

from rackspan import rack_id

EXAMPLES = sorted((REPOSITORY / "examples" / "clients").glob("*.yaml"))
LINES = {
    "confluent-kafka": "CLIENT_RACK='/eu/eu-1a'\n",
    "java": "client.rack=/eu/eu-1a\n",
    "java-producer": "client.rack=/eu/eu-1a\n",
    "connect": "consumer.client.rack=/eu/eu-1a\n",
    "streams": "consumer.client.rack=/eu/eu-1a\n",
}


def pod(path):
    (found,) = [one for one in yaml.safe_load_all(path.read_text()) if one["kind"] == "Deployment"]
    return found["spec"]["template"]["spec"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_init_container_writes_the_file_that_its_client_reads(path, tmp_path, capsys):
    spec = pod(path)
    (init,), (container,) = spec["initContainers"], spec["containers"]
    command, written = re.fullmatch(r"rackspan rack-id (.*) > (\S+)", init["args"][0]).groups()
    nodes = tmp_path / "nodes"
    nodes.write_text("n1 /eu/eu-1a\n")
    arguments = shlex.split(command.replace("/racks/nodes", str(nodes)).replace("$NODE_NAME", "n1"))
    assert rack_id.main(arguments) == 0
    assert capsys.readouterr().out == LINES[path.stem]
    assert written in str(container), "the client must read the written file"
    mounted = {volume["name"] for volume in spec["volumes"]}
    for one in (init, container):
        assert {mount["name"] for mount in one["volumeMounts"]} <= mounted
    assert {"name": "rack", "mountPath": "/rack"} in container["volumeMounts"]


def test_each_client_has_an_example():
    assert {path.stem for path in EXAMPLES} == set(LINES)
