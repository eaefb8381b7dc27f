"""
Evening out loads along augmenting paths: chains of hand-overs from a loaded broker to one with less.

Brokers hold items (leaders of partitions, replicas) and could hand some of them to certain others. Where the ways to
share the items out form an M-convex set, as they do for leaders and for fair placements, the load vector is as even as
it can be exactly when no chain of hand-overs leads from a broker to one whose load is lower by two or more. So search
breadth-first from the most loaded brokers until a broker at least two below is met, and hand over along the way. What
a fruitless search has reached can never improve again and is put aside; when all is put aside the loads are optimal.

A chain may use one partition twice. That is safe because chains are shortest: were the hand-overs of one partition not
possible together, it could hand over from an earlier broker of the chain to a later one, and the chain were shorter
(Frank: "A weighted matroid intersection algorithm", 1981, on paths without shortcuts). So a search goes strictly
distance by distance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import IntArray

BoolArray = npt.NDArray[np.bool_]

_FIRST_STEP = 16  # brokers searched at once, if not all sources; each further step takes twice as many
_NONE = np.empty(0, dtype=np.int64)


class Graph(Protocol):
    """Who holds what, and who could hand it to whom. An item is a partition, and a slot in it."""

    load: IntArray

    @property
    def holding(self) -> BoolArray:
        """Brokers that hold any item, shape (brokers,)."""

    def handovers(self, givers: BoolArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """Give partition, slot and taker of the hand-overs between two sets of brokers, as parallel arrays."""

    def holder(self, partition: int, slot: int) -> int:
        """Give the broker that holds an item now."""

    def hand_over(self, partition: int, slot: int, taker: int) -> None:
        """Give an item to a broker; the load is not counted here."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Hand-overs (partition, slot, taker) from `giver` to `taker`; the brokers between keep their number of items."""

    giver: int
    taker: int
    steps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What a search has reached, which targets it met, and the partition and slot by which each broker was reached."""

    reached: BoolArray
    met: IntArray
    came_by: IntArray
    sources: BoolArray


def search(graph: Graph, sources: BoolArray, targets: BoolArray, passable: BoolArray) -> Search:
    """Search from `sources` over `passable` brokers until some of the `targets` are met, by the fewest hand-overs."""
    came_by = np.full((2, len(graph.load)), -1)
    reached = sources.copy()
    queue, farther = np.flatnonzero(sources), _NONE  # brokers at one distance, and at the next one
    step = max(_FIRST_STEP, len(queue))
    while len(queue):
        front = np.zeros_like(reached)
        front[queue[:step]] = True
        queue, step = queue[step:], 2 * step
        partition, slot, taker = graph.handovers(front, passable & ~reached)
        came_by[0, taker], came_by[1, taker] = partition, slot
        new = np.zeros_like(reached)
        new[taker] = True
        reached |= new
        met = np.flatnonzero(new & targets)
        if len(met):
            return Search(reached, met, came_by, sources)
        farther = np.concatenate([farther, np.flatnonzero(new)])
        if not len(queue):
            queue, farther = farther, _NONE
    return Search(reached, _NONE, came_by, sources)


def chains(graph: Graph, found: Search, ends: IntArray) -> Iterator[Chain]:
    """
    Chains from sources to `ends`, in that order, of which no two share a broker or a partition.

    The first of the `ends` that the search has met always gets one.
    """
    brokers: set[int] = set()
    partitions: set[int] = set()
    left = int(np.count_nonzero(found.sources))
    for end in ends.tolist():
        if not left:
            return
        steps: list[tuple[int, int, int]] = []
        broker = end
        while not found.sources[broker] and broker not in brokers:
            partition, slot = found.came_by[:, broker].tolist()
            steps.append((partition, slot, broker))
            broker = graph.holder(partition, slot)
        touched = {partition for partition, _, _ in steps}
        if broker in brokers or not partitions.isdisjoint(touched):
            continue
        brokers.update((broker, *(taker for _, _, taker in steps)))
        partitions |= touched
        left -= 1
        yield Chain(broker, end, tuple(steps))


def hand_over(graph: Graph, chain: Chain) -> None:
    """Hand over along a chain."""
    for partition, slot, taker in chain.steps:
        graph.hand_over(partition, slot, taker)
    graph.load[chain.giver] -= 1
    graph.load[chain.taker] += 1


def level(graph: Graph) -> None:
    """Make the loads of the brokers as even as hand-overs can."""
    candidates = np.ones(len(graph.load), dtype=bool)
    while True:
        holding = np.flatnonzero(graph.holding & candidates)
        if not len(holding):
            return
        highest = graph.load[holding].max()
        targets = candidates & (graph.load <= highest - 2)
        if not targets.any():
            return
        sources = np.zeros_like(candidates)
        sources[holding[graph.load[holding] == highest]] = True
        found = search(graph, sources, targets, candidates)
        lowest_first = found.met[np.argsort(graph.load[found.met], kind="stable")]
        for chain in chains(graph, found, lowest_first):
            hand_over(graph, chain)
        if not len(found.met):
            candidates &= ~found.reached
