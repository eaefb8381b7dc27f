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
