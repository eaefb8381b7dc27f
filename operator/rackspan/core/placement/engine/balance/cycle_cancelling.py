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

A replica may go to a stretch of brokers, less a few stretches (`Reach`), all at the same cost but for those where the
partition lay at first. So hand-overs are counted by where these stretches begin and end, in time by replicas and by
pairs of brokers, not by replicas times brokers.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.domain_counts import blocks
from rackspan.core.placement.engine.balance.augmenting_paths import HeldBy
from rackspan.core.placement.engine.balance.replicas import PlacedReplicas, Reach
from rackspan.core.shortest_paths import relaxed
from rackspan.core.snapshot import in_row
from rackspan.core.topology import BoolArray, IntArray

_Numbers = npt.NDArray[np.int32]  # half the memory, for what there is for each pair of brokers
_ONE = np.int32(1)  # of their kind: a plain 1 makes numpy convert, which takes 30 times as long
MOST_BROKERS = 1 << 11
"""Brokers up to which this is done: it takes memory by their pairs."""
MOST_PAIRS = 1 << 28
"""Pairs of brokers that are counted, for each set of brokers that partitions may use."""
MOST_CELLS = 1 << 25
"""Replicas times replicas of their partitions up to which this is done."""
_MOST_WORK = 1 << 28
"""Pairs of brokers, and replicas times where they might go, that are looked at until moves are left as they are."""
_NEVER = 1 << 20
_Step = tuple[int, int, int, int]  # partition, column, giver, taker


class Exchanges:
    """
    Every hand-over there is between two brokers, counted by what it costs.

    All replicas of `graph` may change hands; its rows are fair placements, and are kept up to date. `size_bytes`
    (partitions,) choose between partitions: the smallest are moved, the largest brought back.
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
        Make the moves as few as loads as even allow; gives the prices of brokers that prove it, shape (brokers,).

        None where that would take too long, or what is left of circles cannot be cancelled.
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
        """How many hand-overs there are, shape (3, brokers, brokers): by what they cost from -1, giver and taker."""
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
        """Add hand-overs of some partitions: at the `edges` of where they lead, but in `counts` where those lay before.

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
        """Least cost of a hand-over, shape (brokers, brokers)."""
        load = self._graph.load
        costs = np.where(load[:, None] + 1 == load, 0, _NEVER).astype(np.int32)
        for cost in (1, 0, -1):
            np.minimum(costs, cost, out=costs, where=self._counts[cost + 1] > 0)
        return costs

    def _cancel(self, circle: list[int], costs: _Numbers) -> bool:
        """Hand over along a circle of brokers, or along a part of it; says whether that could be done."""
        shorter: list[int] | None = circle
        while shorter is not None:
            steps = self._steps(shorter, costs)
            if steps is None or self._handed_over(steps):
                return steps is not None
            shorter = self._shortened(shorter, steps, costs)
        return False

    def _steps(self, circle: list[int], costs: _Numbers) -> list[_Step] | None:
        """A hand-over for each arc of a circle but those for nothing; None where there is none any more."""
        steps: list[_Step] = []
        for giver, taker in pairwise([*circle, circle[0]]):
            found = self._partition(giver, taker, int(costs[giver, taker]), {step[0] for step in steps})
            if found is not None:
                steps.append((*found, giver, taker))
            elif costs[giver, taker] != 0 or self._graph.load[giver] + 1 != self._graph.load[taker]:
                return None
        return steps

    def _handed_over(self, steps: list[_Step]) -> bool:
        """Hand over, unless that cannot be done at once."""
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
        """A partition, not `used` if possible, and the column to be handed over at this cost."""
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
        """A part of the circle, closed by an arc of a partition that is used twice, which costs less than nothing.

        None where there is none, which has not been seen.
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
        """All hand-overs of a few partitions, as indexes into the counts."""
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
        """What hand-overs add to the moves."""
        return self._graph.is_home(row, giver).astype(np.int64) - self._graph.is_home(row, taker)


def _add_edges(edges: _Numbers, line: IntArray, reach: Reach) -> None:
    """Add 1 where a stretch of brokers begins that a replica may go, -1 where it ends, from `line` (replicas,) on."""
    np.add.at(edges, np.append(line + reach.low, line[:, None] + reach.last), _ONE)
    np.subtract.at(edges, np.append(line + reach.high, line[:, None] + reach.first), _ONE)


def negative_cycles(costs: _Numbers) -> tuple[list[list[int]], _Numbers]:
    """
    Circles of nodes that cost less than nothing, no node in two; and distances, shape (nodes,), final where none is.

    `costs` (nodes, nodes) are those of arcs. Circles of two nodes come first, as many as there are. Then it is Bellman
    and Ford's search from everywhere at once: circles among the ways that it came by cost less than nothing.
    """
    distances, came_by = np.zeros(len(costs), dtype=np.int32), np.full(len(costs), -1)
    pairs = _pairs(costs)
    while not pairs:
        shorter = relaxed(distances, came_by, costs)
        if shorter is None:
            return [], distances
        distances, came_by = shorter
        circles = list(_circles(came_by.tolist()))
        if circles:
            return circles, distances
    return pairs, distances


def _pairs(costs: _Numbers) -> list[list[int]]:
    """Pairs of nodes with arcs there and back that cost less than nothing, no node in two."""
    used, found = set[int](), []
    for pair in np.argwhere(np.triu(costs + costs.T) < 0).tolist():
        if used.isdisjoint(pair):
            used.update(pair)
            found.append(pair)
    return found


def _circles(came_by: list[int]) -> Iterator[list[int]]:
    """Nodes in the order of the arcs, wherever going back leads round in a circle."""
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
