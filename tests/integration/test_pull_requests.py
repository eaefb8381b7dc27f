"""What `plan -f` says of the files of a pull request, held against what becomes of them on real servers."""

import re

import pytest
import yaml
from dev.stack.nodes import sites
from kubernetes import client
from tests.support.command import cli
from tests.support.objects import broker_pods, condition
from tests.support.pull_requests import BAD, GOOD, RACKS, prod

FILES = {name: file.text for name, file in BAD.items() if file.refused is None} | GOOD


@pytest.fixture
def one_region(objects, kafka, operator, api_client, namespace):
    """A RackTopology whose nodes are those that the files are for: one region with three zones."""
    with broker_pods(client.CoreV1Api(api_client), namespace, sites(*RACKS.values())):
        objects.create_topology(kafka.bootstrap())
        objects.until_topology()
        yield objects


@pytest.fixture
def manifests(one_region, kafka, topics, tmp_path):
    """The files as they are for this namespace, each about a topic of its own: those that are there are made."""
    lists = {one["name"]: [row["replicas"] for row in one["partitions"]] for one in prod()["topics"]}
    topics.create(one_region.kafka_name("a.b"), lists["a.b"])
    made = {}
    for number, (name, text) in enumerate(FILES.items()):
        found = yaml.safe_load(text)
        there, own = found["metadata"]["name"], f"{found['metadata']['name']}-{number}"
        found["metadata"] = {"name": own, "namespace": one_region.namespace}
        found["spec"]["topicName"] = one_region.kafka_name(found["spec"].get("topicName", own))
        if there in lists:
            topics.create(found["spec"]["topicName"], lists[there])
        (tmp_path / f"{number:02}.yaml").write_text(yaml.safe_dump(found))
        made[name] = found
    kafka.wait_until_agreed()
    return made


def looked_at(found):
    """Whether the operator has said more of an object than that it is about to act."""
    told = condition(found, "Ready")
    return told is not None and told["reason"] not in ("Creating", "Waiting", "TopologyNotReady")


def test_the_operator_says_the_same_of_files_as_their_review(one_region, manifests, control_plane, tmp_path):
    asked = ("plan", "-f", tmp_path, "--topology", f"{one_region.namespace}/kafka")
    reviewed = cli(*asked, "--kubeconfig", control_plane.kubeconfig)
    assert reviewed.code == 2
    said = dict(re.fullmatch(r".*/(\d\d)\.yaml:\d+: KafkaTopic \S+: (.*)", one).groups() for one in reviewed.errors)
    for manifest in manifests.values():
        one_region.create(manifest)
    for number, (name, manifest) in enumerate(manifests.items()):
        found = one_region.until("KafkaTopic", manifest["metadata"]["name"], looked_at, "to be looked at")
        ready, stalled = condition(found, "Ready"), condition(found, "Stalled")
        if name in GOOD:
            assert f"{number:02}" not in said
            assert (ready["status"], ready["reason"]) in (("True", "InSync"), ("False", "PlanPending")), name
        elif name == "a name that collides in metrics":  # Kafka itself says so, in its own words
            assert "collides with existing topic" in stalled["message"]
            assert "collides with topic" in said[f"{number:02}"]
        else:
            assert stalled["message"] == ready["message"] == said[f"{number:02}"], name
