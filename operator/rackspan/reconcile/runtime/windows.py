"""Maintenance windows: times that a cron expression begins and that last a while. Pure: the clock is an argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.policies import MaintenanceWindow

_DURATION: Final = re.compile(r"(?:([0-9]{1,3})h)?(?:([0-9]{1,4})m)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Windows:
    """Several windows; open while any of them is. Without any it is always time."""

    _windows: tuple[tuple[Schedule, timedelta], ...]

    @classmethod
    def parse(cls, windows: Sequence[MaintenanceWindow]) -> Self:
        """Parse `spec.reassignment.windows`. Raises ScheduleError."""
        return cls(tuple((Schedule.parse(one.schedule, one.time_zone), duration_of(one.duration)) for one in windows))

    def closes(self, now: datetime) -> datetime | None:
        """When the last of the windows closes that are open now; None where none is open, or there are none."""
        begun = ((schedule.latest(now - lasts, now), lasts) for schedule, lasts in self._windows)
        return max((start + lasts for start, lasts in begun if start is not None), default=None)

    def opens(self, now: datetime) -> datetime | None:
        """When the next one opens; None where none ever does, or there are none."""
        return min((start for schedule, _ in self._windows if (start := schedule.after(now)) is not None), default=None)

    def is_open(self, now: datetime) -> bool:
        """Whether something may begin now."""
        return not self._windows or self.closes(now) is not None


def is_open(windows: Sequence[MaintenanceWindow], now: datetime) -> bool:
    """Whether it is the time; never where a window cannot be read."""
    try:
        return Windows.parse(windows).is_open(now)
    except ScheduleError:
        return False


def duration_of(text: str) -> timedelta:
    """A duration such as `4h`, `90m` or `1h30m`. Raises ScheduleError."""
    found = _DURATION.fullmatch(text)
    lasts = timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0)) if found else timedelta()
    if not lasts:
        raise ScheduleError(f"the duration {text!r} is not like 4h, 90m or 1h30m")
    return lasts
