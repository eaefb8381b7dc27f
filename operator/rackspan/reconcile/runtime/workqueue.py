"""A work queue of keys: every key waits once, is worked on by one worker at a time, and comes back later when asked.

The contract is client-go's workqueue: a key added while a worker has it is handed out again after that worker is done,
so a change during the work is never lost and the same object is never worked on twice at once.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from typing import TYPE_CHECKING, Generic, TypeVar

from rackspan.reconcile.runtime.waiting import happened

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

K = TypeVar("K", bound="Hashable")

_BACKOFF_FIRST = 0.5
_BACKOFF_MAX = 60.0


class WorkQueue(Generic[K]):
    """Keys to work on, oldest first. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, keys: Iterable[K]) -> None:
        """Hand these out soon."""
        for key in keys:
            if key in self._working:
                self._again.add(key)
            else:
                self._waiting.setdefault(key)
        self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Hand this one out after a while, unless it is added earlier."""
        due = asyncio.get_running_loop().time() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._later, (due, self._sequence, key))
        self._changed.set()

    def retry(self, key: K) -> None:
        """Hand it out again with exponential back-off and jitter."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_BACKOFF_MAX, _BACKOFF_FIRST * 2 ** min(count - 1, 10))
        self.add_after(key, delay * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret

    def forget(self, key: K) -> None:
        """It worked: the next failure starts with the shortest delay again."""
        self._failures.pop(key, None)

    def drop(self, key: K) -> None:
        """The object is gone."""
        self._waiting.pop(key, None)
        self._due.pop(key, None)
        self._again.discard(key)
        self.forget(key)

    async def take(self, most: int, linger: float, patience: float = 0.0) -> list[K]:
        """Up to `most` keys.

        When some are there, others that follow within `linger` seconds come along, and those that follow them, for as
        long as `patience` seconds.
        """
        await self._ready()
        loop = asyncio.get_running_loop()
        end = loop.time() + max(linger, patience)
        before = 0
        while before < len(self._waiting) < most and linger > 0 and loop.time() < end:
            before = len(self._waiting)
            await asyncio.sleep(linger)
            self._wake_due()
        taken = list(self._waiting)[:most]
        for key in taken:
            del self._waiting[key]
            self._due.pop(key, None)
        self._working.update(taken)
        return taken

    def done(self, keys: Collection[K]) -> None:
        """The worker is through with these."""
        self._working.difference_update(keys)
        again = self._again.intersection(keys)
        self._again -= again
        if again:
            self.add(again)

    async def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake_due()
            if self._waiting:
                return
            self._changed.clear()
            timeout = self._later[0][0] - loop.time() if self._later else None
            await happened(timeout, self._changed)

    def _wake_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add([key])
