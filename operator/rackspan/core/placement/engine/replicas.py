"""
Evening out what brokers hold: which replica of which partition could lie elsewhere at no cost.

Two kinds of replicas can change hands. One that has to be copied anyway may go to any broker that its partition's
windows allow. One that stays where it lies can only make room for another that would stay as well: the number of moves
is the same. Partitions that are not anchored, as in rebalancing, give any replica to any broker.

Direct hand-overs come first, many at a time: each replica is offered some brokers that lack replicas, out of the
largest domain that it can move about in. Chains of hand-overs (`engine.chains`) then make the loads as even as they
can be.
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
_OFFERS = 8  # brokers that a replica is offered in a round
_SPARE = 4  # replicas of a broker that are offered beyond twice those it has too many: some find no taker
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
        # Per level from the root down: where the brokers of each domain begin, and where they end.
        self._bounds = [np.append(nodes.first_broker, len(load)) for nodes in trees[0].nodes[:-1]]
        self._tried = np.zeros(placed.shape, dtype=np.int16)
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
        (brokers,), nobody gives below it or takes above it. Each partition hands over once at most.
        """
        aim = np.zeros_like(self.load) if goal is None else goal
        rows, columns, takers = self._offers(cost, aim, bounded=goal is not None)
        above = (self.load - aim).tolist()
        givers = self.placed[rows, columns].tolist()
        starts = np.flatnonzero(np.diff(rows * self.placed.shape[1] + columns, prepend=-1)).tolist()
        partitions, slots, options = rows.tolist(), columns.tolist(), takers.tolist()
        done: set[int] = set()
        count = 0
        for start, stop in pairwise([*starts, len(partitions)]):
            partition, giver = partitions[start], givers[start]
            if partition in done:
                continue
            taker = min(options[start:stop], key=above.__getitem__)
            if goal is None:
                if above[taker] > above[giver] - 2:
                    continue
            elif above[giver] <= 0 or above[taker] >= 0 or self.load[taker] > self.load[giver] - 2:
                continue
            self.hand_over(partition, slots[start], taker)
            done.add(partition)
            for broker, change in ((giver, -1), (taker, 1)):
                above[broker] += change
                self.load[broker] += change
            count += 1
        return count

    def _offers(self, cost: IntArray | None, aim: IntArray, *, bounded: bool) -> tuple[IntArray, IntArray, IntArray]:
        """
        Hand-overs that windows allow, those of the most loaded brokers first.

        A broker offers what it has above the least loaded that each replica could go to. Brokers are offered as often
        as they lack replicas.
        """
        row, column = np.nonzero(np.append(self.holding, [False])[self.placed])
        able: BoolArray = np.logical_or.reduce(self._able)
        above = self.load - aim
        level, domain = self._range(row, column)
        surplus = above[self.placed[row, column]]
        if not bounded:
            surplus = surplus - self._lowest(above, able)[level, domain] - 1
        movable = self._movable(row, column) & (surplus > 0)
        row, column, surplus = row[movable], column[movable], surplus[movable]
        level, domain = level[movable], domain[movable]
        giver = self.placed[row, column]
        kept = self._kept[row, column]
        keys = (self._tried[row, column], kept, giver, -above[giver])
        order = np.lexsort(keys if cost is None else (cost[row], *keys))
        order = order[_rank(giver[order]) < 2 * surplus[order] + _SPARE]
        row, column, level, domain = row[order], column[order], level[order], domain[order]
        stays = kept[order] & self._anchored[row]
        found = [self._exchanges(row[stays], column[stays], np.ones(len(self.load), dtype=bool))]
        at, takers = self._lacking(level[~stays], domain[~stays], above, able, bounded=bounded)
        found.append(self._fitting(row[~stays][at], column[~stays][at], takers, self._able))
        rows, columns, brokers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        turn = np.empty(self.placed.shape, dtype=np.int64)
        turn[row, column] = np.arange(len(row))
        order = np.argsort(turn[rows, columns], kind="stable")
        self._tried[row, column] += 1
        return rows[order], columns[order], brokers[order]

    def _lacking(
        self, level: IntArray, domain: IntArray, above: IntArray, able: BoolArray, *, bounded: bool
    ) -> tuple[IntArray, IntArray]:
        """Offer each replica some brokers of its range, each as often as it lacks replicas: index and broker."""
        at, takers = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        ranges = level * (len(self.load) + 1) + domain
        order = np.argsort(ranges, kind="stable")
        starts = np.flatnonzero(np.diff(ranges[order], prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(order)]):
            mine = order[start:stop]
            first, last = self._span(int(level[mine[0]]), int(domain[mine[0]]))
            inside = first + np.flatnonzero(able[first:last])
            water = 0 if bounded else -(-int(above[inside].sum()) // max(len(inside), 1))
            lacks = np.maximum(water - above[inside], 0)
            if not lacks.any():
                lacks = (above[inside] == above[inside].min(initial=0)).astype(np.int64)
            lacks = np.minimum(lacks, len(mine))
            slots = np.repeat(inside, lacks)
            if not len(slots):
                continue
            offers = min(_OFFERS, len(slots))
            steps = np.arange(offers) * (len(slots) // offers)
            takers.append(slots[(np.arange(len(mine))[:, None] + steps) % len(slots)].ravel())
            at.append(np.repeat(mine, offers))
        index, brokers = np.concatenate(at), np.concatenate(takers)
        order = np.lexsort((brokers, index))
        return index[order], brokers[order]

    def _range(self, row: IntArray, column: IntArray) -> tuple[IntArray, IntArray]:
        """The largest domain that each replica can move about in: its level (0 is the root) and number there."""
        level, domain = np.full(len(row), len(self._domains)), np.zeros(len(row), dtype=np.int64)
        rule, giver = self._rule[row], self.placed[row, column]
        if self._domains:
            domain = self._domains[-1][giver]
        leaves = np.ones(len(row), dtype=bool)
        for at in range(len(self._domains) - 1, -1, -1):
            domains = self._domains[at]
            own = domains[giver]
            held = np.zeros(len(row), dtype=np.int16)
            for other in range(self.placed.shape[1]):
                held += domains[self.placed[row, other]] == own
            leaves &= held > self._low[at][rule, own]
            level[leaves] = at
            domain[leaves] = self._domains[at - 1][giver[leaves]] if at else 0
        return level, domain

    def _span(self, level: int, domain: int) -> tuple[int, int]:
        """Brokers of a domain: the first, and the one behind the last."""
        bounds = self._bounds[level]
        return int(bounds[domain]), int(bounds[domain + 1])

    def _lowest(self, above: IntArray, able: BoolArray) -> IntArray:
        """The least of the brokers that are able, for each level and domain; a great deal where there is none."""
        lowest = np.full((len(self._bounds), len(self.load)), np.iinfo(np.int64).max // 2)
        values = np.where(able, above, lowest[0])
        for at, bounds in enumerate(self._bounds):
            lowest[at, : len(bounds) - 1] = np.minimum.reduceat(values, bounds[:-1])
        return lowest

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


def _rank(values: IntArray) -> IntArray:
    """Which of its equals each one is, in order, where equal ones stand together."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))


def _any_equal(one: IntArray, other: IntArray) -> BoolArray:
    """Which entries of each row of `one` are in the same row of `other`."""
    found = np.zeros(one.shape, dtype=bool)
    for column in range(other.shape[1]):
        found |= one == other[:, column, None]
    return found
