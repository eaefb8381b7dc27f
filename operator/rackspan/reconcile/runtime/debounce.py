"""Adaptive debouncing: bursts of events are handled together, and a flapping object is handled rarely. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MIN_SECONDS = 0.2
"""Enough to gather the many events of a rollout, or of nodes that are relabelled together."""
MAX_SECONDS = 5.0
RESET_SECONDS = 30.0
"""Seconds without an event after which the delay is the shortest again."""


@dataclass(slots=True)
class Debounce:
    """Exponentially growing delay between an event and its handling. Times are in seconds."""

    _last: float = float("-inf")
    _delay: float = MIN_SECONDS

    def delay(self, now: float) -> float:
        """Seconds to wait after an event at `now` before handling it; twice the last delay, within the bounds above."""
        self._delay = MIN_SECONDS if now - self._last > RESET_SECONDS else min(MAX_SECONDS, 2 * self._delay)
        self._last = now + self._delay
        return self._delay
