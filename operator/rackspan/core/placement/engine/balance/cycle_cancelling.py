"""
Rebalancing with the fewest moves by cancelling negative cycles: what went a long way round is brought back.

Brokers are the nodes of a graph. An arc leads from a broker to another where some partition could hand a replica over,
and costs what that adds to the moves: 1 if the replica lay on the giver at first, -1 if one lay on the taker, 0 if both
or neither. An arc for nothing leads back where the giver holds one replica more than the taker: then both may change
their loads for each other's. Fair placements being bases of matroids, loads that are as even as can be cost the fewest
moves exactly when no circle of arcs costs less than nothing (Murota: "Discrete Convex Analysis", 2003, on cancelling
negative cycles in M-convex submodular flows).

A circle may use a partition twice where that cannot be done at once. Then an arc of that partition cuts the circle
short, and a shorter one still costs less than nothing.

When no such circle is left, the distances in the graph are prices of brokers that prove it
(`engine.balance.moves_by_prices`).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.domain_counts import blocks
from rackspan.core.placement.engine.balance.replicas import Rules, windows_by_rule
from rackspan.core.shortest_paths import relaxed
from rackspan.core.topology import IntArray

BoolArray = npt.NDArray[np.bool_]
LARGEST = 1 << 25
"""Partitions times replicas times brokers up to which this is done."""
_NEVER = 1 << 20
_Step = tuple[int, int, int, int]  # partition, column, giver, taker


class Exchanges:
    """
    Every hand-over there is between two brokers, counted by what it costs.

    `placed` (partitions, replicas) are positions, -1 where a row is shorter, each row a fair placement by
    `rules[rule[p]]`; `before` (partitions, replicas) are those of now. `size_bytes` (partitions,) choose between
    partitions: the smallest are moved, the largest brought back. `placed` and `load` (brokers,) are kept up to date.
    """

    def __init__(
        self,
        rules: Sequence[Rules],
        rule: IntArray,
        placed: IntArray,
        before: IntArray,
        size_bytes: IntArray,
        load: IntArray,
    ) -> None:
        tree = rules[0].tree
        self.placed, self.load = placed, load
        self._sizes = size_bytes
        self._rule = rule
        self._able = np.array([one.tree.eligible & one.tree.online for one in rules])
        self._eligible = np.array([one.tree.eligible for one in rules])
        self._new = (~_holding(before, len(tree))).astype(np.int8)
        self._lies = _holding(placed, len(tree))
        levels = tree.nodes[1:-1]
        self._domains = [nodes.of_broker for nodes in levels]
        self._low, self._high = windows_by_rule(rules)
        self._held = [np.add.reduceat(self._lies, nodes.first_broker, axis=1, dtype=np.int16) for nodes in levels]
        self._counts = np.zeros(3 * len(tree) ** 2, dtype=np.int64)  # by cost, giver and taker
        for block in blocks(len(placed), placed.shape[1] * len(tree)):
            rows = np.arange(block.start, block.stop)
            self._counts += np.bincount(self._arcs(rows), minlength=len(self._counts))

    def cancel_cycles(self) -> IntArray:
        """Make the moves as few as loads as even allow; gives the prices of brokers that prove it, shape (brokers,)."""
        while True:
            costs = self._costs()
            circle, distances = negative_cycle(costs)
            if circle is None:
                return distances
            while (steps := self._handed_over(circle, costs)) is not None:
                shorter = self._shortened(circle, steps, costs)
                if shorter is None:
                    return distances  # what there is stays fair and even, and any prices prove some bound
                circle = shorter

    def _costs(self) -> IntArray:
        """Least cost of a hand-over, shape (brokers, brokers)."""
        brokers = len(self.load)
        counts = self._counts.reshape(3, brokers, brokers)
        costs = np.where(self.load[:, None] + 1 == self.load, 0, _NEVER)
        for cost in (1, 0, -1):
            costs = np.where(counts[cost + 1] > 0, np.minimum(costs, cost), costs)
        return costs

    def _handed_over(self, circle: list[int], costs: IntArray) -> list[_Step] | None:
        """Hand over along a circle of brokers. Where that cannot be done at once, it is not: gives the steps."""
        steps: list[_Step] = []
        for giver, taker in pairwise([*circle, circle[0]]):
            found = self._partition(giver, taker, int(costs[giver, taker]), {step[0] for step in steps})
            if found is not None:
                steps.append((*found, giver, taker))
        touched = np.unique([step[0] for step in steps])
        np.subtract.at(self._counts, self._arcs(touched), 1)
        for step in steps:
            self._move(step)
        fits = self._fair(touched)
        if not fits:
            for row, column, giver, taker in steps:
                self._move((row, column, taker, giver))
        np.add.at(self._counts, self._arcs(touched), 1)
        return None if fits else steps

    def _partition(self, giver: int, taker: int, cost: int, used: set[int]) -> tuple[int, int] | None:
        """A partition, not `used` if possible, and the column to be handed over at this cost."""
        row, column = np.nonzero(self.placed == giver)
        able = self._possible(row, column, np.full(len(row), taker)) & (
            self._new[row, taker] - self._new[row, giver] == cost
        )
        row, column = row[able], column[able]
        if not len(row):
            return None
        again = np.isin(row, list(used))
        best = np.lexsort((row, cost * self._sizes[row], again))[0]
        return int(row[best]), int(column[best])

    def _shortened(self, circle: list[int], steps: list[_Step], costs: IntArray) -> list[int] | None:
        """A part of the circle, closed by an arc of a partition that is used twice, which costs less than nothing.

        None where there is none, which has not been seen.
        """
        for row, column, giver, _ in steps:
            for other, _, _, taker in steps:
                if other != row or not self._possible(np.array([row]), np.array([column]), np.array([taker]))[0]:
                    continue
                start = circle.index(taker)
                turned = circle[start:] + circle[:start]
                part = turned[: turned.index(giver) + 1]
                if len(part) < len(circle) and sum(costs[a, b] for a, b in pairwise([*part, part[0]])) < 0:
                    return part
        return None

    def _move(self, step: _Step) -> None:
        row, column, giver, taker = step
        self.placed[row, column] = taker
        self._lies[row, giver], self._lies[row, taker] = False, True
        for held, domain in zip(self._held, self._domains, strict=True):
            held[row, domain[giver]] -= 1
            held[row, domain[taker]] += 1
        self.load[giver] -= 1
        self.load[taker] += 1

    def _fair(self, rows: IntArray) -> bool:
        """Whether these rows keep to their windows, and no broker is in one twice."""
        rule = self._rule[rows]
        return bool((self._lies[rows].sum(axis=1) == (self.placed[rows] >= 0).sum(axis=1)).all()) and all(
            bool(((held[rows] >= low[rule]) & (held[rows] <= high[rule])).all())
            for held, low, high in zip(self._held, self._low, self._high, strict=True)
        )

    def _arcs(self, rows: IntArray) -> IntArray:
        """All hand-overs of some partitions, as indexes into the counts."""
        brokers = len(self.load)
        at, column = np.nonzero(self.placed[rows] >= 0)
        row = np.repeat(rows[at], brokers)
        column = np.repeat(column, brokers)
        taker = np.tile(np.arange(brokers), len(at))
        able = self._possible(row, column, taker)
        row, column, taker = row[able], column[able], taker[able]
        giver = self.placed[row, column]
        cost = self._new[row, taker] - self._new[row, giver]
        arcs: IntArray = ((cost.astype(np.int64) + 1) * brokers + giver) * brokers + taker
        return arcs

    def _possible(self, row: IntArray, column: IntArray, taker: IntArray) -> BoolArray:
        """Which hand-overs keep to all windows."""
        giver, rule = self.placed[row, column], self._rule[row]
        stays = self._eligible[rule, taker] & (self._new[row, taker] == 0)
        fits: BoolArray = (self._able[rule, taker] | stays) & ~self._lies[row, taker]
        for domain, held, low, high in zip(self._domains, self._held, self._low, self._high, strict=True):
            loses, gains = domain[giver], domain[taker]
            fits &= (loses == gains) | ((held[row, loses] > low[rule, loses]) & (held[row, gains] < high[rule, gains]))
        return fits


def negative_cycle(costs: IntArray) -> tuple[list[int] | None, IntArray]:
    """
    A circle of nodes that costs less than nothing, or None; and distances, shape (nodes,), final where there is none.

    `costs` (nodes, nodes) are those of arcs. Bellman and Ford's search from everywhere at once.
    """
    distances, came_by = np.zeros(len(costs), dtype=np.int64), np.full(len(costs), -1)
    while True:
        shorter = relaxed(distances, came_by, costs)
        if shorter is None:
            return None, distances
        distances, came_by = shorter
        circle = _circle(came_by.tolist())
        if circle is not None:
            return circle, distances


def _circle(came_by: list[int]) -> list[int] | None:
    """Nodes in the order of the arcs where going back leads round in a circle."""
    seen = [-1] * len(came_by)
    for start in range(len(came_by)):
        at = start
        while at >= 0 and seen[at] < 0:
            seen[at] = start
            at = came_by[at]
        if at >= 0 and seen[at] == start:
            circle = [at]
            while (at := came_by[at]) != circle[0]:
                circle.append(at)
            return circle[::-1]
    return None


def _holding(placed: IntArray, brokers: int) -> BoolArray:
    """Which brokers hold a replica, shape (partitions, brokers)."""
    holds = np.zeros((len(placed), brokers), dtype=bool)
    row, column = np.nonzero(placed >= 0)
    holds[row, placed[row, column]] = True
    return holds
