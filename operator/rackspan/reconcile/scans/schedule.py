"""Cron expressions in a time zone. Pure: the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from datetime import tzinfo

_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_SAMPLE: Final = 200
"""Times that are looked at: no schedule of every 15 minutes or fewer has as many in two days."""


class ScheduleError(ValueError):
    """A schedule that never comes, or a time zone that is not known."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    When to scan.

    Where clocks are put forward or back it does as Debian's cron does: what falls into the hour that is skipped runs
    right after it, and what falls into the hour that comes twice runs once; every-so-many-minutes schedules go on.
    """

    text: str
    """The expression and the time zone, for people and to see that either changed."""
    _expression: str
    _zone: tzinfo

    @classmethod
    def parse(cls, expression: str, time_zone: str | None = None) -> Self:
        """Read `spec.compliance.schedule` and `timeZone`. Raises ScheduleError."""
        try:
            zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        except (KeyError, ValueError, OSError) as error:
            raise ScheduleError(f"there is no time zone {time_zone!r}") from error
        words = " ".join(expression.split())
        # Kubernetes reads ? as *, cronsim does not know it.
        schedule = cls(f"{words} {time_zone or 'UTC'}", _WORDS.get(words, words).replace("?", "*"), zone)
        try:
            if schedule.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
                raise ScheduleError(f"the schedule {words!r} never comes")
        except CronSimError as error:
            raise ScheduleError(f"the schedule {words!r} cannot be read: {error}") from error
        return schedule

    def after(self, moment: datetime) -> datetime | None:
        """The first time that is later; None where there is none within the next decades."""
        return self._first(moment, reverse=False)

    def latest(self, since: datetime, until: datetime) -> datetime | None:
        """The last time that is later than `since` and no later than `until`; None where there is none."""
        found = self._first(until.replace(microsecond=0) + timedelta(seconds=1), reverse=True)
        return found if found is not None and found > since else None

    def count(self, since: datetime, until: datetime, most: int) -> int:
        """How many times there are after `since` up to `until`; `most` where they are more."""
        number, moment = 0, self.after(since)
        while moment is not None and moment <= until and number < most:
            number, moment = number + 1, self.after(moment)
        return number

    @property
    def shortest_interval(self) -> float:
        """Seconds between the two nearest of its times, from 2000 on and among as many as a day and more can hold."""
        return _shortest_interval(self._expression)

    def _first(self, moment: datetime, *, reverse: bool) -> datetime | None:
        found = next(CronSim(self._expression, moment.astimezone(self._zone), reverse=reverse), None)
        return found.astimezone(UTC) if found is not None else None


@lru_cache(maxsize=1024)
def _shortest_interval(expression: str) -> float:
    times = list(islice(CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)), _SAMPLE))
    return min(((later - earlier).total_seconds() for earlier, later in pairwise(times)), default=float("inf"))
