"""Even loads by augmenting paths: chains of hand-overs from a loaded broker to a less loaded one.

Brokers hold items (leaders of partitions, replicas) and can hand some of them over to certain other brokers. If the
possible distributions of items form an M-convex set, as for leaders and for fair placements, the load vector is as even
as possible exactly if no chain of hand-overs leads from a broker to one whose load is lower by two or more.

So the algorithm cuts at a load: it uses chains from brokers above the cut to brokers below it until there are none.
Then all brokers that those above the cut can still reach have at least that load, and the others at most. No useful
chain connects the two parts, so each is evened out separately. With cuts at the mean, this takes a few rounds, however
far apart the loads are.

A search is breadth-first, strictly distance by distance, until it meets brokers below the cut. It finds many chains at
once: several chains may pass a broker, but no two chains use the same partition. One chain may use a partition twice.
That is safe because chains are shortest: if the hand-overs of one partition were not possible together, the partition
could hand over from an earlier broker of the chain to a later one, and the chain would be shorter (Frank: "A weighted
matroid intersection algorithm", 1981, on paths without shortcuts).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rackspan.core.placement.engine.weighted_choice import sorted_by
from rackspan.core.topology import BoolArray, IntArray

_FIRST_STEP = 16  # least number of brokers in the first step of a search; each further step takes twice as many
_NONE = np.empty(0, dtype=np.int64)


class Graph(Protocol):
    """The items that brokers hold, and the possible hand-overs. An item is a partition and a slot in it."""

    load: IntArray

    @property
    def involved(self) -> BoolArray:
        """The brokers that hold an item or could get one, shape (brokers,)."""

    def handovers(self, givers: BoolArray, takers: BoolArray, deficit: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return partition, slot and taker of hand-overs from `givers` to `takers`, as parallel arrays.

        There is at least one to each taker that a giver can reach. If that includes takers with a `deficit` (brokers,),
        there are as many to these as there may be chains, and hand-overs to other takers may be missing.
        """

    def holder(self, partition: int, slot: int) -> int:
        """Return the broker that holds an item now."""

    def hand_over(self, partition: int, slot: int, taker: int) -> None:
        """Give an item to a broker, without updating the load."""


class HeldBy:
    """The items that brokers hold: `holder` (items,) are the initial holders, `moved` the items that moved since."""

    def __init__(self, holder: IntArray, brokers: int) -> None:
        self._items = sorted_by(holder, brokers)
        self._first = np.searchsorted(holder[self._items], np.arange(brokers + 1))
        self.moved: list[int] = []

    def at(self, brokers: BoolArray) -> IntArray:
        """Return initial items of these brokers and all moved items, in order of items, so that chains differ."""
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
    """The brokers that a search has reached, the targets it met, and hand-overs to each broker from one step nearer.

    `partition` and `slot` are parallel; the hand-overs to broker b are those from `first[b]` up to `first[b + 1]`.
    """

    sources: BoolArray
    reached: BoolArray
    met: IntArray
    partition: IntArray
    slot: IntArray
    first: IntArray


def search(graph: Graph, sources: BoolArray, deficit: IntArray, passable: BoolArray) -> Search:
    """Search from `sources` over `passable` brokers until targets are met, by the fewest hand-overs.

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
    """Chains from the sources of a search. No two chains share a partition.

    `gives` (brokers,) is the number of chains that may begin at each source. It is counted down.
    """

    def __init__(self, graph: Graph, found: Search, gives: IntArray) -> None:
        self._graph, self._found = graph, found
        self._left = gives
        self._next: dict[int, int] = {}  # by broker, the first hand-over to it that has not failed
        self._used: set[int] = set()

    def to(self, end: int) -> Chain | None:
        """Return another chain to a broker that was met, or None if there is none."""
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
        """Return the next hand-over to a broker from a partition that is in no chain; None if none, or for a source."""
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
    """Hand over from brokers with more than `cut` to brokers with less, until no chain connects them.

    Returns the brokers that those with more can still reach, or None if no broker has more or none has less.
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
