"""Nodes, Pods and Namespaces: where brokers run, and which namespaces have consented to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cluster.racks import is_broker_pod
from rackspan.reconcile.ports import Listener
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.reconcile.cache import BrokerPod, Cache
    from rackspan.reconcile.racks.annotate import AnnotationsReconciler
    from rackspan.reconcile.racks.publish import RacksReconciler
    from rackspan.reconcile.topology_loops import TopologyLoops

POD: Final = "Pod"
NODE: Final = "Node"
NAMESPACE: Final = "Namespace"


class Locations:
    """What reflectors tell of these kinds."""

    def __init__(
        self, cache: Cache, loops: TopologyLoops, racks: RacksReconciler, annotations: AnnotationsReconciler
    ) -> None:
        self._cache = cache
        self._loops = loops
        self._racks = racks
        self._annotations = annotations

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """By kind."""
        cache = self._cache
        return {
            NAMESPACE: Listener(lambda: _cluster_scoped(cache.namespaces), self.namespace_seen, self.namespace_gone),
            NODE: Listener(lambda: _cluster_scoped(cache.nodes), self.node_seen, self.node_gone),
            POD: Listener(cache.pods.keys, self.pod_seen, self.pod_gone),
        }

    def node_seen(self, body: Mapping[str, Any]) -> None:
        """A Node is there, or was modified."""
        if self._cache.put_node(body):
            self._node_changed(key_of(body))

    def node_gone(self, key: ObjectKey) -> None:
        """A Node was deleted."""
        if self._cache.nodes.pop(key.name, None) is not None:
            self._node_changed(key)

    def pod_seen(self, body: Mapping[str, Any]) -> None:
        """A Pod is there, or was modified."""
        key = key_of(body)
        before = self._cache.pods.get(key)
        if self._cache.put_pod(body):
            self._pod_changed(key, before, self._cache.pods.get(key))
            self._annotations.pod_changed(key.namespace)

    def pod_gone(self, key: ObjectKey) -> None:
        """A Pod was deleted."""
        self._pod_changed(key, self._cache.pods.pop(key, None))

    def namespace_seen(self, body: Mapping[str, Any]) -> None:
        """A Namespace is there, or was modified."""
        if self._cache.put_namespace(body):
            name = body["metadata"]["name"]
            self._loops.requeue([topic for topic in self._cache.topics.values() if topic.meta.namespace == name])
            self._consent_changed(name)
            self._racks_changed()

    def namespace_gone(self, key: ObjectKey) -> None:
        """A Namespace was deleted."""
        self._cache.namespaces.pop(key.name, None)
        self._racks_changed()

    def _consent_changed(self, namespace: str) -> None:
        """Observe topologies of other namespaces with broker pods in this one: its consent may have changed."""
        for key, loop in self._loops:
            topology = self._cache.topologies.get(key)
            if topology is not None and topology.broker_namespace == namespace != topology.meta.namespace:
                loop.look_again()

    def _node_changed(self, key: ObjectKey) -> None:
        for _, loop in self._loops:
            loop.location_changed(key)
        self._racks_changed()

    def _racks_changed(self) -> None:
        self._racks.wake()
        self._annotations.wake()

    def _pod_changed(self, pod_key: ObjectKey, *pods: BrokerPod | None) -> None:
        for key, loop in self._loops:
            topology = self._cache.topologies.get(key)
            if topology is not None and any(pod is not None and is_broker_pod(topology, pod) for pod in pods):
                loop.location_changed(pod_key)


def _cluster_scoped(names: Iterable[str]) -> Collection[ObjectKey]:
    return [ObjectKey("", name) for name in names]
