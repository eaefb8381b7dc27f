"""The observer publishes only facts that decisions are based on."""

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.support.manifests import changed
from tests.unit.reconcile.examples import NOON
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster import observer as observer_module
from rackspan.reconcile.cluster.observer import Observer
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription, RemainingReplicas, ReplicaCounts

PROD = ObjectKey("shop", "prod")
TOPOLOGY = {
    "metadata": {"namespace": "shop", "name": "prod", "uid": "rt", "generation": 1, "resourceVersion": "1"},
    "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}], "rackSource": "Broker"},
}


@dataclass
class SlowKafka(MemoryKafka):
    """Brokers by id, each in a rack. Replica counts are returned only after `counting` is set."""

    cordons: dict[int, bool] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=lambda: {0: "/a", 1: "/b"})
    counting: asyncio.Event = field(default_factory=asyncio.Event)
    held: dict[int, int] = field(default_factory=dict)
    min_insync: int = 1
    away: bool = False
    cluster_id: str = "kafka-1"
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self):
        self.answering.set()

    async def cluster(self):
        await self.answering.wait()
        if self.away:
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "refused", Remedy.RETRY))
        return ClusterDescription(
            self.cluster_id, tuple(BrokerDescription(broker, "h", rack) for broker, rack in self.racks.items())
        )

    async def replica_counts(self, without=()):
        await self.counting.wait()
        return ReplicaCounts(self.held, {})

    async def default_min_insync(self, brokers):
        return self.min_insync

    async def remaining_replicas(self, brokers):
        return RemainingReplicas(NOON, {broker: {"orders": self.held.get(broker, 0)} for broker in brokers})

    async def cordoned(self, brokers):
        return self.cordons


async def test_racks_are_published_only_when_topics_are_placed_with_them():
    cache, kube, kafka = Cache(), MemoryCluster(), SlowKafka()
    cache.put_topology(TOPOLOGY)
    observer = Observer(PROD, dependencies_of(cache, kube, kafka))
    kafka.counting.set()
    await observer.observe()
    before = observer.racks
    assert before.known_racks[1] == ("b",)
    kafka.counting.clear()
    kafka.racks[1] = "/c"
    looking = asyncio.create_task(observer.observe())
    for _ in range(10):
        await asyncio.sleep(0)
    assert observer.racks is observer.state.racks is before, "the status would show a rack that no decision uses yet"
    kafka.counting.set()
    await looking
    assert observer.racks is observer.state.racks
    assert observer.racks.known_racks[1] == ("c",)


async def test_broker_without_node_loses_its_rack_when_the_spec_names_other_labels():
    spec = {**TOPOLOGY["spec"], "rackSource": "Nodes", "brokers": {"podSelector": {}}}
    cache, kube, kafka = Cache(), MemoryCluster(), SlowKafka(held={0: 1, 1: 1})
    kafka.counting.set()
    for number in (0, 1):
        labels = {"zone": f"z{number}", "room": f"r{number}"}
        cache.put_node({"metadata": {"name": f"n{number}", "labels": labels}})
        cache.put_pod(
            {"metadata": {"namespace": "shop", "name": f"kafka-{number}"}, "spec": {"nodeName": f"n{number}"}}
        )
    observer = Observer(PROD, dependencies_of(cache, kube, kafka))

    async def racks(label, generation):
        level = {"name": "zone", "nodeLabel": label}
        metadata = {**TOPOLOGY["metadata"], "generation": generation, "resourceVersion": str(generation)}
        cache.put_topology({"metadata": metadata, "spec": {**spec, "levels": [level]}})
        await observer.observe()
        return {row.id: row.rack for row in observer.racks.rows}

    assert await racks("zone", 1) == {0: ("z0",), 1: ("z1",)}
    del kafka.racks[1]
    cache.put_pod({"metadata": {"namespace": "shop", "name": "kafka-1"}, "spec": {}})
    assert await racks("zone", 2) == {0: ("z0",), 1: ("z1",)}, "its last known rack"
    assert await racks("room", 3) == {0: ("r0",), 1: None}
    assert await racks("room", 4) == {0: ("r0",), 1: None}, "the broker stays known, and its replicas are not moved"


async def test_broker_that_does_not_report_its_cordon_keeps_its_last_report(monkeypatch):
    monkeypatch.setattr(observer_module, "_CORDON_SECONDS", 0.0)
    cache, kube, kafka = Cache(), MemoryCluster(), SlowKafka()
    cache.put_topology(TOPOLOGY)
    observer = Observer(PROD, dependencies_of(cache, kube, kafka))
    kafka.counting.set()
    for told, cordoned in (({}, ()), ({0: False, 1: True}, (1,)), ({0: False}, (1,)), ({1: False}, ())):
        kafka.cordons = told
        await observer.observe()
        assert observer.racks.tree.cordoned == cordoned


async def test_cluster_is_out_of_sight_after_it_is_unreachable_for_long():
    cache, kube, kafka = Cache(), MemoryCluster(), SlowKafka()
    cache.put_topology(TOPOLOGY)
    kafka.counting.set()
    observer = Observer(PROD, dependencies_of(cache, kube, kafka))
    await observer.observe()
    assert observer.out_of_sight is None

    kafka.away = True
    assert await observer.observe(), "new topics get the failure"
    assert observer.out_of_sight is None
    assert not await observer.observe(), "nothing has changed"
    observer._seen_at -= 3600
    assert observer.out_of_sight >= 3600
    assert await observer.observe(), "each topic is queued"
    assert not await observer.observe(), "and only once"
    kafka.away = False
    assert await observer.observe(), "the cluster responds again"
    assert observer.out_of_sight is None


@dataclass
class Name:
    """The cluster that `kafka:9092` leads to."""

    leads_to: SlowKafka

    async def connect(self, owner, kafka, credentials):
        return self.leads_to


@pytest.mark.parametrize(("cluster_id", "given"), [("kafka-1", True), ("kafka-2", False)])
async def test_new_client_is_published_only_if_it_reaches_the_cluster_of_the_state(cluster_id, given):
    first, second = SlowKafka(), SlowKafka(cluster_id=cluster_id)
    cache, kube, name = Cache(), MemoryCluster(), Name(first)
    cache.put_topology(TOPOLOGY)
    observer = Observer(PROD, dependencies_of(cache, kube, name))
    first.counting.set()
    second.counting.set()
    await observer.observe()
    before = observer.admin
    assert before is not None

    first.away, name.leads_to = True, second
    second.answering.clear()
    looking = asyncio.create_task(observer.observe())
    for _ in range(10):
        await asyncio.sleep(0)
    assert observer.state.cluster_id == "kafka-1"
    assert observer.admin is None, "changes for the old state could reach another cluster"
    second.answering.set()
    await looking
    assert isinstance(observer.state, ClusterState) is given
    assert (observer.admin is not None) is given
    assert observer.admin is not before


def leading_to(cluster_id, generation, status):
    spec = {**TOPOLOGY["spec"], "kafka": {"bootstrapServers": "kafka:9092", "clusterId": cluster_id}}
    metadata = {**TOPOLOGY["metadata"], "generation": generation, "resourceVersion": str(generation)}
    return {"metadata": metadata, "spec": {**spec, "drainBrokers": [1]}, "status": status}


@pytest.mark.parametrize("restarted", [True, False])
async def test_facts_of_another_cluster_are_forgotten(restarted):
    first = SlowKafka(racks={0: "/a", 1: "/b", 7: "/c"}, held={7: 5}, cordons={1: True})
    second = SlowKafka(racks={0: "/b", 1: "/a"}, held={0: 2, 1: 3, 7: 1}, min_insync=2, cluster_id="kafka-2")
    first.counting.set()
    second.counting.set()
    cache, kube, name = Cache(), MemoryCluster(), Name(first)
    before = Observer(PROD, dependencies_of(cache, kube, name))
    cache.put_topology(leading_to("kafka-1", 1, {}))
    await before.observe()
    assert (before.remaining.empty, before.racks.tree.cordoned) == ({1}, (1,))

    name.leads_to = second
    brokers = [{"id": row.id, "rack": f"/{row.rack[0]}", "online": True} for row in before.racks.rows]
    cache.put_topology(leading_to("kafka-2", 2, {"clusterId": "kafka-1", "brokers": brokers}))
    after = Observer(PROD, dependencies_of(cache, kube, name)) if restarted else before
    await after.observe()
    assert (after.state.cluster_id, dict(after.state.load.replicas), after.state.default_min_insync) == (
        "kafka-2",
        second.held,
        2,
    )
    assert after.remaining.replicas == {1: {"orders": 3}}, "users remove brokers that are reported as empty"
    assert not after.racks.tree.cordoned
    assert after.racks.known_racks == {0: ("b",), 1: ("a",)}, "the rack of broker 7 is unknown"
    assert after.state.settled is None, "no plan uses the earlier racks"


@pytest.mark.parametrize("before", [True, False])
async def test_broker_that_lags_behind_a_cordon_change_is_asked_again_at_the_next_observation(before):
    cache, kafka = Cache(), SlowKafka(cordons={0: False, 1: before})
    kafka.counting.set()
    cache.put_topology(TOPOLOGY)
    observer = Observer(PROD, dependencies_of(cache, MemoryCluster(), kafka))

    async def cordoned():
        await observer.observe()
        return [row.id for row in observer.racks.rows if row.cordoned]

    assert await cordoned() == [1] * before
    observer.cordons_changed()
    assert await cordoned() == [1] * before, "the broker does not show the change yet"
    kafka.cordons[1] = not before
    assert await cordoned() == [1] * (not before)


async def test_level_called_broker_is_an_invalid_spec_and_kafka_is_not_asked():
    cache, kafka = Cache(), SlowKafka()
    kafka.counting.set()
    cache.put_topology(changed(TOPOLOGY, {"spec": {"levels": [{"name": "zone"}, {"name": "broker"}]}}))
    observer = Observer(PROD, dependencies_of(cache, MemoryCluster(), kafka))
    await observer.observe()
    assert observer.state == Failure(
        Reason.INVALID_SPEC,
        'spec.levels: the level "broker" is always there, as the last one; choose another name',
        Remedy.SPEC,
    )
    assert observer.admin is None
