"""Waiting for events and for external systems: with a timeout, debounced, and visible to the liveness probe.

`asyncio.wait_for` is not used: up to Python 3.11 it swallows a cancellation that coincides with the awaited event, so
a cancelled loop would continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping


@dataclass(slots=True)
class _Task:
    name: str
    progress_at: float
    clock: Callable[[], float]
    waits: int = 0
    """The number of the task's steps that wait for an external system, such as a tenant's Kafka."""


_CURRENT: ContextVar[_Task | None] = ContextVar("task", default=None)


class Liveness:
    """Detects stalled loops, which wrap each iteration in `track`. An idle loop is not tracked, so it never stalls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[int, _Task] = {}

    @contextlib.contextmanager
    def track(self, name: str) -> Iterator[None]:
        """Track a task within the block. `progress()` counts for it there, and in asyncio tasks that start there."""
        task = _Task(name, self._clock(), self._clock)
        self._tasks[id(task)] = task
        token = _CURRENT.set(task)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            del self._tasks[id(task)]

    def stalled(self, seconds: float) -> Mapping[str, float]:
        """Return the tasks without progress for at least `seconds`: seconds since their last progress, by name."""
        now = self._clock()
        ages = ((task.name, now - task.progress_at) for task in self._tasks.values() if not task.waits)
        return {name: round(age, 1) for name, age in ages if age >= seconds}


def progress() -> None:
    """Record progress of the tracked task: a system for which it waited has responded, successfully or not."""
    task = _CURRENT.get()
    if task is not None:
        task.progress_at = task.clock()


@contextlib.contextmanager
def waiting_for_others() -> Iterator[None]:
    """Mark the tracked task as waiting for an external system within the block, so it does not count as stalled."""
    task = _CURRENT.get()
    if task is None:
        yield
        return
    task.waits += 1
    try:
        yield
    finally:
        task.waits -= 1
        task.progress_at = task.clock()


async def wait_for_any(seconds: float | None, *events: asyncio.Event) -> bool:
    """Wait until any event is set, or for `seconds` (None: no limit). Return whether an event is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)


async def wait_debounced(wake: asyncio.Event, seconds: float, debounce: float) -> None:
    """Wait for `wake`, or for `seconds`. After `wake`, wait `debounce` seconds to gather a burst. Clears `wake`."""
    if await wait_for_any(seconds, wake):
        await asyncio.sleep(debounce)
    wake.clear()


MIN_SECONDS: Final = 0.2
"""The shortest delay: enough to gather the events of a rollout, or of nodes that are relabelled together."""
MAX_SECONDS: Final = 5.0
RESET_SECONDS: Final = 30.0
"""After so many seconds without an event of an object, its delay is the shortest again."""
APART_SECONDS: Final = 1.0
"""The least time between two handlings, however many objects change."""


@dataclass(frozen=True, slots=True)
class _Last:
    """An object's last delay, and when that delay ended."""

    delay: float
    due: float


@dataclass(slots=True)
class Debounce:
    """An exponentially growing delay, per object, between its event and the handling. Times are in seconds.

    An object that changes once is not delayed by another object that flaps.
    """

    due: float | None = None
    """When the pending changes have to be handled, or None if there are none."""
    _pending: set[Hashable] = field(default_factory=set)
    _last: dict[Hashable, _Last] = field(default_factory=dict)
    """The last delays of objects that changed recently."""
    _handled: float = float("-inf")

    def changed(self, key: Hashable, now: float) -> None:
        """Record a change of an object: `due` in at most twice the object's last delay, within the bounds above."""
        if key in self._pending:
            return
        last = self._last.get(key)
        calm = last is None or now - last.due > RESET_SECONDS
        delay = MIN_SECONDS if last is None or calm else min(MAX_SECONDS, 2 * last.delay)
        due = max(now + delay, self._handled + APART_SECONDS)
        self._pending.add(key)
        self._last[key] = _Last(delay, due)
        self.due = due if self.due is None else min(self.due, due)

    def handled(self, now: float) -> None:
        """Record that all pending changes are handled now."""
        if self._pending:
            self._handled, self.due = now, None
            self._pending.clear()
            self._last = {key: last for key, last in self._last.items() if now - last.due <= RESET_SECONDS}
