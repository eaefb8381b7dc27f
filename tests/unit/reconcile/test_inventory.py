"""What is known of an object while lists, events and answers to writes overtake each other."""

import pytest

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.inventory import Inventory

KEY = ObjectKey("shop", "orders")


def body(version, uid="1", **metadata):
    return {
        "metadata": {"namespace": "shop", "name": "orders", "uid": uid, "resourceVersion": version} | metadata,
        "spec": {"topologyRef": {"name": "prod"}, "partitions": 1, "replicationFactor": 1},
    }


def leaving(version, uid="1"):
    return body(version, uid, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["rackspan.dev/finalizer"])


@pytest.fixture
def inventory():
    return Inventory()


def known_version(inventory):
    return inventory.topics[KEY].meta.resource_version


@pytest.mark.parametrize("put", ["put_topic", "put_answer"])
def test_what_is_older_than_what_is_known_changes_nothing(inventory, put):
    inventory.put_topic(leaving("10"))
    known = getattr(inventory, put)(body("9"))
    assert known.meta.is_deleting
    assert inventory.topics[KEY] is known


def test_versions_compare_as_numbers(inventory):
    inventory.put_topic(body("9"))
    inventory.put_topic(body("10"))
    assert known_version(inventory) == "10"


def test_versions_that_are_no_numbers_are_taken_as_they_come(inventory):
    inventory.put_topic(body("b"))
    inventory.put_topic(body("a"))
    assert known_version(inventory) == "a"


def test_the_answer_to_a_write_does_not_bring_back_an_object_that_is_gone(inventory):
    inventory.put_topic(body("9"))
    inventory.drop_topic(KEY)
    assert inventory.put_answer(body("10")) is None
    assert KEY not in inventory.topics


def test_the_answer_to_a_write_does_not_replace_an_object_made_since(inventory):
    inventory.put_topic(body("12", uid="2"))
    assert inventory.put_answer(body("10", uid="1")) is None
    assert inventory.topics[KEY].meta.uid == "2"


def test_a_new_list_counts_even_where_it_is_older(inventory):
    inventory.put_topic(body("100"))
    inventory.put_listed_topic(body("7"))
    assert known_version(inventory) == "7"


def topology(version, uid="1", **spec):
    return {
        "metadata": {"namespace": "shop", "name": "orders", "uid": uid, "resourceVersion": version},
        "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}], **spec},
    }


def test_the_answer_to_a_write_does_not_take_back_what_a_topology_asks_for_since(inventory):
    inventory.put_topology(topology("10", drainBrokers=[1]))
    inventory.put_topology_answer(topology("9"))
    assert inventory.topologies[KEY].spec.drain_brokers == (1,)
    inventory.put_topology_answer(topology("11"))
    assert inventory.topologies[KEY].meta.resource_version == "11"


def test_the_answer_to_a_write_brings_back_no_topology(inventory):
    inventory.put_topology_answer(topology("9"))
    assert inventory.topologies == {}
    inventory.put_topology(topology("10", uid="2"))
    inventory.put_topology_answer(topology("11", uid="1"))
    assert inventory.topologies[KEY].meta.uid == "2"
