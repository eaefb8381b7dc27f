"""A RackTopology is deleted last, and its messages say how to confirm deletions that wait."""

from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace
from tests.unit.reconcile.examples import NOON, known, topic, topology
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of

from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import HeldDeletions
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.topology_deletion import (
    TopologyFinalizer,
    blocking_topics,
    how_to_confirm,
    in_use_failure,
)
from rackspan.reconcile.ports import Terminating

AROUND = Terminating()


def going(name="orders", **spec):
    return topic(name, deletionPolicy="Delete", status=known(), finalizers=[FINALIZER], **spec)


def test_topology_is_blocked_by_kafka_topics_whose_topics_are_to_be_deleted():
    near, far = going(name="near", namespace="kafka"), going(name="far")
    assert blocking_topics(topology(), [near, far], AROUND) == (near.key, far.key)
    assert blocking_topics(topology(), [], AROUND) == ()
    told = in_use_failure([near.key, far.key])
    assert "2 KafkaTopics have deletionPolicy Delete" in told.message
    assert "(kafka/near, shop/far)" in told.message


def test_topology_in_a_terminating_namespace_waits_only_for_terminating_kafka_topics_there():
    terminating = Terminating(namespaces={"kafka": NOON})
    lives, far = going(name="lives", namespace="kafka"), going(name="far", deleted="2026-01-31T12:00:00Z")
    goes = going(name="goes", namespace="kafka", deleted="2026-01-31T12:00:00Z")
    assert blocking_topics(topology(), [lives, far, goes], terminating) == (goes.key,)
    assert blocking_topics(topology(), [goes], Terminating(definitions=("racktopologies.rackspan.dev",))) == ()


def held(namespace, count):
    return HeldDeletions(namespace, count, f"{namespace}:{count:032}")


def test_message_says_how_to_confirm_deletions():
    waiting = [*(ObjectKey("shop", f"orders-{number}") for number in range(5)), ObjectKey("bank", "ledger")]
    told = how_to_confirm(topology(), waiting, (held("bank", 1), held("shop", 5)))
    assert told == (
        "6 deletions wait for a person: more than 10 of a namespace were asked for within a minute, or the namespace "
        "is being deleted. 1 of namespace bank (ledger), confirmed by bank:00000000000000000000000000000001; 5 of "
        "namespace shop (orders-0, orders-1, orders-2 and 2 more), confirmed by shop:00000000000000000000000000000005. "
        "To delete the topics of a namespace and all that is in them: kubectl annotate --namespace kafka racktopology "
        "prod rackspan.dev/confirm-deletions=bank:00000000000000000000000000000001. To keep a topic, set its object's "
        "deletionPolicy to Retain"
    )


def test_message_counts_namespaces_above_the_limit_and_refers_to_the_status():
    names = [f"team-{number:04}" for number in range(2_000)]
    waiting = [ObjectKey(name, "x" * 253) for name in names]
    told = how_to_confirm(topology(), waiting, tuple(held(name, 1) for name in names[:100]))
    assert len(told) < 5_000
    assert "; 1,990 more in 1,990 other namespaces: see status.deletions.held. " in told


def going_topology():
    present = topology()
    return replace(present, meta=replace(present.meta, deletion_timestamp=NOON, finalizers=(FINALIZER,)))


@pytest.mark.parametrize(
    ("cordoned", "can_be_released", "goes", "told"),
    [((), False, True, []), ((1, 2), True, False, []), ((1, 2), False, True, ["CordonsLeft"])],
)
async def test_topology_waits_for_cordons_that_can_be_released_and_names_the_others_in_an_event(
    cordoned, can_be_released, goes, told
):
    kube, cache, going = MemoryCluster(), Cache(), going_topology()
    cache.topologies[going.key] = going
    dependencies = dependencies_of(cache, kube)
    finalizer = TopologyFinalizer(
        going.key, dependencies, lambda: (), lambda _: cordoned, lambda _: bool(cordoned) and can_be_released
    )
    await finalizer.reconcile()
    assert (kube.finalizers.get(going.key.name) == []) == goes
    assert [event.reason for event in kube.announced] == told
    assert all("the cordon of brokers 1, 2 is left in Kafka" in event.message for event in kube.announced)


async def test_event_about_left_cordons_is_recorded_once_after_the_finalizer_is_removed():
    kube, cache, going = MemoryCluster(), Cache(), going_topology()
    cache.topologies[going.key] = going
    finalizer = TopologyFinalizer(going.key, dependencies_of(cache, kube), lambda: (), lambda _: (1,), lambda _: False)
    write, kube.set_finalizers = kube.set_finalizers, AsyncMock(return_value=None)  # another client has changed it
    await finalizer.reconcile()
    assert kube.announced == []
    kube.set_finalizers = write
    await finalizer.reconcile()
    assert [event.reason for event in kube.announced] == ["CordonsLeft"]


@pytest.mark.parametrize(
    ("about", "finalizers", "goes"), [("prod", [FINALIZER], False), ("prod", [], True), ("other", [FINALIZER], True)]
)
async def test_topology_keeps_its_finalizer_while_its_reassignments_have_one(about, finalizers, goes):
    """Reassignments lose their finalizer when their throttles are cleared or cannot be, also after a restart."""
    kube, cache, going = MemoryCluster(), Cache(), going_topology()
    cache.topologies[going.key] = going
    cache.put_reassignment(
        {
            "metadata": {"name": "plan", "namespace": "kafka", "finalizers": finalizers},
            "spec": {"topologyRef": {"name": about}, "planHash": "0123456789abcdef", "plan": "eJw="},
        }
    )
    finalizer = TopologyFinalizer(going.key, dependencies_of(cache, kube), lambda: (), lambda _: (), lambda _: False)
    await finalizer.reconcile()
    assert (kube.finalizers.get(going.key.name) == []) == goes
