"""Objects whose spec a newer version of the definitions allows and this operator cannot read: nothing acts on them."""

import pytest
from tests.unit.reconcile import examples
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka
from tests.unit.reconcile.topics.test_reconciler import World

from rackspan.api import kafkatopic, racktopology
from rackspan.api.codec import SpecError
from rackspan.api.labels import FINALIZER, PAUSED
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.observer import Observer
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.ports import Terminating
from rackspan.reconcile.runtime.informer import Informer, ResourceHandler
from rackspan.reconcile.specs.ownership import declared
from rackspan.reconcile.topics import topic_finalizer
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler
from rackspan.reconcile.topology_loops import NoTopology

PROD, ORDERS = ObjectKey("kafka", "prod"), ObjectKey("shop", "orders")


def prod(version=1, annotations=None, **spec):
    """Return a RackTopology as the API server has it."""
    return {
        "metadata": {
            "namespace": "kafka",
            "name": "prod",
            "uid": "rt-1",
            "generation": version,
            "resourceVersion": str(version),
            "annotations": annotations or {},
        },
        "spec": {
            "kafka": {"bootstrapServers": "kafka:9092"},
            "levels": [{"name": level} for level in examples.LEVELS],
            "rackSource": "Broker",
            **spec,
        },
    }


def orders(version=1, annotations=None, deleted=None, **spec):
    """Return a KafkaTopic as the API server has it."""
    return {
        "metadata": {
            "namespace": "shop",
            "name": "orders",
            "uid": "kt-1",
            "generation": version,
            "resourceVersion": str(version),
            "annotations": annotations or {},
            "finalizers": [FINALIZER],
            **({"deletionTimestamp": deleted} if deleted else {}),
        },
        "spec": {
            "topologyRef": {"namespace": "kafka", "name": "prod"},
            "partitions": 3,
            "replicationFactor": 3,
            "deletionPolicy": "Delete",
            **spec,
        },
        "status": examples.known("id-of-orders"),
    }


def informers(cache):
    return {
        kind: Informer(kind, handler, cache.versions, lambda: None)
        for kind, handler in (
            (kafkatopic.KIND, ResourceHandler(cache.put_topic, cache.drop_topic)),
            (racktopology.KIND, ResourceHandler(cache.put_topology, cache.drop_topology)),
        )
    }


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(topic_finalizer, "_LAG_SECONDS", 0)
    world = World()
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {}
    informers(world.cache)[kafkatopic.KIND].seen(orders())
    return world


@pytest.mark.parametrize("kind", [kafkatopic.KIND, racktopology.KIND])
def test_object_with_an_unreadable_spec_keeps_its_last_spec_and_gets_its_new_pause(kind):
    cache = Cache()
    body, newer = {
        kafkatopic.KIND: (orders, {"deletionPolicy": "Archive"}),
        racktopology.KIND: (prod, {"rackSource": "Zookeeper"}),
    }[kind]
    found = cache.topics if kind == kafkatopic.KIND else cache.topologies
    informer = informers(cache)[kind]
    informer.seen(body())
    (key,) = found
    before = found[key]
    informer.seen(body(2, {PAUSED: "true"}, **newer))
    assert (found[key].spec, found[key].meta.is_paused, found[key].meta.generation) == (before.spec, True, 2)
    assert next(iter(newer.values())) in cache.versions.unreadable[kind, key]
    informer.seen(body(3))
    assert (found[key].meta.is_paused, cache.versions.unreadable) == (False, {})
    informer.seen(body(4, **newer))
    informer.gone(body(4, **newer))
    assert (found, cache.versions.unreadable) == ({}, {})


def test_answer_to_a_write_with_an_unreadable_spec_is_no_error():
    cache = Cache()
    for kind, body in ((kafkatopic.KIND, orders()), (racktopology.KIND, prod())):
        informers(cache)[kind].seen(body)
    assert cache.put_answer(orders(2, deletionPolicy="Archive")).spec.deletion_policy == "Delete"
    cache.put_topology_answer(prod(2, rackSource="Zookeeper"))
    assert cache.topologies[PROD].meta.generation == 2


def test_unreadable_spec_of_a_recreated_object_does_not_get_the_spec_of_the_object_before():
    cache = Cache()
    cache.put_topology(prod())
    recreated = prod(2, rackSource="Zookeeper")
    recreated["metadata"]["uid"] = "rt-2"
    with pytest.raises(SpecError):
        cache.put_topology(recreated)


async def test_topology_with_an_unreadable_spec_is_stalled_and_its_cluster_is_not_used():
    cache, kafka = Cache(), MemoryKafka()
    cache.put_topology(prod())
    observer = Observer(PROD, dependencies_of(cache, MemoryCluster(), kafka))
    cache.put_topology(prod(2, rackSource="Zookeeper"))
    await observer.observe()
    assert isinstance(observer.state, Failure)
    assert observer.state.reason == Reason.INVALID_SPEC
    assert "spec.rackSource" in observer.state.message


@pytest.mark.parametrize("deleted", [None, "2026-01-02T00:00:00Z"])
async def test_topic_with_an_unreadable_spec_is_stalled_and_neither_changed_nor_deleted_in_kafka(world, deleted):
    informers(world.cache)[kafkatopic.KIND].seen(orders(2, deleted=deleted, partitions=6, deletionPolicy="Archive"))
    world.loop.add([ORDERS])
    await world.work()
    assert world.kafka.replicas == {"orders": ((0, 2, 4),) * 3}
    assert world.kube.condition("orders", "Stalled")["reason"] == "InvalidSpec"
    assert "spec.deletionPolicy" in world.kube.condition("orders", "Ready")["message"]

    informers(world.cache)[kafkatopic.KIND].seen(orders(3, partitions=6))
    world.loop.add([ORDERS])
    await world.work()
    assert len(world.kafka.replicas["orders"]) == 6


async def test_topic_that_was_never_readable_keeps_its_topic_if_another_object_claims_it():
    """An example is an older version after its start. The other object would change the topic, or delete it."""
    world = World()
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {}
    informers(world.cache)[kafkatopic.KIND].seen(orders(deletionPolicy="Archive"))
    rival = examples.topic("copy", topicName="orders", partitions=9)
    world.cache.keep_topic(rival)
    world.loop.add([ORDERS, rival.key])
    await world.work()
    assert world.kafka.replicas == {"orders": ((0, 2, 4),) * 3}
    assert world.kube.condition("copy", "Ready")["reason"] == "TopicConflict"
    assert world.kube.condition("orders", "Stalled")["reason"] == "InvalidSpec"


async def test_topic_that_was_never_readable_does_not_count_as_one_without_an_object():
    cache = Cache()
    informers(cache)[kafkatopic.KIND].seen(orders(deletionPolicy="Archive"))
    assert set(declared(examples.topology(), cache.topics.values())) == {"orders"}


@pytest.mark.parametrize("reference", [None, "prod", {"name": 7}])
def test_topic_whose_topology_cannot_be_read_belongs_to_none(reference):
    cache = Cache()
    informers(cache)[kafkatopic.KIND].seen(orders(topologyRef=reference))
    assert cache.topics == {}
    assert "spec.topologyRef" in cache.versions.unreadable[kafkatopic.KIND, ORDERS]


@pytest.fixture
def orphans(world):
    """Return the reconciler of topics without a topology, after a RackTopology that cannot be read."""
    world.cache.topologies.clear()
    informers(world.cache)[racktopology.KIND].seen(prod(rackSource="Zookeeper"))
    return TopicsReconciler(None, NoTopology(), world.dependencies, _nothing)


async def reconcile(world, orphans, topic):
    informers(world.cache)[kafkatopic.KIND].seen(topic)
    orphans.add([ORDERS])
    await orphans.process(await orphans.take())


@pytest.mark.parametrize("deleted", [None, "2026-01-02T00:00:00Z"])
async def test_topic_of_a_topology_that_was_never_readable_is_kept_and_says_why(world, orphans, deleted):
    await reconcile(world, orphans, orders(2, deleted=deleted))
    ready = world.kube.condition("orders", "Ready")
    assert ready["reason"] == ("DeletionBlocked" if deleted else "TopologyNotReady")
    assert "RackTopology kafka/prod cannot be read: spec.rackSource " in ready["message"]
    assert world.kube.finalizers == {}
    assert [event.reason for event in world.kube.announced] == (["DeletionBlocked"] if deleted else [])


@pytest.mark.parametrize("why", ["Retain", "definitions"])
async def test_topic_that_stays_in_kafka_is_released_although_its_topology_was_never_readable(world, orphans, why):
    if why == "definitions":
        world.kube.ends = Terminating(("kafkatopics.rackspan.dev",))
    policy = {"deletionPolicy": "Retain"} if why == "Retain" else {}
    await reconcile(world, orphans, orders(2, deleted="2026-01-02T00:00:00Z", **policy))
    assert world.kube.finalizers == {"orders": []}


async def _nothing():
    pass
