"""
Evening out loads along augmenting paths: chains of hand-overs from a loaded broker to one with less.

Brokers hold items (leaders of partitions, replicas) and could hand some of them to certain others. Where the ways to
share the items out form an M-convex set, as they do for leaders and for fair placements, the load vector is as even as
it can be exactly when no chain of hand-overs leads from a broker to one whose load is lower by two or more.

So cut at a load: let chains lead from brokers above it to brokers below it until none does. What the brokers above it
can still reach then has at least that load, and the rest at most. Nothing that is worth anything leads from one part to
the other, so each is evened out by itself. Cutting at the mean takes a few turns, however far apart the loads are.

A search goes breadth-first, strictly distance by distance, until it meets brokers below the cut, and finds many chains
at once: brokers on the way may be passed by several, but no partition is used by two. One chain may use a partition
twice. That is safe because chains are shortest: were the hand-overs of one partition not possible together, it could
hand over from an earlier broker of the chain to a later one, and the chain were shorter (Frank: "A weighted matroid
intersection algorithm", 1981, on paths without shortcuts).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rackspan.core.placement.engine.weighted_choice import sorted_by
from rackspan.core.topology import BoolArray, IntArray

_FIRST_STEP = 16  # brokers searched at once, if not all sources; each further step takes twice as many
_NONE = np.empty(0, dtype=np.int64)


class Graph(Protocol):
    """Who holds what, and who could hand it to whom. An item is a partition, and a slot in it."""

    load: IntArray

    @property
    def involved(self) -> BoolArray:
        """Brokers that hold any item or could be given one, shape (brokers,)."""

    def handovers(self, givers: BoolArray, takers: BoolArray, deficit: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """
        Give partition, slot and taker of hand-overs between two sets of brokers, as parallel arrays.

        There is one to each taker that any giver can reach. Where takers have a `deficit` (brokers,), there are as many
        to these as there may be chains, and none to others.
        """

    def holder(self, partition: int, slot: int) -> int:
        """Give the broker that holds an item now."""

    def hand_over(self, partition: int, slot: int, taker: int) -> None:
        """Give an item to a broker; the load is not counted here."""


class HeldBy:
    """Which items brokers hold: `holder` (items,) says who held each at first, `moved` which changed hands since."""

    def __init__(self, holder: IntArray, brokers: int) -> None:
        self._items = sorted_by(holder, brokers)
        self._first = np.searchsorted(holder[self._items], np.arange(brokers + 1))
        self.moved: list[int] = []

    def at(self, brokers: BoolArray) -> IntArray:
        """What any of these brokers held at first, and what has moved; in order of items, so that chains differ."""
        chosen = np.flatnonzero(brokers)
        begin, count = self._first[chosen], self._first[chosen + 1] - self._first[chosen]
        found = np.zeros(len(self._items), dtype=bool)
        found[self._items[np.arange(count.sum()) + np.repeat(begin - (np.cumsum(count) - count), count)]] = True
        found[self.moved] = True
        return np.flatnonzero(found)


@dataclass(frozen=True, slots=True)
class Chain:
    """Hand-overs (partition, slot, taker) from `giver` to `taker`; the brokers between keep their number of items."""

    giver: int
    taker: int
    steps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """
    What a search has reached, which targets it met, and hand-overs to each broker from brokers one step nearer.

    `partition` and `slot` are parallel; the hand-overs to broker b are those from `first[b]` up to `first[b + 1]`.
    """

    sources: BoolArray
    reached: BoolArray
    met: IntArray
    partition: IntArray
    slot: IntArray
    first: IntArray


def search(graph: Graph, sources: BoolArray, deficit: IntArray, passable: BoolArray) -> Search:
    """
    Search from `sources` over `passable` brokers until targets are met, by the fewest hand-overs.

    `deficit` (brokers,) is the deficit of targets in items, 0 for other brokers.
    """
    reached = sources.copy()
    queue, farther = np.flatnonzero(sources), _NONE  # brokers at one distance, and at the next one
    step, met, found = max(_FIRST_STEP, len(queue)), _NONE, []
    while len(queue) and not len(met):
        front = np.zeros_like(reached)
        front[queue[:step]] = True
        queue, step = queue[step:], 2 * step
        found.append(graph.handovers(front, passable & ~reached, deficit))
        new = np.zeros_like(reached)
        new[found[-1][2]] = True
        reached |= new
        met = np.flatnonzero(new & (deficit > 0))
        farther = np.concatenate([farther, np.flatnonzero(new)])
        if not len(queue):
            queue, farther = farther, _NONE
    if not len(met):
        return Search(sources, reached, met, _NONE, _NONE, _NONE)
    partition, slot, taker = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(taker, kind="stable")
    first = np.searchsorted(taker[order], np.arange(len(reached) + 1))
    return Search(sources, reached, met, partition[order], slot[order], first)


class Chains:
    """
    Chains from the sources of a search, of which no two share a partition.

    `gives` (brokers,) says how many may begin at each source, and is counted down.
    """

    def __init__(self, graph: Graph, found: Search, gives: IntArray) -> None:
        self._graph, self._found = graph, found
        self._left = gives
        self._next: dict[int, int] = {}  # by broker, the first hand-over to it that has not failed
        self._used: set[int] = set()

    def to(self, end: int) -> Chain | None:
        """Give another chain to a broker that was met, or None where there is none."""
        found, way, steps = self._found, [end], list[tuple[int, int, int]]()
        while way:
            broker = way[-1]
            if found.sources[broker] and self._left[broker] > 0:
                self._left[broker] -= 1
                self._used.update(partition for partition, _, _ in steps)
                return Chain(broker, end, tuple(steps))
            at = self._usable(broker)
            if at is None:
                way.pop()
                if steps:
                    steps.pop()
                    self._next[way[-1]] += 1
                continue
            partition, slot = int(found.partition[at]), int(found.slot[at])
            steps.append((partition, slot, broker))
            way.append(self._graph.holder(partition, slot))
        return None

    def _usable(self, broker: int) -> int | None:
        """The next hand-over to a broker of a partition that is in no chain, None for a source."""
        if self._found.sources[broker]:
            return None
        first = self._found.first
        at, stop = self._next.get(broker, int(first[broker])), int(first[broker + 1])
        while at < stop and int(self._found.partition[at]) in self._used:
            at += 1
        self._next[broker] = at
        return at if at < stop else None


def hand_over(graph: Graph, chain: Chain) -> None:
    """Hand over along a chain."""
    for partition, slot, taker in chain.steps:
        graph.hand_over(partition, slot, taker)
    graph.load[chain.giver] -= 1
    graph.load[chain.taker] += 1


def level(graph: Graph) -> None:
    """Make the loads of the brokers as even as hand-overs can."""
    parts = [graph.involved]
    while parts:
        part = parts.pop()
        load = graph.load[part]
        if not len(load) or load.max() - load.min() <= 1:
            continue
        cut = int(np.clip(load.mean(), load.min() + 1, load.max() - 1))
        above = _cut(graph, part, cut)
        parts += [part] if above is None else [above, part & ~above]


def _cut(graph: Graph, part: BoolArray, cut: int) -> BoolArray | None:
    """
    Hand over from brokers with more than `cut` to such with less, until nothing leads from one to the other.

    Gives what those with more can still reach; None where there are no brokers with more, or none with less.
    """
    while True:
        sources, deficit = part & (graph.load > cut), np.where(part, np.maximum(cut - graph.load, 0), 0)
        if not sources.any() or not deficit.any():
            return None
        found = search(graph, sources, deficit, part)
        if not len(found.met):
            return found.reached
        chains = Chains(graph, found, graph.load - cut)
        for end in found.met[np.argsort(graph.load[found.met], kind="stable")].tolist():
            while graph.load[end] < cut and (chain := chains.to(end)) is not None:
                hand_over(graph, chain)
