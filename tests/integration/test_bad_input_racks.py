"""Brokers without a known rack: the topology names them, and only topics that need these racks wait."""

import pytest
from dev.stack.nodes import (
    RACK_LABEL,
    REGION_LABEL,
    SIX_BROKERS,
    ZONE_LABEL,
    create_broker_pod,
    create_sites,
    delete_broker_pod,
    delete_node,
    relabel_node,
)
from kubernetes import client
from tests.support.objects import Objects, condition


@pytest.fixture
def core(api_client):
    return client.CoreV1Api(api_client)


def _node(topology, site):
    return f"{topology.namespace}-{site.node}"


def _existing_topic_stays(topology, before):
    assert topology.topic("before")["status"]["topicId"] == before["status"]["topicId"]


@pytest.mark.parametrize("labels", ["one-level", "all-levels"])
def test_missing_node_label_stalls_topology_and_new_topics(labels, topology, core, promise):
    topology.create_topic("before", placement={"brokers": {"exclude": ["2"]}})
    before = topology.until_complete("before")
    site = SIX_BROKERS[2]
    gone = {"one-level": (ZONE_LABEL,), "all-levels": (REGION_LABEL, ZONE_LABEL, RACK_LABEL)}[labels]
    relabel_node(core, _node(topology, site), dict.fromkeys(gone))
    told = topology.until_topology("Stalled", "True", "MissingRacks")
    assert told["status"]["missingRacks"] == {"count": 1, "brokers": [2]}
    topology.create_topic("after")
    promise.kept_by(told)
    promise.kept_by(topology.until_stalled("after", "MissingRacks"))
    assert topology.topic("before")["status"] == before["status"], (
        "the status of a topic without a replica on that broker has changed"
    )
    relabel_node(core, _node(topology, site), site.labels)
    topology.until_ready("after")
    assert condition(topology.until_topology(), "Stalled") is None


def test_two_pods_with_one_broker_id_stall_topology_and_new_topics(topology, core, promise):
    topology.create_topic("before")
    before = topology.until_ready("before")
    create_broker_pod(core, topology.namespace, "other-kafka-2", _node(topology, SIX_BROKERS[5]))
    told = topology.until_topology("Stalled", "True", "DuplicateBrokerId")
    topology.create_topic("after")
    promise.kept_by(told)
    promise.kept_by(topology.until_stalled("after", "MissingRacks"))
    _existing_topic_stays(topology, before)
    delete_broker_pod(core, topology.namespace, "other-kafka-2")
    topology.until_ready("after")
    topology.until_ready("before")
    topology.until_topology()


def test_pod_with_an_impossible_broker_id_is_ignored(topology, core, promise):
    create_broker_pod(core, topology.namespace, "kafka-99999999999999999999", _node(topology, SIX_BROKERS[5]))
    told = topology.until(
        "RackTopology",
        "kafka",
        lambda seen: "ignored" in condition(seen, "Ready")["message"],
        "to tell of the pod",
    )
    promise.kept_by(told, "Ready")
    topology.create_topic("after")
    topology.until_ready("after")
    delete_broker_pod(core, topology.namespace, "kafka-99999999999999999999")


def test_topology_cannot_use_broker_pods_of_a_namespace_that_does_not_share_them(
    objects, kafka, broker_sites, core, kubectl, namespace_factory, operator, promise
):
    stranger = Objects(objects.api, namespace_factory())
    selector = {"namespace": objects.namespace, "podSelector": {"matchLabels": {"app": "kafka"}}}
    stranger.create_topology(kafka.bootstrap(), brokers=selector, missingRackPolicy="Ignore")
    told = stranger.until_topology("Stalled", "True", "BrokerPodsNotShared")
    promise.kept_by(told)
    assert objects.namespace not in str(told["status"]["brokers"]), (
        "the status names pods or nodes of the other namespace"
    )
    create_broker_pod(core, objects.namespace, "kafka-77", _node(objects, SIX_BROKERS[5]))
    kubectl("label", "namespace", objects.namespace, f"rackspan.dev/broker-pods-for={stranger.namespace}")
    told = stranger.until_topology()
    assert [row["pod"] for row in told["status"]["brokers"]] == [f"kafka-{number}" for number in range(6)]
    kubectl("label", "namespace", objects.namespace, "rackspan.dev/broker-pods-for-")
    stranger.until_topology("Stalled", "True", "BrokerPodsNotShared")
    delete_broker_pod(core, objects.namespace, "kafka-77")


def test_deleted_node_stalls_topology_until_it_is_created_again(topology, core, promise):
    topology.create_topic("before")
    before = topology.until_ready("before")
    site = SIX_BROKERS[2]
    delete_node(core, _node(topology, site))
    told = topology.until_topology("Stalled", "True", "MissingRacks")
    promise.kept_by(told)
    _existing_topic_stays(topology, before)
    # With its pod, which Kubernetes may have deleted after the node.
    create_sites(core, topology.namespace, [site], node_prefix=f"{topology.namespace}-")
    topology.until_topology()
    topology.until_ready("before")


def test_broker_without_a_pod_stalls_topology(topology, core, promise):
    site = SIX_BROKERS[2]
    delete_broker_pod(core, topology.namespace, site.pod)
    promise.kept_by(topology.until_topology("Stalled", "True", "MissingRacks"))
    create_broker_pod(core, topology.namespace, site.pod, _node(topology, site))
    topology.until_topology()


def test_level_with_a_label_that_no_node_has_stalls_topology(topology, promise):
    levels = topology.topology()["spec"]["levels"]
    topology.change_topology(levels=[*levels[:2], {"name": "rack", "nodeLabel": "example.com/rcak"}])
    promise.kept_by(topology.until_topology("Stalled", "True", "EmptyLevel"))
    topology.change_topology(levels=levels)
    topology.until_topology()


def test_topology_without_any_broker_pod_stalls(objects, kafka, operator, promise):
    objects.create_topology(kafka.bootstrap())
    promise.kept_by(objects.until_topology("Stalled", "True", "MissingRacks"))


def test_broker_rack_with_more_steps_than_levels_stalls_topology(objects, kafka, operator, promise):
    objects.create_topology(kafka.bootstrap(), rackSource="Broker", levels=[{"name": "zone"}])
    promise.kept_by(objects.until_topology("Stalled", "True", "InvalidRack"))
