"""
Repairing: partitions that hold replicas already and are not what they should be, with the fewest moves there are.

`rackspan.core.moves` says, for each partition and domain, whether one replica more there keeps one more of those that
lie there. Taking children that gain first, from the root down, keeps the most that can be kept; whatever choice
remains goes to the emptiest. Partitions are taken in small batches so that each sees what the ones before it were
given.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import Windows
from rackspan.core.moves import Kept, most_kept
from rackspan.core.placement.engine.chains import level
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]

_TIE = 0x400
_BLOCK = 1 << 22  # cells of the largest table of partitions and brokers held at once


def repair(tree: RackTree, windows: Windows, current: list[IntArray], load: IntArray, seed: int) -> IntArray:
    """
    Give each partition a compliant set of brokers that keeps as many of its replicas as any can.

    `current` are depth-first positions per partition (-1: unknown broker); `load`, shape (brokers,), is what lies on
    the brokers without these partitions, and is added to. Gives positions of shape (partitions, replicas); a row of
    -1 where the brokers that are online do not suffice.
    """
    size = int(windows.low[0][0])
    placed = np.full((len(current), size), -1, dtype=np.int64)
    block = max(1, _BLOCK // max(len(tree), 1))
    for start in range(0, len(current), block):
        holds = np.zeros((min(block, len(current) - start), len(tree)), dtype=bool)
        for row, replicas in enumerate(current[start : start + block]):
            holds[row, replicas[replicas >= 0]] = True
        holds &= tree.eligible
        usable = tree.eligible & (tree.online | holds)
        kept = most_kept(tree, windows, holds, usable)
        able = np.flatnonzero(kept.possible)
        step = max(1, len(tree) // (2 * size))
        for at in range(0, len(able), step):
            rows = able[at : at + step]
            chosen = _descend(tree, windows, kept, rows, load, seed + start)
            placed[start + rows] = chosen
            load += np.bincount(chosen.ravel(), minlength=len(load))
        if len(able):
            graph = _Replicas(tree, windows, placed[start + able], holds[able], usable[able], load)
            level(graph)
            placed[start + able] = graph.placed
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


@dataclass(slots=True)
class _Replicas:
    """Which broker holds which replica of the partitions to repair; an item is a partition and a column of `placed`."""

    tree: RackTree
    windows: Windows
    placed: IntArray  # (partitions, replicas)
    holds: BoolArray  # (partitions, brokers)
    usable: BoolArray  # (partitions, brokers)
    load: IntArray
    counts: list[IntArray] = field(init=False)  # per named level, (partitions, domains)
    choosy: BoolArray = field(init=False)  # (partitions,) whether it could have kept other replicas instead

    def __post_init__(self) -> None:
        rows = np.arange(len(self.placed))[:, None]
        kept = np.take_along_axis(self.holds, self.placed, axis=1).sum(axis=1)
        self.choosy = kept < self.holds.sum(axis=1)
        self.counts = []
        for domains in self.tree.nodes[1:-1]:
            count = np.zeros((len(self.placed), len(domains)), dtype=np.int64)
            np.add.at(count, (rows, domains.of_broker[self.placed]), 1)
            self.counts.append(count)

    @property
    def holding(self) -> BoolArray:
        return np.bincount(self.placed.ravel(), minlength=len(self.load)) > 0

    def handovers(self, givers: BoolArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        row, column = np.nonzero(givers[self.placed])
        taker = np.flatnonzero(takers)
        giver = self.placed[row, column]
        kept = self.holds[row, giver]
        movable = ~kept | self.choosy[row]
        row, column, giver, kept = row[movable], column[movable], giver[movable], kept[movable]
        fits = self.usable[row[:, None], taker] & (kept[:, None] == self.holds[row[:, None], taker])
        for replica in range(self.placed.shape[1]):
            fits &= self.placed[row, replica][:, None] != taker
        for at, count in enumerate(self.counts, start=1):
            of_broker = self.tree.nodes[at].of_broker
            loses, gains = of_broker[giver], of_broker[taker]
            spare = count[row, loses] > self.windows.low[at][loses]
            room = count[row[:, None], gains] < self.windows.high[at][gains]
            fits &= (loses[:, None] == gains) | (spare[:, None] & room)
        found, which = np.nonzero(fits)
        return row[found], column[found], taker[which]

    def holder(self, partition: int, column: int) -> int:
        return int(self.placed[partition, column])

    def hand_over(self, partition: int, column: int, taker: int) -> None:
        giver = self.placed[partition, column]
        for count, domains in zip(self.counts, self.tree.nodes[1:-1], strict=True):
            count[partition, domains.of_broker[giver]] -= 1
            count[partition, domains.of_broker[taker]] += 1
        self.placed[partition, column] = taker
