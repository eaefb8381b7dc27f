"""How a cluster stands: partitions out of compliance, and how evenly replicas and leaders lie, per level and broker."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from rackspan.core.compliance import judge
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.placement.model import Spread
from rackspan.core.planning.draft import Draft
from rackspan.core.planning.plan import Extent, State
from rackspan.core.snapshot import BoolArray, BrokerIds
from rackspan.core.topology import IntArray, RackTree


def states(draft: Draft) -> tuple[State, State]:
    """
    Give the state of the topics that may be changed as they lie, and as they would after what has been decided.

    Partitions that are still to be created count in the second one, and are compliant.
    """
    some = np.zeros(len(draft.table), dtype=bool)
    some[draft.changed] = True
    broken, unfair = _judged(draft, draft.table.replicas, draft.chosen & ~some)
    both = []
    for replicas, created, on_brokers in (
        (draft.table.replicas, 0, draft.loads_before),
        (draft.replicas, sum(len(one.replicas) for one in draft.created), draft.loads),
    ):
        more_broken, more_unfair = _judged(draft, replicas, some)
        both.append(
            State(
                int(np.count_nonzero(draft.chosen)) + created,
                broken + more_broken,
                {level: unfair[level] + more_unfair[level] for level in draft.tree.levels},
                tuple(_extents(draft.tree, on_brokers)),
            )
        )
    return both[0], both[1]


def _judged(draft: Draft, replicas: BrokerIds, chosen: BoolArray) -> tuple[int, Counter[str]]:
    """Partitions out of compliance, and unfair ones per level, among the `chosen` rows."""
    broken, unfair = 0, Counter[str]()
    for tree, spread, rows in _rules(draft):
        verdict = judge(tree, replicas[rows[chosen[rows]]], spread)
        broken += verdict.non_compliant
        unfair.update(verdict.unfair)
    return broken, unfair


def _rules(draft: Draft) -> Iterator[tuple[RackTree, tuple[Spread, ...], IntArray]]:
    """All rows by what they are judged by."""
    rest = np.ones(len(draft.table), dtype=bool)
    for group in draft.groups:
        rest[group.rows] = False
        yield group.tree, group.spec.spread, group.rows
    yield draft.tree, (), np.flatnonzero(rest)


def _extents(tree: RackTree, loads: Loads) -> Iterator[Extent]:
    for level in tree.nodes[1:]:
        counted = level.capacity > 0
        if counted.any():
            replicas, leaders = (
                np.add.reduceat(load, level.first_broker)[counted] for load in (loads.replicas, loads.leaders)
            )
            yield Extent(
                level.name, (int(replicas.min()), int(replicas.max())), (int(leaders.min()), int(leaders.max()))
            )
