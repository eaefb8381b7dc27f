"""Connects the operator's control loops: their shared state, the events that wake them, and their liveness.

`Routes` sends the objects that Kubernetes reports into the cache and to the controllers that may have to act. The
controllers define which changes wake them: `Controller.watched` and `Controller.asked`, and `TopologyLoops`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from rackspan import metrics
from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.meta import ObjectKey
from rackspan.metrics import forget_report
from rackspan.reconcile.failures import DeniedError, FailureError
from rackspan.reconcile.plans.reassignments_reconciler import ReassignmentsReconciler
from rackspan.reconcile.ports import Listener
from rackspan.reconcile.racks.annotate import AnnotationsReconciler
from rackspan.reconcile.racks.publish import RackDependencies, RacksReconciler
from rackspan.reconcile.racks.restart import RestartsReconciler
from rackspan.reconcile.runtime.controller import LastAsked, request_version, spec_version
from rackspan.reconcile.runtime.informer import NAMESPACE, NODE, POD, Informer, ResourceHandler, key_of, sweep
from rackspan.reconcile.runtime.waiting import wait_for_any
from rackspan.reconcile.scans.scan_reconciler import ScanDependencies, ScansReconciler
from rackspan.reconcile.topology_loops import TopologyLoops

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.runtime.controller import Controller


_log = logging.getLogger("rackspan.reconcile")
_SWEEP_SECONDS = 300.0
"""How often Rackspan's kinds are listed, to find changes that no watch reported because it stopped silently."""
_RELIST_SECONDS = 2.0
"""How long to wait after a relist, because the watches of several kinds are often interrupted together."""


class Manager:
    """The loops of topologies, scans, racks, restarts and Reassignments. Belongs to the event loop.

    `informers` receive the events of Rackspan's own kinds from kopf, by kind.
    """

    def __init__(
        self, dependencies: Dependencies, scans: ScanDependencies, racks: RackDependencies, stall_seconds: float
    ) -> None:
        self.cache: Cache = dependencies.cache
        self._dependencies = dependencies
        self._stall_seconds = stall_seconds
        self._started = False
        self._stopped_at: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._relisted = asyncio.Event()
        self._loops = TopologyLoops(dependencies)
        publishing = RacksReconciler(racks, self._loops.status_changed)
        restarting = RestartsReconciler(racks, self._loops, publishing.published_rack)
        scanning = ScansReconciler(scans, self._loops.status_changed)
        self._loops.contribute((scanning, publishing, restarting))
        self._controllers: Sequence[Controller] = (scanning, publishing, restarting, AnnotationsReconciler(racks))
        self._reassignments = ReassignmentsReconciler(dependencies)
        routes = Routes(self.cache, self._loops, self._controllers, self._reassignments)
        self.informers: Mapping[str, Informer] = {
            kind: Informer(kind, handler, self.cache.versions, self._relisted.set)
            for kind, handler in routes.handlers.items()
        }
        self._watched = scans.namespaces
        self._refused: frozenset[str] = frozenset()
        """The namespaces whose watches are refused."""
        self._denied: frozenset[str] = frozenset()
        """Namespaces not listed at the start, until a watch there is refused or a sweep reads them."""
        self._reflectors = [
            reflector
            for kind, listener in routes.listeners.items()
            for reflector in dependencies.kube.reflectors(kind, listener)
        ]

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def prime(self) -> None:
        """Read all existing objects, before any decision is made. Raises FailureError."""
        for reflector in self._reflectors:
            with contextlib.suppress(DeniedError):  # the watches retry namespaces that may not be read
                await reflector.list()
        for kind, informer in self.informers.items():
            try:
                async for body in self._dependencies.kube.objects(kind):
                    informer.known(body)
            except DeniedError as error:
                self._denied |= error.namespaces
        self._update_left_out()
        self._relisted.set()  # no watch reports objects that are deleted before the watches start

    def start(self) -> None:
        """Start the background tasks, once all kinds have been listed."""
        self._started = True
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweep"),
            *(asyncio.create_task(controller.run(), name=controller.name) for controller in self._controllers),
            asyncio.create_task(self._reassignments.run(), name="reassignments"),
            asyncio.create_task(self._loops.run_shared(), name="shared"),
            *(asyncio.create_task(reflector.watch(), name="watch") for reflector in self._reflectors),
        ]

    async def stop(self) -> None:
        """Cancel all loops. Ongoing calls to Kafka may still take effect."""
        self._started = False
        if self._stopped_at is None:
            self._stopped_at = asyncio.get_running_loop().time()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._loops.stop(), *self._tasks, return_exceptions=True)

    def alive(self) -> Mapping[str, object]:
        """Return the liveness probe's response: not ok if a task has ended, or if a step or the shutdown has stalled.

        An unreachable Kafka cluster is no reason to restart.
        """
        now = asyncio.get_running_loop().time()
        ended: list[str] = []
        if self._started:  # tasks end on purpose during the shutdown
            ended = [*self._loops.defunct(), *(task.get_name() for task in self._tasks if task.done())]
        stalled = dict(self._dependencies.liveness.stalled(self._stall_seconds))
        if self._stopped_at is not None and now - self._stopped_at >= self._stall_seconds:
            stalled["end"] = round(now - self._stopped_at, 1)
        return {
            "ok": not ended and not stalled,
            "secondsSinceLastPass": self._loops.seconds_since_last_pass(now),
            "stalled": stalled,
            "ended": ended,
        }

    def ready(self) -> Mapping[str, object]:
        """Return the response to the readiness probe: ok after `start`, unless no watched namespace can be read."""
        connected = {str(key): loop.connected for key, loop in self._loops if key in self.cache.topologies}
        left_out = self.cache.left_out
        reads = not left_out or not left_out.issuperset(self._watched)
        return {"ok": self._started and reads, "connected": connected, "leftOut": sorted(left_out)}

    # --- objects that no watch reported -------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Read the changes that no watch reported. Raises FailureError."""
        denied = await sweep(self.cache.versions, self._dependencies.kube, self.informers)
        self._denied &= denied  # a watch may have been refused meanwhile
        self._update_left_out()

    def leave_out(self, namespaces: frozenset[str]) -> None:
        """Stop handling objects of these namespaces, whose watches are refused, and continue with all others."""
        self._refused = namespaces
        self._denied -= namespaces  # their watches report when they can be read again
        self._update_left_out()

    def _update_left_out(self) -> None:
        namespaces = self._refused | self._denied
        new, back = namespaces - self.cache.left_out, self.cache.left_out - namespaces
        self.cache.left_out = namespaces
        metrics.NAMESPACES_LEFT_OUT.set(len(namespaces))
        for namespace in sorted(new):
            _log.warning("namespace %s may not be read, and is left out: has the operator its Role there?", namespace)
        for namespace in sorted(back):
            _log.info("namespace %s is read again", namespace)
        topics = self.cache.topics.values()
        self._loops.requeue([one for one in topics if {one.meta.namespace, one.topology.namespace} & back])

    async def _sweep(self) -> None:
        while True:
            if await wait_for_any(_SWEEP_SECONDS, self._relisted):
                await asyncio.sleep(_RELIST_SECONDS)
                self._relisted.clear()
            try:
                with self._dependencies.liveness.track("sweep"):
                    await self.sweep()
            except FailureError as error:
                metrics.count_error("", error.failure.remedy, error.failure.reason)
                _log.warning("the sweep waits for the API server: %s", error)
                self._relisted.set()
            except Exception:
                _log.exception("the sweep goes on at its next turn")


class Routes:
    """The handling of each kind's objects when they are added, modified or deleted."""

    def __init__(
        self,
        cache: Cache,
        loops: TopologyLoops,
        controllers: Sequence[Controller],
        reassignments: ReassignmentsReconciler,
    ) -> None:
        self._cache = cache
        self._loops = loops
        self._controllers = controllers
        self._reassignments = reassignments
        self._asked = LastAsked()
        """The last request of each topology to the Reassignments reconciler."""

    @property
    def handlers(self) -> Mapping[str, ResourceHandler]:
        """The handlers of Rackspan's kinds. RackTopologies and KafkaTopics are last: they depend on the others."""
        cache = self._cache
        return {
            compliancereport.KIND: ResourceHandler(self._put_report, self._drop_report),
            reassignment.KIND: ResourceHandler(self._put_reassignment, self._drop_reassignment),
            racktopology.KIND: ResourceHandler(cache.put_topology, self._drop_topology, self._topology_changed),
            kafkatopic.KIND: ResourceHandler(cache.put_topic, self._drop_topic, self._topic_changed),
        }

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """The listeners by kind, for the locations of brokers and the consent of namespaces."""
        cache = self._cache
        return {
            NAMESPACE: Listener(lambda: _cluster_scoped(cache.namespaces), self._namespace_seen, self._namespace_gone),
            NODE: Listener(lambda: _cluster_scoped(cache.nodes), self._node_seen, self._node_gone),
            POD: Listener(cache.pods.keys, self._pod_seen, self._pod_gone),
        }

    def _wake(self, kind: str, namespace: str = "") -> None:
        for controller in self._controllers:
            controller.changed(kind, namespace)

    # --- Rackspan's kinds --------------------------------------------------------------------------------------------

    def _topology_changed(self, key: ObjectKey) -> None:
        topology = self._cache.topologies.get(key)
        if topology is None:
            self._requeue_topics(key)
            return
        self._loops.topology_changed(topology)
        if self._asked.is_new(key, request_version(topology.meta)):
            self._reassignments.changed(key)
        for controller in self._controllers:
            controller.topology_changed(topology)

    def _drop_topology(self, key: ObjectKey) -> None:
        """Drop the RackTopology. The status of its KafkaTopics will report the deletion. Kafka is not changed."""
        topology = self._cache.topologies.get(key)
        if topology is None:
            self._requeue_topics(key)
            return
        self._cache.drop_topology(key)
        forget_report(str(key))
        self._asked.forget(key)
        for controller in self._controllers:
            controller.topology_gone(key)
        self._reassignments.changed(key)
        self._loops.topology_gone(topology)

    def _requeue_topics(self, key: ObjectKey) -> None:
        """Queue the KafkaTopics of a RackTopology that cannot be read, because their statuses say so."""
        self._loops.requeue([self._cache.topics[topic] for topic in self._cache.topics_of(key)])

    def _topic_changed(self, key: ObjectKey) -> None:
        topic = self._cache.topics.get(key)
        if topic is not None:
            self._loops.topic_changed(topic)

    def _drop_topic(self, key: ObjectKey) -> None:
        topic = self._cache.drop_topic(key)
        if topic is not None:
            self._loops.topic_gone(topic)

    def _put_reassignment(self, body: Mapping[str, Any]) -> None:
        before = self._cache.reassignments.get(key_of(body))
        known = self._cache.put_reassignment(body)
        if before is None or _asked(before) != _asked(known) or known.status.state is None:
            self._reassignment_changed(known)

    def _drop_reassignment(self, key: ObjectKey) -> None:
        known = self._cache.drop_reassignment(key)
        if known is not None:
            self._reassignment_changed(known)

    def _reassignment_changed(self, known: Reassignment) -> None:
        self._reassignments.changed(known.topology)
        self._loops.look_again(known.topology)

    def _put_report(self, body: Mapping[str, Any]) -> None:
        """Store a report. A report is ignored unless it has the name of its topology, as the reports of scans do."""
        report = ComplianceReport.from_object(body)
        if report.key == report.topology:
            self._cache.reports[report.key] = report
            self._wake(compliancereport.KIND)

    def _drop_report(self, key: ObjectKey) -> None:
        if self._cache.reports.pop(key, None) is not None:
            forget_report(str(key))

    # --- where brokers run -------------------------------------------------------------------------------------------

    def _node_seen(self, body: Mapping[str, Any]) -> None:
        if self._cache.put_node(body):
            self._node_changed(key_of(body))

    def _node_gone(self, key: ObjectKey) -> None:
        if self._cache.nodes.pop(key.name, None) is not None:
            self._node_changed(key)

    def _node_changed(self, key: ObjectKey) -> None:
        self._loops.node_changed(key)
        self._wake(NODE)

    def _pod_seen(self, body: Mapping[str, Any]) -> None:
        key = key_of(body)
        before = self._cache.pods.get(key)
        if self._cache.put_pod(body):
            self._loops.pod_changed(key, before, self._cache.pods.get(key))
            self._wake(POD, key.namespace)

    def _pod_gone(self, key: ObjectKey) -> None:
        self._loops.pod_changed(key, self._cache.drop_pod(key))

    def _namespace_seen(self, body: Mapping[str, Any]) -> None:
        if self._cache.put_namespace(body):
            self._loops.namespace_changed(body["metadata"]["name"])
            self._wake(NAMESPACE)

    def _namespace_gone(self, key: ObjectKey) -> None:
        self._cache.namespaces.pop(key.name, None)
        self._wake(NAMESPACE)


def _cluster_scoped(names: Iterable[str]) -> Collection[ObjectKey]:
    return [ObjectKey("", name) for name in names]


def _asked(one: Reassignment) -> object:
    """Return the request in a Reassignment and whether it has ended, so that the operator's own writes wake no loop."""
    return spec_version(one.meta), one.ended
