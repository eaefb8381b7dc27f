"""Rebalancing of a draft: replicas and leaders as even as fair splits allow, with the fewest moves for that.

Compliant partitions may move. Partitions to be created may be placed elsewhere, which copies nothing. All others stay
and count as load: those of topics that may not be changed, explicit assignments, and those that cannot be repaired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.compliance import allowed_skews, judge
from rackspan.core.compliance.fair_split import Windows, fair_windows
from rackspan.core.compliance.fewest_moves import loosened
from rackspan.core.placement.engine.balance.rebalance import moves_to_balance, rebalance_loads
from rackspan.core.placement.engine.balance.replicas import once
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.placement.multilevel import freedom, lasting_leaders
from rackspan.core.planning.changes import stacked
from rackspan.core.planning.draft import Draft
from rackspan.core.planning.per_topic import Placed
from rackspan.core.snapshot import NONE, of_width
from rackspan.core.topology import IntArray, RackTree

if TYPE_CHECKING:
    from rackspan.core.placer import PlacementSpec

_SEED = 0  # of choices between topics


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    """Partitions under the same rules: those that are evened out (`task`), and all that could move (`movable`).

    If a spread is loosened, partitions within it that are not fair stay, but other plans may move them. `movable`
    (partitions,) are row numbers, like those of the task.
    """

    task: Task
    windows: Windows
    movable: IntArray


def even_out_all(draft: Draft) -> int:
    """Even out the draft. Return a lower bound of its moves for loads that are as even as the result."""
    count, new = len(draft.table), [one for one in draft.created if isinstance(one, Placed)]
    starts = [count, *(count + np.cumsum([len(one.replicas) for one in new])).tolist()]
    places = [slice(start, stop) for start, stop in pairwise(starts)]
    placed = stacked([draft.tree.positions(draft.replicas), *(draft.tree.positions(one.replicas) for one in new)])
    before = stacked([draft.before, np.full((starts[-1] - count, 1), NONE)])
    sizes = np.append(draft.table.size_bytes, np.full(starts[-1] - count, NONE))
    shares = [*_of_groups(draft), *_of_created(new, places, placed)]
    if not shares:
        return int(draft.bound.sum())
    tasks = [share.task for share in shares]
    windows = [share.windows for share in shares]
    spread, fewest = rebalance_loads(draft.tree, tasks, windows, placed, before, sizes, draft.loads, _SEED)
    rows = np.concatenate([task.rows for task in tasks])
    draft.decide(rows[rows < count], spread[rows[rows < count]])
    rest = [one for one in draft.created if not isinstance(one, Placed)]
    moved = [
        replace(one, replicas=draft.tree.ids[spread[at, : one.spec.replication_factor]])
        for one, at in zip(new, places, strict=True)
    ]
    draft.created = [*rest, *moved]
    free, after = np.concatenate([share.movable for share in shares]), draft.loads.replicas
    lay = after + _counted(draft.tree, once(before[free])) - _counted(draft.tree, spread[free])
    even = not any(loosened(task.skews) for task in tasks)
    moves = max(moves_to_balance(lay, after, draft.tree.eligible, even=even), fewest or 0)
    moves -= sum(one.replicas.size for one in new)
    return max(int(draft.bound.sum()), moves + int(np.delete(draft.bound, free[free < count]).sum()))


def _of_groups(draft: Draft) -> Iterator[_Share]:
    """Yield the existing partitions that have all of their replicas."""
    for group in draft.groups:
        size, skews = group.spec.replication_factor, allowed_skews(group.tree, group.spec.spread)
        rows = group.rows[(draft.replicas[group.rows] != NONE).sum(axis=1) == size]
        lying = of_width(draft.replicas[rows], size)
        fair = ~judge(group.tree, lying).broken
        movable = fair | ~judge(group.tree, lying, group.spec.spread).broken if loosened(skews) else fair
        task = Task(group.tree, size, skews, group.preferred, rows[fair])
        yield _Share(task, fair_windows(group.tree, size), rows[movable])


def _of_created(new: Sequence[Placed], places: Sequence[slice], placed: IntArray) -> Iterator[_Share]:
    """Yield the partitions to be created, at these `places` of the rows `placed`. They may use open brokers only."""
    alike: dict[tuple[RackTree, PlacementSpec], list[IntArray]] = {}
    for one, at in zip(new, places, strict=True):
        alike.setdefault((one.tree, one.spec), []).append(np.arange(at.start, at.stop))
    for (tree, spec), parts in alike.items():
        rows, skews, preferred = (
            np.concatenate(parts),
            allowed_skews(tree, spec.spread),
            lasting_leaders(tree, spec.leaders),
        )
        for windows, some in freedom(tree, spec, placed[rows]):
            task = Task(tree.without_closed(), spec.replication_factor, skews, preferred, rows[some])
            yield _Share(task, windows, rows[some])


def _counted(tree: RackTree, placed: IntArray) -> IntArray:
    """Return the replicas on each broker, shape (brokers,)."""
    return np.bincount(placed[placed >= 0], minlength=len(tree))
