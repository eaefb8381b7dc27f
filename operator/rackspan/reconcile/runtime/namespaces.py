"""The namespaces in which the operator may act, and how many RackTopologies it serves per namespace. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.core.text import be, plural
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology

EVERYWHERE: Final = "*"
_Age = tuple[str, str]
DEFAULT_TOPOLOGIES_PER_NAMESPACE = 20


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """The namespaces in which the operator may do one kind of action. `*` means all namespaces."""

    names: tuple[str, ...] = ()

    def __contains__(self, namespace: str) -> bool:
        return EVERYWHERE in self.names or namespace in self.names

    def __bool__(self) -> bool:
        return bool(self.names)


class NamespaceQuota:
    """The limit of RackTopologies that are served per namespace, because each costs tasks and a Kafka client.

    The oldest are served. They are ordered by `metadata.creationTimestamp`, then by uid.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ages: dict[ObjectKey, _Age] = {}
        self._sorted: defaultdict[str, list[tuple[_Age, ObjectKey]]] = defaultdict(list)

    def put(self, topology: RackTopology) -> None:
        """Add a RackTopology."""
        age = topology.meta.age
        if self._ages.get(topology.key) == age:
            return
        self.drop(topology.key)
        self._ages[topology.key] = age
        insort(self._sorted[topology.meta.namespace], (age, topology.key))

    def drop(self, key: ObjectKey) -> None:
        """Remove a RackTopology. A younger RackTopology may take its place."""
        age = self._ages.pop(key, None)
        if age is None:
            return
        ages = self._sorted[key.namespace]
        del ages[bisect_left(ages, (age, key))]
        if not ages:
            del self._sorted[key.namespace]

    def served(self, namespace: str) -> Collection[ObjectKey]:
        """Return the RackTopologies of a namespace that are served."""
        return [key for _, key in self._sorted.get(namespace, ())[: self._limit]]

    def over_quota(self, key: ObjectKey) -> Failure | None:
        """Return why this RackTopology is not served (its namespace has `limit` older ones), or None if it is."""
        age = self._ages.get(key)
        older = 0 if age is None else bisect_left(self._sorted[key.namespace], (age, key))
        if older < self._limit:
            return None
        return Failure(
            Reason.TOO_MANY_TOPOLOGIES,
            f"{plural(older, 'RackTopology', 'RackTopologies')} of namespace {key.namespace} "
            f"{be(older)} older, and the operator serves {self._limit} of a namespace: "
            "delete some, or raise topologiesPerNamespace of the chart",
            Remedy.SPEC,
        )
