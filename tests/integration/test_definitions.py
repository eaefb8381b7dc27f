"""Deletion of the CustomResourceDefinitions of Rackspan while the operator runs."""

import pytest
from dev.paths import REPOSITORY
from tests.support.objects import Objects
from tests.support.waiting import until

CRDS = REPOSITORY / "crds"


@pytest.fixture
def place(control_plane_factory, operator_factory):
    """A separate control plane with the definitions, and an operator that uses it."""
    plane = control_plane_factory()
    define(plane.kubectl)
    operator = operator_factory(kubeconfig=plane.kubeconfig)
    plane.kubectl("create", "namespace", "team")
    with plane.api_client() as api:
        yield plane.kubectl, operator, Objects(api, "team")


def define(kubectl):
    kubectl.apply(CRDS, arguments=["--server-side", "--force-conflicts"])
    kubectl.wait_until_served()


def populate(objects, bootstrap, topic):
    levels = [{"name": name} for name in ("region", "zone", "rack")]
    objects.create_topology(bootstrap, rackSource="Broker", brokers=None, levels=levels)
    objects.create_topic("orders", topicName=topic, partitions=1, deletionPolicy="Delete")
    objects.until_ready("orders")


def test_operator_recovers_after_crds_are_deleted_and_applied_again_and_topics_stay(place, kafka, topics, namespace):
    kubectl, operator, objects = place
    name = f"{namespace}.orders"
    populate(objects, kafka.bootstrap(), name)
    topic_id, process = topics.id(name), operator.pid

    kubectl("delete", f"--filename={CRDS}", "--timeout=300s")
    until(lambda: operator.get("/readyz")[0] == 503, "the operator to be not ready")
    assert operator.get("/healthz")[0] == 200
    assert topics.id(name) == topic_id

    define(kubectl)
    until(lambda: operator.get("/readyz")[0] == 200, "the operator to be ready")
    populate(objects, kafka.bootstrap(), name)
    assert objects.topic("orders")["status"]["topicId"] == topic_id == topics.id(name)
    assert operator.pid == process
    assert "nothing is reconciled until it does" in operator.output
