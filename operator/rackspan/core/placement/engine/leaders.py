"""
Choosing leaders: an optimal semi-matching of partitions to brokers.

Each partition picks one of its replicas so that the leaders per broker are as even as any choice could make them
(Harvey, Ladner, Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", 2006).

1. Greedy in shrinking batches: each partition of a batch takes its least loaded replica. This lands near the optimum.
2. Chains of hand-overs (`engine.chains`) make it optimal.
3. A chain between loads that differ by one only swaps the two loads. Such chains even out the domains, top level first.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.engine.chains import chains, hand_over, search
from rackspan.core.placement.engine.chains import level as level_loads
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]

_TIE = 0x300
_BATCHES = 16  # each batch is a sixteenth of what remains
_DOMAIN_PULL = 0.4  # of one leader: steers ties between brokers to the domain with fewer leaders per broker
_ROUNDING = 1e-9


def choose_leaders(tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int) -> IntArray:
    """
    Choose which replica of each partition leads; gives its row in `placed`, shape (partitions,).

    `placed` are depth-first broker positions, shape (replicas, partitions); `allowed`, same shape, says which replicas
    may lead (at least one per partition); `load` are the leaders each broker has already, shape (brokers,).
    """
    choice, leaders = _greedy(tree, placed, allowed, load, seed)
    graph = _Leaders(placed, allowed, choice, leaders, load + np.bincount(leaders, minlength=len(load)))
    level_loads(graph)
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


@dataclass(slots=True)
class _Leaders:
    """Who leads what; an item is a partition and which of its replicas would lead it next."""

    placed: IntArray
    allowed: BoolArray
    choice: IntArray
    leaders: IntArray
    load: IntArray

    @property
    def holding(self) -> BoolArray:
        return np.bincount(self.leaders, minlength=len(self.load)) > 0

    def handovers(self, givers: BoolArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        partitions = np.flatnonzero(givers[self.leaders])
        members = self.placed[:, partitions]
        replica, at = np.nonzero(self.allowed[:, partitions] & takers[members])
        return partitions[at], replica, members[replica, at]

    def holder(self, partition: int, _replica: int) -> int:
        return int(self.leaders[partition])

    def hand_over(self, partition: int, replica: int, taker: int) -> None:
        self.choice[partition] = replica
        self.leaders[partition] = taker


def _level_domains(graph: _Leaders, domain: IntArray, parent: IntArray, capacity: IntArray) -> None:
    """Even out the leaders per broker of the domains of one level, without changing how even the brokers are."""
    held = np.bincount(domain, weights=graph.load, minlength=len(capacity)).astype(np.int64)
    while _ease_one_domain(graph, domain, parent, capacity, held):
        pass


def _ease_one_domain(graph: _Leaders, domain: IntArray, parent: IntArray, capacity: IntArray, held: IntArray) -> bool:
    """Take leaders from the fullest domain that can pass some to a sibling; say whether there was one."""
    everyone = np.ones(len(graph.load), dtype=bool)
    relief = (2 * held - 1) / capacity  # what the sum of held² / capacity loses with one leader fewer
    burden = (2 * held + 1) / capacity  # what it gains with one more
    least = np.full(int(parent.max()) + 1, np.inf)
    np.minimum.at(least, parent, burden)
    givers = np.flatnonzero(relief > least[parent] + _ROUNDING)
    for giver in givers[np.argsort(-relief[givers], kind="stable")].tolist():
        takers = (parent == parent[giver]) & (burden < relief[giver] - _ROUNDING)
        inside = graph.holding & (domain == giver)
        for load in np.unique(graph.load[inside])[::-1].tolist():
            targets = takers[domain] & (graph.load == load - 1)
            if not targets.any():
                continue
            found = search(graph, inside & (graph.load == load), targets, everyone)
            emptiest_first = found.met[np.argsort(burden[domain[found.met]], kind="stable")]
            for chain in chains(graph, found, emptiest_first):
                taker = domain[chain.taker]
                if (2 * held[giver] - 1) / capacity[giver] <= (2 * held[taker] + 1) / capacity[taker] + _ROUNDING:
                    break
                hand_over(graph, chain)
                held[giver] -= 1
                held[taker] += 1
            if len(found.met):
                return True
    return False
