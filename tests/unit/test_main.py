"""The process of the operator: start, readiness, signals and restart of kopf."""

import asyncio
import contextlib
import os
import signal
from unittest.mock import AsyncMock, Mock

import kopf
import pytest

from rackspan import main
from rackspan.main import _done_before


@pytest.fixture
async def handlers_removed():
    yield
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_done_before_cancels_the_work_on_stop():
    stop, ended = asyncio.Event(), asyncio.Event()

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asyncio.get_running_loop().call_soon(stop.set)
    assert not await _done_before(stop, endless())
    assert ended.is_set()


async def test_done_before_returns_true_or_raises_the_error_of_the_work():
    async def failing():
        raise OSError("no such kind")

    async def done():
        pass

    assert await _done_before(asyncio.Event(), done())
    with pytest.raises(OSError, match="no such kind"):
        await _done_before(asyncio.Event(), failing())


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("manager", [None, Mock(ready=lambda: {"ok": True}, alive=lambda: {"ok": True})])
def test_operator_is_ready_while_its_lease_is_current(manager, current):
    probes = main._Probes(Mock(), Mock(is_current=current, other_holder="pod-1"))
    probes.manager = manager
    found = probes.ready()
    assert (found["ok"], found["leaseCurrent"]) == (current, current)
    assert probes.alive()["ok"], "a restart would not help"
    assert probes.reconciles == (manager is not None)


class Election:
    def __init__(self, happened):
        self._happened = happened

    async def renew(self):
        try:
            await asyncio.Event().wait()
        finally:
            self._happened.append("renewed no more")

    async def release(self):
        self._happened.append("released")


async def test_lease_is_renewed_until_changes_have_settled_and_then_released():
    happened = []

    class Changes:
        async def settled(self):
            await asyncio.sleep(0)
            happened.append("settled")

    async def work():
        await asyncio.sleep(0)
        happened.append("ended")

    await main._lead(Election(happened), asyncio.Event(), work(), Changes())
    assert happened == ["ended", "settled", "renewed no more", "released"]


class Silent:
    """An API server that does not respond."""

    def __init__(self):
        self.was_asked = asyncio.Event()

    async def unserved(self):
        self.was_asked.set()
        await asyncio.Event().wait()


async def test_sigterm_ends_the_wait_for_the_served_kinds(handlers_removed):
    stop, kube = asyncio.Event(), Silent()
    waiting = asyncio.create_task(main._wait_until_served(kube, stop, Mock()))
    await kube.was_asked.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(10):
        assert await waiting is False


async def test_sigterm_ends_the_wait_for_the_first_credentials(monkeypatch, handlers_removed):
    asked = asyncio.Event()

    class Access:
        def __init__(self, _):
            """Do not read credentials yet."""

        async def load(self):
            asked.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(main, "Authentication", Access)
    running = asyncio.create_task(main.run(Mock()))
    await asked.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(10):
        await running


async def test_sigterm_while_kopf_exits_sets_stop(monkeypatch):
    """For example, the CRDs were deleted. The tasks of kopf end, but the process continues."""
    stop, settings, access = asyncio.Event(), Mock(namespaces=()), Mock()
    monkeypatch.setattr(main, "_manager", lambda *_: Mock(prime=AsyncMock(), stop=AsyncMock()))

    async def spawn_tasks(**_):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
        return []

    async def run_tasks(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        gone = OSError("no such kind")
        gone.status = 404
        raise gone

    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
    monkeypatch.setattr(kopf, "run_tasks", run_tasks)
    try:
        rest = Mock(settled=AsyncMock())
        assert await main._run_until_unserved(settings, access, Mock(), rest, Mock(), stop)
        async with asyncio.timeout(300):
            await stop.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize(("status", "again"), [(403, True), (404, True), (500, True), (503, True), (409, False)])
async def test_kopf_is_restarted_after_api_errors_that_may_be_temporary(monkeypatch, status, again):
    rest = Mock(settled=AsyncMock())

    class ApiError(Exception):
        def __init__(self):
            self.status = status

    monkeypatch.setattr(main, "_manager", lambda *_: Mock(prime=AsyncMock(), stop=AsyncMock()))
    monkeypatch.setattr(kopf, "spawn_tasks", AsyncMock(return_value=[]))
    monkeypatch.setattr(kopf, "run_tasks", AsyncMock(side_effect=ApiError))
    ends = contextlib.nullcontext() if again else pytest.raises(ApiError)
    try:
        with ends:
            assert await main._run_until_unserved(Mock(namespaces=()), Mock(), Mock(), rest, Mock(), asyncio.Event())
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
    rest.settled.assert_awaited_once()
