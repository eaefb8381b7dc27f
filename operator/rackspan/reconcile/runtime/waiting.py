"""Waiting for events and for others: with a timeout, debounced, and in sight of the liveness probe.

`asyncio.wait_for` is not used: up to Python 3.11 it swallows a cancellation that coincides with the awaited event, so
that a cancelled loop would go on.
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
    """How many of its steps wait for somebody outside, such as a tenant's Kafka."""


_CURRENT: ContextVar[_Task | None] = ContextVar("task", default=None)


class Liveness:
    """Loops wrap each iteration in `track`. A loop that is idle tracks nothing, so it never counts as stalled."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[int, _Task] = {}

    @contextlib.contextmanager
    def track(self, name: str) -> Iterator[None]:
        """Track a task within the block. `progress()` counts for it there, also in asyncio tasks started there."""
        task = _Task(name, self._clock(), self._clock)
        self._tasks[id(task)] = task
        token = _CURRENT.set(task)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            del self._tasks[id(task)]

    def stalled(self, seconds: float) -> Mapping[str, float]:
        """Tasks without progress for at least `seconds`: seconds since their last progress, by name."""
        now = self._clock()
        ages = ((task.name, now - task.progress_at) for task in self._tasks.values() if not task.waits)
        return {name: round(age, 1) for name, age in ages if age >= seconds}


def progress() -> None:
    """Note for the task that is tracked here that something it waited for has answered, successfully or not."""
    task = _CURRENT.get()
    if task is not None:
        task.progress_at = task.clock()


@contextlib.contextmanager
def waiting_for_others() -> Iterator[None]:
    """Within the block, the task that is tracked here waits for somebody outside; it does not count as stalled."""
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


MIN_SECONDS: Final = 0.2
"""Enough to gather the many events of a rollout, or of nodes that are relabelled together."""
MAX_SECONDS: Final = 5.0
RESET_SECONDS: Final = 30.0
"""Seconds without an event of an object after which its delay is the shortest again."""
APART_SECONDS: Final = 1.0
"""The least time from one handling to the next, however many objects change."""


@dataclass(frozen=True, slots=True)
class _Last:
    """An object's last delay, and when that was over."""

    delay: float
    due: float


@dataclass(slots=True)
class Debounce:
    """For each object an exponentially growing delay between its event and the handling. Times are in seconds.

    An object that changes once is not held up by another one that flaps.
    """

    due: float | None = None
    """When what has changed has to be handled; None where nothing has."""
    _pending: set[Hashable] = field(default_factory=set)
    _last: dict[Hashable, _Last] = field(default_factory=dict)
    """Of objects that changed lately."""
    _handled: float = float("-inf")

    def changed(self, key: Hashable, now: float) -> None:
        """An object changed: `due` is twice the object's last delay away at most, within the bounds above."""
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
        """All that has changed is handled now."""
        if self._pending:
            self._handled, self.due = now, None
            self._pending.clear()
            self._last = {key: last for key, last in self._last.items() if now - last.due <= RESET_SECONDS}
