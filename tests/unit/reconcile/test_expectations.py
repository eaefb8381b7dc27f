"""A scan compares a topic with the object that the operator treats as its owner."""

from itertools import permutations

import pytest
from tests.support.manifests import TOPIC, TOPOLOGY, changed

from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.racktopology import RackTopology
from rackspan.reconcile.specs.ownership import cluster_requirements, owner

PROD = RackTopology.from_object(TOPOLOGY)


def claim(uid, replicas, *, created="2026-01-31T03:00:00Z", **fields):
    metadata = {"name": f"claim-{uid}", "uid": uid, "creationTimestamp": created, **fields.pop("metadata", {})}
    spec = {
        "topologyRef": {"name": PROD.meta.name, "namespace": PROD.meta.namespace},
        "topicName": "orders",
        "replicationFactor": replicas,
    }
    return KafkaTopic.from_object(changed(TOPIC, {"metadata": metadata, "spec": spec, **fields}))


def deciding(claims):
    return owner((one, PROD) for one in claims)


@pytest.mark.parametrize(
    ("claims", "decides"),
    [
        ((claim("a", 3), claim("b", 5, status={"topicId": "x"})), 5),
        ((claim("b", 3), claim("a", 5)), 5),
        ((claim("b", 3, created="2026-01-31T02:59:59Z"), claim("a", 5, status={"topicId": "x"})), 5),
        ((claim("b", 3, created="2026-01-31T02:59:59Z"), claim("a", 5)), 3),
        ((claim("a", 3), claim("b", 5), claim("c", 7, status={"topicId": "x"})), 7),
    ],
)
def test_scan_and_operator_choose_the_same_owner_in_any_order_of_objects(claims, decides):
    for order in permutations(claims):
        assert deciding(order).spec.replication_factor == decides
        assert cluster_requirements(PROD, order).of_topic["orders"].replication_factor == decides


def test_object_that_is_being_deleted_owns_its_topic_until_it_is_deleted():
    leaving = {"deletionTimestamp": "2026-01-31T04:00:00Z", "finalizers": ["rackspan.dev/finalizer"]}
    old = claim("a", 3, created="2026-01-31T02:00:00Z", metadata=leaving)
    assert deciding([old, claim("b", 5)]) is old
    assert "orders" not in cluster_requirements(PROD, [old, claim("b", 5)]).of_topic
    assert cluster_requirements(PROD, [claim("b", 5)]).of_topic["orders"].replication_factor == 5
