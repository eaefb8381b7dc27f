"""How loops are woken between their turns.

Not by `asyncio.wait_for`: up to Python 3.11 it swallows a cancellation that comes together with what it waits for, and
a loop that is told to end goes on.
"""

from __future__ import annotations

import asyncio


async def happened(seconds: float | None, *events: asyncio.Event) -> bool:
    """Wait until any of these is set, so many seconds at most (None: for ever); whether one is."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)


async def woken(wake: asyncio.Event, pause: float, debounce: float) -> None:
    """Wait for `wake`, `pause` seconds at most, and `debounce` seconds more for what comes with it; then reset it."""
    if await happened(pause, wake):
        await asyncio.sleep(debounce)
    wake.clear()
