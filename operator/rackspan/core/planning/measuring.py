"""How a cluster stands: partitions out of compliance, and how evenly replicas and leaders lie, per level and broker."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance import Pinned, assigned, judge, judge_pinned
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.placement.model import Spread
from rackspan.core.planning.changes import Created, stacked
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
    broken, unfair = _judged(draft, draft.table.replicas, draft.chosen & ~some & ~draft.pinned)
    both = []
    for replicas, created, on_brokers in (
        (draft.table.replicas, [], draft.loads_before),
        (draft.replicas, draft.created, draft.loads),
    ):
        more_broken, more_unfair = _judged(draft, replicas, some & ~draft.pinned)
        pinned = _pinned(draft, replicas, created)
        both.append(
            State(
                int(np.count_nonzero(draft.chosen)) + sum(len(one.replicas) for one in created),
                broken + more_broken + int(np.count_nonzero(pinned.broken)),
                {level: unfair[level] + more_unfair[level] for level in draft.tree.levels},
                tuple(_extents(draft.tree, on_brokers)),
                int(np.count_nonzero(pinned.unfair)),
                int(pinned.moves_without.sum()),
            )
        )
    return both[0], both[1]


def _pinned(draft: Draft, replicas: BrokerIds, created: Sequence[Created]) -> Pinned:
    """The partitions with an explicit assignment, and those that one creates."""
    rows = np.flatnonzero(draft.pinned)
    lying: list[npt.NDArray[np.integer]] = [replicas[rows]]
    wanted: list[npt.NDArray[np.integer]] = [replicas[:0]]
    for topic in np.unique(draft.table.topic[rows]).tolist():
        name = draft.table.names[topic]
        wanted.append(assigned(draft.requirements(name).assignment, np.arange(len(draft.rows_of[name]))))
    for one in created:
        if draft.requirements(one.topic).assignment:
            lying.append(one.replicas)
            wanted.append(one.replicas)
    return judge_pinned(draft.tree, stacked(lying), stacked(wanted))


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
