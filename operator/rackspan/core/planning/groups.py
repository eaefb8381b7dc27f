"""Which partitions are planned for together: those of topics that should be alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rackspan.core.placement.feasibility import checked_tree, refuse_impossible_spread
from rackspan.core.placement.multilevel import lasting_leaders
from rackspan.core.placer import InfeasibleError, PlacementSpec
from rackspan.core.planning.request import PlanRequest, Problem
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import BoolArray, IntArray, RackTree

_NONE = TopicRequirements()


@dataclass(frozen=True, slots=True, eq=False)
class PartitionGroup:
    """
    Partitions under the same rules, as row numbers.

    `spec` has their brokers, replication factor, spread and preferred leaders.
    """

    cluster: RackTree
    spec: PlacementSpec
    rows: IntArray

    @property
    def tree(self) -> RackTree:
        """Which brokers are eligible for them: made anew each time, as there may be a group for each topic."""
        return self.cluster.selected(self.spec.include, self.spec.exclude)

    @property
    def preferred(self) -> BoolArray:
        """The brokers that should lead, whether they are online now or not, shape (brokers,)."""
        return lasting_leaders(self.tree, self.spec.leaders)


def grouped(request: PlanRequest, table: Partitions, chosen: BoolArray) -> tuple[list[PartitionGroup], list[Problem]]:
    """Group the `chosen` rows of a table; what cannot be done is left out of the groups and named."""
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
    """Rows of topics that should be alike, and their replication factor: the required one, else the one they have."""
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
