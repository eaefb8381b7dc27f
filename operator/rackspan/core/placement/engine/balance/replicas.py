"""Even numbers of replicas per broker: which replicas of which partitions could be elsewhere at no cost.

Two kinds of replicas can change hands. A replica that has to be copied anyway may go to any broker that its partition's
windows allow. A replica that stays can only make room for another existing replica that stays instead: the number of
moves is the same. Partitions that are not anchored, as in rebalancing, can give any replica to any broker.

The possible takers of a replica need no list of brokers. A domain that holds more than its `low` may lose a replica.
A replica can move inside the largest domain around it such that all smaller domains around it may lose it, but not into
domains that hold their `high`, which are a few stretches of brokers. So the brokers that could get any of some replicas
are found in time proportional to the replicas, not to replicas times brokers.

Direct hand-overs come first, many at a time: each replica is offered to a broker with a deficit in the largest domain
in which it can move. Chains of hand-overs (`engine.balance.augmenting_paths`) then make the loads as even as possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rackspan.core.compliance.domain_counts import blocks
from rackspan.core.compliance.fair_split import Windows
from rackspan.core.placement.engine.balance.augmenting_paths import HeldBy, level
from rackspan.core.placement.engine.weighted_choice import drawn, poured, prefix_of, ranks, sorted_by, spaced, turns
from rackspan.core.snapshot import in_row
from rackspan.core.topology import BoolArray, FloatArray, IntArray, RackTree

_CELLS = 1 << 18  # brokers that replicas draw at once
_TURNS = 4  # checks of the offers of a round, because accepted offers change the loads
_WAYS = 4  # hand-overs to search per broker
_RETRIES = 1 << 14  # up to this number, the offers of a replica are counted
_SPARE = 4  # offers of a broker beyond twice its surplus, because some replicas find no taker


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The brokers that replicas may go to: from `low` up to but not including `high`, shape (replicas,).

    Except those from `first` up to but not including `last`, shape (replicas, stretches): see `engine.weighted_choice`.
    """

    low: IntArray
    high: IntArray
    first: IntArray
    last: IntArray

    def of(self, some: IntArray) -> "Reach":
        """Return the reach of some of the replicas."""
        return Reach(self.low[some], self.high[some], self.first[some], self.last[some])

    def includes(self, broker: IntArray) -> BoolArray:
        """Return whether the replicas may go to `broker` (replicas,)."""
        out = (self.first <= broker[:, None]) & (broker[:, None] < self.last)
        return (self.low <= broker) & (broker < self.high) & ~out.any(axis=1)

    def drawn(self, prefix: IntArray, offset: IntArray, fraction: FloatArray) -> IntArray:
        """Draw a broker for each replica, -1 if there is none; weights begin at the broker `offset` (replicas,)."""
        low, high = self.low - offset, self.high - offset
        found = drawn(prefix, low, high, self.first - offset[:, None], self.last - offset[:, None], fraction)
        return np.where(found < 0, -1, found + offset)


@dataclass(frozen=True, slots=True, eq=False)
class BalanceRules:
    """The rules of some partitions: the eligible brokers, and the windows of every domain."""

    tree: RackTree
    windows: Windows


class PlacedReplicas:
    """The replicas of some partitions as a graph of hand-overs. An item is a partition and a column of `placed`.

    `placed` (partitions, replicas) and `before` (partitions, replicas) are positions, padded with -1; an entry of
    `before` that cannot stay is -1 as well. `rules[rule[p]]` are the rules of partition p. `anchored[p]` says that as
    many replicas as now must stay on brokers of `before`. `load` (brokers,) counts all replicas, including these.
    """

    def __init__(
        self,
        rules: Sequence[BalanceRules],
        rule: IntArray,
        placed: IntArray,
        before: IntArray,
        anchored: BoolArray,
        load: IntArray,
    ) -> None:
        self.placed = placed
        self.load = load
        self._rule = rule
        self.before = before
        self._anchored = anchored
        trees = [one.tree for one in rules]
        self._eligible = np.array([tree.eligible for tree in trees])
        # The distinct sets of brokers that may get a replica, and the set of each rule.
        self.able, kind = np.unique(self._eligible & [tree.open for tree in trees], axis=0, return_inverse=True)
        self._kind: IntArray = kind.ravel()
        # Brokers that are offline or cordoned: a replica there may stay, and planning may undo its move away.
        self._resting: BoolArray = np.logical_or.reduce(self._eligible & [~tree.open for tree in trees])
        # Per named level: the domain of each broker, -1 for none, and the windows by rule.
        self._domains = [np.append(nodes.of_broker, -1) for nodes in trees[0].nodes[1:-1]]
        named = range(1, len(trees[0].nodes) - 1)
        self._low = [np.array([one.windows.low[at] for one in rules]) for at in named]
        self._high = [np.array([one.windows.high[at] for one in rules]) for at in named]
        # Per level from the root down: where the brokers of each domain begin, and where they end.
        self._bounds = [np.append(nodes.first_broker, len(load)) for nodes in trees[0].nodes[:-1]]
        self._tried = np.zeros(placed.shape, dtype=np.int16)
        self._kept = in_row(placed, before) & (placed >= 0)
        self._choosy = anchored & (self._kept.sum(axis=1) < (before >= 0).sum(axis=1))
        self._row, self._column = np.nonzero((placed >= 0) & (~self._kept | (self._choosy | ~anchored)[:, None]))
        # The level of the largest domain in which each replica can move, 0 for the root; the replicas of each row in
        # order; and per named level whether their domains hold their `high`. Outdated in `_stale` rows.
        self._levels = np.empty(placed.shape, dtype=np.int8)
        self._ordered = np.empty_like(placed)
        self._full = np.empty((len(self._domains), *placed.shape), dtype=bool)
        self._stale: list[IntArray | int] = [np.arange(len(placed))]
        self._held: HeldBy | None = None

    # --- Graph -------------------------------------------------------------------------------------------------------

    @property
    def involved(self) -> BoolArray:
        """The brokers with a replica that might change hands, and those that may get one."""
        row, column = self.movable()
        holds = np.bincount(self.placed[row, column], minlength=len(self.load)) > 0
        involved: BoolArray = holds | np.logical_or.reduce(self.able) | self._resting
        return involved

    def handovers(self, givers: BoolArray, takers: BoolArray, deficit: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return hand-overs to all takers that a giver can reach, or to many of those with a deficit."""
        if self._held is None:
            movable = np.full(self.placed.shape, len(self.load))
            movable[self.movable()] = self.placed[self.movable()]
            self._held = HeldBy(movable.ravel(), len(self.load) + 1)
        row, column = np.divmod(self._held.at(np.append(givers, [False])), self.placed.shape[1])
        given = np.flatnonzero(givers[self.placed[row, column]])
        row, column = row[given], column[given]
        open_to_all = ~self._kept[row, column] | ~self._anchored[row]
        found = [self._exchanges(row[~open_to_all], column[~open_to_all], takers)]
        row, column = row[open_to_all], column[open_to_all]
        if self._resting.any():
            found.append(self._exchanges(row, column, takers & self._resting))
        deficit, wanted = np.where(takers, deficit, 0), np.where(takers & (deficit == 0), _WAYS, 0)
        met = sum(int(np.count_nonzero(deficit[taker])) for _, _, taker in found)
        for block in blocks(len(row), self.placed.shape[1]):
            if met:
                wanted[:] = 0
            if met >= _WAYS * deficit.sum() and not wanted.any():
                break
            found += self._copies(row[block], column[block], wanted, deficit)
            met += int(np.count_nonzero(deficit[found[-1][2]]))
        rows, columns, brokers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, columns, brokers

    def holder(self, partition: int, column: int) -> int:
        """Return the broker that holds a replica now."""
        return int(self.placed[partition, column])

    def hand_over(self, partition: int, column: int, taker: int) -> None:
        """Give a replica to a broker, without updating the load."""
        self.placed[partition, column] = taker
        self._kept[partition, column] = bool((self.before[partition] == taker).any())
        self._stale.append(partition)
        if self._held is not None:
            self._held.moved.append(partition * self.placed.shape[1] + column)

    # --- Replicas that are free to move ------------------------------------------------------------------------------

    def kind_of(self, row: IntArray) -> IntArray:
        """Return the row of `able` that applies to each of these partitions."""
        return self._kind[self._rule[row]]

    def is_home(self, row: IntArray, broker: IntArray) -> BoolArray:
        """Return whether each partition had a replica on that broker before."""
        found: BoolArray = (self.before[row] == broker[:, None]).any(axis=1)
        return found

    def may_return(self, row: IntArray, home: IntArray) -> BoolArray:
        """Return whether a replica may go to a broker that held its partition before; the broker may be offline."""
        return self._eligible[self._rule[row], home]

    def homes(self, rows: IntArray) -> BoolArray:
        """Return which brokers held each partition before, shape (partitions, brokers)."""
        home = np.zeros((len(rows), len(self.load) + 1), dtype=bool)
        home[np.arange(len(rows))[:, None], self.before[rows]] = True
        return home[:, :-1]

    def may_hold(self, rows: IntArray) -> BoolArray:
        """Return which brokers may get a replica of each partition, new or back, shape (partitions, brokers)."""
        may: BoolArray = self.able[self.kind_of(rows)] | (self.homes(rows) & self._eligible[self._rule[rows]])
        return may

    def reach(self, row: IntArray, column: IntArray) -> Reach:
        """Return the brokers that windows let each of these replicas go to."""
        return self._reach(row, column, self._range(row, column))

    def possible(self, row: IntArray, column: IntArray, taker: IntArray) -> BoolArray:
        """Return whether each of these replicas may go to that broker, or return to it."""
        might = self.able[self.kind_of(row), taker] | (self.is_home(row, taker) & self.may_return(row, taker))
        return self._allowed(row, column, taker, might)

    def keeps_to_windows(self, rows: IntArray) -> bool:
        """Return whether these partitions are within their windows, and on no broker twice."""
        lying, rule = self.placed[rows], self._rule[rows]
        at, column = np.nonzero(lying >= 0)
        brokers = lying[at, column]
        for domains, low, high in zip(self._domains, self._low, self._high, strict=True):
            held = np.zeros((len(rows), low.shape[1]), dtype=np.int64)
            np.add.at(held, (at, domains[brokers]), 1)
            if (held < low[rule]).any() or (held > high[rule]).any():
                return False
        return len(np.unique(at * len(self.load) + brokers)) == len(brokers)

    # -----------------------------------------------------------------------------------------------------------------

    def movable(self) -> tuple[IntArray, IntArray]:
        """Return partition and column of the replicas that might change hands. These are constant."""
        return self._row, self._column

    def drawn(self, row: IntArray, column: IntArray, weights: IntArray, fraction: FloatArray) -> IntArray:
        """Draw a broker by weight (brokers,) for each of these replicas; one that stays gets the best broker."""
        stays = self._kept[row, column] & self._anchored[row]
        taker = np.full(len(row), -1)
        taker[stays] = self._exchanged(row[stays], column[stays], -weights, weights > 0)
        free = np.flatnonzero(~stays)
        row, reach = row[free], self.reach(row[free], column[free])
        taker[free] = self._drawn_able(row, reach, weights, fraction[free])
        return taker

    def fits(self, row: IntArray, column: IntArray, taker: IntArray) -> BoolArray:
        """Return whether each of these replicas may go to that broker."""
        rule = self._rule[row]
        lay = self.is_home(row, taker) & self._choosy[row] & self._eligible[rule, taker]
        stays = self._kept[row, column] & self._anchored[row]
        return self._allowed(row, column, taker, np.where(stays, lay, self.able[self.kind_of(row), taker]))

    def targets(self) -> IntArray:
        """Return what each broker should end with, shape (brokers,), estimated from the ranges of replicas.

        Replicas that may move are poured over those that stay, the ones with the smallest ranges first. Ranges are
        nested, so this is as even as possible, except that replicas of one partition may block each other.
        """
        row, column = self.movable()
        free = np.flatnonzero(~(self._kept[row, column] & self._anchored[row]))
        row, column = row[free], column[free]
        level, domain = self._range(row, column)
        kind = self.kind_of(row)
        aim = self.load - np.bincount(self.placed[row, column], minlength=len(self.load))
        for at in range(len(self._bounds) - 1, -1, -1):
            bounds, here = self._bounds[at], np.flatnonzero(level == at)
            order = here[np.argsort(kind[here], kind="stable")]
            for mine in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(order) else ():
                amount = np.bincount(domain[mine], minlength=len(bounds) - 1)
                aim += poured(aim, self.able[kind[mine[0]]], bounds, amount)
        return aim

    def relieve(self, cost: IntArray | None = None, goal: IntArray | None = None) -> int:
        """Hand over directly if that makes loads more even, most loaded brokers first. Return the number of hand-overs.

        `cost` (partitions,) orders the replicas of a broker: the cheapest are handed over first. With a `goal`
        (brokers,), no broker gives below its goal or takes above it. Each partition hands over at most once.
        """
        self._held = None
        aim = np.zeros_like(self.load) if goal is None else goal
        row, column, taker = self._offers(cost, self.load - aim, bounded=goal is not None)
        first = np.sort(np.unique(row, return_index=True)[1])
        row, column, taker = row[first], column[first], taker[first]
        count = 0
        for _ in range(_TURNS):
            giver = self.placed[row, column]
            given, taken = turns(giver), turns(taker)
            gives, takes = self.load[giver] - given, self.load[taker] + taken
            fits = takes <= gives - 2
            if goal is not None:
                fits &= (gives > goal[giver]) & (takes < goal[taker])
            if not fits.any():
                break
            self.load -= np.bincount(giver[fits], minlength=len(self.load))
            self.load += np.bincount(taker[fits], minlength=len(self.load))
            self.placed[row[fits], column[fits]] = taker[fits]
            self._kept[row[fits], column[fits]] = self.is_home(row[fits], taker[fits])
            self._stale.append(row[fits])
            count += int(np.count_nonzero(fits))
            row, column, taker = row[~fits], column[~fits], taker[~fits]
        return count

    def _offers(self, cost: IntArray | None, above: IntArray, *, bounded: bool) -> tuple[IntArray, IntArray, IntArray]:
        """Return hand-overs that windows allow, those of the most loaded brokers first.

        A broker offers a replica if it holds more than the least loaded broker that the replica could go to. Takers are
        drawn in proportion to their deficits. `above` (brokers,) is what brokers hold above their target.
        """
        able: BoolArray = np.logical_or.reduce(self.able)
        least = 0 if bounded else int(above[able].min(initial=0)) + 1
        row, column = self.movable()
        above_least = np.flatnonzero((above > least)[self.placed[row, column]])
        row, column = row[above_least], column[above_least]
        giver, kept = self.placed[row, column], self._kept[row, column]
        tried = np.minimum(self._tried[row, column], _RETRIES - 1) * 2 + kept
        order = sorted_by(tried, 2 * _RETRIES) if cost is None else np.lexsort((cost[row], tried))
        order = order[sorted_by(giver[order], len(above))]
        turn = ranks(giver[order])
        mean = 0 if bounded or not able.any() else int(above[able].mean())
        offered = np.flatnonzero(turn < 2 * np.maximum(above[giver[order]] - mean, 0) + _SPARE)
        order = order[offered[np.lexsort((-above[giver[order[offered]]], turn[offered]))]]  # each giver in turn
        row, column, kept = row[order], column[order], kept[order]
        level, domain = self._range(row, column)
        if not bounded:
            lowest = self._lowest(above, able)[level, domain]
            worth = np.flatnonzero(above[self.placed[row, column]] > lowest + 1)
            row, column, level, domain = (part[worth] for part in (row, column, level, domain))
            kept = kept[worth]
        self._tried[row, column] += 1
        stays = kept & self._anchored[row]
        taker = np.full(len(row), -1)
        taker[stays] = self._exchanged(row[stays], column[stays], above, np.ones(len(above), dtype=bool))
        free = np.flatnonzero(~stays)
        taker[free] = self._lacking(row[free], column[free], (level[free], domain[free]), above, bounded=bounded)
        found = taker >= 0
        return row[found], column[found], taker[found]

    def _exchanged(self, row: IntArray, column: IntArray, above: IntArray, takers: BoolArray) -> IntArray:
        """Return for each replica that stays the least loaded taker where another could stay instead; -1 if none."""
        best = np.full(len(row), -1)
        at, taker = self._could_stay(row, column, takers)
        order = np.argsort(-above[taker], kind="stable")
        best[at[order]] = taker[order]  # the last one counts
        return best

    def _lacking(
        self, row: IntArray, column: IntArray, inside: tuple[IntArray, IntArray], above: IntArray, *, bounded: bool
    ) -> IntArray:
        """Return a broker for each replica from its range (level and domain), drawn by deficits; -1 if none."""
        level, domain = inside
        reach, kind = self._reach(row, column, inside), self.kind_of(row)
        taker = np.full(len(row), -1)
        ranges = (kind * len(self._bounds) + level) * (len(self.load) + 1) + domain
        order = np.argsort(ranges, kind="stable")
        starts = np.flatnonzero(np.diff(ranges[order], prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(order)]):
            mine = order[start:stop]
            bounds = self._bounds[int(level[mine[0]])]
            first, last = (int(bounds[domain[mine[0]] + more]) for more in (0, 1))
            able, lies = self.able[kind[mine[0]], first:last], above[first:last]
            there = int(np.count_nonzero(able))
            water = 0 if bounded or not there else -(-int(lies[able].sum()) // there)
            deficit = np.where(able, np.maximum(water - lies, 0), 0)
            if not deficit.any():
                deficit = (able & (lies == lies[able].min(initial=0))).astype(np.int64)
            fraction = spaced(np.arange(len(mine)))  # neighbours have the same giver
            taker[mine] = reach.of(mine).drawn(prefix_of(deficit), np.full(len(mine), first), fraction)
        return taker

    def _drawn_able(self, row: IntArray, reach: Reach, weights: IntArray, fraction: FloatArray) -> IntArray:
        """Draw by weight (brokers,) a broker for each replica from those that may get one of its partition.

        The brokers of all kinds of partitions form one line, kind after kind, as there may be a kind for each topic.
        """
        taker, brokers = np.full(len(row), -1), len(weights)
        kinds, kind = np.unique(self.kind_of(row), return_inverse=True)
        order = np.argsort(kind, kind="stable")
        for block in blocks(len(kinds), brokers):
            mine = order[slice(*np.searchsorted(kind[order], (block.start, block.stop)))]
            line = prefix_of(np.where(self.able[kinds[block]], weights, 0).ravel())
            taker[mine] = reach.of(mine).drawn(line, (block.start - kind[mine]) * brokers, fraction[mine])
        return taker

    def _reach(self, row: IntArray, column: IntArray, inside: tuple[IntArray, IntArray]) -> Reach:
        """Return the brokers that replicas may go to if they can move inside those domains (level and domain)."""
        level, domain = inside
        giver, lying = self.placed[row, column], self._ordered[row]
        low, high = self._edges(level, domain)
        first, last = lying.copy(), lying + 1
        for at in range(len(self._domains) - 1, -1, -1):
            begin, end = (self._bounds[at + 1][self._domains[at] + more] for more in (0, 1))
            full = self._full[at][row]
            full &= (level <= at)[:, None]
            full &= (lying < begin[giver][:, None]) | (lying >= end[giver][:, None])
            first, last = np.where(full, begin[lying], first), np.where(full, end[lying], last)
        out = (first < low[:, None]) | (last > high[:, None])
        out[:, 1:] |= first[:, 1:] == first[:, :-1]
        return Reach(low, high, *(np.where(out, low[:, None], edge) for edge in (first, last)))

    def _edges(self, level: IntArray, domain: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the brokers of domains (level and domain) begin and end."""
        low, high = np.empty(len(level), dtype=np.int64), np.empty(len(level), dtype=np.int64)
        for at, bounds in enumerate(self._bounds):
            here = level == at
            low[here], high[here] = bounds[domain[here]], bounds[domain[here] + 1]
        return low, high

    def _range(self, row: IntArray, column: IntArray) -> tuple[IntArray, IntArray]:
        """Return the largest domain in which each replica can move: its level (0 is the root) and index there."""
        if self._stale:
            stale = np.unique(np.hstack(self._stale))
            for block in blocks(len(stale), self.placed.shape[1]):
                self._look_at(stale[block])
            self._stale = []
        level = self._levels[row, column].astype(np.int64)
        domain, giver = np.zeros(len(row), dtype=np.int64), self.placed[row, column]
        for at, domains in enumerate(self._domains, start=1):
            here = level == at
            domain[here] = domains[giver[here]]
        return level, domain

    def _look_at(self, rows: IntArray) -> None:
        """Update the levels, the orders and the full domains of some rows."""
        order = np.argsort(self.placed[rows], axis=1)
        self._ordered[rows] = lying = np.take_along_axis(self.placed[rows], order, axis=1)
        columns, rule = np.ascontiguousarray(lying.T), self._rule[rows]
        levels = np.full(columns.shape, len(self._domains), dtype=np.int8)
        leaves = np.ones(columns.shape, dtype=bool)
        for at in range(len(self._domains) - 1, -1, -1):
            own = self._domains[at][columns]
            counts = _counts(own)
            leaves &= counts > self._low[at][rule, own]
            levels[leaves] = at
            self._full[at][rows] = ((counts >= self._high[at][rule, own]) & (own >= 0)).T
        put = np.empty(lying.shape, dtype=np.int8)
        np.put_along_axis(put, order, levels.T, axis=1)
        self._levels[rows] = put

    def _lowest(self, above: IntArray, able: BoolArray) -> IntArray:
        """Return the least of the able brokers for each level and domain; a very large number if there is none."""
        lowest = np.full((len(self._bounds), len(self.load)), np.iinfo(np.int64).max // 2)
        values = np.where(able, above, lowest[0])
        for at, bounds in enumerate(self._bounds):
            lowest[at, : len(bounds) - 1] = np.minimum.reduceat(values, bounds[:-1])
        return lowest

    def _exchanges(self, row: IntArray, column: IntArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return replicas that stay, and brokers where another replica of the partition could stay instead."""
        at, taker = self._could_stay(row, column, takers)
        return row[at], column[at], taker

    def _could_stay(self, row: IntArray, column: IntArray, takers: BoolArray) -> tuple[IntArray, IntArray]:
        """Return the result of `_exchanges` with indexes of replicas."""
        rows, own = np.unique(row, return_inverse=True)
        old = self.before[rows]
        gone = (old >= 0) & np.append(takers, [False])[old] & ~in_row(old, self.placed[rows])
        at, which = np.nonzero(gone[own])
        taker = old[own[at], which]
        low, high = (edge[at] for edge in self._edges(*self._range(row, column)))
        fits = np.flatnonzero((low <= taker) & (taker < high) & self._eligible[self._rule[row[at]], taker])
        fits = fits[self._within(row[at[fits]], column[at[fits]], taker[fits])]
        return at[fits], taker[fits]

    def _copies(
        self, row: IntArray, column: IntArray, wanted: IntArray, deficit: IntArray
    ) -> list[tuple[IntArray, IntArray, IntArray]]:
        """Return replicas that are copied, each with a broker drawn from those with a deficit.

        If there is no such pair, brokers are drawn from those `wanted` instead. Each draw lowers `wanted`.
        """
        level, domain = self._range(row, column)
        low, high = self._edges(level, domain)
        hopes = prefix_of(((wanted > 0) | (deficit > 0)).astype(np.int64))
        some = np.flatnonzero(hopes[high] > hopes[low])
        row, column, level, domain = (part[some] for part in (row, column, level, domain))
        reach = self._reach(row, column, (level, domain))
        taker = self._drawn_able(row, reach, deficit, spaced(np.arange(len(row))))
        met = np.flatnonzero(taker >= 0)
        found = [(row[met], column[met], taker[met])]
        left = np.arange(len(row))
        while len(left) and wanted.any() and not len(met):
            # Few replicas draw several times each, evenly spaced.
            share = -(-int(np.count_nonzero(wanted)) // len(left))
            share = max(1, min(share, _CELLS // (len(left) * self.placed.shape[1])))
            many = np.repeat(left, share)
            fraction = (np.arange(len(many)) % share + (np.arange(len(many)) + 0.5) / len(many)) / share
            taker = self._drawn_able(row[many], reach.of(many), (wanted > 0).astype(np.int64), fraction)
            drew = taker[::share] >= 0
            many, taker = many[taker >= 0], taker[taker >= 0]
            found.append((row[many], column[many], taker))
            np.maximum(wanted - np.bincount(taker, minlength=len(wanted)), 0, out=wanted)
            left = left[drew]
        return found

    def _allowed(self, row: IntArray, column: IntArray, taker: IntArray, might: BoolArray) -> BoolArray:
        """Return which of the hand-overs in `might` keep to all windows."""
        some = np.flatnonzero(might)
        found = np.zeros(len(row), dtype=bool)
        found[some[self._within(row[some], column[some], taker[some])]] = True
        return found

    def _within(self, row: IntArray, column: IntArray, taker: IntArray) -> IntArray:
        """Return the indexes of the hand-overs that keep to all windows."""
        left = np.arange(len(row))
        for at in range(self.placed.shape[1]):
            left = left[self.placed[row[left], at] != taker[left]]
        row, column, taker = row[left], column[left], taker[left]
        lying = [self.placed[row, at] for at in range(self.placed.shape[1])]
        giver, rule = self.placed[row, column], self._rule[row]
        fits = np.ones(len(row), dtype=bool)
        for domains, low, high in zip(self._domains, self._low, self._high, strict=True):
            loses, gains = domains[giver], domains[taker]
            in_losing, in_gaining = np.zeros(len(row), dtype=np.int16), np.zeros(len(row), dtype=np.int16)
            for broker in lying:
                domain = domains[broker]
                in_losing += domain == loses
                in_gaining += domain == gains
            fits &= (loses == gains) | ((in_losing > low[rule, loses]) & (in_gaining < high[rule, gains]))
        return left[fits]


def once(placed: IntArray) -> IntArray:
    """Return the positions, shape (partitions, replicas), with -1 where a row repeats a broker."""
    found = placed.copy()
    for column in range(1, placed.shape[1]):
        found[(placed[:, :column] == placed[:, column, None]).any(axis=1), column] = -1
    return found


def even_out(replicas: PlacedReplicas, cost: IntArray | None = None) -> None:
    """Make the loads of the brokers as even as hand-overs can."""
    replicas.relieve(cost)  # first for the replicas that stay, because targets are for the others
    for goal in (replicas.targets(), None):
        while replicas.relieve(cost, goal) > len(replicas.load):  # for fewer, chains are faster
            pass
    level(replicas)


def _counts(ordered: IntArray) -> IntArray:
    """Return how often each entry is in its column. Equal entries must be adjacent."""
    counts = np.ones_like(ordered)
    for row in range(1, len(ordered)):
        counts[row] += np.where(ordered[row] == ordered[row - 1], counts[row - 1], 0)
    for row in range(len(ordered) - 2, -1, -1):
        counts[row] = np.where(ordered[row] == ordered[row + 1], counts[row + 1], counts[row])
    return counts
