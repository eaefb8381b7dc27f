"""Adaptive debouncing: bursts of events are handled together, and a flapping object is handled rarely. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

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
