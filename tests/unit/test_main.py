"""The operator's process: what it reads at the start gives way to a signal to stop."""

import asyncio

import pytest

from rackspan.main import _done_before


async def test_a_signal_to_stop_ends_what_is_read_at_the_start():
    stop, ended = asyncio.Event(), asyncio.Event()

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asyncio.get_running_loop().call_soon(stop.set)
    assert not await _done_before(stop, endless())
    assert ended.is_set()


async def test_what_goes_wrong_at_the_start_is_told():
    async def failing():
        raise OSError("no such kind")

    async def done():
        pass

    assert await _done_before(asyncio.Event(), done())
    with pytest.raises(OSError, match="no such kind"):
        await _done_before(asyncio.Event(), failing())
