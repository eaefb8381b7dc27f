"""A RackTopology goes last, and says what deletions through it wait for."""

from tests.unit.reconcile.examples import NOON, known, topic, topology

from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cluster.deletion import blocking_topics, how_to_confirm, in_use_failure
from rackspan.reconcile.ports import Terminating

AROUND = Terminating()


def going(name="orders", **spec):
    return topic(name, deletionPolicy="Delete", status=known(), finalizers=[FINALIZER], **spec)


def test_a_topology_outlives_those_whose_topics_go_only_through_it():
    near, far = going(name="near", namespace="kafka"), going(name="far")
    assert blocking_topics(topology(), [near, far], AROUND) == (near.key, far.key)
    assert blocking_topics(topology(), [], AROUND) == ()
    told = in_use_failure([near.key, far.key])
    assert "2 KafkaTopics have deletionPolicy Delete" in told.message
    assert "(kafka/near, shop/far)" in told.message


def test_with_its_namespace_a_topology_waits_for_nothing_that_does_not_go_with_it():
    terminating = Terminating(namespaces={"kafka": NOON})
    lives, far = going(name="lives", namespace="kafka"), going(name="far", deleted="2026-01-31T12:00:00Z")
    goes = going(name="goes", namespace="kafka", deleted="2026-01-31T12:00:00Z")
    assert blocking_topics(topology(), [lives, far, goes], terminating) == (goes.key,)
    assert blocking_topics(topology(), [goes], Terminating(definitions=("racktopologies.rackspan.dev",))) == ()


def test_it_is_told_how_to_confirm():
    waiting = [ObjectKey("shop", f"orders-{number}") for number in range(5)]
    told = how_to_confirm(topology(), waiting)
    assert told.startswith("5 deletions wait for a person (shop/orders-0, shop/orders-1, shop/orders-2 and 2 more)")
    assert "kubectl annotate --namespace kafka racktopology prod rackspan.dev/confirm-deletions=5. " in told
