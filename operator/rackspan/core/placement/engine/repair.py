"""
Repairing: partitions that hold replicas already and are not what they should be, with the fewest moves there are.

`rackspan.core.moves` says, for each partition and domain, whether one replica more there keeps one more of those that
lie there. Taking children that gain first, from the root down, keeps the most that can be kept; whatever choice
remains goes to the emptiest. Partitions are taken in small batches so that each sees what the ones before it were
given.
"""

import numpy as np

from rackspan.core.fairness import Windows
from rackspan.core.moves import Kept, holding, most_kept
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

_TIE = 0x400
_BLOCK = 1 << 22  # cells of the largest table of partitions and brokers held at once


def repair(tree: RackTree, windows: Windows, held: IntArray, load: IntArray, seed: int) -> IntArray:
    """
    Give each partition a compliant set of brokers that keeps as many of its replicas as any can.

    `held` (partitions, replicas) are the depth-first positions it may keep, -1 for none; `load`, shape (brokers,), is
    what lies on the brokers without these partitions, and is added to. Gives positions of shape (partitions,
    replicas); a row of -1 where the brokers that are online do not suffice.
    """
    size = int(windows.low[0][0])
    placed = np.full((len(held), size), -1, dtype=np.int64)
    block = max(1, _BLOCK // max(len(tree), 1))
    for start in range(0, len(held), block):
        holds = holding(tree, held[start : start + block])
        usable = tree.eligible & (tree.online | holds)
        kept = most_kept(tree, windows, holds, usable)
        able = np.flatnonzero(kept.possible)
        step = max(1, len(tree) // (2 * size))
        for at in range(0, len(able), step):
            rows = able[at : at + step]
            chosen = _descend(tree, windows, kept, rows, load, seed + start)
            placed[start + rows] = chosen
            load += np.bincount(chosen.ravel(), minlength=len(load))
    return placed


def _descend(tree: RackTree, windows: Windows, kept: Kept, rows: IntArray, load: IntArray, seed: int) -> IntArray:
    """Choose the brokers of some partitions, from the root down."""
    more = np.zeros((len(rows), 1), dtype=np.int64)  # 1 where a domain holds one above its least
    for depth, above in enumerate(tree.nodes[:-1]):
        below = tree.nodes[depth + 1]
        gains, able = kept.gains[depth + 1], kept.able[depth + 1]
        fill = np.add.reduceat(load, below.first_broker) / np.maximum(below.capacity, 1)
        need = windows.extras[depth] + more
        more = np.zeros((len(rows), len(below)), dtype=np.int64)
        at, giver = np.nonzero(need)
        widths = np.diff(above.first_child, append=len(below))[giver]
        starts = np.cumsum(widths) - widths
        pair = np.repeat(np.arange(len(at)), widths)
        child = np.arange(len(pair)) - starts[pair] + above.first_child[giver][pair]
        row = rows[at][pair]
        tie = scrambled(seed, _TIE + depth, row * len(below) + child)
        order = np.lexsort((tie, fill[child], ~gains[row, child], ~able[row, child], pair))
        taken = order[np.arange(len(pair)) - starts[pair] < need[at, giver][pair]]
        more[at[pair[taken]], child[taken]] = 1
    return np.nonzero(windows.low[-1] + more)[1].reshape(len(rows), -1)
