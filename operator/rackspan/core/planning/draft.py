"""A draft of a plan: the partitions of a cluster, and the decisions about them so far.

Partitions of topics with the same requirements are planned together, as a group.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.compliance import Compliance
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.placement.feasibility import checked_tree, refuse_impossible_spread
from rackspan.core.placement.multilevel import lasting_leaders
from rackspan.core.placer import InfeasibleError, PlacementSpec
from rackspan.core.planning.request import PlanRequest, Problem
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import NONE, BrokerIds, Partitions, of_width
from rackspan.core.topology import BoolArray, IntArray, RackTree

if TYPE_CHECKING:
    from rackspan.core.planning.changes import CreatedPartitions

_NONE = TopicRequirements()


@dataclass(slots=True)
class Counted:
    """The number of non-compliant partitions, and of unfair partitions per level."""

    broken: int = 0
    unfair: Counter[str] = field(default_factory=Counter)

    def copy(self) -> "Counted":
        """Return a copy of the counts that can be changed independently."""
        return Counted(self.broken, self.unfair.copy())

    def add(self, found: Compliance, times: int = 1) -> None:
        """Add a result, or subtract it if `times` is -1."""
        self.broken += times * found.non_compliant
        for level, count in found.unfair.items():
            self.unfair[level] += times * count


@dataclass(frozen=True, slots=True, eq=False)
class PartitionGroup:
    """Partitions under the same rules, as row numbers.

    `spec` has their brokers, replication factor, spread and preferred leaders.
    """

    cluster: RackTree
    spec: PlacementSpec
    rows: IntArray

    @property
    def tree(self) -> RackTree:
        """The tree with their eligible brokers. It is not stored, because there may be a group for each topic."""
        return self.cluster.selected(self.spec.include, self.spec.exclude)

    @property
    def preferred(self) -> BoolArray:
        """The brokers that should lead, online or not, shape (brokers,)."""
        return lasting_leaders(self.tree, self.spec.leaders)


class Draft:
    """The rows of the partition table, their replicas as decided so far, and the loads before and after.

    `before` (partitions, replicas) are the present positions. `replicas` are broker ids, initially the present ones.
    `bound` (partitions,) are the moves that every plan needs. `created` are partitions that are not in the table yet.
    `pinned` (partitions,) marks rows with an explicit assignment. `compliance` is the present one of the groups.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.tree = request.tree
        self.table = request.partitions.ordered()
        self.rows_of = _rows_by_topic(self.table.names, self.table.topic)
        self.chosen = self._of_topics(lambda name: request.topics is None or name in request.topics)
        self.pinned = self.chosen & self._of_topics(lambda name: bool(self.requirements(name).assignment))
        self.groups, self.problems = _grouped(request, self.table, self.chosen & ~self.pinned)
        self.created: list[CreatedPartitions] = []
        self.compliance = Counted()
        self.before = self.tree.positions(self.table.replicas)
        self.replicas: BrokerIds = self.table.replicas
        self.bound: IntArray = np.zeros(len(self.table), dtype=np.int64)
        self.loads_before = self._loads_before()
        self.loads = self.loads_before.copy()

    def requirements(self, topic: str) -> TopicRequirements:
        """Return the requirements of a topic."""
        return self.request.requirements.get(topic, _NONE)

    def _loads_before(self) -> Loads:
        """Return the loads of the brokers before any change."""
        loads = Loads.of(self.tree, self.request.elsewhere.replicas, self.request.elsewhere.leaders)
        loads.add(self.before, self.table.size_bytes)
        return loads

    @property
    def changed(self) -> IntArray:
        """The rows whose replicas differ from the present ones."""
        before = of_width(self.table.replicas, self.replicas.shape[1])
        return np.flatnonzero((before != self.replicas).any(axis=1))

    def decide(self, rows: IntArray, placed: IntArray) -> None:
        """Set new positions of some rows, shape (rows, replicas), padded with -1."""
        self.replicas = of_width(self.replicas, max(self.replicas.shape[1], placed.shape[1]))
        self.replicas[rows] = NONE
        self.replicas[rows, : placed.shape[1]] = np.append(self.tree.ids, NONE)[placed]

    def _of_topics(self, predicate: Callable[[str], bool]) -> BoolArray:
        return np.array([predicate(name) for name in self.table.names], dtype=bool)[self.table.topic]


def _rows_by_topic(names: tuple[str, ...], topic: IntArray) -> dict[str, IntArray]:
    bounds = np.searchsorted(topic, np.arange(len(names) + 1)).tolist()
    return {name: np.arange(bounds[at], bounds[at + 1]) for at, name in enumerate(names)}


def _grouped(request: PlanRequest, table: Partitions, chosen: BoolArray) -> tuple[list[PartitionGroup], list[Problem]]:
    """Group the `chosen` rows of a table. Rows with impossible requirements are not in a group but in a problem."""
    groups, problems = [], []
    for required, size, rows in _alike(request.requirements, table, np.flatnonzero(chosen)):
        spec = required.placement_spec("", 0, size)
        try:
            tree = checked_tree(spec, request.tree)
            refuse_impossible_spread(tree, spec)
            lasting_leaders(tree, spec.leaders)
        except InfeasibleError as error:
            topics = tuple(table.names[topic] for topic in np.unique(table.topic[rows]).tolist())
            problems.append(Problem(topics, error.reason, error.smallest_change))
        else:
            groups.append(PartitionGroup(request.tree, spec, rows))
    return groups, problems


def _alike(
    requirements: Mapping[str, TopicRequirements], table: Partitions, chosen: IntArray
) -> Iterator[tuple[TopicRequirements, int, IntArray]]:
    """Yield requirements, replication factor (the required one, else the present one) and rows with both in common."""
    kinds: dict[TopicRequirements, int] = {_NONE: 0}
    of_topic = np.array(
        [
            kinds.setdefault(requirements[name].of_existing(0), len(kinds)) if name in requirements else 0
            for name in table.names
        ],
        dtype=np.int64,
    )
    own, kind = table.replication_factor, of_topic[table.topic[chosen]]
    ends = np.cumsum(np.bincount(kind, minlength=len(kinds)))
    by_kind = np.split(chosen[np.argsort(kind, kind="stable")], ends[:-1])
    for required, rows in zip(kinds, by_kind, strict=True):
        if required.replication_factor is not None:
            if len(rows):
                yield required, required.replication_factor, rows
            continue
        for size in np.unique(own[rows]).tolist():
            yield required, size, rows[own[rows] == size]
