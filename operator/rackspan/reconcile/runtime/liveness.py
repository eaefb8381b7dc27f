"""Which steps are under way, and for how long none of them has got on: what the liveness probe judges by."""

from __future__ import annotations

import contextlib
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(slots=True)
class _Step:
    name: str
    at: float
    clock: Callable[[], float]


_CURRENT: ContextVar[_Step | None] = ContextVar("step", default=None)


class Liveness:
    """Loops tell of each step that they take. One that waits for something to do is in none, and never stalls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: dict[int, _Step] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step, from here to the end of the block. Calls of `progress` within it, also in its tasks, are its own."""
        step = _Step(name, self._clock(), self._clock)
        self._steps[id(step)] = step
        token = _CURRENT.set(step)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            del self._steps[id(step)]

    def stalled(self, seconds: float) -> Mapping[str, float]:
        """Steps that have not got on for so long, and for how long."""
        now = self._clock()
        ages = ((step.name, now - step.at) for step in self._steps.values())
        return {name: round(age, 1) for name, age in ages if age >= seconds}


def progress() -> None:
    """The step that is under way here has got on: something that it waited for has answered, be it with a failure."""
    step = _CURRENT.get()
    if step is not None:
        step.at = step.clock()
