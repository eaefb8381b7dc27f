"""The loops of one topology."""

import asyncio
import time
from unittest.mock import AsyncMock, MagicMock

from tests.unit.reconcile.cluster.test_observer import PROD, TOPOLOGY, SlowKafka
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of

from rackspan.api.meta import ObjectKey
from rackspan.reconcile import topology_controller
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.topology_controller import TopologyReconciler


async def test_a_machine_that_runs_others_meanwhile_makes_no_rest_of_the_look_at_a_plan(monkeypatch):
    monkeypatch.setattr(topology_controller, "_APPROVAL_SECONDS", 0)
    looks, enough = [], asyncio.Event()

    def summary():
        time.sleep(0.5)  # others run: no time of this thread's
        looks.append(None)
        if len(looks) == 3:
            enough.set()

    loop = TopologyReconciler(ObjectKey("shop", "kafka"), MagicMock(), MagicMock())
    loop._topics = MagicMock(approvals=MagicMock(reconcile=AsyncMock(), summary=summary))
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
