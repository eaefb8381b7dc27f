"""The output of `plan -f` for the files of a pull request, compared with the result of applying them."""

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
    """A RackTopology with the nodes that the files assume: one region with three zones."""
    with broker_pods(client.CoreV1Api(api_client), namespace, sites(*RACKS.values())):
        objects.create_topology(kafka.bootstrap())
        objects.until_topology()
        yield objects


@pytest.fixture
def manifests(one_region, kafka, topics, tmp_path):
    """The files adapted to this namespace, each with its own topic. Topics that exist in the example are created."""
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
    """Return whether the operator has evaluated an object: its Ready reason is not one of the initial ones."""
    told = condition(found, "Ready")
    return told is not None and told["reason"] not in ("Creating", "Waiting", "TopologyNotReady")


def test_operator_reports_the_same_messages_as_the_review_of_the_files(one_region, manifests, control_plane, tmp_path):
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
        elif name == "a name that collides in metrics":  # the message of Kafka itself differs
            assert "collides with existing topic" in stalled["message"]
            assert "collides with topic" in said[f"{number:02}"]
        else:
            assert stalled["message"] == ready["message"] == said[f"{number:02}"], name
