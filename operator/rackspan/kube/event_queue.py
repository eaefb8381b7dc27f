"""Posts Kubernetes Events from a bounded queue, round-robin over the namespaces. Callers do not wait for the post."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rackspan.api.codec import timestamp
from rackspan.api.labels import GROUP, VERSION
from rackspan.api.meta import ObjectKey
from rackspan.kube.paths import EVENTS
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.metrics import EVENTS_DROPPED
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.waiting import Liveness

if TYPE_CHECKING:
    from rackspan.reconcile.ports import KubernetesEvent

_log = logging.getLogger("rackspan.kube")
_MOST_WAITING = 5_000
_MESSAGE_LIMIT = 1_000
SERIES_SECONDS = 600.0
MAX_MESSAGES_PER_REASON = 10
MAX_REMEMBERED = 4_096
"""The number of Events to remember. The least recently posted Event is forgotten first."""
COMBINED = "(combined from similar events) "

V = TypeVar("V")


class EventQueue:
    """The Events that wait to be posted. If there are too many, the namespace with the most Events loses its newest.

    The dropped Events are counted. Events only inform people, so the operator can lose some.
    """

    def __init__(self, rest: Rest, beats: Liveness | None = None) -> None:
        self._beats = beats or Liveness()
        self._rest = rest
        self._waiting: dict[str, deque[KubernetesEvent]] = {}
        """The Events by namespace, in round-robin order. No queue in it is empty."""
        self._count = 0
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._correlator = Correlator()

    def put(self, announcement: KubernetesEvent) -> None:
        """Queue an Event without waiting. Count an Event that is dropped for it in `rackspan_events_dropped_total`.

        Cut the message, because users can make it long and it stays in memory long after the Event was posted.
        """
        announcement = replace(announcement, message=announcement.message[:_MESSAGE_LIMIT])
        self._waiting.setdefault(announcement.about.key.namespace, deque()).append(announcement)
        self._count += 1
        if self._count > _MOST_WAITING:
            self._take(max(self._waiting, key=lambda namespace: len(self._waiting[namespace])), -1)
            EVENTS_DROPPED.inc()
        self._some.set()
        self._idle.clear()

    async def run(self) -> None:
        """Post Events until cancelled. Count and log the Events that cannot be posted."""
        while True:
            await self._some.wait()
            namespace = next(iter(self._waiting))
            announcement = self._take(namespace, 0)
            if namespace in self._waiting:
                self._waiting[namespace] = self._waiting.pop(namespace)  # behind all others
            try:
                with self._beats.track("events"):
                    await self._post(announcement)
            except (FailureError, NotFoundError, ConflictError) as error:
                EVENTS_DROPPED.inc()
                _log.warning("an Event could not be posted: %s", error)
            except Exception:
                EVENTS_DROPPED.inc()
                _log.exception("an Event could not be posted")
            finally:
                if not self._waiting:
                    self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Wait at most `seconds` until `run` has posted all queued Events. Count the remaining Events as dropped."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            EVENTS_DROPPED.inc(self._count)
            _log.warning("%d Events were not posted before the end", self._count)

    def _take(self, namespace: str, at: int) -> KubernetesEvent:
        waiting = self._waiting[namespace]
        taken = waiting[at]
        del waiting[at]
        if not waiting:
            del self._waiting[namespace]
        self._count -= 1
        if not self._count:
            self._some.clear()
        return taken

    async def _post(self, announcement: KubernetesEvent) -> None:
        key, now = announcement.about.key, time.monotonic()
        series = self._correlator.series(announcement, now)
        known = self._correlator.last(series, now)
        if known is not None:
            again = {"count": known.count + 1, "lastTimestamp": _now(), "message": series.message[:_MESSAGE_LIMIT]}
            try:
                await self._rest.merge_patch("patch_event", EVENTS.object(ObjectKey(key.namespace, known.name)), again)
            except NotFoundError:
                self._correlator.forget(series)
            else:
                self._correlator.posted(series, known.name, now)
                return
        made = await self._rest.post(
            "create_event", EVENTS.in_namespace(key.namespace), _event(announcement, series.message)
        )
        self._correlator.posted(series, made["metadata"]["name"], now)


def _now() -> str:
    return timestamp(dt.datetime.now(dt.UTC))


def _event(announcement: KubernetesEvent, message: str) -> dict[str, Any]:
    about = announcement.about
    now = _now()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.key.name[:200]}.", "namespace": about.key.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": about.kind,
            "namespace": about.key.namespace,
            "name": about.key.name,
            "uid": about.uid,
        },
        "type": "Warning" if announcement.warning else "Normal",
        "reason": announcement.reason,
        "message": message[:_MESSAGE_LIMIT],
        "source": {"component": "rackspan"},
        "reportingComponent": "rackspan.dev/operator",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


@dataclass(frozen=True, slots=True)
class Posted:
    """A posted Event: its name, its count, and the time of its last post in seconds of a monotonic clock."""

    name: str
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Series:
    """The announcements that share one Event: `key` identifies them, and `message` is the text of the Event."""

    key: tuple[object, ...]
    message: str


class Correlator:
    """Decides whether an announcement becomes a new Event or updates the Event of a series. Times are in seconds.

    The rules are those of client-go's correlator. A message that is repeated within ten minutes increases the count of
    its Event. If an object has many messages for one reason, all messages after the tenth share one Event.
    """

    def __init__(self) -> None:
        self._posted: OrderedDict[tuple[object, ...], Posted] = OrderedDict()
        self._sentences: OrderedDict[tuple[object, ...], tuple[int, float]] = OrderedDict()

    def series(self, announcement: KubernetesEvent, now: float) -> Series:
        """Return the series of the announcement."""
        of_reason = (announcement.about.uid, announcement.warning, announcement.reason)
        exact = Series((*of_reason, announcement.message), announcement.message)
        if self.last(exact, now) is not None:
            return exact
        number, since = self._sentences.get(of_reason, (0, now))
        if now - since > SERIES_SECONDS:
            number, since = 0, now
        if number >= MAX_MESSAGES_PER_REASON:
            return Series(of_reason, COMBINED + announcement.message)
        _remember(self._sentences, of_reason, (number + 1, since))
        return exact

    def last(self, series: Series, now: float) -> Posted | None:
        """Return the Event of the series if it was posted within ten minutes, or None if a new Event is needed."""
        found = self._posted.get(series.key)
        return found if found is not None and now - found.at <= SERIES_SECONDS else None

    def posted(self, series: Series, name: str, now: float) -> None:
        """Record that the series was posted in the Event with this name."""
        before = self._posted.get(series.key)
        count = before.count + 1 if before is not None and before.name == name else 1
        _remember(self._posted, series.key, Posted(name, count, now))

    def forget(self, series: Series) -> None:
        """Forget a deleted Event: the API server keeps Events for an hour only."""
        self._posted.pop(series.key, None)


def _remember(where: OrderedDict[tuple[object, ...], V], key: tuple[object, ...], value: V) -> None:
    where[key] = value
    where.move_to_end(key)
    if len(where) > MAX_REMEMBERED:
        where.popitem(last=False)
