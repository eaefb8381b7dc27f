"""Calls of third-party placers that take too long."""

import asyncio
import gc
import threading

import pytest

from rackspan.reconcile.runtime import threads
from rackspan.reconcile.runtime.threads import PlacerTimedOutError, ThirdPartyPlacers


async def test_late_error_of_a_call_that_was_left_behind_is_not_logged_as_a_defect(monkeypatch):
    monkeypatch.setattr(threads, "PLACER_SECONDS", 0.01)
    reported, may_end, placers = [], threading.Event(), ThirdPartyPlacers()
    allowed = asyncio.Event()
    monkeypatch.setattr(placers, "_allow_again", lambda _: allowed.set())
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

    def fail():
        may_end.wait()
        raise ValueError

    with pytest.raises(PlacerTimedOutError):
        await placers.call("theirs", fail)
    may_end.set()
    async with asyncio.timeout(30):
        await allowed.wait()
    gc.collect()
    assert not reported
