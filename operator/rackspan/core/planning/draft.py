"""A plan in the making: the partitions of a cluster, and what has been decided about them so far."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.compliance import Compliance
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.planning.groups import grouped
from rackspan.core.planning.request import PlanRequest
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import NONE, BrokerIds, of_width
from rackspan.core.topology import BoolArray, IntArray

if TYPE_CHECKING:
    from rackspan.core.planning.changes import CreatedPartitions

_NONE = TopicRequirements()


@dataclass(slots=True)
class Counted:
    """How many partitions are out of compliance, and how many are unfair per level."""

    broken: int = 0
    unfair: Counter[str] = field(default_factory=Counter)

    def copy(self) -> "Counted":
        """Give the same counts, to be changed apart from these."""
        return Counted(self.broken, self.unfair.copy())

    def add(self, found: Compliance, times: int = 1) -> None:
        """Add a result, or take it off."""
        self.broken += times * found.non_compliant
        for level, count in found.unfair.items():
            self.unfair[level] += times * count


class Draft:
    """
    Rows of the table, their replicas as decided so far, and the loads before that and from it.

    `before` (partitions, replicas) are the positions now; `replicas` are broker ids, at first those of now; `bound`
    (partitions,) are the moves that no plan can do without; `created` are partitions that are not in the table yet;
    `pinned` (partitions,) have an explicit assignment; `compliance` is that of the groups as they lie.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.tree = request.tree
        self.table = request.partitions.ordered()
        self.rows_of = _rows_by_topic(self.table.names, self.table.topic)
        self.chosen = self._of_topics(lambda name: request.topics is None or name in request.topics)
        self.pinned = self.chosen & self._of_topics(lambda name: bool(self.requirements(name).assignment))
        self.groups, self.problems = grouped(request, self.table, self.chosen & ~self.pinned)
        self.created: list[CreatedPartitions] = []
        self.compliance = Counted()
        self.before = self.tree.positions(self.table.replicas)
        self.replicas: BrokerIds = self.table.replicas
        self.bound: IntArray = np.zeros(len(self.table), dtype=np.int64)
        self.loads_before = self._loads_before()
        self.loads = self.loads_before.copy()

    def requirements(self, topic: str) -> TopicRequirements:
        """What a topic should be."""
        return self.request.requirements.get(topic, _NONE)

    def _loads_before(self) -> Loads:
        """What lies on the brokers before anything is changed."""
        loads, elsewhere = Loads.none(self.tree), self.request.elsewhere
        for load, counts in ((loads.replicas, elsewhere.replicas), (loads.leaders, elsewhere.leaders)):
            if counts:
                load += [counts.get(broker, 0) for broker in self.tree.ids.tolist()]
        loads.add(self.before, self.table.size_bytes)
        return loads

    def placed(self) -> IntArray:
        """Positions as decided so far, shape (partitions, replicas)."""
        return self.tree.positions(self.replicas)

    @property
    def changed(self) -> IntArray:
        """Rows whose replicas differ from those of now."""
        before = of_width(self.table.replicas, self.replicas.shape[1])
        return np.flatnonzero((before != self.replicas).any(axis=1))

    def decide(self, rows: IntArray, placed: IntArray) -> None:
        """Note new positions of some rows, shape (rows, replicas), -1 beyond the end."""
        self.replicas = of_width(self.replicas, max(self.replicas.shape[1], placed.shape[1]))
        self.replicas[rows] = NONE
        self.replicas[rows, : placed.shape[1]] = np.append(self.tree.ids, NONE)[placed]

    def _of_topics(self, predicate: Callable[[str], bool]) -> BoolArray:
        return np.array([predicate(name) for name in self.table.names], dtype=bool)[self.table.topic]


def _rows_by_topic(names: tuple[str, ...], topic: IntArray) -> dict[str, IntArray]:
    bounds = np.searchsorted(topic, np.arange(len(names) + 1)).tolist()
    return {name: np.arange(bounds[at], bounds[at + 1]) for at, name in enumerate(names)}
