"""The control loop that writes on each broker's pod the rack of its node, for people to see.

Nothing reads it back. It is written where it differs, so what somebody edits by hand is put back at the next pass, and
taken off where the node's labels give no rack any more. From pods that no topology selects any more it is taken by the
operator that wrote it; one that was restarted meanwhile leaves it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
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
"""How often all pods are looked at, so that what others did to the annotation is put back."""
_OF_ALL_PODS: Final = frozenset({Reason.NOT_AUTHORIZED, Reason.API_SERVER_UNREACHABLE})
"""Failures that the other pods of a namespace share; any other may be of one pod alone."""


def racks_of_pods(
    topology: RackTopology, pods: Iterable[BrokerPod], nodes: Mapping[str, Mapping[str, str]]
) -> dict[ObjectKey, str | None]:
    """The rack of each broker's pod, by its node; None where that is not known. Other pods are left out. Pure."""
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
    """What a pod shall say, None for nothing, and for which topology, if one selects it."""

    rack: str | None
    topology: RackTopology | None = None


class AnnotationsReconciler(Controller):
    """Level-triggered: each pass compares all pods with what their nodes say. One namespace's failure is its own.

    Of the failures of one topology's pods the first of a pass is told.
    """

    name = "annotations"
    watched = frozenset({NODE, NAMESPACE, POD})

    def __init__(self, dependencies: RackDependencies) -> None:
        super().__init__(dependencies.liveness)
        self._dependencies = dependencies
        self._written: set[ObjectKey] = set()
        """Pods that this process wrote on."""
        self._failures: dict[ObjectKey, Failure] = {}
        """By topology: why pods could not be written on, as was reported last."""

    def changed(self, kind: str, namespace: str = "") -> None:
        """Of pods, only those of namespaces matter whose pods are written on."""
        if kind != POD or namespace in self._dependencies.annotate_in:
            super().changed(kind, namespace)

    async def reconcile(self) -> float:
        """One pass over all topologies; the seconds until the next one."""
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
        """What all brokers' pods shall say. Of two topologies with one pod the older one decides."""
        cache, allowed = self._dependencies.cache, self._dependencies.annotate_in
        pods: defaultdict[str, list[BrokerPod]] = defaultdict(list)
        for pod in cache.pods.values():
            if pod.namespace in allowed:
                pods[pod.namespace].append(pod)
        wanted: dict[ObjectKey, _WantedRack] = {}
        in_doubt: set[str] = set()
        for topology in sorted(cache.topologies.values(), key=lambda one: one.meta.age):
            consent = cache.namespaces.get(topology.broker_namespace, {})
            served = not topology.meta.is_deleting and cache.quota.over_quota(topology.key) is None
            if served and topology.broker_namespace in pods and not_shared(topology, consent) is None:
                try:
                    racks = racks_of_pods(topology, pods[topology.broker_namespace], cache.nodes)
                except Exception as error:
                    unexpected_failure(self.name, topology.key, error)
                    in_doubt.add(topology.broker_namespace)
                    continue
                for key, rack in racks.items():
                    wanted.setdefault(key, _WantedRack(rack, topology))
                await asyncio.sleep(0)  # thousands of pods each time, and others wait for the event loop
        left = {key for key in self._written - wanted.keys() if key.namespace not in in_doubt}
        return wanted | dict.fromkeys(left, _WantedRack(None))

    async def _write(self, key: ObjectKey, rack: str | None) -> Failure | None:
        """Have the pod say so, if it does not; why that failed."""
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
