"""How fast copies go, over the last minute, and when they end at that rate. Pure."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_WINDOW = timedelta(seconds=60)
_LONGEST = timedelta(days=3650)


class Rate:
    """Bytes copied by when, of one Reassignment."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque()

    def add(self, now: datetime, copied: int) -> None:
        """Note what has been copied by `now`, in bytes."""
        if self._seen and (now < self._seen[-1][0] or copied < self._seen[-1][1]):
            self._seen.clear()  # the clock was set back, or copies were taken back
        self._seen.append((now, copied))
        while len(self._seen) > 1 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> int | None:
        """Bytes in a second; None before there is anything to compare with."""
        if len(self._seen) < 2:  # noqa: PLR2004
            return None
        (since, before), (now, copied) = self._seen[0], self._seen[-1]
        seconds = (now - since).total_seconds()
        return round((copied - before) / seconds) if seconds > 0 else None

    def end(self, left: int) -> datetime | None:
        """When `left` bytes more are copied; None where that cannot be said."""
        rate = self.per_second
        if not rate or not self._seen:
            return None
        return self._seen[-1][0] + min(timedelta(seconds=min(left / rate, _LONGEST.total_seconds())), _LONGEST)
