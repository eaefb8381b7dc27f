"""Where objects go that Kubernetes reports: into the cache, and to the controllers that may have to act.

What of a change wakes a controller stands beside that controller: `Controller.watched` and `asked`, `TopologyLoops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.meta import ObjectKey
from rackspan.metrics import forget_report
from rackspan.reconcile.ports import Listener
from rackspan.reconcile.runtime.controller import LastAsked, spec_version
from rackspan.reconcile.runtime.informer import NAMESPACE, NODE, POD, ResourceHandler, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.plans.reassignments_reconciler import ReassignmentsReconciler
    from rackspan.reconcile.runtime.controller import Controller
    from rackspan.reconcile.topology_loops import TopologyLoops


class Routes:
    """What is done with the objects of each kind, be it added, modified or deleted."""

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
        """Of what carries out Reassignments, by topology."""

    @property
    def handlers(self) -> Mapping[str, ResourceHandler]:
        """By kind, for Rackspan's own. Topologies and topics last: what is asked of them depends on the others."""
        cache = self._cache
        return {
            compliancereport.KIND: ResourceHandler(self._put_report, self._drop_report),
            reassignment.KIND: ResourceHandler(self._put_reassignment, self._drop_reassignment),
            racktopology.KIND: ResourceHandler(cache.put_topology, self._drop_topology, self._topology_changed),
            kafkatopic.KIND: ResourceHandler(cache.put_topic, self._drop_topic, self._topic_changed),
        }

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """By kind, for where brokers run and for namespaces' consent."""
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
            return
        self._loops.topology_changed(topology)
        if self._asked.is_new(key, (spec_version(topology.meta), topology.meta.is_paused)):
            self._reassignments.changed(key)
        for controller in self._controllers:
            controller.topology_changed(topology)

    def _drop_topology(self, key: ObjectKey) -> None:
        """The status of its KafkaTopics will say so; Kafka is not changed."""
        self._cache.drop_topology(key)
        self._asked.forget(key)
        for controller in self._controllers:
            controller.topology_gone(key)
        self._reassignments.changed(key)
        self._loops.topology_gone(key)

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
        """Ignored unless named like its topology, as scans do."""
        report = ComplianceReport.from_object(body)
        if report.key == report.topology and self._cache.reports.get(report.key) != report.status:
            self._cache.reports[report.key] = report.status
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
        self._loops.pod_changed(key, self._cache.pods.pop(key, None))

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
    """What is asked of a Reassignment and whether it has ended, so that the operator's own writes wake nothing."""
    return spec_version(one.meta), one.ended
