"""The loops of one topology."""

import asyncio
import time
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


async def test_a_machine_that_runs_others_meanwhile_makes_no_rest_of_the_look_at_a_plan(monkeypatch):
    monkeypatch.setattr(topology_controller, "_APPROVAL_SECONDS", 0)
    looks, enough = [], asyncio.Event()

    def summary():
        time.sleep(0.5)  # others run: no time of this thread's
        looks.append(None)
        if len(looks) == 3:
            enough.set()

    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop.topics = MagicMock(approvals=MagicMock(reconcile=AsyncMock(), summary=summary))
    looking = asyncio.create_task(loop._approval_loop())
    try:
        async with asyncio.timeout(300):
            await enough.wait()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def test_cordons_of_the_cluster_before_are_none_of_the_one_that_the_status_names():
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
async def test_a_broker_that_was_away_in_the_cluster_before_has_not_come_back_in_this_one(cluster_id, told, restarted):
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


async def test_a_rack_that_has_not_lasted_ends_no_drain():
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
async def test_a_drain_that_is_taken_back_while_its_cordon_is_recorded_cordons_nothing(monkeypatch, spec):
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
async def test_a_drain_that_changes_while_the_cluster_is_looked_at_cordons_and_releases_nothing(draining):
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
    assert asked == [1], "by the spec that it was looked at for"


@pytest.mark.parametrize(("refusal", "told"), [(None, []), (Failure("NotAuthorized", "no", Remedy.ACCESS), [1])])
async def test_what_keeps_one_broker_from_being_cordoned_keeps_no_other_cordoned_when_the_topology_goes(refusal, told):
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


async def test_cordons_and_restarts_are_told_which_racks_only_an_operator_before_has_seen(monkeypatch):
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
async def test_the_loop_of_a_deleted_topology_writes_nothing_to_one_of_its_name(made_anew):
    """Its batches may still be under way; with its cluster's id in the status the new one could lead to no other."""
    kafka, kube, cache = SlowKafka(), MemoryCluster(), Cache()
    kafka.counting.set()
    cache.put_topology(TOPOLOGY)
    loops = TopologyLoops(dependencies_of(cache, kube, kafka))
    loop = TopologyReconciler(PROD, dependencies_of(cache, kube, kafka), ())
    loops._running[PROD] = loop, MagicMock()
    await loops.cluster(PROD).observe()
    if made_anew:
        loops.topology_gone(PROD)
        cache.put_topology({**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "uid": "another"}})
    await loop.write_status()
    await loops.write_status(PROD)
    assert list(kube.statuses) == ([] if made_anew else ["prod"])
    assert loops.cluster(PROD) is (None if made_anew else loop.cluster)


REFUSED = FailureError(Failure(Reason.API_SERVER_REFUSED, "exceeded quota", Remedy.ACCESS))
TRIES = [*[REFUSED] * 3, RuntimeError("a defect"), *[REFUSED] * 4, None, REFUSED]


class Pauses(list):
    """Stands for waiting, as many times as there are tries."""

    async def __call__(self, seconds, *_):
        self.append(seconds)
        if len(self) == len(TRIES):
            raise asyncio.CancelledError


async def test_a_status_that_is_refused_is_tried_again_later_and_later(monkeypatch):
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


async def test_a_plan_that_cannot_begin_is_counted_and_tried_again_later_and_later(monkeypatch):
    pauses, counted = Pauses(), []
    monkeypatch.setattr(topology_controller.asyncio, "sleep", pauses)
    monkeypatch.setattr(topology_controller, "_REST", 0)
    monkeypatch.setattr(topology_controller, "count_error", lambda *labels: counted.append(labels))
    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop.topics = MagicMock(approvals=MagicMock(reconcile=AsyncMock(side_effect=TRIES)))
    with pytest.raises(asyncio.CancelledError):
        await loop._approval_loop()
    assert pauses == [4, 8, 16, 32, 60, 60, 60, 60, 2, 4]
    assert counted == [("shop/kafka", Remedy.ACCESS, Reason.API_SERVER_REFUSED)] * 8
