"""
Evening out what brokers hold: which replica of which partition could lie elsewhere at no cost.

Two kinds of replicas can change hands. One that has to be copied anyway may go to any broker that its partition's
windows allow. One that stays where it lies can only make room for another that would stay as well: the number of moves
is the same. Partitions that are not anchored, as in rebalancing, give any replica to any broker.

Direct hand-overs come first, in bulk; chains of them (`engine.chains`) then make the loads as even as they can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import Windows
from rackspan.core.placement.engine.chains import level
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]
_CELLS = 1 << 18  # pairs of a replica and a broker that are looked at in one go
_TAKERS = 64  # brokers that are tried for a direct hand-over, the least loaded; chains try all of them
_WORTHWHILE = 32  # a further round of direct hand-overs has to bring this part of the last one


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What holds for some partitions: brokers that are eligible, and the windows of every domain."""

    tree: RackTree
    windows: Windows


class Replicas:
    """
    Who holds which replica of some partitions; an item is a partition and a column of `placed`.

    `placed` (partitions, replicas) and `before` (partitions, replicas) are positions, -1 where a row is shorter; an
    entry of `before` that cannot stay is -1 as well. `rules[rule[p]]` are those of partition p. `anchored[p]` says that
    as many replicas as now have to stay where they were. `load` (brokers,) counts what lies there, these included.
    """

    def __init__(
        self,
        rules: Sequence[Rules],
        rule: IntArray,
        placed: IntArray,
        before: IntArray,
        anchored: BoolArray,
        load: IntArray,
    ) -> None:
        self.placed = placed
        self.load = load
        self._rule = rule
        self._before = before
        self._anchored = anchored
        trees = [one.tree for one in rules]
        self._able = np.array([tree.eligible & tree.online for tree in trees])
        self._eligible = np.array([tree.eligible for tree in trees])
        # Per named level: the domain of each broker, -1 for none, and the windows by rule.
        self._domains = [np.append(nodes.of_broker, -1) for nodes in trees[0].nodes[1:-1]]
        self._low = [np.array([one.windows.low[at] for one in rules]) for at in range(1, len(trees[0].nodes) - 1)]
        self._high = [np.array([one.windows.high[at] for one in rules]) for at in range(1, len(trees[0].nodes) - 1)]
        self._kept = _any_equal(placed, before) & (placed >= 0)
        self._choosy = anchored & (self._kept.sum(axis=1) < (before >= 0).sum(axis=1))

    # --- Graph -------------------------------------------------------------------------------------------------------

    @property
    def holding(self) -> BoolArray:
        """Brokers with a replica that might change hands."""
        row, column = np.nonzero(self._movable(slice(None)) & (self.placed >= 0))
        return np.bincount(self.placed[row, column], minlength=len(self.load)) > 0

    def handovers(self, givers: BoolArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """Hand-overs between two sets of brokers; at least one to each taker that any giver can reach."""
        row, column = np.nonzero(np.append(givers, [False])[self.placed])  # the last is what -1 finds
        movable = self._movable(row, column)
        row, column = row[movable], column[movable]
        open_to_all = ~self._kept[row, column] | ~self._anchored[row]
        found = [self._exchanges(row[~open_to_all], column[~open_to_all], takers)]
        row, column = row[open_to_all], column[open_to_all]
        wanted = takers.copy()
        start = 0
        while start < len(row) and wanted.any():
            step = max(1, _CELLS // int(np.count_nonzero(wanted)))
            found.append(self._copies(row[start : start + step], column[start : start + step], np.flatnonzero(wanted)))
            wanted[found[-1][2]] = False
            start += step
        rows, columns, brokers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, columns, brokers

    def holder(self, partition: int, column: int) -> int:
        """The broker that holds a replica now."""
        return int(self.placed[partition, column])

    def hand_over(self, partition: int, column: int, taker: int) -> None:
        """Give a replica to a broker; the load is not counted here."""
        self.placed[partition, column] = taker
        self._kept[partition, column] = bool((self._before[partition] == taker).any())

    # -----------------------------------------------------------------------------------------------------------------

    def relieve(self, cost: IntArray | None = None, goal: IntArray | None = None) -> int:
        """
        Hand over directly, most loaded brokers first, wherever that makes loads more even; say how often.

        `cost` (partitions,) orders the replicas of a broker: the cheapest are handed over first. With a `goal`
        (brokers,), nobody gives below it or takes above it.
        """
        count = 0
        busiest = np.flatnonzero(self.holding & (self.load > (0 if goal is None else goal)))
        for giver in busiest[np.argsort(-self.load[busiest], kind="stable")].tolist():
            if self.load.min() > self.load[giver] - 2:
                break
            count += self._relieve(giver, cost, goal)
        return count

    def _relieve(self, giver: int, cost: IntArray | None, goal: IntArray | None) -> int:
        row, column = np.nonzero(self.placed == giver)
        movable = self._movable(row, column)
        row, column = row[movable], column[movable]
        if cost is not None:  # what is copied anyway costs no further move
            order = np.lexsort((cost[row], self._kept[row, column]))
            row, column = row[order], column[order]
        open_to_all = ~self._kept[row, column] | ~self._anchored[row]
        kept = self._exchanges(row[~open_to_all], column[~open_to_all], self._takers(giver, goal))
        count = self._take(giver, kept, goal)
        row, column = row[open_to_all], column[open_to_all]
        start = 0
        while start < len(row):
            takers = np.flatnonzero(self._takers(giver, goal))
            if not len(takers):
                break
            takers = takers[np.argsort(self.load[takers], kind="stable")[:_TAKERS]]
            surplus = int(self.load[giver] - self.load[takers[0]])
            step = max(1, min(2 * surplus, _CELLS // len(takers)))
            count += self._take(
                giver, self._copies(row[start : start + step], column[start : start + step], takers), goal
            )
            start += step
        return count

    def _takers(self, giver: int, goal: IntArray | None) -> BoolArray:
        """Brokers that a broker should give to."""
        takers: BoolArray = self.load <= self.load[giver] - 2
        if goal is not None:
            takers &= (self.load < goal) & (self.load[giver] > goal[giver])
        return takers

    def _take(self, giver: int, edges: tuple[IntArray, IntArray, IntArray], goal: IntArray | None) -> int:
        """Hand each replica over to the least loaded of its takers, for as long as it should."""
        rows, columns, takers = edges
        count = 0
        starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(rows)]):
            if goal is not None and self.load[giver] <= goal[giver]:
                break
            options = takers[start:stop]
            needs = self.load[options] if goal is None else self.load[options] - goal[options]
            taker = int(options[np.argmin(needs)])
            if self.load[taker] > self.load[giver] - 2 or (goal is not None and self.load[taker] >= goal[taker]):
                continue
            self.hand_over(int(rows[start]), int(columns[start]), taker)
            self.load[giver] -= 1
            self.load[taker] += 1
            count += 1
        return count

    def _movable(self, row: IntArray | slice, column: IntArray | slice = slice(None)) -> BoolArray:
        loose = self._choosy | ~self._anchored
        shaped = loose[row] if isinstance(column, np.ndarray) else loose[row][:, None]
        movable: BoolArray = ~self._kept[row, column] | shaped
        return movable

    def _exchanges(self, row: IntArray, column: IntArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """Replicas that stay, and brokers that hold another one which could stay instead."""
        old = self._before[row]
        at, which = np.nonzero((old >= 0) & np.append(takers, [False])[old])
        row, column, taker = row[at], column[at], old[at, which]
        return self._fitting(row, column, taker, self._eligible)

    def _copies(self, row: IntArray, column: IntArray, takers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Replicas that are copied, and brokers that could be given them."""
        return self._fitting(
            np.repeat(row, len(takers)), np.repeat(column, len(takers)), np.tile(takers, len(row)), self._able
        )

    def _fitting(
        self, row: IntArray, column: IntArray, taker: IntArray, able: BoolArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Those hand-overs after which all windows are kept to."""
        lying = [self.placed[row, at] for at in range(self.placed.shape[1])]
        fits = able[self._rule[row], taker]
        for broker in lying:
            fits &= broker != taker
        row, column, taker = row[fits], column[fits], taker[fits]
        lying = [broker[fits] for broker in lying]
        giver, rule = self.placed[row, column], self._rule[row]
        fits = np.ones(len(row), dtype=bool)
        for domains, low, high in zip(self._domains, self._low, self._high, strict=True):
            loses, gains = domains[giver], domains[taker]
            in_losing, in_gaining = np.zeros(len(row), dtype=np.int16), np.zeros(len(row), dtype=np.int16)
            for broker in lying:
                domain = domains[broker]
                in_losing += domain == loses
                in_gaining += domain == gains
            fits &= (loses == gains) | ((in_losing > low[rule, loses]) & (in_gaining < high[rule, gains]))
        return row[fits], column[fits], taker[fits]


def even_out(replicas: Replicas, cost: IntArray | None = None) -> None:
    """Make the loads of the brokers as even as hand-overs can."""
    before, count = 0, replicas.relieve(cost)
    while count * _WORTHWHILE > before:
        before, count = count, replicas.relieve(cost)
    level(replicas)


def _any_equal(one: IntArray, other: IntArray) -> BoolArray:
    """Which entries of each row of `one` are in the same row of `other`."""
    found = np.zeros(one.shape, dtype=bool)
    for column in range(other.shape[1]):
        found |= one == other[:, column, None]
    return found
