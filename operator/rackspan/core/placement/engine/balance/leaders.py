"""Choice of leaders: an optimal semi-matching of partitions to brokers.

One replica of each partition leads, so that the leaders per broker are as even as any choice can make them (Harvey,
Ladner, Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", 2006).

1. Greedy in shrinking batches: each partition of a batch takes its least loaded replica. This is close to the optimum.
2. Existing leaders are handed over directly, many at a time, if that makes the leaders more even.
3. Chains of hand-overs (`engine.balance.augmenting_paths`) make the choice optimal: first among the last partitions,
   which usually suffices.
4. A chain between loads that differ by one swaps the two loads. For new partitions, such chains also even out the
   domains, top level first.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.engine.balance.augmenting_paths import Chain, Chains, HeldBy, hand_over, search
from rackspan.core.placement.engine.balance.augmenting_paths import level as level_loads
from rackspan.core.placement.engine.weighted_choice import turns
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, FloatArray, IntArray, Level, RackTree

_TIE = 0x300
_TURNS = 32  # rounds of direct hand-overs; chains do the rest
_BATCHES = 10  # each batch is a tenth of the remaining partitions,
_HERD = 16  # but small enough that on average a broker has replicas of at most this many partitions of a batch
_LAST, _FEW = 8, 1 << 12  # chains start with the last eighth of the partitions, if it has more than this many
_ROWS = 8  # up to this replication factor, replicas are compared row by row
_DOMAIN_PULL = 0.4  # of one leader: between equal brokers, prefers the domain with fewer leaders per broker
_ROUNDING = 1e-9
_PRIME = 7919


def choose_leaders(
    tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int, first: BoolArray | None = None
) -> IntArray:
    """Choose which replica of each partition leads. Return its row in `placed`, shape (partitions,).

    `placed` are depth-first broker positions, shape (replicas, partitions), padded with -1. `allowed`, same shape,
    marks the replicas that may lead (at least one per partition). `load` are the leaders that each broker already has,
    shape (brokers,). `first` marks some allowed replicas of each partition with which the choice starts. Other replicas
    are then chosen only to make the brokers more even, not the domains.
    """
    choice, leaders = (
        _greedy(tree, placed, allowed, load, seed) if first is None else _settled(tree, placed, first, load, seed)
    )
    total = load + np.bincount(leaders, minlength=len(load))
    if first is None and len(choice) > _LAST * _FEW:
        last = slice(-(len(choice) // _LAST), None)
        own = np.bincount(leaders[last], minlength=len(load))
        level_loads(_Leaders(placed[:, last], allowed[:, last], choice[last], leaders[last], total, own))
    if first is not None:
        _hand_over_directly(placed, allowed, choice, leaders, total)
    graph = _Leaders(placed, allowed, choice, leaders, total, np.bincount(leaders, minlength=len(load)))
    level_loads(graph)
    if first is None:
        levels = zip(tree.nodes[:-2], tree.nodes[1:-1], strict=True)
        _level_domains(graph, [level for above, level in levels if len(level) > len(above)])
    return graph.choice


def _hand_over_directly(
    placed: IntArray, allowed: BoolArray, choice: IntArray, leaders: IntArray, load: IntArray
) -> None:
    """Hand over leaders to make them more even, many at a time. Updates `choice`, `leaders` and `load`."""
    for _ in range(_TURNS):
        lying = np.where(allowed, load[placed], np.iinfo(np.int64).max)
        least = lying.argmin(axis=0)
        at = np.flatnonzero(np.take_along_axis(lying, least[None], axis=0)[0] <= load[leaders] - 2)
        giver, taker = leaders[at], placed[least[at], at]
        fits = np.flatnonzero(load[taker] + turns(taker) <= load[giver] - turns(giver) - 2)
        if not len(fits):
            return
        choice[at[fits]], leaders[at[fits]] = least[at[fits]], taker[fits]
        load += np.bincount(taker[fits], minlength=len(load)) - np.bincount(giver[fits], minlength=len(load))


def _settled(
    tree: RackTree, placed: IntArray, first: BoolArray, load: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Choose among `first`. Partitions with only one such replica are counted before the others choose."""
    choice = first.argmax(axis=0)
    bound = first.sum(axis=0) == 1
    load = load + np.bincount(placed[choice[bound], np.flatnonzero(bound)], minlength=len(load))
    choice[~bound], _ = _greedy(tree, placed[:, ~bound], first[:, ~bound], load, seed)
    return choice, placed[choice, np.arange(len(choice))]


def _greedy(
    tree: RackTree, placed: IntArray, allowed: BoolArray, load: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Return which replica of each partition leads, and the broker of that replica."""
    count = placed.shape[1]
    load = load.astype(np.float64)
    choice, leaders = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    levels = [level for level in tree.nodes[1:-1] if len(level) > 1]
    sizes = [np.diff(level.first_broker, append=len(load)) for level in levels]
    capacities = [np.maximum(level.capacity, 1).astype(np.float64) for level in levels]
    barred = None if allowed.all() else np.where(allowed, 0.0, np.inf)
    ties = scrambled(seed, _TIE, np.arange(2 * len(load))) * (1e-3 / (1 << 32))
    most = _HERD * len(load) // len(placed)
    start = turn = 0
    while start < count:
        stop = start + max(1, min((count - start) // _BATCHES, most))
        score = load + ties[turn : turn + len(load)]  # another hash for each broker in each batch
        turn = (turn + _PRIME) % len(load)
        for number, (level, size, capacity) in enumerate(zip(levels, sizes, capacities, strict=True)):
            mean = np.add.reduceat(load, level.first_broker) / capacity
            mean *= _DOMAIN_PULL / (1 << 2 * number)
            score += mean.repeat(size)
        batch = placed[:, start:stop]
        choice[start:stop], leaders[start:stop] = _lowest(
            score, batch, None if barred is None else barred[:, start:stop]
        )
        load += np.bincount(leaders[start:stop], minlength=len(load))
        start = stop
    return choice, leaders


def _lowest(score: FloatArray, batch: IntArray, barred: FloatArray | None) -> tuple[npt.NDArray[np.integer], IntArray]:
    """Return the row of each column with the lowest score, and the broker there."""
    if barred is not None or len(batch) > _ROWS:
        scores = score[batch] if barred is None else score[batch] + barred
        chosen: IntArray = scores.argmin(axis=0)
        return chosen, batch[chosen, np.arange(len(chosen))]
    leaders, lowest = batch[0], score.take(batch[0])
    choice = np.zeros(len(leaders), dtype=np.int8)
    for number, row in enumerate(batch[1:], start=1):
        scores = score.take(row)
        lower = scores < lowest
        np.maximum(choice, lower.view(np.int8) * np.int8(number), out=choice)
        leaders = np.where(lower, row, leaders)
        np.minimum(lowest, scores, out=lowest)
    return choice, leaders


@dataclass(slots=True)
class _Leaders:
    """The leaders as a graph of hand-overs. An item is a partition and the replica that would lead it next."""

    placed: IntArray
    allowed: BoolArray
    choice: IntArray
    leaders: IntArray
    load: IntArray
    led: IntArray  # how many of these partitions each broker leads
    by_leader: HeldBy = field(init=False)

    def __post_init__(self) -> None:
        self.by_leader = HeldBy(self.leaders, len(self.load))

    @property
    def holding(self) -> BoolArray:
        return self.led > 0

    @property
    def involved(self) -> BoolArray:
        involved = np.zeros(len(self.load), dtype=bool)
        involved[self.placed[self.allowed]] = True
        return involved

    def handovers(
        self, givers: BoolArray, takers: BoolArray, _deficit: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        partitions = self.by_leader.at(givers)
        partitions = partitions[givers[self.leaders[partitions]]]
        members = self.placed[:, partitions]
        replica, at = np.nonzero(self.allowed[:, partitions] & takers[members])
        return partitions[at], replica, members[replica, at]

    def holder(self, partition: int, _replica: int) -> int:
        return int(self.leaders[partition])

    def hand_over(self, partition: int, replica: int, taker: int) -> None:
        self.led[self.leaders[partition]] -= 1
        self.led[taker] += 1
        self.choice[partition] = replica
        self.leaders[partition] = taker
        self.by_leader.moved.append(partition)


@dataclass(slots=True, eq=False)
class _Shares:
    """The number of leaders in the domains of one level, and the effect of one leader more or fewer."""

    level: Level
    held: IntArray
    capacity: IntArray

    @classmethod
    def of(cls, level: Level, load: IntArray) -> "_Shares":
        return cls(level, np.add.reduceat(load, level.first_broker), np.maximum(level.capacity, 1))

    @property
    def relief(self) -> FloatArray:
        """The decrease of the sum of held² / capacity if a domain has one leader fewer."""
        return (2 * self.held - 1) / self.capacity

    @property
    def burden(self) -> FloatArray:
        """The increase of the sum of held² / capacity if a domain has one leader more."""
        return (2 * self.held + 1) / self.capacity

    def gain(self, giver: int) -> FloatArray:
        """Return the decrease of the sum if a leader moves from a domain to that of each broker, shape (brokers,)."""
        gain = (self.relief[giver] - self.burden)[self.level.of_broker]
        return np.where(self.level.of_broker == giver, 0.0, gain)

    def pass_on(self, chain: Chain) -> None:
        self.held[self.level.of_broker[chain.giver]] -= 1
        self.held[self.level.of_broker[chain.taker]] += 1


def _level_domains(graph: _Leaders, levels: list[Level]) -> None:
    """Even out the leaders per broker of the domains, top level first. The brokers stay equally even."""
    shares = [_Shares.of(level, graph.load) for level in levels]
    for at in range(len(levels)):
        while _ease_one_domain(graph, shares[:at], shares[at], shares):
            pass


def _ease_one_domain(graph: _Leaders, above: list[_Shares], own: _Shares, everywhere: list[_Shares]) -> bool:
    """Move leaders out of the fullest domain that can improve at no cost to levels above. Return whether one can."""
    everyone = np.ones(len(graph.load), dtype=bool)
    relief = own.relief
    fullest, held = np.argsort(-relief, kind="stable"), np.zeros(len(relief), dtype=bool)
    held[own.level.of_broker[graph.holding]] = True
    for giver in fullest[held[fullest]].tolist():
        if relief[giver] <= own.burden.min() + _ROUNDING:
            return False
        inside = graph.holding & (own.level.of_broker == giver)
        first = own.level.first_broker[giver]
        free = np.logical_and.reduce(
            [everyone, *(np.abs(level.gain(level.level.of_broker[first])) < _ROUNDING for level in above)]
        )
        gain = np.where(free, own.gain(giver), 0.0)
        for load in np.unique(graph.load[inside])[::-1].tolist():
            targets = (gain > _ROUNDING) & (graph.load == load - 1)
            if not targets.any():
                continue
            found = search(graph, inside & (graph.load == load), targets.astype(np.int64), everyone)
            chains = Chains(graph, found, np.ones_like(graph.load))
            for end in found.met[np.argsort(-gain[found.met], kind="stable")].tolist():
                chain = chains.to(end)
                if chain and own.gain(giver)[chain.taker] > _ROUNDING and _costless(above, chain):
                    hand_over(graph, chain)
                    for level in everywhere:
                        level.pass_on(chain)
            if len(found.met):
                return True
    return False


def _costless(above: list[_Shares], chain: Chain) -> bool:
    return all(abs(level.gain(level.level.of_broker[chain.giver])[chain.taker]) < _ROUNDING for level in above)
