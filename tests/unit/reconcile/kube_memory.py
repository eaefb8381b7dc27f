"""An in-memory API server for the port `KubeApi`. It refuses the operations that a test names and records the rest."""

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.dependencies import Dependencies
from rackspan.reconcile.failures import DeniedError, Failure, FailureError, Remedy
from rackspan.reconcile.ports import KubernetesEvent, Listed, Listener, Terminating
from rackspan.reconcile.runtime.informer import POD, key_of, version_of
from rackspan.reconcile.runtime.writers import FinalizerWriter, StatusWriter

REFUSED = FailureError(Failure("ApiServerUnreachable", "a policy says no", Remedy.RETRY))


@dataclass
class MemoryReflector:
    """Lists the existing objects and reports no change."""

    kube: "MemoryCluster"
    kind: str
    listener: Listener

    async def list(self):
        for body in self.kube._readable(self.kind):
            self.listener.seen(body)
        if self.kind == POD and self.kube.denied:
            raise DeniedError(REFUSED.failure, self.kube.denied)

    async def watch(self):
        await asyncio.Event().wait()


@dataclass
class MemoryCluster:
    """An API server. `refusing` maps an operation and an object's name to the error that the caller gets."""

    refusing: dict[tuple[str, str], Exception] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last written status by object name."""
    finalizers: dict[str, list[str]] = field(default_factory=dict)
    announced: list[KubernetesEvent] = field(default_factory=list)
    there: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The objects that a list returns, by kind."""
    denied: frozenset[str] = frozenset()
    """The namespaces that cannot be read."""
    ends: Terminating = field(default_factory=Terminating)
    """The definitions and namespaces that are being deleted."""

    async def terminating(self, namespaces):
        return Terminating(
            self.ends.definitions, {name: at for name, at in self.ends.namespaces.items() if name in namespaces}
        )

    async def replace_status(self, ref, status):
        self._called("replace_status", ref.key.name)
        self.statuses[ref.key.name] = status

    async def set_finalizers(self, ref, finalizers, version, annotations):
        self._called("set_finalizers", ref.key.name)
        self.finalizers[ref.key.name] = list(finalizers)
        metadata = {"namespace": ref.key.namespace, "name": ref.key.name, "uid": ref.uid, "resourceVersion": version}
        return {"metadata": {**metadata, "finalizers": list(finalizers)}}

    async def secret(self, namespace, name):
        return {}

    async def list_keys(self, kind):
        return ()

    def reflectors(self, kind, listener):
        return [MemoryReflector(self, kind, listener)]

    async def objects(self, kind):
        for body in self._readable(kind):
            yield body
        if self.denied:
            raise DeniedError(REFUSED.failure, self.denied)

    async def listed(self, kind):
        return Listed({key_of(body): version_of(body) for body in self._readable(kind)}, self.denied)

    async def find(self, kind, key):
        return next((body for body in self._readable(kind) if key_of(body) == key), None)

    def _readable(self, kind):
        return [body for body in self.there.get(kind, ()) if key_of(body).namespace not in self.denied]

    def record_event(self, event):
        self.announced.append(event)

    def condition(self, name, type_):
        """Return the condition of that type, or None."""
        found = self.statuses.get(name, {}).get("conditions", ())
        return next((condition for condition in found if condition["type"] == type_), None)

    def _called(self, operation, name):
        error = self.refusing.get((operation, name))
        if error is not None:
            raise error


class NoKafka:
    """A `ReassignmentConnector` to a Kafka that does not respond, so that no size is known."""

    async def connect(self, owner, kafka, credentials):
        raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY))


def dependencies_of(cache, kube, kafka=None, placers=MappingProxyType({})):
    """Return the dependencies of topology loops, for tests in which no Reassignment starts."""
    return Dependencies(
        cache,
        kube,
        None,
        NoKafka(),
        FinalizerWriter(kube),
        kafka=kafka,
        statuses=StatusWriter(kube),
        placers=placers,
        resync_seconds=60,
        lease=ObjectKey("rackspan", "rackspan"),
    )
