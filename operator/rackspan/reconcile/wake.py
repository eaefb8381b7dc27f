"""How loops that poll are woken between their turns."""

from __future__ import annotations

import asyncio


async def woken(wake: asyncio.Event, pause: float, debounce: float) -> None:
    """Wait for `wake`, `pause` seconds at most, and `debounce` seconds more for what comes with it; then reset it."""
    try:
        await asyncio.wait_for(wake.wait(), pause)
        await asyncio.sleep(debounce)
    except TimeoutError:
        pass
    wake.clear()


async def happened(seconds: float, *events: asyncio.Event) -> bool:
    """Wait until any of these is set, so many seconds at most; whether one is."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)
