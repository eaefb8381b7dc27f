"""Detects loops that hang, for the liveness probe: how long each running task has made no progress."""

from __future__ import annotations

import contextlib
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


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
    """Tell the task that is tracked here that something it waited for has answered, successfully or not."""
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
