"""Rebalancing with the fewest moves by cancelling negative cycles: unnecessary moves are undone.

Brokers are the nodes of a graph. An arc leads from one broker to another if some partition could hand over a replica.
Its cost is what that adds to the moves: 1 if the giver held the partition initially, -1 if the taker did, 0 if both or
neither. An arc of cost 0 also leads from a broker to each broker with one replica more, because the two brokers may
exchange their loads. Fair placements are bases of matroids. So loads that are as even as possible take the fewest moves
exactly if no cycle of arcs has a negative cost (Murota: "Discrete Convex Analysis", 2003, on cancelling negative cycles
in M-convex submodular flows).

A cycle may use a partition twice although both hand-overs are not possible together. Then another arc of that partition
closes a shorter cycle, which still has a negative cost.

When no such cycle is left, the distances in the graph are prices of brokers that prove it
(`engine.balance.moves_by_prices`).

A replica may go to a stretch of brokers except for a few stretches inside it (`Reach`). The cost is the same for all
brokers except those that held the partition initially. So hand-overs are counted by where these stretches begin and
end. That takes time in proportion to replicas and to pairs of brokers, not to replicas times brokers.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.domain_counts import blocks
from rackspan.core.placement.engine.balance.augmenting_paths import HeldBy
from rackspan.core.placement.engine.balance.replicas import PlacedReplicas, Reach
from rackspan.core.snapshot import in_row
from rackspan.core.topology import BoolArray, IntArray

_Numbers = npt.NDArray[np.int32]  # half the memory of int64, for arrays over pairs of brokers
_ONE = np.int32(1)  # of the same type, because numpy has to convert a plain 1, which takes 30 times as long
MOST_BROKERS = 1 << 11
"""The largest number of brokers for cycle cancelling, which needs memory for each pair of brokers."""
MOST_PAIRS = 1 << 28
"""The largest number of pairs of brokers, summed over the sets of brokers that partitions may use."""
MOST_CELLS = 1 << 25
"""The largest number of replicas times replicas per partition."""
_MOST_WORK = 1 << 28
"""The work after which cycle cancelling gives up, in pairs of brokers and in replicas times brokers."""
_NEVER = 1 << 20
_Step = tuple[int, int, int, int]  # partition, column, giver, taker


class Exchanges:
    """All possible hand-overs between two brokers, counted by cost.

    All replicas of `graph` may change hands. Its rows are fair placements, and are updated. `size_bytes` (partitions,)
    decides between partitions: the smallest are moved, the largest are moved back.
    """

    def __init__(self, graph: PlacedReplicas, size_bytes: IntArray) -> None:
        self._graph = graph
        self._sizes = size_bytes
        self._brokers = len(graph.load)
        self._left = _MOST_WORK
        self._held = HeldBy(np.where(graph.placed < 0, self._brokers, graph.placed).ravel(), self._brokers + 1)
        self._counts = self._counted()

    def cancel_cycles(self) -> IntArray | None:
        """
        Make the moves the fewest for equally even loads. Return the prices of brokers that prove it, shape (brokers,).

        Returns None if that takes too long, or if the remaining cycles cannot be cancelled.
        """
        cancelled = [True]
        while any(cancelled):
            self._left -= self._brokers**2
            costs = self._costs()
            circles, distances = negative_cycles(costs)
            if not circles:
                return distances.astype(np.int64)
            cancelled = [self._left > 0 and self._cancel(circle, costs) for circle in circles]
        return None

    def _counted(self) -> _Numbers:
        """Return the number of hand-overs, shape (3, brokers, brokers): by cost from -1, giver and taker."""
        graph, brokers = self._graph, self._brokers
        counts = np.zeros((3, brokers, brokers), dtype=np.int32)
        kind = graph.kind_of(np.arange(len(graph.placed)))
        for number, able in enumerate(graph.able):
            rows = np.flatnonzero(kind == number)
            edges = np.zeros(2 * brokers * (brokers + 1), dtype=np.int32)  # by cost and giver: stretches of takers
            for block in blocks(len(rows), graph.placed.shape[1] ** 2):
                self._count(rows[block], able, edges, counts.reshape(-1))
            counts[1:] += np.cumsum(edges.reshape(2, brokers, -1), axis=2, dtype=np.int32)[:, :, :-1] * able
        return counts

    def _count(self, rows: IntArray, able: BoolArray, edges: _Numbers, counts: _Numbers) -> None:
        """Add the hand-overs of some partitions: in `counts` to brokers that held them before, else in `edges`.

        `edges` has 1 where a stretch of takers begins and -1 where it ends, shape (2 * brokers * (brokers + 1),).
        """
        graph, brokers = self._graph, self._brokers
        at, column = np.nonzero(graph.placed[rows] >= 0)
        row = rows[at]
        giver = graph.placed[row, column]
        lay = graph.is_home(row, giver)
        reach = graph.reach(row, column)
        line = (lay * brokers + giver) * (brokers + 1)
        _add_edges(edges, line, reach)
        before = graph.before[rows]
        item, which = np.nonzero(((before >= 0) & ~in_row(before, graph.placed[rows]))[at])
        home = graph.before[row[item], which]
        inside = reach.of(item).includes(home)
        item, home = item[inside], home[inside]
        arc = (lay[item] * brokers + giver[item]) * brokers + home
        np.add.at(counts, arc[graph.may_return(row[item], home)], _ONE)
        np.subtract.at(counts, arc[able[home]] + brokers * brokers, _ONE)

    def _costs(self) -> _Numbers:
        """Return the least cost of a hand-over, shape (brokers, brokers)."""
        load = self._graph.load
        costs = np.where(load[:, None] + 1 == load, 0, _NEVER).astype(np.int32)
        for cost in (1, 0, -1):
            np.minimum(costs, cost, out=costs, where=self._counts[cost + 1] > 0)
        return costs

    def _cancel(self, circle: list[int], costs: _Numbers) -> bool:
        """Hand over along a cycle of brokers, or along a part of it. Return whether that was possible."""
        shorter: list[int] | None = circle
        while shorter is not None:
            steps = self._steps(shorter, costs)
            if steps is None or self._handed_over(steps):
                return steps is not None
            shorter = self._shortened(shorter, steps, costs)
        return False

    def _steps(self, circle: list[int], costs: _Numbers) -> list[_Step] | None:
        """Return a hand-over for each arc of a cycle, except exchanges of loads; None if one is no longer possible."""
        steps: list[_Step] = []
        for giver, taker in pairwise([*circle, circle[0]]):
            found = self._partition(giver, taker, int(costs[giver, taker]), {step[0] for step in steps})
            if found is not None:
                steps.append((*found, giver, taker))
            elif costs[giver, taker] != 0 or self._graph.load[giver] + 1 != self._graph.load[taker]:
                return None
        return steps

    def _handed_over(self, steps: list[_Step]) -> bool:
        """Hand over all steps unless they are not possible together. Return whether they were."""
        touched = np.unique([step[0] for step in steps])
        self._left -= len(touched) * self._graph.placed.shape[1] * self._brokers
        before = self._arcs(touched)
        for step in steps:
            self._move(step)
        fits = self._graph.keeps_to_windows(touched)
        if fits:
            np.subtract.at(self._counts.reshape(-1), before, _ONE)
            np.add.at(self._counts.reshape(-1), self._arcs(touched), _ONE)
        else:
            for row, column, giver, taker in steps:
                self._move((row, column, taker, giver))
        return fits

    def _partition(self, giver: int, taker: int, cost: int, used: set[int]) -> tuple[int, int] | None:
        """Return a partition, not in `used` if possible, and its column that can be handed over at this cost."""
        graph = self._graph
        row, column = np.divmod(self._held.at(np.arange(self._brokers + 1) == giver), graph.placed.shape[1])
        there = graph.placed[row, column] == giver
        row, column = row[there], column[there]
        able = np.flatnonzero(self._cost(row, np.full(len(row), giver), np.full(len(row), taker)) == cost)
        able = able[graph.possible(row[able], column[able], np.full(len(able), taker))]
        row, column = row[able], column[able]
        if not len(row):
            return None
        again = np.isin(row, list(used))
        best = np.lexsort((row, cost * self._sizes[row], again))[0]
        return int(row[best]), int(column[best])

    def _shortened(self, circle: list[int], steps: list[_Step], costs: _Numbers) -> list[int] | None:
        """Return a part of the cycle with a negative cost, closed by an arc of a partition that is used twice.

        None if there is none, which has not been observed.
        """
        for row, column, giver, _ in steps:
            for other, _, _, taker in steps:
                one = (np.array([number]) for number in (row, column, taker))
                if other != row or not self._graph.possible(*one)[0]:
                    continue
                start = circle.index(taker)
                turned = circle[start:] + circle[:start]
                part = turned[: turned.index(giver) + 1]
                if len(part) < len(circle) and sum(costs[a, b] for a, b in pairwise([*part, part[0]])) < 0:
                    return part
        return None

    def _move(self, step: _Step) -> None:
        row, column, giver, taker = step
        self._graph.hand_over(row, column, taker)
        self._graph.load[giver] -= 1
        self._graph.load[taker] += 1
        self._held.moved.append(row * self._graph.placed.shape[1] + column)

    def _arcs(self, rows: IntArray) -> IntArray:
        """Return all hand-overs of a few partitions, as indexes into the counts."""
        graph, brokers = self._graph, self._brokers
        at, column = np.nonzero(graph.placed[rows] >= 0)
        giver, reach = graph.placed[rows[at], column], graph.reach(rows[at], column)
        edges = np.zeros((len(at), brokers + 1), dtype=np.int32)
        line = np.arange(len(at)) * (brokers + 1)
        _add_edges(edges.reshape(-1), line, reach)
        item, taker = np.nonzero((np.cumsum(edges, axis=1)[:, :-1] > 0) & graph.may_hold(rows)[at])
        at, giver, home = at[item], giver[item], graph.homes(rows)
        cost = home[at, giver].astype(np.int64) - home[at, taker]
        arcs: IntArray = ((cost + 1) * brokers + giver) * brokers + taker
        return arcs

    def _cost(self, row: IntArray, giver: IntArray, taker: IntArray) -> IntArray:
        """Return what hand-overs add to the moves."""
        return self._graph.is_home(row, giver).astype(np.int64) - self._graph.is_home(row, taker)


def _add_edges(edges: _Numbers, line: IntArray, reach: Reach) -> None:
    """Add 1 where a stretch of brokers in `reach` begins, -1 where it ends, with the offsets `line` (replicas,)."""
    np.add.at(edges, np.append(line + reach.low, line[:, None] + reach.last), _ONE)
    np.subtract.at(edges, np.append(line + reach.high, line[:, None] + reach.first), _ONE)


def negative_cycles(costs: _Numbers) -> tuple[list[list[int]], _Numbers]:
    """
    Return disjoint cycles of nodes with negative cost, and distances, shape (nodes,), which are final if there is none.

    `costs` (nodes, nodes) are the costs of arcs. If there are cycles of two nodes, only these are returned. Otherwise
    Bellman and Ford's search runs from all nodes at once: a cycle of predecessors in it has a negative cost.
    """
    distances, came_by = np.zeros(len(costs), dtype=np.int32), np.full(len(costs), -1)
    pairs = _pairs(costs)
    while not pairs:
        shorter = _relaxed(distances, came_by, costs)
        if shorter is None:
            return [], distances
        distances, came_by = shorter
        circles = list(_circles(came_by.tolist()))
        if circles:
            return circles, distances
    return pairs, distances


def _relaxed(distances: _Numbers, came_by: IntArray, costs: _Numbers) -> tuple[_Numbers, IntArray] | None:
    """Return the distances with one more arc, and the predecessor of each node; None if no distance gets shorter."""
    through = distances[:, None] + costs
    best = through.argmin(axis=0)
    least = through[best, np.arange(len(distances))]
    shorter = least < distances
    if not shorter.any():
        return None
    return np.where(shorter, least, distances), np.where(shorter, best, came_by)


def _pairs(costs: _Numbers) -> list[list[int]]:
    """Return disjoint pairs of nodes whose two arcs together have a negative cost."""
    used, found = set[int](), []
    for pair in np.argwhere(np.triu(costs + costs.T) < 0).tolist():
        if used.isdisjoint(pair):
            used.update(pair)
            found.append(pair)
    return found


def _circles(came_by: list[int]) -> Iterator[list[int]]:
    """Yield each cycle of predecessors, its nodes in the order of the arcs."""
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
            yield circle[::-1]
