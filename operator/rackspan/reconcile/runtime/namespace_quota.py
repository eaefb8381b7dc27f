"""Which RackTopologies of a namespace came first: only so many of each are served. Pure."""

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
SERVED = 20
"""RackTopologies of a namespace that are served, unless somebody says otherwise."""


class NamespaceQuota:
    """RackTopologies of each namespace from the oldest on.

    `served` are dealt with in each namespace: a RackTopology costs loops, and a client of the Kafka that it names.
    """

    def __init__(self, served: int) -> None:
        self._served = served
        self._ages: dict[ObjectKey, _Age] = {}
        self._sorted: defaultdict[str, list[_Age]] = defaultdict(list)

    def put(self, topology: RackTopology) -> None:
        """Remember when it was made."""
        age = topology.meta.age
        if self._ages.get(topology.key) == age:
            return
        self.drop(topology.key)
        self._ages[topology.key] = age
        insort(self._sorted[topology.meta.namespace], age)

    def drop(self, key: ObjectKey) -> None:
        """Forget it: those that are younger move up."""
        age = self._ages.pop(key, None)
        if age is None:
            return
        ages = self._sorted[key.namespace]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._sorted[key.namespace]

    def over_quota(self, key: ObjectKey) -> Failure | None:
        """Why a RackTopology is left alone that has so many older ones beside it; None where there is room."""
        age = self._ages.get(key)
        older = 0 if age is None else bisect_left(self._sorted[key.namespace], age)
        if older < self._served:
            return None
        return Failure(
            Reason.TOO_MANY_TOPOLOGIES,
            f"{plural(older, 'RackTopology', 'RackTopologies')} of namespace {key.namespace} "
            f"{be(older)} older, and the operator serves {self._served} of a namespace: "
            "delete some, or raise topologiesPerNamespace of the chart",
            Remedy.SPEC,
        )
