"""Debounces the report of something missing: watches and brokers learn of new objects one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.reasons import Reason


class Absences:
    """What each KafkaTopic misses, and since when. Times are in seconds of one clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[ObjectKey, dict[Reason, float]] = {}

    def seconds_left(self, key: ObjectKey, reason: Reason, now: float) -> float:
        """How long the absence, which begins with the first call, is not to be reported yet; 0 once it is."""
        since = self._since.setdefault(key, {}).setdefault(reason, now)
        return max(0.0, self._seconds - (now - since))

    def clear(self, key: ObjectKey) -> None:
        """Nothing is missing any more, or the KafkaTopic is gone."""
        self._since.pop(key, None)
