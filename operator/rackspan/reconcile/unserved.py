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
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.topology_controller import StatusPart

_WORKERS = 2
_WORKERS_OF_A_NAMESPACE = 1
_REST = 10
"""A worker's pause after a report, as a multiple of its CPU time: a report covers all KafkaTopics of a topology."""


class Unserved:
    """Keeps finalizers and statuses of these RackTopologies and of their KafkaTopics up to date.

    `serve` is called with a RackTopology that turns out to be served.
    """

    def __init__(self, dependencies: Dependencies, serve: Callable[[ObjectKey], object]) -> None:
        self.status_parts: Sequence[StatusPart] = ()
        """The parts of statuses that other loops contribute."""
        self._dependencies = dependencies
        self._serve = serve
        self._keys: set[ObjectKey] = set()
        self._reporting: set[ObjectKey] = set()
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
            await asyncio.sleep(_REST * (time.thread_time() - began))

    async def _report(self, key: ObjectKey) -> None:
        cache = self._dependencies.cache
        topology, failure = cache.topologies.get(key), cache.quota.over_quota(key)
        if topology is None or failure is None:
            self.drop(key)
            if topology is not None:
                self._serve(key)
            return
        observer = _Unasked(topology, failure, self._dependencies)
        self._reporting.add(key)
        try:
            with self._dependencies.liveness.track(f"status of {key}"):
                await TopologyReconciler(key, self._dependencies, self.status_parts, observer).report()
        except FailureError:  # logged where it was written
            self._queue.add_rate_limited(key)
        except Exception as error:
            unexpected_failure("reconcile", key, error)
            self._queue.add_rate_limited(key)
        else:
            self._wait(key)
        finally:
            self._reporting.discard(key)

    def _wait(self, key: ObjectKey) -> None:
        """Queue a reported RackTopology for its resync, or earlier while a deletion waits or a finalizer is missing."""
        cache = self._dependencies.cache
        topology = cache.topologies.get(key)
        if topology is None:
            return
        deleting = topology.meta.is_deleting or any(cache.topics[one].meta.is_deleting for one in cache.topics_of(key))
        if deleting or not has_finalizer(topology.meta):
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
            self._queue.add_after(key, self._dependencies.resync_seconds)


class _Unasked(Observer):
    """The observer of a RackTopology that is not served. It asks no Kafka, so topics are out of sight."""

    def __init__(self, topology: RackTopology, failure: Failure, dependencies: Dependencies) -> None:
        super().__init__(topology.key, dependencies)
        self.state, self.failed_spec = failure, topology.spec

    @property
    def out_of_sight(self) -> float:
        """Zero seconds: what was seen before is not trusted."""
        return 0.0
