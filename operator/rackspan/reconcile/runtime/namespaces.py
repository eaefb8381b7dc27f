"""A limit on RackTopologies per namespace: the oldest are served, the others are refused. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.text import be, plural
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology

_Age = tuple[str, str]
DEFAULT_TOPOLOGIES_PER_NAMESPACE = 20


class NamespaceQuota:
    """At most `limit` RackTopologies are served per namespace, since each costs tasks and a Kafka client.

    Age is `metadata.creationTimestamp`, then the uid.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ages: dict[ObjectKey, _Age] = {}
        self._sorted: defaultdict[str, list[_Age]] = defaultdict(list)

    def put(self, topology: RackTopology) -> None:
        """Add a RackTopology."""
        age = topology.meta.age
        if self._ages.get(topology.key) == age:
            return
        self.drop(topology.key)
        self._ages[topology.key] = age
        insort(self._sorted[topology.meta.namespace], age)

    def drop(self, key: ObjectKey) -> None:
        """Remove a RackTopology; a younger one may take its place."""
        age = self._ages.pop(key, None)
        if age is None:
            return
        ages = self._sorted[key.namespace]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._sorted[key.namespace]

    def over_quota(self, key: ObjectKey) -> Failure | None:
        """Why this RackTopology is not served: `limit` older ones are in its namespace. None where it is served."""
        age = self._ages.get(key)
        older = 0 if age is None else bisect_left(self._sorted[key.namespace], age)
        if older < self._limit:
            return None
        return Failure(
            Reason.TOO_MANY_TOPOLOGIES,
            f"{plural(older, 'RackTopology', 'RackTopologies')} of namespace {key.namespace} "
            f"{be(older)} older, and the operator serves {self._limit} of a namespace: "
            "delete some, or raise topologiesPerNamespace of the chart",
            Remedy.SPEC,
        )
