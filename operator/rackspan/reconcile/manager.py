"""Routes watch events from Kubernetes to the topologies that they concern."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.errors import SpecError
from rackspan.api.labels import CONFIRM_DELETIONS, RESTART, SCAN_NOW
from rackspan.api.meta import ObjectKey
from rackspan.metrics import forget_report, forget_topology
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.orphans import Orphans
from rackspan.reconcile.ports import Listener
from rackspan.reconcile.racks.reconciler import RackDependencies, RacksReconciler
from rackspan.reconcile.racks.restarts import Cluster, RestartsReconciler
from rackspan.reconcile.reassignments.reconciler import ReassignmentsReconciler
from rackspan.reconcile.relist import Route, sweep
from rackspan.reconcile.runtime.finalizers import has_finalizer
from rackspan.reconcile.runtime.object_versions import key_of
from rackspan.reconcile.runtime.waiting import wait_for_any
from rackspan.reconcile.scans.decision import fingerprint
from rackspan.reconcile.scans.reconciler import ScanDependencies, ScansReconciler
from rackspan.reconcile.topology import TopologyReconciler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.reassignments.objects import ReassignmentDependencies

POD: Final = "Pod"
NODE: Final = "Node"
NAMESPACE: Final = "Namespace"

_log = logging.getLogger("rackspan.reconcile")
_SWEEP_SECONDS = 300.0
"""How often deleted objects of our kinds are searched for, in case a watch has stopped without an error."""
_RELIST_SECONDS = 2.0
"""How long to wait after objects were listed again: the watches of several kinds are interrupted together."""


class Manager:
    """Runs one loop per RackTopology, and one for all KafkaTopics without; routes watch events to them.

    Belongs to the event loop.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        scans: ScanDependencies,
        racks: RackDependencies,
        reassignments: ReassignmentDependencies,
        stall_seconds: float,
    ) -> None:
        self.cache: Cache = dependencies.cache
        self._dependencies = dependencies
        self._stall_seconds = stall_seconds
        self._loops: dict[ObjectKey, tuple[TopologyReconciler, asyncio.Task[None]]] = {}
        self._requests: dict[ObjectKey, _Request] = {}
        self._generations: dict[ObjectKey, tuple[str, int, bool]] = {}
        self._ending: set[ObjectKey] = set()
        """Loops of deleted topologies whose last batches are under way."""
        self._orphans = Orphans(dependencies, self._orphan_found)
        self._started = False
        self._scans = ScansReconciler(scans, self.status_changed)
        self._racks = RacksReconciler(racks, self.status_changed)
        self._restarts = RestartsReconciler(racks, self)
        self._reassignments = ReassignmentsReconciler(reassignments)
        self._moves_asked: dict[ObjectKey, object] = {}
        self._scan_requests: dict[ObjectKey, object] = {}
        self._restart_requests: dict[ObjectKey, str | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._relisted = asyncio.Event()
        self._reflectors = [
            reflector
            for kind, listener in self._listeners.items()
            for reflector in dependencies.kube.reflectors(kind, listener)
        ]

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def prime(self) -> None:
        """Learn of all objects that there are, before anything is decided. Raises FailureError.

        Topologies and topics last: what is asked of them depends on the others.
        """
        for reflector in self._reflectors:
            await reflector.list()
        kinds = {
            compliancereport.KIND: self.report_seen,
            reassignment.KIND: self.reassignment_seen,
            racktopology.KIND: self.topology_listed,
            kafkatopic.KIND: self.topic_listed,
        }
        for kind, listed in kinds.items():
            async for body in self._dependencies.kube.objects(kind):
                listed(body)
        self.relisted()  # what goes before the watches begin, none of them tells

    def start(self) -> None:
        """Start the background tasks, once all kinds have been listed."""
        self._started = True
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._scans.run(), name="scans"),
            asyncio.create_task(self._racks.run(), name="racks"),
            asyncio.create_task(self._reassignments.run(), name="reassignments"),
            asyncio.create_task(self._restarts.run(), name="restarts"),
            asyncio.create_task(self._orphans.run(), name="strays"),
            *(asyncio.create_task(reflector.watch(), name="watch") for reflector in self._reflectors),
        ]

    async def stop(self) -> None:
        """Cancel all loops. Calls to Kafka that are under way may still take effect."""
        self._started = False
        tasks = [task for _, task in self._loops.values()] + self._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()

    def alive(self) -> Mapping[str, object]:
        """The answer to the liveness probe: not ok while a task has ended or a step has stalled.

        That Kafka cannot be reached is no reason to restart.
        """
        now = asyncio.get_running_loop().time()
        ages = {
            str(key): round(now - loop.last_pass, 1)
            for key, (loop, _) in self._loops.items()
            if loop.last_pass is not None and key not in self._ending
        }
        ended: list[str] = []
        if self._started:  # tasks end on purpose while it stops
            ended = [str(key) for key, (_, task) in self._loops.items() if task.done()]
            ended += [task.get_name() for task in self._tasks if task.done()]
        stalled = self._dependencies.liveness.stalled(self._stall_seconds)
        return {
            "ok": not ended and not stalled,
            "secondsSinceLastPass": ages,
            "stalled": stalled,
            "ended": ended,
        }

    def ready(self) -> Mapping[str, object]:
        """The answer to the readiness probe: ok once `start` was called."""
        connected = {str(key): loop.connected for key, (loop, _) in self._loops.items() if key in self.cache.topologies}
        return {"ok": self._started, "connected": connected}

    # --- KafkaTopics -------------------------------------------------------------------------------------------------

    def topic_listed(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Put a KafkaTopic into the cache, without queueing it."""
        if self.cache.versions.record(kafkatopic.KIND, body, listed=listed):
            try:
                self.cache.put_topic(body)
            except SpecError as error:
                _log.error("KafkaTopic %s cannot be read: %s", key_of(body), error)

    def topic_relisted(self, body: Mapping[str, Any]) -> None:
        """A KafkaTopic was listed, at the start or after a watch was interrupted."""
        self.topic_listed(body, listed=True)
        self.relisted()
        self._topic_known(key_of(body))

    def topic_seen(self, body: Mapping[str, Any]) -> None:
        """A KafkaTopic was added or modified."""
        self.topic_listed(body)
        self._topic_known(key_of(body))

    def _topic_known(self, key: ObjectKey) -> None:
        topic = self.cache.topics.get(key)
        if topic is None:
            return
        request, before = _request_of(topic), self._requests.get(topic.key)
        self._requests[topic.key] = request
        if before is not None and before.asked == request.asked and (request.has_finalizer or not before.has_finalizer):
            return  # only the status changed, or our finalizer was added
        self._requeue([topic])

    def topic_gone(self, body: Mapping[str, Any]) -> None:
        """A KafkaTopic was deleted. Ignored where a newer object of the same name is known."""
        if self.cache.versions.record_deletion(kafkatopic.KIND, body):
            self._forget_topic(key_of(body))

    def _forget_topic(self, key: ObjectKey) -> None:
        self._requests.pop(key, None)
        topic = self.cache.drop_topic(key)
        if topic is None:
            return
        self._orphans.drop(key)
        if topic.topology in self._loops:
            self._loops[topic.topology][0].topic_gone(key)
        self._requeue([topic])

    def _requeue(self, topics: Iterable[KafkaTopic]) -> None:
        """Queue KafkaTopics that changed or are gone, and all that claim the same topics in Kafka."""
        for topic in topics:
            for claim in self.cache.claims(topic):
                if claim.topology in self._loops:
                    self._loops[claim.topology][0].topics_changed([claim.key])
                elif claim.topology in self.cache.topologies:
                    self._start_loop(claim.topology)  # which queues all of its topics at first
                else:
                    self._orphans.add([claim.key])

    def _orphan_found(self, topic: KafkaTopic) -> None:
        if topic.topology in self._loops:
            self._loops[topic.topology][0].topic_found(topic.key)

    # --- RackTopologies ----------------------------------------------------------------------------------------------

    def topology_listed(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Put a RackTopology into the cache, without observing it."""
        if self.cache.versions.record(racktopology.KIND, body, listed=listed):
            try:
                self.cache.put_topology(body)
            except SpecError as error:
                _log.error("RackTopology %s cannot be read: %s", key_of(body), error)

    def topology_relisted(self, body: Mapping[str, Any]) -> None:
        """A RackTopology was listed, at the start or after a watch was interrupted."""
        self.topology_listed(body, listed=True)
        self.relisted()
        self._topology_known(key_of(body))

    def topology_seen(self, body: Mapping[str, Any]) -> None:
        """A RackTopology was added or modified."""
        self.topology_listed(body)
        self._topology_known(key_of(body))

    def _topology_known(self, key: ObjectKey) -> None:
        topology = self.cache.topologies.get(key)
        if topology is None:
            return
        request = (topology.meta.uid, topology.meta.generation, topology.meta.is_deleting)
        self._start_loop(topology.key)
        moves = (*request, topology.meta.is_paused)
        if self._moves_asked.get(topology.key) != moves:
            self._moves_asked[topology.key] = moves
            self._reassignments.changed(topology.key)
        if self._generations.get(topology.key) != request:
            self._generations[topology.key] = request
            self._loops[topology.key][0].look_again()
            self._requeue_namesakes(topology)
            self._racks.wake()
            self._restarts.wake()
        if CONFIRM_DELETIONS in topology.meta.annotations:
            self._loops[topology.key][0].deletions_confirmed()
        if topology.meta.annotations.get(RESTART) != self._restart_requests.get(topology.key):
            self._restart_requests[topology.key] = topology.meta.annotations.get(RESTART)
            self._restarts.wake()
        scanned = (*request, topology.meta.annotations.get(SCAN_NOW), fingerprint(topology))
        if self._scan_requests.get(topology.key) != scanned:
            self._scan_requests[topology.key] = scanned
            self._scans.wake()

    def _requeue_namesakes(self, topology: RackTopology) -> None:
        """Queue the topics of a topology that shares its cluster: their names may conflict with those of the others."""
        if topology.spec.shared_with:
            topics = map(self.cache.topics.get, self.cache.topics_of(topology.key))
            self._requeue([topic for topic in topics if topic is not None])

    def topology_gone(self, body: Mapping[str, Any]) -> None:
        """A RackTopology was deleted. The status of its KafkaTopics will say so; Kafka is not changed."""
        if not self.cache.versions.record_deletion(racktopology.KIND, body):
            return
        key = key_of(body)
        self.cache.drop_topology(key)
        self._generations.pop(key, None)
        self._moves_asked.pop(key, None)
        self._scan_requests.pop(key, None)
        self._restart_requests.pop(key, None)
        self._scans.topology_gone(key)
        self._racks.wake()
        self._reassignments.changed(key)
        self._stop_loop(key)

    # --- ComplianceReports -------------------------------------------------------------------------------------------

    def report_seen(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """A ComplianceReport was listed, added or modified. Ignored unless named like its topology, as scans do."""
        if not self.cache.versions.record(compliancereport.KIND, body, listed=listed):
            return
        try:
            report = ComplianceReport.from_object(body)
        except SpecError as error:
            _log.error("ComplianceReport %s cannot be read: %s", key_of(body), error)
            return
        if report.key == report.topology and self.cache.reports.get(report.key) != report.status:
            self.cache.reports[report.key] = report.status
            self._scans.wake()

    def report_gone(self, body: Mapping[str, Any]) -> None:
        """A ComplianceReport was deleted."""
        if (
            self.cache.versions.record_deletion(compliancereport.KIND, body)
            and self.cache.reports.pop(key_of(body), None) is not None
        ):
            forget_report(str(key_of(body)))

    # --- Reassignments -----------------------------------------------------------------------------------------------

    def reassignment_seen(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """A Reassignment was listed, added or modified."""
        if not self.cache.versions.record(reassignment.KIND, body, listed=listed):
            return
        before = self.cache.reassignments.get(key_of(body))
        try:
            known = self.cache.put_reassignment(body)
        except SpecError as error:
            _log.error("Reassignment %s cannot be read: %s", key_of(body), error)
            return
        if before is None or _asked(before) != _asked(known) or known.status.state is None:
            self._reassignment_changed(known.topology)

    def reassignment_gone(self, body: Mapping[str, Any]) -> None:
        """A Reassignment was deleted."""
        if self.cache.versions.record_deletion(reassignment.KIND, body):
            known = self.cache.drop_reassignment(key_of(body))
            if known is not None:
                self._reassignment_changed(known.topology)

    def _reassignment_changed(self, topology: ObjectKey) -> None:
        """What is under way is part of what a topology's loop decides by."""
        self._reassignments.changed(topology)
        if topology in self._loops:
            self._loops[topology][0].look_again()

    # --- what other loops ask of a topology's ------------------------------------------------------------------------

    def status_changed(self, topology: ObjectKey) -> None:
        """The RackTopology's status has to be written soon."""
        if topology in self._loops:
            self._loops[topology][0].status_changed()

    async def write_status(self, topology: ObjectKey) -> None:
        """Write the RackTopology's status now. Raises FailureError."""
        if topology in self._loops:
            await self._loops[topology][0].write_status()

    def cluster(self, topology: ObjectKey) -> Cluster | None:
        """The topology's Kafka cluster; None where nothing looks at it."""
        return self._loops[topology][0].cluster if topology in self._loops else None

    def published_rack(self, topology: ObjectKey, namespace: str, node: str) -> str | None:
        """What the published racks say of a node in that namespace."""
        return self._racks.published_rack(topology, namespace, node)

    def _add_to_status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """What the loops of scans and racks know of a topology."""
        status = self._racks.status(topology, self._scans.status(topology, status, now), now)
        return self._restarts.status(topology, status, now)

    # --- Nodes, Pods and Namespaces -----------------------------------------------------------------------------------

    def node_seen(self, body: Mapping[str, Any]) -> None:
        """A Node is there, or was modified."""
        if self.cache.put_node(body):
            self._locations_changed()
            self._racks.wake()

    def node_gone(self, key: ObjectKey) -> None:
        """A Node was deleted."""
        if self.cache.nodes.pop(key.name, None) is not None:
            self._locations_changed()
            self._racks.wake()

    def pod_seen(self, body: Mapping[str, Any]) -> None:
        """A Pod is there, or was modified."""
        key = key_of(body)
        before = self.cache.pods.get(key)
        if self.cache.put_pod(body):
            self._pod_changed(before, self.cache.pods.get(key))

    def pod_gone(self, key: ObjectKey) -> None:
        """A Pod was deleted."""
        self._pod_changed(self.cache.pods.pop(key, None))

    def namespace_seen(self, body: Mapping[str, Any]) -> None:
        """A Namespace is there, or was modified."""
        if self.cache.put_namespace(body):
            name = body["metadata"]["name"]
            self._requeue([topic for topic in self.cache.topics.values() if topic.meta.namespace == name])
            self._consent_changed(name)
            self._racks.wake()

    def namespace_gone(self, key: ObjectKey) -> None:
        """A Namespace was deleted."""
        self.cache.namespaces.pop(key.name, None)
        self._racks.wake()

    def _consent_changed(self, namespace: str) -> None:
        """Observe topologies of other namespaces with broker pods in this one: its consent may have changed."""
        for key, (loop, _) in self._loops.items():
            topology = self.cache.topologies.get(key)
            if topology is not None and topology.broker_namespace == namespace != topology.meta.namespace:
                loop.look_again()

    def _locations_changed(self) -> None:
        for loop, _ in self._loops.values():
            loop.locations_changed()

    def _pod_changed(self, *pods: Any) -> None:
        for key, (loop, _) in self._loops.items():
            topology = self.cache.topologies.get(key)
            source = topology.spec.brokers if topology else None
            if topology is None or source is None:
                continue
            if any(
                pod is not None
                and pod.namespace == topology.broker_namespace
                and source.pod_selector.matches(pod.labels)
                for pod in pods
            ):
                loop.locations_changed()

    # --- loops -------------------------------------------------------------------------------------------------------

    def _start_loop(self, key: ObjectKey) -> None:
        """Start a loop for this topology unless one runs, be it that of a deleted topology of the same name."""
        if key in self._loops:
            return
        for topic in self.cache.topics_of(key):
            self._orphans.drop(topic)
        loop = TopologyReconciler(key, self._dependencies, self._add_to_status)
        task = asyncio.create_task(loop.run(), name=f"topology {key}")
        task.add_done_callback(lambda _: self._loop_ended(key))
        self._loops[key] = (loop, task)

    def _stop_loop(self, key: ObjectKey) -> None:
        if key in self._loops and key not in self._ending:
            self._ending.add(key)
            self._loops[key][0].finish()

    def _loop_ended(self, key: ObjectKey) -> None:
        forget_topology(str(key))
        if key not in self._ending or not self._started:
            return  # ended by a defect, which the liveness probe reports
        self._ending.discard(key)
        del self._loops[key]
        if key in self.cache.topologies:
            self._start_loop(key)
        else:
            self._orphans.add(sorted(self.cache.topics_of(key)))

    def relisted(self) -> None:
        """Objects were listed again, as after an outage: sweep soon for those deleted meanwhile."""
        self._relisted.set()

    async def sweep(self) -> None:
        """Forget cached objects that the API server does not have. Raises FailureError."""
        await sweep(self.cache.versions, self._dependencies.kube, self._routes)

    async def _sweep(self) -> None:
        while True:
            if await wait_for_any(_SWEEP_SECONDS, self._relisted):
                await asyncio.sleep(_RELIST_SECONDS)
                self._relisted.clear()
            try:
                with self._dependencies.liveness.track("sweep"):
                    await self.sweep()
            except FailureError as error:
                _log.warning("the sweep waits for the API server: %s", error)
                self._relisted.set()
            except Exception:
                _log.exception("the sweep goes on at its next turn")

    @property
    def _routes(self) -> Mapping[str, Route]:
        return {
            kafkatopic.KIND: Route(self.topic_seen, self.topic_gone),
            racktopology.KIND: Route(self.topology_seen, self.topology_gone),
            compliancereport.KIND: Route(self.report_seen, self.report_gone),
            reassignment.KIND: Route(self.reassignment_seen, self.reassignment_gone),
        }

    @property
    def _listeners(self) -> Mapping[str, Listener]:
        cache = self.cache
        return {
            NAMESPACE: Listener(lambda: _cluster_scoped(cache.namespaces), self.namespace_seen, self.namespace_gone),
            NODE: Listener(lambda: _cluster_scoped(cache.nodes), self.node_seen, self.node_gone),
            POD: Listener(cache.pods.keys, self.pod_seen, self.pod_gone),
        }


class _Request(NamedTuple):
    """What a KafkaTopic asks for, and whether it has our finalizer."""

    asked: object
    has_finalizer: bool


def _cluster_scoped(names: Iterable[str]) -> Collection[ObjectKey]:
    return [ObjectKey("", name) for name in names]


def _asked(one: Reassignment) -> object:
    """What is asked of a Reassignment and whether it has ended, so that the operator's own writes wake nothing."""
    meta = one.meta
    return meta.uid, meta.generation, meta.is_deleting, one.ended


def _request_of(topic: KafkaTopic) -> _Request:
    """Without the status, so that the operator's own writes queue nothing."""
    meta = topic.meta
    asked = meta.uid, meta.generation, meta.deletion_timestamp, tuple(sorted(meta.annotations.items()))
    return _Request(asked, has_finalizer(meta))
