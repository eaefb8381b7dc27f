"""A task can be cancelled at the moment at which its result arrives.

`asyncio.wait_for` swallows such a cancellation up to Python 3.11.
"""

import asyncio
import contextlib

import pytest

from rackspan.api.meta import ObjectKey
from rackspan.kube import topology_edits
from rackspan.kube.authentication import Authentication


async def renewed(waits_for, _):
    access = Authentication(None)
    access.settings.api_key["BearerToken"] = "Bearer old"

    async def load():
        await waits_for

    access._load = load
    await access.renew(rejected="Bearer old")


async def scan_requested(waits_for, monkeypatch):
    @contextlib.asynccontextmanager
    async def connected(*_):
        yield None  # not used

    async def follow_scan(*_):
        return await waits_for

    monkeypatch.setattr(topology_edits, "connected", connected)
    monkeypatch.setattr(topology_edits, "follow_scan", follow_scan)
    await topology_edits.request_scan(ObjectKey("shop", "prod"), print, 60.0)


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("call", [renewed, scan_requested])
async def test_task_is_cancelled_even_if_its_result_arrives_at_the_same_time(call, turns, monkeypatch):
    answer = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(call(answer, monkeypatch))
    for _ in range(5):
        await asyncio.sleep(0)
    answer.set_result(None)
    for _ in range(turns):
        await asyncio.sleep(0)
    was_told = task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == was_told
