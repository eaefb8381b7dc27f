"""Cron expressions in a time zone, and the maintenance windows that they open. Pure: the clock is an argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from rackspan.api.policies import MaintenanceWindow

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_SAMPLE: Final = 200
"""How many consecutive times `shortest_interval` compares. At an interval of 15 minutes they cover two days."""


class ScheduleError(ValueError):
    """An invalid cron expression, one that matches no time, or an unknown time zone."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a time zone.

    Daylight saving time is handled as in Debian's cron. Times in the hour that is skipped run right after it, and times
    in the hour that is repeated run once. Expressions with `*` in minutes or hours follow the clock.
    """

    text: str
    """The expression and the time zone, which the status records to detect a change."""
    _expression: str
    _zone: tzinfo

    @classmethod
    def parse(cls, expression: str, time_zone: str | None) -> Self:
        """Parse `spec.compliance.schedule` and `timeZone` (default: UTC). Raises ScheduleError."""
        try:
            zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        except (KeyError, ValueError, OSError) as error:
            raise ScheduleError(f"there is no time zone {time_zone!r}") from error
        text = " ".join(expression.split())
        # CronJob accepts ? for *, but cronsim does not.
        schedule = cls(f"{text} {time_zone or 'UTC'}", _MACROS.get(text, text).replace("?", "*"), zone)
        try:
            if schedule.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
                raise ScheduleError(f"the schedule {text!r} never comes")
        except CronSimError as error:
            raise ScheduleError(f"the schedule {text!r} cannot be read: {error}") from error
        return schedule

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment`, in UTC, or None if there is none within the next decades."""
        return self._first(moment, reverse=False)

    def latest(self, since: datetime, until: datetime) -> datetime | None:
        """Return the last time in (`since`, `until`], in UTC, or None."""
        found = self._first(until.replace(microsecond=0) + timedelta(seconds=1), reverse=True)
        return found if found is not None and found > since else None

    def count(self, since: datetime, until: datetime, most: int) -> int:
        """Return the number of times in (`since`, `until`], at most `most`."""
        number, moment = 0, self.after(since)
        while moment is not None and moment <= until and number < most:
            number, moment = number + 1, self.after(moment)
        return number

    @property
    def shortest_interval(self) -> float:
        """The seconds between the two closest of its first times since the year 2000, infinite if there is only one."""
        return _shortest_interval(self._expression)

    def _first(self, moment: datetime, *, reverse: bool) -> datetime | None:
        found = next(CronSim(self._expression, moment.astimezone(self._zone), reverse=reverse), None)
        return found.astimezone(UTC) if found is not None else None


@lru_cache(maxsize=1024)
def _shortest_interval(expression: str) -> float:
    times = list(islice(CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)), _SAMPLE))
    return min(((later - earlier).total_seconds() for earlier, later in pairwise(times)), default=float("inf"))


_DURATION: Final = re.compile(r"(?:([0-9]{1,3})h)?(?:([0-9]{1,4})m)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class MaintenanceWindows:
    """Several windows, open while any window is open. Without any windows they are always open."""

    _windows: tuple[tuple[Schedule, timedelta], ...]

    @classmethod
    def parse(cls, windows: Sequence[MaintenanceWindow]) -> Self:
        """Parse `spec.reassignment.windows`. Raises ScheduleError."""
        return cls(tuple((Schedule.parse(one.schedule, one.time_zone), duration_of(one.duration)) for one in windows))

    def opens(self, now: datetime) -> datetime | None:
        """Return when the next window opens, or None if none will open or there are no windows."""
        return min((start for schedule, _ in self._windows if (start := schedule.after(now)) is not None), default=None)

    def is_open(self, now: datetime) -> bool:
        """Return whether a window is open at `now`, or there are no windows."""
        begun = (schedule.latest(now - lasts, now) for schedule, lasts in self._windows)
        return not self._windows or any(start is not None for start in begun)


def is_open(windows: Sequence[MaintenanceWindow], now: datetime) -> bool:
    """Return whether one of the windows is open at `now`. False if any window is invalid."""
    try:
        return MaintenanceWindows.parse(windows).is_open(now)
    except ScheduleError:
        return False


def duration_of(text: str) -> timedelta:
    """Parse a duration such as `4h`, `90m` or `1h30m`. Raises ScheduleError."""
    found = _DURATION.fullmatch(text)
    lasts = timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0)) if found else timedelta()
    if not lasts:
        raise ScheduleError(f"the duration {text!r} is not like 4h, 90m or 1h30m")
    return lasts
