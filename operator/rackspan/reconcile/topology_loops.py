"""One control loop per RackTopology that is served, and queues with few workers for the others and stray KafkaTopics.

Users can refer to any number of topologies that do not exist, so a nonexistent topology must not cost a control loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.racktopology import RackSource
from rackspan.api.reasons import Reason
from rackspan.metrics import forget_topology, serve_topology
from rackspan.reconcile.cluster.racks import is_broker_pod
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.runtime.controller import LastAsked, request_version
from rackspan.reconcile.runtime.writers import has_finalizer
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler
from rackspan.reconcile.topology_controller import TopologyReconciler
from rackspan.reconcile.unserved import Unserved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import BrokerPod
    from rackspan.reconcile.cluster.state import ClusterState, ObservedCluster
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.topology_controller import StatusPart

_log = logging.getLogger("rackspan.reconcile")
_WORKERS = 2
_REST = 100
"""The pause after KafkaTopics with the same topics are queued, as a multiple of the CPU time that it took."""


class TopologyLoops:
    """Starts the loop of a topology that is served, and ends it after its last batch when that is not so any more."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._status_parts: Sequence[StatusPart] = ()
        self._dependencies = dependencies
        self._cache = dependencies.cache
        self._running: dict[ObjectKey, tuple[TopologyReconciler, asyncio.Task[None]]] = {}
        self._ending: set[ObjectKey] = set()
        """The loops whose last batches are still running: their topologies are deleted, or not served any more."""
        self._stopping = False
        self._asked = LastAsked()
        self._requests: dict[ObjectKey, _Request] = {}
        """The last request of each KafkaTopic."""
        self._contested: dict[tuple[ObjectKey, str], KafkaTopic] = {}
        """A changed or deleted KafkaTopic of each topic that others claim, too, and that are not queued yet."""
        self._is_contested = asyncio.Event()
        self._orphans = TopicsReconciler(None, NoTopology(), dependencies, _nothing)
        self._unserved = Unserved(dependencies, self.start, self._add_strays)

    def contribute(self, status_parts: Sequence[StatusPart]) -> None:
        """Let other loops contribute parts of statuses. They are created after these loops, to which they refer."""
        self._status_parts = self._unserved.status_parts = status_parts

    def __iter__(self) -> Iterator[tuple[ObjectKey, TopologyReconciler]]:
        """Yield the running loops, including those about to end."""
        return ((key, loop) for key, (loop, _) in self._running.items())

    def start(self, key: ObjectKey) -> TopologyReconciler | None:
        """Return a topology's loop, started if none runs. If the topology is not served, report that soon: None.

        It may be a loop that is about to end, such as that of a deleted topology of the same name.
        """
        if key in self._running:
            return self._running[key][0]
        if key not in self._unserved:
            for topic in self._cache.topics_of(key):
                self._orphans.drop(topic)
        if self._stopping:
            return None
        if self._cache.quota.over_quota(key) is not None or self._unserved.is_reporting(key):
            self._unserved.add(key)
            return None
        self._unserved.drop(key)
        loop = TopologyReconciler(key, self._dependencies, self._status_parts)
        task = asyncio.create_task(loop.run(), name=f"topology {key}")
        task.add_done_callback(partial(self._ended, key))
        self._running[key] = (loop, task)
        serve_topology(str(key))
        return loop

    def _keep_quota(self, namespace: str) -> None:
        """Start the loops of the topologies of a namespace that are served, and end those of others."""
        for key in self._cache.quota.served(namespace):
            self.start(key)
        for key in list(self._running):
            if key.namespace == namespace and self._cache.quota.over_quota(key) is not None:
                self._finish(key)

    def _finish(self, key: ObjectKey) -> None:
        if key in self._running and key not in self._ending:
            self._ending.add(key)
            self._running[key][0].finish()

    # --- what wakes them ---------------------------------------------------------------------------------------------

    def topology_changed(self, topology: RackTopology) -> None:
        """Start the topology's loop, and observe soon if its spec changed, or report that it is not served."""
        if self._asked.is_new(topology.key, request_version(topology.meta)):
            self._keep_quota(topology.meta.namespace)
            if (loop := self.start(topology.key)) is not None:
                loop.cluster.wake()
            if topology.spec.shared_with:  # its topic names may conflict with those of other topologies
                self.requeue(self._cache.topics[key] for key in self._cache.topics_of(topology.key))
        if CONFIRM_DELETIONS in topology.meta.annotations and topology.key in self._running:
            self._running[topology.key][0].deletions_confirmed()

    def topology_gone(self, topology: RackTopology) -> None:
        """Handle the deletion of a topology: end its loop after the ongoing batches, and serve another one instead."""
        self._asked.forget(topology.key)
        self._dependencies.statuses.forget(topology.meta.uid)
        self._finish(topology.key)
        if topology.key in self._unserved:
            self._unserved.drop(topology.key)
            self._add_strays(topology.key)
        self._keep_quota(topology.meta.namespace)

    def topic_changed(self, topic: KafkaTopic) -> None:
        """Queue a KafkaTopic unless only its status changed, or the operator's finalizer was added."""
        request, before = _request_of(topic), self._requests.get(topic.key)
        self._requests[topic.key] = request
        if before is None or before.asked != request.asked or (before.has_finalizer and not request.has_finalizer):
            self.requeue([topic])

    def topic_gone(self, topic: KafkaTopic) -> None:
        """Handle the deletion of a KafkaTopic: queue those that wait for its name."""
        self._requests.pop(topic.key, None)
        self._dependencies.statuses.forget(topic.meta.uid)
        self._orphans.drop(topic.key)
        if topic.topology in self._running:
            self._running[topic.topology][0].topic_gone(topic.key)
        elif topic.topology in self._unserved:
            self._unserved.add(topic.topology)
        self.requeue([topic])

    def node_changed(self, key: ObjectKey) -> None:
        """Handle a change or deletion of a Node: observe the topologies that take racks from it."""
        here = [pod for pod in self._cache.pods.values() if pod.node == key.name]
        for topology, loop in self._with_brokers_in(here):
            if topology.spec.rack_source is RackSource.NODES:
                loop.cluster.location_changed(key)

    def pod_changed(self, pod_key: ObjectKey, *pods: BrokerPod | None) -> None:
        """Handle a change or deletion of a Pod that may run a broker. `pods` are its previous and current states."""
        for _, loop in self._with_brokers_in([pod for pod in pods if pod is not None]):
            loop.cluster.location_changed(pod_key)

    def namespace_changed(self, name: str) -> None:
        """Handle a change of a Namespace: its consent affects its topics and the broker pods in it."""
        self.requeue([topic for topic in self._cache.topics.values() if topic.meta.namespace == name])
        for key, loop in self:
            topology = self._cache.topologies.get(key)
            if topology is not None and topology.broker_namespace == name != topology.meta.namespace:
                loop.cluster.wake()

    def _with_brokers_in(self, pods: Sequence[BrokerPod]) -> Iterator[tuple[RackTopology, TopologyReconciler]]:
        """Yield the topologies with a broker in any of these pods, and their loops."""
        for key, loop in self:
            topology = self._cache.topologies.get(key)
            if topology is not None and any(is_broker_pod(topology, pod) for pod in pods):
                yield topology, loop

    # --- one loop ----------------------------------------------------------------------------------------------------

    def look_again(self, key: ObjectKey) -> None:
        """Make a topology's loop observe soon, or report again that the topology is not served."""
        if key in self._running:
            self._running[key][0].cluster.wake()
        elif key in self._unserved:
            self._unserved.add(key)

    def status_changed(self, key: ObjectKey) -> None:
        """Write a topology's status soon, because the part of another loop changed."""
        if key in self._running:
            self._running[key][0].status_changed()
        elif key in self._unserved:
            self._unserved.add(key)

    async def write_status(self, key: ObjectKey) -> None:
        """Write a topology's status now, if its loop exists. Raises FailureError."""
        if key in self._running:
            await self._running[key][0].write_status()

    def cluster(self, key: ObjectKey) -> ObservedCluster | None:
        """Return a topology's Kafka cluster, or None without a loop. A loop of a deleted topology does not count."""
        return self._running[key][0].cluster if key in self._running and key not in self._ending else None

    def requeue(self, topics: Iterable[KafkaTopic]) -> None:
        """Queue KafkaTopics that changed, and soon all others that claim the topics of changed or deleted ones."""
        found: defaultdict[ObjectKey, list[ObjectKey]] = defaultdict(list)
        for topic in topics:
            if topic.key in self._cache.topics:
                found[topic.topology].append(topic.key)
            if self._cache.has_rivals(topic):
                self._contested[topic.topology, topic.topic_name] = topic
                self._is_contested.set()
        self._add(found)

    async def _requeue_rivals(self) -> None:
        """Queue the KafkaTopics that claim contested topics, at intervals: any number of them can claim one topic."""
        while True:
            await self._is_contested.wait()
            began = time.thread_time()
            self.requeue_rivals()
            await asyncio.sleep(_REST * (time.thread_time() - began))

    def requeue_rivals(self) -> None:
        """Queue all KafkaTopics that claim contested topics."""
        found: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)
        for topic in self._contested.values():
            for claim in self._cache.claims(topic):
                if claim.key != topic.key:  # which was queued at its change
                    found[claim.topology][claim.key] = None
        self._contested.clear()
        self._is_contested.clear()
        self._add(found)

    def _add(self, keys_of: Mapping[ObjectKey, Collection[ObjectKey]]) -> None:
        for topology, keys in keys_of.items():
            if topology in self._running:
                self._running[topology][0].topics.add(keys)
            elif topology in self._cache.topologies:
                self.start(topology)  # which handles all of its topics first
            else:
                self._orphans.add(keys)

    # --- all of them -------------------------------------------------------------------------------------------------

    async def run_shared(self) -> None:
        """Reconcile the KafkaTopics without a topology, and report topologies that are not served, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._unserved.run())
            group.create_task(self._requeue_rivals())
            for _ in range(_WORKERS):
                group.create_task(self._reconcile_orphans())

    async def _reconcile_orphans(self) -> None:
        while True:
            keys = await self._orphans.take()
            with self._dependencies.liveness.track("batch of topics without a topology"):
                await self._orphans.process(keys)
            for key in keys:
                topic = self._cache.topics.get(key)
                if topic is not None and topic.topology in self._cache.topologies:  # the topology was created meanwhile
                    self._orphans.drop(key)
                    if topic.topology in self._running:
                        self._running[topic.topology][0].topics.rewrite_status(key)
                    elif topic.topology in self._unserved:
                        self._unserved.add(topic.topology)

    async def stop(self) -> None:
        """Cancel all loops. Ongoing calls to Kafka may still take effect."""
        self._stopping = True
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()

    def seconds_since_last_pass(self, now: float) -> Mapping[str, float]:
        """Return the seconds by topology, for loops that are not about to end. `now` is the event loop's time."""
        return {
            str(key): round(now - loop.last_pass, 1)
            for key, loop in self
            if loop.last_pass is not None and key not in self._ending
        }

    def defunct(self) -> Collection[str]:
        """Return the topologies whose loops have ended because of a defect.

        The loop of a deleted topology is done a moment before `_ended` removes it.
        """
        if self._stopping:
            return []
        return [str(key) for key, (_, task) in self._running.items() if task.done() and key not in self._ending]

    def _ended(self, key: ObjectKey, task: asyncio.Task[None]) -> None:
        forget_topology(str(key))
        if self._stopping:
            return
        if key not in self._ending:  # the liveness probe reports it, too
            _log.error("topology %s: its loop has ended", key, exc_info=None if task.cancelled() else task.exception())
            return
        self._ending.discard(key)
        del self._running[key]
        if key in self._cache.topologies:
            self.start(key)
        else:
            self._add_strays(key)

    def _add_strays(self, key: ObjectKey) -> None:
        """Queue the KafkaTopics of a topology that is deleted."""
        self._orphans.add(sorted(self._cache.topics_of(key)))


class _Request(NamedTuple):
    """The request in a KafkaTopic, and whether it has the operator's finalizer."""

    asked: object
    has_finalizer: bool


def _request_of(topic: KafkaTopic) -> _Request:
    """Return the request without the status, so that the operator's own writes queue nothing."""
    meta = topic.meta
    asked = meta.uid, meta.generation, meta.deletion_timestamp, tuple(sorted(meta.annotations.items()))
    return _Request(asked, has_finalizer(meta))


class NoTopology:
    """The observer of topics without a topology, which have no Kafka cluster to observe."""

    state: ClusterState | Failure = Failure(Reason.TOPOLOGY_NOT_FOUND, "there is no such RackTopology", Remedy.SPEC)
    admin: KafkaAdmin | None = None
    epoch = 0
    out_of_sight: float | None = None

    def wake(self) -> None:
        """Do nothing, because no loop exists."""


async def _nothing() -> None:
    """Do nothing, because no RackTopology has a status to update."""
