"""The loops of one topology."""

import asyncio
import time
from unittest.mock import AsyncMock, MagicMock

from rackspan.api.meta import ObjectKey
from rackspan.reconcile import topology_controller
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
