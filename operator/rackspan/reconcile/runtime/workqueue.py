"""A work queue of keys, with the contract of client-go's `util/workqueue`.

A key waits at most once and is processed by one worker at a time. One that is added while a worker has it is handed out
again after that worker's `done`, so that no change is lost.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from typing import TYPE_CHECKING, Generic, TypeVar

from rackspan.reconcile.runtime.waiting import wait_for_any

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

K = TypeVar("K", bound="Hashable")

_MIN_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """Keys to reconcile, in the order in which they were added. Not thread-safe: for one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        """Keys that were added while they were being processed."""
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether no key waits for its turn or is being processed, apart from those that are due later."""
        return not self._waiting and not self._processing

    def add(self, keys: Iterable[K]) -> None:
        """Queue these; keys that wait already keep their places."""
        for key in keys:
            if key in self._processing:
                self._dirty.add(key)
            else:
                self._waiting.setdefault(key)
        self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key after `seconds`, or at the earlier time that was asked for before."""
        due = asyncio.get_running_loop().time() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._delayed, (due, self._sequence, key))
        self._changed.set()

    def add_rate_limited(self, key: K) -> None:
        """Queue a key that failed, after exponential back-off: 0.5 s to 60 s, with 20 % jitter."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_MAX_BACKOFF_SECONDS, _MIN_BACKOFF_SECONDS * 2 ** min(count - 1, 10))
        self.add_after(key, delay * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret

    def forget(self, key: K) -> None:
        """Reset the back-off of a key that succeeded."""
        self._failures.pop(key, None)

    def remove(self, key: K) -> None:
        """Remove a key whose object was deleted."""
        self._waiting.pop(key, None)
        self._due.pop(key, None)
        self._dirty.discard(key)
        self.forget(key)

    async def get_batch(self, max_keys: int, debounce: float, max_wait: float = 0.0) -> list[K]:
        """Wait for keys, and take up to `max_keys` of them; `done` must follow.

        To gather a burst into one batch, it waits until no key was added for `debounce` seconds, and for `max_wait`
        seconds at most; not at all where no key is being processed.
        """
        await self._wait_for_keys()
        loop = asyncio.get_running_loop()
        end = loop.time() + max(debounce, max_wait)
        before = 0
        while self._processing and before < len(self._waiting) < max_keys and debounce > 0 and loop.time() < end:
            before = len(self._waiting)
            await asyncio.sleep(debounce)
            self._add_due()
        taken = list(self._waiting)[:max_keys]
        for key in taken:
            del self._waiting[key]
            self._due.pop(key, None)
        self._processing.update(taken)
        return taken

    def done(self, keys: Collection[K]) -> None:
        """Mark keys as processed; those that were added meanwhile are queued again."""
        self._processing.difference_update(keys)
        dirty = self._dirty.intersection(keys)
        self._dirty -= dirty
        if dirty:
            self.add(dirty)

    async def _wait_for_keys(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._add_due()
            if self._waiting:
                return
            self._changed.clear()
            timeout = self._delayed[0][0] - loop.time() if self._delayed else None
            await wait_for_any(timeout, self._changed)

    def _add_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add([key])
