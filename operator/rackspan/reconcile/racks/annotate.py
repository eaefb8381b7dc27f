"""The control loop that annotates each broker's pod with the rack of its node, for users to see.

No decision depends on the annotation. The operator writes it if it differs, so the next pass reverts edits by users,
and removes it if the node's labels no longer give a rack. From a pod that no topology selects any more, only the
operator process that wrote the annotation removes it. After a restart, the operator leaves it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan import metrics
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KIND, RackSource
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import format_rack
from rackspan.reconcile.cluster.racks import is_broker_pod, not_shared, path_from_labels
from rackspan.reconcile.failures import Failure, FailureError
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef
from rackspan.reconcile.runtime.controller import Controller, unexpected_failure
from rackspan.reconcile.runtime.informer import NAMESPACE, NODE, POD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import BrokerPod
    from rackspan.reconcile.racks.publish import RackDependencies

_RESYNC_SECONDS: Final = 60.0
"""How often the operator checks all pods, to revert changes of the annotation by other clients."""
_OF_ALL_PODS: Final = frozenset({Reason.NOT_AUTHORIZED, Reason.API_SERVER_UNREACHABLE})
"""Failures that affect all pods of a namespace. Any other failure may affect only one pod."""


def racks_of_pods(
    topology: RackTopology, pods: Iterable[BrokerPod], nodes: Mapping[str, Mapping[str, str]]
) -> dict[ObjectKey, str | None]:
    """Return the rack of each broker's pod, by its node, or None if it is not known. Leaves out other pods. Pure."""
    if topology.spec.rack_source is not RackSource.NODES:
        return {}
    return {
        ObjectKey(pod.namespace, pod.name): _rack(topology, pod.node, nodes)
        for pod in pods
        if is_broker_pod(topology, pod)
    }


def _rack(topology: RackTopology, node: str | None, nodes: Mapping[str, Mapping[str, str]]) -> str | None:
    if node is None or node not in nodes:
        return None
    path = path_from_labels(topology.spec, node, nodes[node])
    return None if isinstance(path, Failure) else format_rack(path)


@dataclass(frozen=True, slots=True)
class _WantedRack:
    """The rack to write on a pod, None for no annotation, and the topology that selects the pod, if any."""

    rack: str | None
    topology: RackTopology | None = None


class AnnotationsReconciler(Controller):
    """A level-triggered controller: each pass compares the annotations of all pods with the racks of their nodes.

    A failure does not affect other namespaces. Of the failures of one topology's pods, each pass reports the first.
    """

    name = "annotations"
    watched = frozenset({NODE, NAMESPACE, POD})

    def __init__(self, dependencies: RackDependencies) -> None:
        super().__init__(dependencies.liveness)
        self._dependencies = dependencies
        self._written: set[ObjectKey] = set()
        """Pods that this process annotated."""
        self._failures: dict[ObjectKey, Failure] = {}
        """By topology: why pods could not be annotated in the last pass."""

    def changed(self, kind: str, namespace: str = "") -> None:
        """Run soon if the kind matters. Pods matter only in namespaces whose pods are annotated."""
        if kind != POD or namespace in self._dependencies.annotate_in:
            super().changed(kind, namespace)

    async def reconcile(self) -> float:
        """Run one pass over all topologies and return the seconds until the next pass."""
        if self._dependencies.annotate_in:
            failures: dict[ObjectKey, Failure] = {}
            refused: set[str] = set()
            for key, wanted in (await self._wanted()).items():
                failure = None if key.namespace in refused else await self._write(key, wanted.rack)
                if failure is None:
                    continue
                if failure.reason in _OF_ALL_PODS:
                    refused.add(key.namespace)
                if wanted.topology is not None and wanted.topology.key not in failures:
                    failures[wanted.topology.key] = failure
                    self._report_failure(wanted.topology, key.namespace, failure)
            self._failures = failures
        return _RESYNC_SECONDS

    async def _wanted(self) -> dict[ObjectKey, _WantedRack]:
        """Return the racks to write on all brokers' pods. If two topologies select a pod, the older one decides."""
        cache, allowed = self._dependencies.cache, self._dependencies.annotate_in
        wanted: dict[ObjectKey, _WantedRack] = {}
        in_doubt: set[str] = set()
        for topology in sorted(cache.topologies.values(), key=lambda one: one.meta.age):
            consent = cache.namespaces.get(topology.broker_namespace, {})
            served = not topology.meta.is_deleting and cache.quota.over_quota(topology.key) is None
            pods = cache.pods_in(topology.broker_namespace) if topology.broker_namespace in allowed else ()
            if served and pods and not_shared(topology, consent) is None:
                try:
                    racks = racks_of_pods(topology, pods, cache.nodes)
                except Exception as error:
                    unexpected_failure(self.name, topology.key, error)
                    in_doubt.add(topology.broker_namespace)
                    continue
                for key, rack in racks.items():
                    wanted.setdefault(key, _WantedRack(rack, topology))
                await asyncio.sleep(0)  # there may be thousands of pods, and other tasks wait for the event loop
        left = {key for key in self._written - wanted.keys() if key.namespace not in in_doubt}
        return wanted | dict.fromkeys(left, _WantedRack(None))

    async def _write(self, key: ObjectKey, rack: str | None) -> Failure | None:
        """Annotate the pod if its rack differs. Return why that failed, or None."""
        pod = self._dependencies.cache.pods.get(key)
        if pod is None:
            self._written.discard(key)
            return None
        if pod.rack != rack:
            try:
                await self._dependencies.pods.annotate(key, rack)
            except FailureError as error:
                return error.failure
        if rack is None:
            self._written.discard(key)
        else:
            self._written.add(key)
        return None

    def _report_failure(self, topology: RackTopology, namespace: str, failure: Failure) -> None:
        metrics.count_error(str(topology.key), failure.remedy, failure.reason)
        if self._failures.get(topology.key) == failure:
            return
        ref = ObjectRef(KIND, topology.key, topology.meta.uid)
        message = f"the racks of brokers cannot be written on pods of namespace {namespace}: {failure.message}"
        self._dependencies.kube.record_event(KubernetesEvent(ref, failure.reason, message, warning=True))
