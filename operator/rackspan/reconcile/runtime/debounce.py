"""How long to gather changes before looking at them, so that what flaps costs no more than what changes once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 0.2
"""A rollout or a relabelled zone is many events that come together."""
MOST_SECONDS = 5.0
CALM_SECONDS = 30.0
"""How long nothing must have changed before the next change is looked at as quickly as the first."""


@dataclass(slots=True)
class Debounce:
    """Each look that a change gives rise to doubles the time that the next change is waited with; times in seconds."""

    _last: float = float("-inf")
    _delay: float = FIRST_SECONDS

    def delay(self, now: float) -> float:
        """How long to wait with a change that was noticed at `now`, for more that come with it."""
        self._delay = FIRST_SECONDS if now - self._last > CALM_SECONDS else min(MOST_SECONDS, 2 * self._delay)
        self._last = now + self._delay
        return self._delay
