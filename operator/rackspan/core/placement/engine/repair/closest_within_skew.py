"""
Repairing under a loosened spread: the fewest moves when some levels allow more than the fair split.

With `maxSkew` above one the sizes that a domain may hold no longer form a window, so they are tried one by one: for
each domain and size, the best split over its children, found child by child for each base size of the split. Among
splits that keep equally many replicas the most even one is taken. This looks at partitions one at a time, and only at
those that exceed their skew or change size.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

_TIE = 0x800

_Split = tuple[int, int, tuple[int, ...]]  # replicas kept, unevenness (sum of squares, negative), sizes of the children
_Table = list[_Split | None]  # by size of the domain


def closest_within_skew(
    tree: RackTree,
    size: int,
    current: Sequence[IntArray],
    skews: Mapping[int, tuple[int, bool]],
    load: IntArray,
    seed: int,
) -> IntArray:
    """
    Give each partition a placement of `size` within `skews` that keeps the most it can.

    `skews` are those of `rackspan.core.compliance.fewest_moves`, `current` are positions per partition; `load` is added
    to. Gives positions of shape (partitions, size), a row of -1 where there is none over the brokers that are online.
    """
    placed = np.full((len(current), size), -1, dtype=np.int64)
    leaves = tree.nodes[-2]
    tie = scrambled(seed, _TIE, np.arange(len(tree)))
    for row, replicas in enumerate(current):
        holds = np.zeros(len(tree), dtype=bool)
        holds[replicas[replicas >= 0]] = True
        holds &= tree.eligible
        usable = tree.eligible & (tree.online | holds)
        sizes = _sizes(tree, size, holds, usable, skews)
        if sizes is None:
            continue
        order = np.lexsort((tie, load, ~holds, ~usable, leaves.of_broker))
        rank = np.arange(len(tree)) - leaves.first_broker[leaves.of_broker]
        placed[row] = order[rank < np.array(sizes)[leaves.of_broker]]
        load[placed[row]] += 1
    return placed


def _sizes(
    tree: RackTree,
    size: int,
    holds: npt.NDArray[np.bool_],
    usable: npt.NDArray[np.bool_],
    skews: Mapping[int, tuple[int, bool]],
) -> list[int] | None:
    """Replicas for each domain of the lowest level, or None where no placement exists."""
    leaves = tree.nodes[-2]
    held, room = (np.add.reduceat(flags, leaves.first_broker, dtype=np.int64).tolist() for flags in (holds, usable))
    tables: list[_Table] = [
        [(min(part, kept), -part * part, ()) if part <= most else None for part in range(size + 1)]
        for kept, most in zip(held, room, strict=True)
    ]
    levels = [tables]
    for at in range(len(tree.nodes) - 3, -1, -1):
        skew, strict = skews.get(at + 1, (1, False))
        capacity = tree.nodes[at + 1].capacity.tolist()
        starts = [*tree.nodes[at].first_child.tolist(), len(tables)]
        tables = [
            _joint(tables[start:stop], capacity[start:stop], size, skew, strict=strict)
            for start, stop in pairwise(starts)
        ]
        levels.append(tables)
    sizes = [size]
    for tables in reversed(levels):
        splits = [table[part] for table, part in zip(tables, sizes, strict=True)]
        if None in splits:
            return None
        if tables is not levels[0]:
            sizes = [part for split in splits if split for part in split[2]]
    return sizes


def _joint(children: list[_Table], capacities: list[int], size: int, skew: int, *, strict: bool) -> _Table:
    """Table of a domain from those of its children: per size, the best over all base sizes of the split."""
    best: _Table = [None] * (size + 1)
    for base in range(size + 1):
        if strict and any(0 < capacity < base for capacity in capacities):
            break
        totals: _Table = [None] * (size + 1)
        totals[0] = (0, 0, ())
        for table, capacity in zip(children, capacities, strict=True):
            grown: _Table = [None] * (size + 1)
            for part in range(min(capacity, base), min(capacity, base + skew, size) + 1):
                own = table[part]
                if own is None:
                    continue
                for before, split in enumerate(totals[: size + 1 - part]):
                    if split is not None:
                        joined = (split[0] + own[0], split[1] + own[1], (*split[2], part))
                        grown[before + part] = _better(grown[before + part], joined)
            totals = grown
        best = [_better(*pair) for pair in zip(best, totals, strict=True)]
    return best


def _better(one: _Split | None, other: _Split | None) -> _Split | None:
    return max((split for split in (one, other) if split is not None), default=None)
