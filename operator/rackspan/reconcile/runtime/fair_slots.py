"""A semaphore of which namespaces get slots in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class FairSlots:
    """So many slots. Where more are asked for, the namespaces that wait get one each in turn. For one event loop."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the block ends."""
        await self._acquire(namespace)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # cancelled after it was granted
            raise

    def _release(self) -> None:
        while self._waiting:
            namespace, waiting = next(iter(self._waiting.items()))
            del self._waiting[namespace]
            granted = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
