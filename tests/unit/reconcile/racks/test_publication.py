"""Racks are published in the brokers' namespace and in namespaces that request them, if the operator may do so."""

import pytest
from tests.unit.reconcile.examples import topology

from rackspan.api.labels import BROKER_PODS_FOR, PUBLISH_RACKS
from rackspan.core.rack_file import rack_of
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.racks.publish import config_map, labelled, rack_text, target_namespaces
from rackspan.reconcile.runtime.namespaces import EVERYWHERE, NamespaceSet

LEVELS = [{"name": "zone", "nodeLabel": "zone"}, {"name": "rack", "nodeLabel": "rack"}]
BROKERS = {"podSelector": {"matchLabels": {"app": "kafka"}}}
ANYWHERE = NamespaceSet((EVERYWHERE,))


def by_nodes(**spec):
    return topology(rackSource="Nodes", levels=LEVELS, **({"brokers": BROKERS} | spec))


def targets(labels, allowed=ANYWHERE, **spec):
    namespaces = {"kafka": {}, **labels}
    return target_namespaces(by_nodes(**spec), namespaces, labelled(namespaces), allowed)


def test_racks_are_published_in_the_namespace_of_the_broker_pods():
    assert targets({"other": {}}) == ("kafka",)


def test_publication_in_another_namespace_of_brokers_needs_its_consent():
    elsewhere = {"brokers": {**BROKERS, "namespace": "pods"}}
    assert targets({"pods": {}}, **elsewhere) == ()
    assert targets({"pods": {BROKER_PODS_FOR: "kafka"}}, **elsewhere) == ("pods",)
    assert targets({"pods": {BROKER_PODS_FOR: "stranger"}}, **elsewhere) == ()


@pytest.mark.parametrize(
    ("label", "published"),
    [("kafka.prod", True), ("prod", False), ("stranger.prod", False), ("kafka.other", False), ("", False)],
)
def test_namespace_requests_racks_by_namespace_and_name_of_a_topology(label, published):
    """So a topology `prod` of another namespace cannot publish there."""
    assert ("clients" in targets({"clients": {PUBLISH_RACKS: label}})) == published


def test_namespace_requests_racks_of_its_own_topology_by_name_only():
    elsewhere = {"brokers": {**BROKERS, "namespace": "pods"}}
    assert targets({"kafka": {PUBLISH_RACKS: "prod"}, "pods": {}}, **elsewhere) == ("kafka",)


def test_nothing_is_published_in_namespaces_that_are_not_allowed():
    asks = {"clients": {PUBLISH_RACKS: "kafka.prod"}}
    assert targets(asks, NamespaceSet(("clients",))) == ("clients",)
    assert targets(asks, NamespaceSet()) == ()


def test_racks_that_come_from_brokers_are_not_published():
    told, namespaces = topology(rackSource="Broker"), {"kafka": {PUBLISH_RACKS: "prod"}}
    assert target_namespaces(told, namespaces, labelled(namespaces), ANYWHERE) == ()


def test_file_has_the_rack_of_each_node_and_nodes_without_rack_are_counted():
    nodes = {
        "n1": {"zone": "a", "rack": "r1"},
        "n2": {"zone": "a"},
        "n3": {"zone": "old"},
        "n4": {"rack": "r1"},
        "n5": {},
    }
    found = rack_text(by_nodes(rackAliases={"old": "/b/r9"}), nodes)
    assert {node: rack_of(found.text, node) for node in nodes} == {
        "n1": "/a/r1",
        "n2": "a",
        "n3": "/b/r9",
        "n4": None,
        "n5": None,
    }
    assert (len(found.racks), found.unknown) == (3, 2)
    assert found.example == "node n4 has no label zone"


def test_more_nodes_than_fit_into_a_config_map_are_a_failure():
    nodes = {f"node-{number:0200}": {"zone": "a", "rack": "r" * 60} for number in range(5_000)}
    found = rack_text(by_nodes(), nodes)
    assert isinstance(found, Failure)
    assert (found.reason, found.message) == ("TooLarge", "the racks of 5,000 nodes take more than 1,000,000 bytes")


def test_config_map_has_an_owner_reference_only_to_a_topology_of_its_namespace():
    own, other = (config_map(by_nodes(), namespace, "# text\n") for namespace in ("kafka", "clients"))
    assert [owner["uid"] for owner in own["metadata"]["ownerReferences"]] == ["rt-1"]
    assert other["metadata"]["ownerReferences"] == []
    assert own["metadata"]["name"] == other["metadata"]["name"] == "prod-racks"
