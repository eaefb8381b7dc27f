"""Which Event an announcement becomes: a new one, or one more of a series. Pure: the clock is an argument.

As client-go's correlator does it: a message that is repeated within ten minutes raises the count of its Event; and
of an object with many messages for one reason, those after the tenth share one more Event.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rackspan.reconcile.ports import KubernetesEvent

SERIES_SECONDS = 600.0
MAX_MESSAGES_PER_REASON = 10
MAX_REMEMBERED = 4_096
"""Events that are remembered; the one that was posted longest ago is forgotten first."""
COMBINED = "(combined from similar events) "

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Posted:
    """An Event that was posted: its name, its count, and when it was posted last, in seconds of a monotonic clock."""

    name: str
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Series:
    """The announcements that share one Event: `key` identifies them, and `message` is what the Event says."""

    key: tuple[object, ...]
    message: str


class Correlator:
    """Finds the Event on which an announcement is counted, of the last ten minutes; times are in seconds."""

    def __init__(self) -> None:
        self._posted: OrderedDict[tuple[object, ...], Posted] = OrderedDict()
        self._sentences: OrderedDict[tuple[object, ...], tuple[int, float]] = OrderedDict()

    def series(self, announcement: KubernetesEvent, now: float) -> Series:
        """The series that it belongs to."""
        of_reason = (announcement.about.uid, announcement.warning, announcement.reason)
        exact = (*of_reason, announcement.message)
        if self._lately(exact, now) is not None:
            return Series(exact, announcement.message)
        number, since = self._sentences.get(of_reason, (0, now))
        if now - since > SERIES_SECONDS:
            number, since = 0, now
        if number >= MAX_MESSAGES_PER_REASON:
            return Series(of_reason, COMBINED + announcement.message)
        _remember(self._sentences, of_reason, (number + 1, since))
        return Series(exact, announcement.message)

    def last(self, series: Series, now: float) -> Posted | None:
        """The Event of the series that was posted within ten minutes; None where a new one is needed."""
        return self._lately(series.key, now)

    def posted(self, series: Series, name: str, now: float) -> None:
        """Note that the series was posted in the Event of that name."""
        before = self._posted.get(series.key)
        count = before.count + 1 if before is not None and before.name == name else 1
        _remember(self._posted, series.key, Posted(name, count, now))

    def forget(self, series: Series) -> None:
        """Forget an Event that is gone: the API server keeps them for an hour."""
        self._posted.pop(series.key, None)

    def _lately(self, key: tuple[object, ...], now: float) -> Posted | None:
        found = self._posted.get(key)
        return found if found is not None and now - found.at <= SERIES_SECONDS else None


def _remember(where: OrderedDict[tuple[object, ...], V], key: tuple[object, ...], value: V) -> None:
    where[key] = value
    where.move_to_end(key)
    if len(where) > MAX_REMEMBERED:
        where.popitem(last=False)
