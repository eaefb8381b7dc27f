"""
The fewest moves, exactly: the most replicas of a partition that a compliant placement can keep.

    kept(broker, n)  = 1 if n = 1 and the broker holds a replica, else 0 kept(domain, n)  = sum over children of
    kept(c, low(c)) + the sum of the largest gains kept(c, low + 1) - kept(c, low)

and the fewest moves is `n - kept(root, n)`. Each domain is only ever asked for the two sizes of its window, and going
from the lower to the higher one gains at most one kept replica. So a yes or a no per domain carries the whole
recursion, and a level of it is a sum over booleans for all partitions at once:

    gain(broker) = it holds a replica
    gain(domain) = more children gain than the domain gives away extras when it holds its least

`most_kept` works on the windows of the fair split; `most_kept_within` on splits that a spread has loosened, where
windows are wider and the recursion has to try the sizes one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import Windows, fair_windows
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]
_NEVER = -(1 << 30)
_BLOCK = 1 << 22  # cells of the largest table of partitions and brokers held at once


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """
    What partitions can keep, and where.

    `count` has the shape (partitions,). `gains[k]` and `able[k]`, of shape (partitions, domains of level k), say
    whether one replica above its least would keep one more replica in a domain, and whether it could hold one more at
    all.
    """

    count: IntArray
    possible: BoolArray
    gains: tuple[BoolArray, ...]
    able: tuple[BoolArray, ...]


def most_kept(tree: RackTree, windows: Windows, holds: BoolArray, usable: BoolArray | None = None) -> Kept:
    """
    Most replicas of each partition that a placement within `windows` keeps.

    `holds` and `usable`, shape (partitions, brokers), depth-first: where replicas are, and which brokers may hold one
    (default: all that are eligible). `possible` is false where the usable brokers do not suffice.
    """
    can = np.broadcast_to(tree.eligible, holds.shape) if usable is None else usable
    forced = windows.low[-1] > 0
    flexible = windows.high[-1] > windows.low[-1]
    possible = can | ~forced
    able, gain = can & flexible, holds & can & flexible
    kept = (holds & can & forced).astype(np.int64)
    gains, ables = [gain], [able]
    for at in range(len(tree.nodes) - 2, -1, -1):
        first, extras = tree.nodes[at].first_child, windows.extras[at]
        flexible = windows.high[at] > windows.low[at]
        rooms, gainers = (np.add.reduceat(flags, first, axis=1, dtype=np.int64) for flags in (able, gain))
        kept = np.add.reduceat(kept, first, axis=1) + np.minimum(gainers, extras)
        possible = np.logical_and.reduceat(possible, first, axis=1) & (rooms >= extras)
        able = flexible & (rooms > extras)
        gain = able & (gainers > extras)
        gains.append(gain)
        ables.append(able)
    return Kept(kept[:, 0], possible[:, 0], tuple(reversed(gains)), tuple(reversed(ables)))


def fewest_moves(tree: RackTree, size: int, placed: IntArray, skews: Mapping[int, tuple[int, bool]]) -> IntArray:
    """
    Fewest moves with which each partition gets `size` replicas by a fair split, or one within `skews`.

    `placed` are positions, shape (partitions, replicas), -1 for brokers that are not there. Gives shape (partitions,).
    """
    moves = np.full(len(placed), size, dtype=np.int64)
    block = max(1, _BLOCK // max(len(tree), 1))
    for start in range(0, len(placed), block):
        holds = holding(tree, placed[start : start + block]) & tree.eligible
        moves[start : start + block] -= most_kept_by(tree, size, holds, skews)
    return moves


def holding(tree: RackTree, placed: IntArray) -> BoolArray:
    """Which brokers hold a replica, shape (partitions, brokers), from positions (partitions, replicas), -1 for none."""
    holds = np.zeros((len(placed), len(tree)), dtype=bool)
    row, column = np.nonzero(placed >= 0)
    holds[row, placed[row, column]] = True
    return holds


def loosened(skews: Mapping[int, tuple[int, bool]]) -> bool:
    """Whether any level allows more than the fair split."""
    return any(skew > 1 for skew, _ in skews.values())


def most_kept_by(tree: RackTree, size: int, holds: BoolArray, skews: Mapping[int, tuple[int, bool]]) -> IntArray:
    """Most replicas of each partition that a placement of `size` keeps: by the fair split, or within `skews`."""
    if loosened(skews):
        return np.maximum(most_kept_within(tree, size, holds, skews), 0)
    return most_kept(tree, fair_windows(tree, size), holds).count


def most_kept_within(tree: RackTree, size: int, holds: BoolArray, skews: Mapping[int, tuple[int, bool]]) -> IntArray:
    """
    Most replicas of each partition that a placement of `size` keeps when some levels are loosened.

    `skews` maps the index of a level in `tree.nodes` to the skew its domains' children may have and whether children
    that are full count too. Gives an array of shape (partitions,), negative where no placement exists.
    """
    sizes = np.arange(size + 1)
    leaves = tree.nodes[-2]
    held = np.add.reduceat(holds & tree.eligible, leaves.first_broker, axis=1, dtype=np.int64)
    tables = [
        np.where(sizes <= leaves.capacity[at], np.minimum(sizes, held[:, at, None]), _NEVER)
        for at in range(len(leaves))
    ]
    for at in range(len(tree.nodes) - 3, -1, -1):
        skew, strict = skews.get(at + 1, (1, False))
        below = tree.nodes[at + 1]
        stops = [*tree.nodes[at].first_child[1:].tolist(), len(below)]
        tables = [
            _joint(tables[start:stop], below.capacity[start:stop].tolist(), size, skew, strict=strict)
            for start, stop in zip(tree.nodes[at].first_child.tolist(), stops, strict=True)
        ]
    return tables[0][:, size]


def _joint(children: list[IntArray], capacities: list[int], size: int, skew: int, *, strict: bool) -> IntArray:
    """Table of a domain from those of its children: the best over all base sizes of the split."""
    best = np.full_like(children[0], _NEVER)
    for base in range(size + 1):
        if strict and any(0 < capacity < base for capacity in capacities):
            break
        total = np.full_like(best, _NEVER)
        total[:, 0] = 0
        for table, capacity in zip(children, capacities, strict=True):
            merged = np.full_like(best, _NEVER)
            for part in range(min(capacity, base), min(capacity, base + skew, size) + 1):
                np.maximum(merged[:, part:], total[:, : size + 1 - part] + table[:, part, None], out=merged[:, part:])
            total = merged
        np.maximum(best, total, out=best)
    return best
