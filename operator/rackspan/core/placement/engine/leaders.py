"""
Choosing leaders: an optimal semi-matching of partitions to brokers.

Each partition picks one of its replicas. The leaders per broker are as even as any choice could make them exactly when no
chain of hand-overs leads from a broker to one with at least two leaders fewer (Harvey, Ladner, Lovász, Tamir:
"Semi-matchings for bipartite graphs and load balancing", 2006). So:

1. Greedy in shrinking batches: each partition of a batch takes its least loaded replica. This lands near the optimum.
2. Breadth-first search from the most loaded brokers, an edge being a partition that one broker could hand to another, until
   a broker with at least two leaders fewer is met: hand over along the chain. What a fruitless search has reached can
   never improve again and is put aside; when everything is put aside, the loads are optimal.
3. A chain between loads that differ by one only swaps the two loads. Such chains even out the domains, top level first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]

_TIE = 0x300
_BATCHES = 8  # each batch is an eighth of what remains
_DOMAIN_PULL = 0.4  # of one leader: steers ties between brokers to the domain with fewer leaders per broker


def choose_leaders(tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int) -> IntArray:
    """
    Choose the column of each partition's leader.

    `placed` are depth-first broker positions, shape (partitions, replicas); `allowed`, same shape, says which replicas
    may lead (at least one per partition); `load` are the leaders each broker has already, shape (brokers,).
    """
    graph = _Handovers(placed, allowed, *_greedy(tree, placed, allowed, load, seed))
    _level_brokers(graph)
    for above, level in zip(tree.nodes[:-2], tree.nodes[1:-1], strict=True):
        if len(level) > len(above):
            _level_domains(graph, level.of_broker, level.parent, np.maximum(level.capacity, 1))
    return graph.columns


def _greedy(
    tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Columns of the leaders, and the load with them."""
    count, size = placed.shape
    load = load.copy()
    columns = np.empty(count, dtype=np.int64)
    handicap = scrambled(seed, _TIE, np.arange(count * size)).reshape(count, size) * (1e-3 / (1 << 32))
    handicap[~allowed] = np.inf
    levels = [level for level in tree.nodes[1:-1] if len(level) > 1]
    start = 0
    while start < count:
        stop = start + max(1, (count - start) // _BATCHES)
        score = load.astype(np.float64)
        for number, level in enumerate(levels):
            mean = np.add.reduceat(load, level.first_broker) / np.maximum(level.capacity, 1)
            score += (_DOMAIN_PULL / (1 << 2 * number)) * mean[level.of_broker]
        batch = placed[start:stop]
        chosen = np.argmin(score[batch] + handicap[start:stop], axis=1)
        columns[start:stop] = chosen
        load += np.bincount(batch[np.arange(stop - start), chosen], minlength=len(load))
        start = stop
    return columns, load


@dataclass(slots=True)
class _Handovers:
    """The graph of who could hand a partition to whom, kept up to date while leaders move."""

    placed: IntArray
    allowed: BoolArray
    columns: IntArray
    load: IntArray
    leaders: IntArray = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        self.leaders = self.placed[np.arange(len(self.placed)), self.columns]

    def leading(self) -> BoolArray:
        """Brokers that lead at least one partition."""
        leads = np.zeros(len(self.load), dtype=bool)
        leads[self.leaders] = True
        return leads

    def search(self, sources: BoolArray, targets: BoolArray, passable: BoolArray) -> tuple[BoolArray, "list[_Chain]"]:
        """Search breadth-first from `sources`; give what was reached and chains to the nearest `targets`."""
        came_from = np.full((2, len(self.load)), -1)  # partition and column by which a broker was reached
        seen, front = sources.copy(), sources
        while True:
            rows = np.flatnonzero(front[self.leaders])
            members = self.placed[rows]
            at, column = np.nonzero(self.allowed[rows] & (passable & ~seen)[members])
            if not len(at):
                return seen, []
            found = members[at, column]
            came_from[:, found] = rows[at], column
            front = np.zeros_like(seen)
            front[found] = True
            seen = seen | front
            if (front & targets).any():
                return seen, list(self._chains(came_from, np.flatnonzero(front & targets), sources))

    def _chains(self, came_from: IntArray, ends: IntArray, sources: BoolArray) -> "Iterator[_Chain]":
        """Chains from the ends back to sources, of which no two share a broker."""
        used: set[int] = set()
        for end in ends.tolist():
            chain, broker = [], end
            while broker not in used:
                row, column = came_from[:, broker].tolist()
                chain.append((broker, row, column))
                broker = int(self.leaders[row])
                if sources[broker]:
                    break
            else:
                continue
            if broker not in used:
                used.update(step[0] for step in chain)
                used.add(broker)
                yield _Chain(broker, end, tuple((row, column) for _, row, column in chain))

    def hand_over(self, chain: "_Chain") -> None:
        for row, column in chain.steps:
            self.columns[row] = column
            self.leaders[row] = self.placed[row, column]
        self.load[chain.giver] -= 1
        self.load[chain.taker] += 1


@dataclass(frozen=True, slots=True)
class _Chain:
    """Hand-overs that take one leader from the giver and add one to the taker; what lies between keeps its number."""

    giver: int
    taker: int
    steps: tuple[tuple[int, int], ...]


def _level_brokers(graph: _Handovers) -> None:
    candidates = np.ones(len(graph.load), dtype=bool)
    while True:
        leading = np.flatnonzero(graph.leading() & candidates)
        if not len(leading):
            return
        highest = graph.load[leading].max()
        targets = candidates & (graph.load <= highest - 2)
        if not targets.any():
            return
        sources = np.zeros_like(candidates)
        sources[leading[graph.load[leading] == highest]] = True
        reached, chains = graph.search(sources, targets, candidates)
        if not chains:
            candidates &= ~reached
        for chain in chains:
            graph.hand_over(chain)


def _level_domains(graph: _Handovers, domain: IntArray, parent: IntArray, capacity: IntArray) -> None:
    """Even out the leaders per domain (per broker of it) of one level, without changing how even the brokers are."""
    everyone = np.ones(len(graph.load), dtype=bool)
    held = np.bincount(domain, weights=graph.load, minlength=len(capacity)).astype(np.int64)
    fruitless: set[tuple[int, int]] = set()
    while True:
        relief = (2 * held - 1) / capacity  # what the sum of held² / capacity loses with one leader fewer
        burden = (2 * held + 1) / capacity
        cheapest = np.full(int(parent.max()) + 1, np.inf)
        np.minimum.at(cheapest, parent, burden)
        better = np.flatnonzero(relief > cheapest[parent] + 1e-9)
        moved = False
        for giver in better[np.argsort(-relief[better], kind="stable")].tolist():
            takers = (parent == parent[giver]) & (burden < relief[giver] - 1e-9)
            inside = graph.leading() & (domain == giver)
            for load in np.unique(graph.load[inside])[::-1].tolist():
                targets = takers[domain] & (graph.load == load - 1)
                if (giver, load) in fruitless or not targets.any():
                    continue
                _, chains = graph.search(inside & (graph.load == load), targets, everyone)
                if not chains:
                    fruitless.add((giver, load))
                    continue
                best = min(chains, key=lambda chain: burden[domain[chain.taker]])
                graph.hand_over(best)
                held[giver] -= 1
                held[domain[best.taker]] += 1
                moved = True
                break
            if moved:
                break
        if not moved:
            return
