"""Who may use a topology, and which of several objects decides about one topic."""

import pytest
from tests.unit.reconcile.scenes import topic, topology

from rackspan.reconcile.access import not_allowed, owner, rival
from rackspan.reconcile.inventory import Inventory

SHOP = {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}


@pytest.mark.parametrize(
    ("rule", "namespace", "labels", "allowed"),
    [
        ({"from": "Same"}, "kafka", {}, True),
        ({"from": "Same"}, "shop", {}, False),
        ({"from": "All"}, "shop", {}, True),
        (SHOP, "shop", {"team": "shop"}, True),
        (SHOP, "shop", {"team": "bank"}, False),
        (SHOP, "shop", {}, False),
        (SHOP, "kafka", {}, True),
    ],
)
def test_a_topology_is_open_to_the_namespaces_it_names(rule, namespace, labels, allowed):
    refusal = not_allowed(topic(namespace=namespace), topology(allowedNamespaces=rule), labels)
    assert (refusal is None) == allowed
    if refusal:
        assert refusal.reason == "NamespaceNotAllowed"
        assert f"topology kafka/prod is not open to namespace {namespace}" in refusal.message


def test_the_older_object_decides_and_of_two_of_one_second_always_the_same():
    older, younger = topic("a", created="2026-01-01T00:00:00Z"), topic("b", created="2026-01-01T00:00:01Z")
    twin = topic("c", created="2026-01-01T00:00:00Z", uid="0")
    assert owner([younger, older]) == owner([older, younger]) == older
    assert owner([older, twin]) == owner([twin, older]) == twin
    assert owner([]) is None


def test_the_one_that_does_not_decide_is_told_which_does():
    older, younger = topic("a"), topic("b", topicName="a")
    assert rival(older, older) is None
    assert rival(older, None) is None
    refusal = rival(younger, older)
    assert refusal.reason == "TopicConflict"
    assert "KafkaTopic shop/a is older and already stands for topic a" in refusal.message


def test_claims_go_by_kafka_cluster_and_not_by_topology():
    inventory = Inventory()
    one = inventory.keep_topic(topic("one", topicName="orders"))
    two = inventory.keep_topic(topic("two", topicName="orders", topologyRef={"namespace": "bank", "name": "prod"}))
    other = inventory.keep_topic(topic("three", topicName="payments"))
    assert [claim.key for claim in inventory.claims(one)] == [one.key]
    inventory.leads_to(one.topology, "kafka-1")
    inventory.leads_to(two.topology, "kafka-2")
    assert [claim.key for claim in inventory.claims(one)] == [one.key]
    inventory.leads_to(two.topology, "kafka-1")
    assert {claim.key for claim in inventory.claims(one)} == {one.key, two.key}
    inventory.drop_topic(two.key)
    assert [claim.key for claim in inventory.claims(one)] == [one.key]
    assert [claim.key for claim in inventory.claims(other)] == [other.key]
