"""The state of a cluster: non-compliant partitions, and how even replicas and leaders are, per level and broker."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance import Pinned, assigned, judge, judge_pinned
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.planning.changes import CreatedPartitions, stacked
from rackspan.core.planning.draft import Counted, Draft
from rackspan.core.planning.topic_plan import Extent, PlanState
from rackspan.core.snapshot import BrokerIds
from rackspan.core.topology import RackTree


def states(draft: Draft) -> tuple[PlanState, PlanState]:
    """Return the state of the topics that may be changed, first at present and then with all decisions of the draft.

    Partitions to be created count in the second state only, as compliant.
    """
    now, then = draft.compliance.copy(), draft.compliance.copy()
    grouped = np.zeros(len(draft.table), dtype=bool)
    moving = np.zeros(len(draft.table), dtype=bool)
    moving[draft.changed] = True
    for group in draft.groups:
        grouped[group.rows] = True
        rows = group.rows[moving[group.rows]]
        if len(rows):
            for replicas, times in ((draft.table.replicas, -1), (draft.replicas, 1)):
                then.add(judge(group.tree, replicas[rows], group.spec.spread), times)
    rest = draft.table.replicas[draft.chosen & ~draft.pinned & ~grouped]
    for counted in (now, then):
        counted.add(judge(draft.tree, rest))
    return (
        _state(draft, now, draft.table.replicas, [], draft.loads_before),
        _state(draft, then, draft.replicas, draft.created, draft.loads),
    )


def _state(
    draft: Draft, counted: Counted, replicas: BrokerIds, created: Sequence[CreatedPartitions], loads: Loads
) -> PlanState:
    pinned = _pinned(draft, replicas, created)
    return PlanState(
        int(np.count_nonzero(draft.chosen)) + sum(len(one.replicas) for one in created),
        counted.broken + int(np.count_nonzero(pinned.broken)),
        {level: counted.unfair[level] for level in draft.tree.levels},
        tuple(_extents(draft.tree, loads)),
        int(np.count_nonzero(pinned.unfair)),
        int(pinned.moves_without.sum()),
    )


def _pinned(draft: Draft, replicas: BrokerIds, created: Sequence[CreatedPartitions]) -> Pinned:
    """Judge the partitions with an explicit assignment, and those that an assignment creates."""
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
