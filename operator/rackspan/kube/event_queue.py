"""Posts Kubernetes Events from a bounded queue, one of each namespace in turn, so that nothing waits for them."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rackspan.api.labels import GROUP, VERSION
from rackspan.api.meta import ObjectKey
from rackspan.api.times import timestamp
from rackspan.kube.event_correlator import Correlator
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


class EventQueue:
    """Events that wait to be posted. Where there are too many, the namespace with the most loses one, which is counted.

    Events only help people.
    """

    def __init__(self, rest: Rest, beats: Liveness | None = None) -> None:
        self._beats = beats or Liveness()
        self._rest = rest
        self._waiting: dict[str, deque[KubernetesEvent]] = {}
        """By namespace, in the order of their turns; none is empty."""
        self._count = 0
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._correlator = Correlator()

    def put(self, announcement: KubernetesEvent) -> None:
        """Queue an Event without waiting; what is dropped for it is counted in `rackspan_events_dropped_total`."""
        self._waiting.setdefault(announcement.about.key.namespace, deque()).append(announcement)
        self._count += 1
        if self._count > _MOST_WAITING:
            self._take(max(self._waiting, key=lambda namespace: len(self._waiting[namespace])), -1)
            EVENTS_DROPPED.inc()
        self._some.set()
        self._idle.clear()

    async def run(self) -> None:
        """Post until cancelled. An Event that cannot be posted is counted and logged."""
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
        """Wait until `run` has posted what is queued; what it has not after `seconds` is counted as dropped."""
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
