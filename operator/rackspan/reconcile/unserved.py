"""The RackTopologies above the quota of their namespace: one queue with few workers for all of them.

Users can create any number of RackTopologies, so one that is not served must not cost a control loop or metric series.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rackspan.reconcile.cluster.observer import Observer
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.controller import unexpected_failure
from rackspan.reconcile.runtime.workqueue import WorkQueue
from rackspan.reconcile.runtime.writers import has_finalizer
from rackspan.reconcile.topology_controller import TopologyReconciler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.topology_controller import StatusPart

_WORKERS = 2
_WORKERS_OF_A_NAMESPACE = 1
_REST, _MOST_REST_SECONDS = 10, 10.0
"""A worker's pause after a report, as a multiple of the event loop's CPU time meanwhile, and the longest one.

A report covers all KafkaTopics of a topology.
"""


class Unserved:
    """Keeps finalizers and statuses of these RackTopologies and of their KafkaTopics up to date.

    `serve` is called with a RackTopology that turns out to be served, and `gone` with one deleted during its report.
    """

    def __init__(
        self, dependencies: Dependencies, serve: Callable[[ObjectKey], object], gone: Callable[[ObjectKey], object]
    ) -> None:
        self.status_parts: Sequence[StatusPart] = ()
        """The parts of statuses that other loops contribute."""
        self._dependencies = dependencies
        self._serve = serve
        self._gone = gone
        self._keys: set[ObjectKey] = set()
        self._reporting: set[ObjectKey] = set()
        self._kept: dict[ObjectKey, TopologyReconciler] = {}
        """Those with something under way, such as a deletion: they know what is confirmed, and since when it waits."""
        self._queue: WorkQueue[ObjectKey] = WorkQueue(lambda key: key.namespace, _WORKERS_OF_A_NAMESPACE)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._keys

    def is_reporting(self, key: ObjectKey) -> bool:
        """Return whether the RackTopology's statuses are being written now: its loop has to wait."""
        return key in self._reporting

    def add(self, key: ObjectKey) -> None:
        """Report a RackTopology soon: it or one of its KafkaTopics has changed."""
        self._keys.add(key)
        self._queue.add([key])

    def drop(self, key: ObjectKey) -> None:
        """Forget a RackTopology that is deleted, or served."""
        self._keys.discard(key)
        self._kept.pop(key, None)
        self._queue.remove(key)

    async def run(self) -> None:
        """Report until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            (key,) = await self._queue.get_batch(1, 0.0, 0.0)
            began = time.thread_time()
            try:
                await self._report(key)
            finally:
                self._queue.done([key])
            await asyncio.sleep(min(_REST * (time.thread_time() - began), _MOST_REST_SECONDS))

    async def _report(self, key: ObjectKey) -> None:
        cache = self._dependencies.cache
        topology, failure = cache.topologies.get(key), cache.quota.over_quota(key)
        if topology is None or failure is None:
            self.drop(key)
            if topology is not None:
                self._serve(key)
            return
        one = self._kept.get(key)
        if one is None:
            one = TopologyReconciler(key, self._dependencies, self.status_parts, _Unasked(key, self._dependencies))
            self._kept[key] = one
        one.cluster.state, one.cluster.failed_spec = failure, topology.spec
        self._reporting.add(key)
        try:
            with self._dependencies.liveness.track(f"status of {key}"):
                is_done = await one.report()
        except FailureError:  # logged where it was written
            is_done = False
        except Exception as error:
            unexpected_failure("reconcile", key, error)
            is_done = False
        finally:
            self._reporting.discard(key)
        if (after := cache.topologies.get(key)) is None:
            self._gone(key)  # its KafkaTopics may have been written once more
        elif is_done and has_finalizer(after.meta) and not after.meta.is_deleting:
            self._kept.pop(key, None)
            self._queue.forget(key)
            self._queue.add_after(key, self._dependencies.resync_seconds)
        else:
            self._queue.add_rate_limited(key)


class _Unasked(Observer):
    """The observer of a RackTopology that is not served. It asks no Kafka, so topics are out of sight."""

    @property
    def out_of_sight(self) -> float:
        """Zero seconds: what was seen before is not trusted."""
        return 0.0
