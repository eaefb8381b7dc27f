"""A work queue of keys, with the contract of client-go's `util/workqueue`.

A key waits at most once and is processed by one worker at a time. A key that is added while a worker processes it is
queued again after that worker's `done`, so no change is lost.

Keys belong to groups, such as namespaces. A group is busy while any of its keys is processed. Idle groups do not wait
for busy groups: they share no batch with them, are taken without a debounce, and are not limited by `busy_batches`.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from rackspan.reconcile.runtime.waiting import wait_for_any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

K = TypeVar("K", bound="Hashable")

_MIN_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 60.0


def backoff(first: float, times: int) -> float:
    """Return `first` seconds, doubled `times` times, at most a minute."""
    return min(_MAX_BACKOFF_SECONDS, first * (1 << min(times, 10)))


@dataclass(slots=True)
class _Gathering:
    """A busy group that waits for more keys: until `end`, or until no key is added between two looks."""

    group: Hashable
    end: float
    look_at: float
    seen: int = 0


class WorkQueue(Generic[K]):
    """A queue of keys to reconcile: groups by their oldest key, keys of a group in the order of their addition.

    `group_of` returns the group of a key. Busy groups get a batch only while fewer than `busy_batches` batches are
    processed. Not thread-safe: for one event loop.
    """

    def __init__(self, group_of: Callable[[K], Hashable], busy_batches: int) -> None:
        self._group_of = group_of
        self._busy_batches = busy_batches
        self._waiting: dict[Hashable, dict[K, None]] = {}
        self._idle: dict[Hashable, None] = {}
        """Groups of `_waiting` that are not busy."""
        self._busy: Counter[Hashable] = Counter()
        """The number of keys that are processed now, by group."""
        self._batches = 0
        self._gathering: _Gathering | None = None
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        """Keys that were added while they were being processed."""
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no key waits, also not for a later time."""
        return not self._waiting and not self._due

    def add(self, keys: Iterable[K]) -> None:
        """Queue keys. Keys that wait already keep their places."""
        for key in keys:
            if key in self._processing:
                self._dirty.add(key)
                continue
            group = self._group_of(key)
            if group not in self._waiting:
                self._waiting[group] = {}
                self._changed.set()  # further keys of a waiting group are found at the next look
                if not self._busy[group]:
                    self._idle[group] = None
            self._waiting[group].setdefault(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key after `seconds`, or at an earlier time that was requested before."""
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
        delay = backoff(_MIN_BACKOFF_SECONDS, count - 1)
        self.add_after(key, delay * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret

    def forget(self, key: K) -> None:
        """Reset the back-off of a key that succeeded."""
        self._failures.pop(key, None)

    def remove(self, key: K) -> None:
        """Remove a key whose object was deleted."""
        self._unqueue([key])
        self._dirty.discard(key)
        self.forget(key)

    async def get_batch(self, max_keys: int, debounce: float, max_wait: float) -> list[K]:
        """Wait for keys and take up to `max_keys` of them. The caller must call `done` with the same keys.

        Keys of idle groups are taken at once. To gather a burst of a busy group into one batch, this method waits until
        no key of the group was added for `debounce` seconds, but at most for `max_wait` seconds.
        """
        while not (taken := self._of_idle_groups(max_keys) or self._gathered(max_keys, debounce, max_wait)):
            await wait_for_any(self._next_look(), self._changed)
        self._unqueue(taken)
        self._processing.update(taken)
        self._busy.update(map(self._group_of, taken))
        self._batches += 1
        for group in set(map(self._group_of, taken)):
            self._idle.pop(group, None)
            if group in self._waiting:  # the group's remaining keys come after the other groups
                self._waiting[group] = self._waiting.pop(group)
            if self._gathering is not None and self._gathering.group == group:
                self._gathering = None
        return taken

    def done(self, keys: Collection[K]) -> None:
        """Mark the keys of a batch as processed. Keys that were added meanwhile are queued again."""
        self._processing.difference_update(keys)
        self._batches -= 1
        self._busy.subtract(map(self._group_of, keys))
        for group in {self._group_of(key) for key in keys}:
            if not self._busy[group]:
                del self._busy[group]
                if group in self._waiting:
                    self._idle[group] = None
        dirty = self._dirty.intersection(keys)
        self._dirty -= dirty
        self.add(dirty)
        self._changed.set()

    def _of_idle_groups(self, max_keys: int) -> list[K]:
        self._changed.clear()
        self._add_due()
        taken: list[K] = []
        for group in self._idle:
            taken += list(self._waiting[group])[: max_keys - len(taken)]
            if len(taken) == max_keys:
                break
        return taken

    def _gathered(self, max_keys: int, debounce: float, max_wait: float) -> list[K]:
        """Return keys of the busy group that has waited longest, if it has enough keys or has waited long enough."""
        if not self._waiting or not self._has_place:
            return []
        group, keys = next(iter(self._waiting.items()))
        now = asyncio.get_running_loop().time()
        if self._gathering is None or self._gathering.group != group:
            self._gathering = _Gathering(group, now + max(debounce, max_wait), now)
        one = self._gathering
        if debounce <= 0 or len(keys) >= max_keys or now >= one.end or (now >= one.look_at and len(keys) <= one.seen):
            return list(keys)[:max_keys]
        if now >= one.look_at:
            one.seen, one.look_at = len(keys), min(now + debounce, one.end)
        return []

    @property
    def _has_place(self) -> bool:
        """Whether a busy group may get a batch now."""
        return self._batches < self._busy_batches

    def _next_look(self) -> float | None:
        """Return the seconds until keys may be due or gathered, or None if only a change can bring keys."""
        times = [self._delayed[0][0]] if self._delayed else []
        if self._gathering is not None and self._gathering.group in self._waiting and self._has_place:
            times.append(self._gathering.look_at)
        return max(0.0, min(times) - asyncio.get_running_loop().time()) if times else None

    def _unqueue(self, keys: Sequence[K]) -> None:
        for key in keys:
            self._due.pop(key, None)
            group = self._group_of(key)
            waiting = self._waiting.get(group, {})
            waiting.pop(key, None)
            if not waiting:
                self._waiting.pop(group, None)
                self._idle.pop(group, None)

    def _add_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add([key])
