"""
Choosing leaders: an optimal semi-matching of partitions to brokers.

Each partition picks one of its replicas. The leaders per broker are as even as any choice could make them exactly
when no chain of hand-overs leads from a broker to one with at least two leaders fewer (Harvey, Ladner, Lovász, Tamir:
"Semi-matchings for bipartite graphs and load balancing", 2006). So:

1. Greedy in shrinking batches: each partition of a batch takes its least loaded replica. This lands near the optimum.
2. Breadth-first search from the most loaded brokers, an edge being a partition that one broker could hand to another,
   until a broker with at least two leaders fewer is met: hand over along the chain. What a fruitless search has
   reached can never improve again and is put aside; when everything is put aside, the loads are optimal.
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
_BATCHES = 16  # each batch is a sixteenth of what remains
_DOMAIN_PULL = 0.4  # of one leader: steers ties between brokers to the domain with fewer leaders per broker
_ROUNDING = 1e-9
_NONE = np.empty(0, dtype=np.int64)
_FIRST_STEP = 16  # brokers searched at once; each further step takes twice as many


def choose_leaders(tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int) -> IntArray:
    """
    Choose which replica of each partition leads; gives its row in `placed`, shape (partitions,).

    `placed` are depth-first broker positions, shape (replicas, partitions); `allowed`, same shape, says which replicas
    may lead (at least one per partition); `load` are the leaders each broker has already, shape (brokers,).
    """
    choice, leaders = _greedy(tree, placed, allowed, load, seed)
    led = np.bincount(leaders, minlength=len(load))
    graph = _Handovers(placed, allowed, choice, leaders, load + led, led)
    _level_brokers(graph)
    for above, level in zip(tree.nodes[:-2], tree.nodes[1:-1], strict=True):
        if len(level) > len(above):
            _level_domains(graph, level.of_broker, level.parent, np.maximum(level.capacity, 1))
    return graph.choice


def _greedy(
    tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Choose for each partition which replica leads; give the brokers chosen, too."""
    count = placed.shape[1]
    load = load.copy()
    choice, leaders = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    levels = [level for level in tree.nodes[1:-1] if len(level) > 1]
    barred = None if allowed.all() else np.where(allowed, 0.0, np.inf)
    everyone = np.arange(len(load))
    start = 0
    while start < count:
        stop = start + max(1, (count - start) // _BATCHES)
        score = load + scrambled(seed, _TIE + start, everyone) * (1e-3 / (1 << 32))
        for number, level in enumerate(levels):
            mean = np.add.reduceat(load, level.first_broker) / np.maximum(level.capacity, 1)
            score += (_DOMAIN_PULL / (1 << 2 * number)) * mean[level.of_broker]
        batch = placed[:, start:stop]
        scores = score[batch] if barred is None else score[batch] + barred[:, start:stop]
        chosen = scores.argmin(axis=0)
        choice[start:stop] = chosen
        leaders[start:stop] = batch[chosen, np.arange(stop - start)]
        load += np.bincount(leaders[start:stop], minlength=len(load))
        start = stop
    return choice, leaders


@dataclass(frozen=True, slots=True)
class _Chain:
    """Hand-overs that take one leader from the giver and add one to the taker; what lies between keeps its number."""

    giver: int
    taker: int
    steps: tuple[tuple[int, int], ...]  # partition, and which of its replicas leads next


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """What a search has reached, which targets it met, and how: by which partition, and which of its replicas."""

    reached: BoolArray
    met: IntArray
    came_from: IntArray
    sources: BoolArray


@dataclass(slots=True)
class _Handovers:
    """The graph of who could hand a partition to whom, kept up to date while leaders move."""

    placed: IntArray
    allowed: BoolArray
    choice: IntArray
    leaders: IntArray
    load: IntArray
    led: IntArray  # of these partitions; `load` is of all

    @property
    def leading(self) -> BoolArray:
        """Brokers that lead at least one partition."""
        return self.led > 0

    def search(self, sources: BoolArray, targets: BoolArray, passable: BoolArray) -> "_Search":
        """Search from `sources` until some of the `targets` are met."""
        came_from = np.full((2, len(self.load)), -1)
        seen = sources.copy()
        queue, step = np.flatnonzero(sources), _FIRST_STEP
        while len(queue):
            front = np.zeros_like(seen)
            front[queue[:step]] = True
            queue, step = queue[step:], 2 * step
            partitions = np.flatnonzero(front[self.leaders])
            members = self.placed[:, partitions]
            replica, at = np.nonzero(self.allowed[:, partitions] & (passable & ~seen)[members])
            if not len(at):
                continue
            found = members[replica, at]
            came_from[0, found], came_from[1, found] = partitions[at], replica
            new = np.zeros_like(seen)
            new[found] = True
            seen |= new
            if (new & targets).any():
                return _Search(seen, np.flatnonzero(new & targets), came_from, sources)
            queue = np.concatenate([queue, np.flatnonzero(new)])
        return _Search(seen, _NONE, came_from, sources)

    def chains(self, search: "_Search", ends: IntArray) -> Iterator[_Chain]:
        """Chains from sources to `ends`, in that order, of which no two share a broker."""
        used: set[int] = set()
        for end in ends.tolist():
            steps, met, broker = [], [end], end
            while not search.sources[broker]:
                partition, replica = search.came_from[:, broker].tolist()
                steps.append((partition, replica))
                broker = int(self.leaders[partition])
                if broker in used:
                    break
                met.append(broker)
            else:
                used.update(met)
                yield _Chain(broker, end, tuple(steps))

    def hand_over(self, chain: _Chain) -> None:
        """Hand over along a chain."""
        for partition, replica in chain.steps:
            self.choice[partition] = replica
            self.leaders[partition] = self.placed[replica, partition]
        for load in (self.load, self.led):
            load[chain.giver] -= 1
            load[chain.taker] += 1


def _level_brokers(graph: _Handovers) -> None:
    """Make the leaders per broker as even as they can be."""
    candidates = np.ones(len(graph.load), dtype=bool)
    while True:
        leading = np.flatnonzero(graph.leading & candidates)
        if not len(leading):
            return
        highest = graph.load[leading].max()
        targets = candidates & (graph.load <= highest - 2)
        if not targets.any():
            return
        sources = np.zeros_like(candidates)
        sources[leading[graph.load[leading] == highest]] = True
        search = graph.search(sources, targets, candidates)
        if not len(search.met):
            candidates &= ~search.reached
        lowest_first = search.met[np.argsort(graph.load[search.met], kind="stable")]
        for chain in graph.chains(search, lowest_first):
            graph.hand_over(chain)


def _level_domains(graph: _Handovers, domain: IntArray, parent: IntArray, capacity: IntArray) -> None:
    """Even out the leaders per broker of the domains of one level, without changing how even the brokers are."""
    held = np.bincount(domain, weights=graph.load, minlength=len(capacity)).astype(np.int64)
    while _ease_one_domain(graph, domain, parent, capacity, held):
        pass


def _ease_one_domain(graph: _Handovers, domain: IntArray, parent: IntArray, capacity: IntArray, held: IntArray) -> bool:
    """Take leaders from the fullest domain that can pass some to a sibling; say whether there was one."""
    everyone = np.ones(len(graph.load), dtype=bool)
    relief = (2 * held - 1) / capacity  # what the sum of held² / capacity loses with one leader fewer
    burden = (2 * held + 1) / capacity  # what it gains with one more
    least = np.full(int(parent.max()) + 1, np.inf)
    np.minimum.at(least, parent, burden)
    givers = np.flatnonzero(relief > least[parent] + _ROUNDING)
    for giver in givers[np.argsort(-relief[givers], kind="stable")].tolist():
        takers = (parent == parent[giver]) & (burden < relief[giver] - _ROUNDING)
        inside = graph.leading & (domain == giver)
        for load in np.unique(graph.load[inside])[::-1].tolist():
            targets = takers[domain] & (graph.load == load - 1)
            if not targets.any():
                continue
            search = graph.search(inside & (graph.load == load), targets, everyone)
            emptiest_first = search.met[np.argsort(burden[domain[search.met]], kind="stable")]
            for chain in graph.chains(search, emptiest_first):
                taker = domain[chain.taker]
                if (2 * held[giver] - 1) / capacity[giver] <= (2 * held[taker] + 1) / capacity[taker] + _ROUNDING:
                    break
                graph.hand_over(chain)
                held[giver] -= 1
                held[taker] += 1
            if len(search.met):
                return True
    return False
