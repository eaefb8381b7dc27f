"""Waiting for events with a timeout.

`asyncio.wait_for` is not used: up to Python 3.11 it swallows a cancellation that coincides with the awaited event, so
that a cancelled loop would go on.
"""

from __future__ import annotations

import asyncio


async def wait_for_any(seconds: float | None, *events: asyncio.Event) -> bool:
    """Wait until any of these is set, or for `seconds` (None: no limit); whether one is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)


async def wait_debounced(wake: asyncio.Event, seconds: float, debounce: float) -> None:
    """Wait for `wake`, or for `seconds`; once set, `debounce` seconds more to gather a burst. Clears `wake`."""
    if await wait_for_any(seconds, wake):
        await asyncio.sleep(debounce)
    wake.clear()
