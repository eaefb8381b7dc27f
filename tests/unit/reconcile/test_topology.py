"""The control loops of one topology."""

import asyncio
import threading
from unittest.mock import AsyncMock, MagicMock

import pytest
from tests.unit.reconcile.cluster.test_observer import PROD, TOPOLOGY, SlowKafka
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of

from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile import topology_controller
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster import state
from rackspan.reconcile.cluster.broker_events import BrokerEvents
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.topology_controller import TopologyReconciler
from rackspan.reconcile.topology_loops import TopologyLoops


async def test_pause_of_the_approval_loop_depends_on_the_cpu_time_of_the_review(monkeypatch):
    monkeypatch.setattr(topology_controller, "_APPROVAL_SECONDS", 0)
    pauses, enough = [], asyncio.Event()

    async def sleep(seconds):
        pauses.append(seconds)
        enough.set()
        await asyncio.Event().wait()

    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop.topics = MagicMock(approvals=MagicMock(reconcile=AsyncMock(), summary=AsyncMock(), judging=0.5))
    monkeypatch.setattr(topology_controller.asyncio, "sleep", sleep)
    looking = asyncio.create_task(loop._approval_loop())
    try:
        async with asyncio.timeout(60):
            await enough.wait()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert pauses == [30]


async def test_cordons_of_the_previous_cluster_are_not_in_the_status_of_the_new_cluster():
    kafka, kube, cache = SlowKafka(cluster_id="kafka-2", cordons={1: True}), MemoryCluster(), Cache()
    kafka.counting.set()
    spec = {**TOPOLOGY["spec"], "kafka": {"bootstrapServers": "kafka:9092", "clusterId": "kafka-2"}}
    cache.put_topology({**TOPOLOGY, "spec": spec, "status": {"clusterId": "kafka-1", "cordons": [1]}})
    running = asyncio.create_task(TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ()).run())
    try:
        async with asyncio.timeout(60):
            while "prod" not in kube.statuses:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    written = kube.statuses["prod"]
    assert (written["clusterId"], written["cordons"]) == ("kafka-2", [])
    assert [event.reason for event in kube.announced].count("CordonsLeft") == 1


@pytest.mark.parametrize(("cluster_id", "told"), [("kafka-1", ["broker 1 is online again"]), ("kafka-2", [])])
@pytest.mark.parametrize("restarted", [True, False])
async def test_broker_offline_in_the_previous_cluster_has_no_online_event_in_the_new_cluster(
    cluster_id, told, restarted
):
    kafka, kube, cache = SlowKafka(cluster_id=cluster_id), MemoryCluster(), Cache()
    kafka.counting.set()
    condition = {"type": "BrokersOnline", "status": "False", "reason": "BrokerOffline", "message": "broker 1"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"clusterId": "kafka-1", "offline": {"count": 1, "brokers": [1]}, "conditions": [condition]}
    spec = {**TOPOLOGY["spec"], "kafka": {"bootstrapServers": "kafka:9092", "clusterId": cluster_id}}
    cache.put_topology({**TOPOLOGY, "spec": spec, "status": status})
    loop = TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ())
    if not restarted:
        loop._broker_events = BrokerEvents([1])
    await loop.cluster.observe()
    await loop.write_status()
    assert [event.message for event in kube.announced if event.reason == Reason.BROKERS_ONLINE] == told


async def test_drain_does_not_end_because_of_an_unsettled_rack():
    kafka, cache = SlowKafka(), Cache()
    kafka.counting.set()
    cache.put_topology({**TOPOLOGY, "spec": {**TOPOLOGY["spec"], "drainRacks": ["/b"]}})
    loop = TopologyReconciler(PROD, dependencies_of(cache, MemoryCluster(), kafka), ())
    loop._cordons = MagicMock(reconcile=AsyncMock(return_value=False))
    for rack in ("/b", "/c"):
        kafka.racks[1] = rack
        await loop.cluster.observe()
        await loop._reconcile_cordons()
        racks = loop._cordons.reconcile.call_args.args[1]
        assert [row.id for row in racks.rows if row.draining] == [1]


@pytest.mark.parametrize("spec", [{"drainBrokers": []}, {"drain": {"cordon": False}}, None])
async def test_drain_removed_while_its_cordon_is_recorded_cordons_nothing(monkeypatch, spec):
    kafka, cache, asked = SlowKafka(cordons={0: False, 1: False}), Cache(), []
    kafka.counting.set()

    async def cordon(brokers):
        asked.extend(brokers)
        return dict.fromkeys(brokers)

    kafka.cordon = cordon
    draining = {**TOPOLOGY["spec"], "drainBrokers": [1]}
    cache.put_topology({**TOPOLOGY, "spec": draining})
    loop = TopologyReconciler(PROD, dependencies_of(cache, MemoryCluster(), kafka), ())

    async def recorded():
        metadata = {**TOPOLOGY["metadata"], "generation": 1 if spec is None else 2, "resourceVersion": "2"}
        cache.put_topology(
            {
                "metadata": metadata,
                "spec": {**draining, **(spec or {})},
                "status": {"cordons": list(loop._cordons.held(None))},
            }
        )

    monkeypatch.setattr(loop, "write_status", recorded)
    await loop.cluster.observe()
    await loop._reconcile_cordons()
    assert asked == ([1] if spec is None else [])


@pytest.mark.parametrize("draining", [True, False])
async def test_drain_changed_during_an_observation_cordons_and_releases_nothing(draining):
    kafka, cache, asked = SlowKafka(cordons={0: False, 1: not draining}), Cache(), []

    async def ask(brokers):
        asked.extend(brokers)
        return dict.fromkeys(brokers)

    kafka.cordon = kafka.uncordon = ask
    before = {**TOPOLOGY, "spec": {**TOPOLOGY["spec"], "drainBrokers": [1] if draining else []}}
    cache.put_topology({**before, "status": {"cordons": [] if draining else [1]}})
    loop = TopologyReconciler(PROD, dependencies_of(cache, MemoryCluster(), kafka), ())
    loop.write_status = AsyncMock()
    looking = asyncio.create_task(loop.cluster.observe())
    await asyncio.sleep(0)
    after = {**TOPOLOGY, "spec": {**TOPOLOGY["spec"], "drainBrokers": [] if draining else [1]}}
    metadata = {**TOPOLOGY["metadata"], "generation": 2, "resourceVersion": "2"}
    cache.put_topology({**after, "metadata": metadata, "status": {"cordons": [1]}})
    kafka.counting.set()
    await looking
    await loop._reconcile_cordons()
    assert asked == []
    cache.put_topology({**before, "status": {"cordons": [1]}})
    await loop._reconcile_cordons()
    assert asked == [1], "the spec is the observed one again"


@pytest.mark.parametrize(("refusal", "told"), [(None, []), (Failure("NotAuthorized", "no", Remedy.ACCESS), [1])])
async def test_cordons_are_released_at_deletion_even_if_another_broker_could_not_be_cordoned(refusal, told):
    kafka, kube, cache, asked = SlowKafka(cordons={0: None, 1: True}), MemoryCluster(), Cache(), []
    kafka.counting.set()

    async def uncordon(brokers):
        asked.extend(brokers)
        kafka.cordons[1] = refusal is not None
        return dict.fromkeys(brokers, refusal)

    kafka.uncordon, kafka.cordon = uncordon, AsyncMock(return_value={})
    present = {**TOPOLOGY, "spec": {**TOPOLOGY["spec"], "drainBrokers": [0, 1]}, "status": {"cordons": [1]}}
    cache.put_topology(present)
    loop = TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ())

    async def look():
        await loop._finalizer.reconcile()
        await loop.cluster.observe()
        await loop._reconcile_cordons()

    await look()
    assert loop._cordons.problem.startswith("broker 0: cordoned.log.dirs cannot be read")
    metadata = {**TOPOLOGY["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
    cache.put_topology({**present, "metadata": metadata})
    kube.finalizers.clear()
    await look()
    assert (kube.finalizers, kube.announced, asked) == ({}, [], [1])
    await loop._finalizer.reconcile()
    assert kube.finalizers == {"prod": []}
    assert [event.reason for event in kube.announced] == [Reason.CORDONS_LEFT for _ in told]


async def test_cordons_and_state_get_the_brokers_with_unproven_racks(monkeypatch):
    kafka, cache = SlowKafka(), Cache()
    kafka.counting.set()
    cache.put_topology({**TOPOLOGY, "status": {"brokers": [{"id": 0, "rack": "/a"}, {"id": 1, "rack": "/b"}]}})
    loop = TopologyReconciler(PROD, dependencies_of(cache, MemoryCluster(), kafka), ())
    loop._cordons = MagicMock(reconcile=AsyncMock(return_value=False))
    for seconds, unproven in ((state.RACKS_SETTLE_SECONDS, {0, 1}), (0, set())):
        monkeypatch.setattr(state, "RACKS_SETTLE_SECONDS", seconds)
        await loop.cluster.observe()
        await loop._reconcile_cordons()
        assert loop._cordons.reconcile.call_args.args[-1] == loop.cluster.state.unproven == unproven


@pytest.mark.parametrize("made_anew", [True, False])
async def test_loop_of_a_deleted_topology_does_not_write_to_a_new_one_of_its_name(made_anew):
    """Its batches may still run. With the old cluster id in its status, the new topology could use no other cluster."""
    kafka, kube, cache = SlowKafka(), MemoryCluster(), Cache()
    kafka.counting.set()
    cache.put_topology(TOPOLOGY)
    loops = TopologyLoops(dependencies_of(cache, kube, kafka))
    loop = TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ())
    loops._running[PROD] = loop, MagicMock()
    await loops.cluster(PROD).observe()
    if made_anew:
        loops.topology_gone(cache.topologies[PROD])
        cache.put_topology({**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "uid": "another"}})
    await loop.write_status()
    await loops.write_status(PROD)
    assert list(kube.statuses) == ([] if made_anew else ["prod"])
    assert loops.cluster(PROD) is (None if made_anew else loop.cluster)


REFUSED = FailureError(Failure(Reason.API_SERVER_REFUSED, "exceeded quota", Remedy.ACCESS))
TRIES = [*[REFUSED] * 3, RuntimeError("a defect"), *[REFUSED] * 4, None, REFUSED]


class Pauses(list):
    """Records the seconds of each wait. Ends the loop after as many waits as there are tries."""

    async def __call__(self, seconds, *_):
        self.append(seconds)
        if len(self) == len(TRIES):
            raise asyncio.CancelledError


async def test_refused_status_is_retried_with_backoff(monkeypatch):
    pauses = Pauses()
    monkeypatch.setattr(topology_controller, "wait_for_any", pauses)
    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop._finalizer = AsyncMock()
    loop._status_due = MagicMock(wait=AsyncMock())
    monkeypatch.setattr(loop, "write_status", AsyncMock(side_effect=TRIES))
    with pytest.raises(asyncio.CancelledError):
        await loop._status_loop()
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60, 1, 2]
    assert loop._status_due.set.call_count == 9


async def test_plan_that_cannot_start_is_counted_and_retried_with_backoff(monkeypatch):
    pauses, counted = Pauses(), []
    monkeypatch.setattr(topology_controller.asyncio, "sleep", pauses)
    monkeypatch.setattr(topology_controller, "_REST", 0)
    monkeypatch.setattr(topology_controller, "count_error", lambda *labels: counted.append(labels))
    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop.topics = MagicMock(approvals=MagicMock(reconcile=AsyncMock(side_effect=TRIES), summary=AsyncMock(), judging=0))
    with pytest.raises(asyncio.CancelledError):
        await loop._approval_loop()
    assert pauses == [4, 8, 16, 32, 60, 60, 60, 60, 2, 4]
    assert counted == [("shop/kafka", Remedy.ACCESS, Reason.API_SERVER_REFUSED)] * 8


async def test_status_of_a_topology_is_computed_outside_the_event_loop(monkeypatch):
    kafka, kube, cache, threads = SlowKafka(), MemoryCluster(), Cache(), set()
    kafka.counting.set()
    topology_status = topology_controller.topology_status

    def spied(*arguments):
        threads.add(threading.current_thread().name.split("_")[0])
        return topology_status(*arguments)

    monkeypatch.setattr(topology_controller, "topology_status", spied)
    cache.put_topology(TOPOLOGY)
    loop = TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ())
    await loop.cluster.observe()
    await loop.write_status()
    assert threads == {"thinking"}
    assert "prod" in kube.statuses
