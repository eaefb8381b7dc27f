"""Where racks are published: with the brokers, where a namespace asks for them, and nowhere without permission."""

import pytest
from tests.unit.reconcile.examples import topology

from rackspan.api.labels import BROKER_PODS_FOR, PUBLISH_RACKS
from rackspan.core.rack_file import rack_of
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.racks.publish import config_map, rack_text, target_namespaces
from rackspan.reconcile.runtime.namespaces import EVERYWHERE, NamespaceSet

LEVELS = [{"name": "zone", "nodeLabel": "zone"}, {"name": "rack", "nodeLabel": "rack"}]
BROKERS = {"podSelector": {"matchLabels": {"app": "kafka"}}}
ANYWHERE = NamespaceSet((EVERYWHERE,))


def by_nodes(**spec):
    return topology(rackSource="Nodes", levels=LEVELS, **({"brokers": BROKERS} | spec))


def targets(labels, allowed=ANYWHERE, **spec):
    return target_namespaces(by_nodes(**spec), {"kafka": {}, **labels}, allowed)


def test_racks_are_published_with_the_brokers_pods():
    assert targets({"other": {}}) == ("kafka",)


def test_brokers_of_another_namespace_need_its_consent():
    elsewhere = {"brokers": {**BROKERS, "namespace": "pods"}}
    assert targets({"pods": {}}, **elsewhere) == ()
    assert targets({"pods": {BROKER_PODS_FOR: "kafka"}}, **elsewhere) == ("pods",)
    assert targets({"pods": {BROKER_PODS_FOR: "stranger"}}, **elsewhere) == ()


@pytest.mark.parametrize(
    ("label", "published"),
    [("kafka.prod", True), ("prod", False), ("stranger.prod", False), ("kafka.other", False), ("", False)],
)
def test_a_namespace_asks_for_the_racks_of_one_topology_by_its_whole_name(label, published):
    """Whoever calls a topology `prod` in a namespace of their own gets in nowhere."""
    assert ("clients" in targets({"clients": {PUBLISH_RACKS: label}})) == published


def test_within_its_own_namespace_the_name_is_enough():
    elsewhere = {"brokers": {**BROKERS, "namespace": "pods"}}
    assert targets({"kafka": {PUBLISH_RACKS: "prod"}, "pods": {}}, **elsewhere) == ("kafka",)


def test_nothing_is_published_where_the_operator_may_not():
    asks = {"clients": {PUBLISH_RACKS: "kafka.prod"}}
    assert targets(asks, NamespaceSet(("clients",))) == ("clients",)
    assert targets(asks, NamespaceSet()) == ()


def test_racks_that_brokers_tell_are_not_published():
    told = topology(rackSource="Broker")
    assert target_namespaces(told, {"kafka": {PUBLISH_RACKS: "prod"}}, ANYWHERE) == ()


def test_each_node_has_the_rack_that_placements_use_and_those_without_are_counted():
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


def test_more_nodes_than_a_config_map_holds_are_a_failure():
    nodes = {f"node-{number:0200}": {"zone": "a", "rack": "r" * 60} for number in range(5_000)}
    found = rack_text(by_nodes(), nodes)
    assert isinstance(found, Failure)
    assert (found.reason, found.message) == ("TooLarge", "the racks of 5,000 nodes take more than 1,000,000 bytes")


def test_the_config_map_goes_with_a_topology_of_its_namespace():
    own, other = (config_map(by_nodes(), namespace, "# text\n") for namespace in ("kafka", "clients"))
    assert [owner["uid"] for owner in own["metadata"]["ownerReferences"]] == ["rt-1"]
    assert other["metadata"]["ownerReferences"] == []
    assert own["metadata"]["name"] == other["metadata"]["name"] == "prod-racks"
