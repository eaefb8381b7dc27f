"""The closest fair placement of partitions that already hold replicas: no other fair placement keeps more of them.

`rackspan.core.compliance.fewest_moves` computes, for each partition and each domain with some of its replicas, whether
one replica more in the domain keeps one more existing replica (a gain). Choosing children with a gain first, from the
root down, keeps as many replicas as possible. Remaining choices are drawn by the deficits of domains: water is poured
over their loads, and each domain gets its part. All partitions are processed at once, level by level, and a partition
costs no work for domains without its replicas. `engine.balance.replicas` evens out what is still uneven.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.domain_counts import DomainHoldings, blocks
from rackspan.core.compliance.fair_split import Windows
from rackspan.core.compliance.fewest_moves import Kept, most_kept
from rackspan.core.placement.engine.weighted_choice import drawn, prefix_of
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, FloatArray, IntArray, RackTree

_GAIN, _FREE = 0x400, 0x480  # purposes of hashes
_ROUNDING = 1e-6  # of a domain's deficit, in replicas
_WIDTH = 8  # replicas per unit of width in `blocks`: blocks are larger by about this factor


def closest_fair(tree: RackTree, windows: Windows, held: IntArray, load: IntArray, seed: int) -> IntArray:
    """Return for each partition a compliant set of brokers that keeps as many of its replicas as possible.

    `held` (partitions, replicas) are the depth-first positions that may be kept, -1 for none. `load`, shape (brokers,),
    is the load without these partitions; their replicas are added to it. Returns positions of shape (partitions,
    replicas). A row is -1 if the open brokers do not suffice.
    """
    size = int(windows.low[0][0])
    placed = np.full((len(held), size), -1, dtype=np.int64)
    still = np.bincount(held[held >= 0], minlength=len(tree))  # replicas of partitions that are not placed yet
    for block in blocks(len(held), max(size, held.shape[1]) // _WIDTH):
        mine = held[block]
        kept = most_kept(tree, windows, mine, tree.eligible & tree.open)
        rows = np.flatnonzero(kept.possible)
        chosen = _Descent(tree, windows, kept, rows, load + still, seed + block.start).brokers()
        placed[block.start + rows] = chosen
        load += np.bincount(chosen.ravel(), minlength=len(load))
        still -= np.bincount(mine[mine >= 0], minlength=len(tree))
    return placed


@dataclass(frozen=True, slots=True, eq=False)
class _Descent:
    """The choice of brokers for some `rows`, from the root down. `load` (brokers,) estimates the final load."""

    tree: RackTree
    windows: Windows
    kept: Kept
    rows: IntArray
    load: IntArray
    seed: int

    def brokers(self) -> IntArray:
        """Return the positions of the chosen brokers, shape (rows, replicas)."""
        more = np.empty((2, 0), dtype=np.int64)  # partition and domain that holds one more than its `low`
        for depth in range(len(self.tree.nodes) - 1):
            more = self._children(depth, *self._needs(depth, *more))
        always = np.flatnonzero(self.windows.low[-1])
        row, broker = more
        rest = int(self.windows.low[0][0]) - len(always)
        chosen = broker[np.argsort(row, kind="stable")].reshape(len(self.rows), rest)
        return np.concatenate([np.broadcast_to(always, (len(self.rows), len(always))), chosen], axis=1)

    def _needs(self, depth: int, row: IntArray, domain: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return ordered pairs of partition and domain, and how many replicas the children hold above their `low`."""
        extras = self.windows.extras[depth]
        always = np.flatnonzero(extras)
        rows = np.concatenate([np.repeat(self.rows, len(always)), row])
        domains = np.concatenate([np.tile(always, len(self.rows)), domain])
        count = np.concatenate([np.tile(extras[always], len(self.rows)), np.ones(len(row), dtype=np.int64)])
        keys = rows * len(extras) + domains
        order = np.argsort(keys, kind="stable")
        keys, count = keys[order], count[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        count = np.add.reduceat(count, first) if len(first) else count
        return keys[first] // len(extras), keys[first] % len(extras), count

    def _children(self, depth: int, row: IntArray, domain: IntArray, need: IntArray) -> IntArray:
        """Return the partitions and children that hold one more than their `low`, shape (2, pairs)."""
        below, pairs = self.tree.nodes[depth + 1], self.kept.holdings[depth + 1]
        gains, able = self.kept.gains[depth + 1], self.kept.able[depth + 1]
        first, count = _inside(self.kept.holdings[depth], len(pairs), len(self.tree.nodes[depth]), row, domain)
        # Children that already hold replicas of the partition, for each pair of partition and domain.
        asks = np.repeat(np.arange(len(row)), count)
        at = np.arange(len(asks)) + np.repeat(first - (np.cumsum(count) - count), count)
        taken = self._gaining(depth, asks, at, gains[at], need)
        left = need - np.bincount(asks[taken], minlength=len(row))
        out = taken | ~able[at]  # children that cannot be drawn
        chosen = [np.stack([pairs.row[at[taken]], pairs.domain[at[taken]]])]
        weight = self._deficits(depth, np.bincount(domain, weights=left, minlength=len(self.tree.nodes[depth])))
        free = np.flatnonzero(left)
        barred_by, barred = asks[out], pairs.domain[at[out]]
        reserve = asks[~out], pairs.domain[at[~out]]
        turn = 0
        while len(free):
            turn += 1
            child = self._drawn(depth, weight, row[free], domain[free], _lists(free, barred_by, barred, len(row)), turn)
            missing = np.flatnonzero(child < 0)
            if len(missing):
                child[missing] = _first_of(free[missing], *reserve, barred_by * len(below) + barred, len(below))
            chosen.append(np.stack([row[free], child]))
            barred_by, barred = np.concatenate([barred_by, free]), np.concatenate([barred, child])
            left[free] -= 1
            free = free[left[free] > 0]
        return np.concatenate(chosen, axis=1)

    def _gaining(
        self,
        depth: int,
        asks: IntArray,
        at: IntArray,
        gains: BoolArray,
        need: IntArray,
    ) -> BoolArray:
        """Return which children with a gain are taken: as many as are needed."""
        gaining = np.flatnonzero(gains)
        plenty = np.bincount(asks[gaining], minlength=len(need)) > need
        some = gaining[plenty[asks[gaining]]]  # of other pairs, all are taken
        order = some[np.lexsort((scrambled(self.seed, _GAIN + depth, at[some]), asks[some]))]
        begins = np.searchsorted(asks[order], asks[order])
        taken = gains & ~plenty[asks]
        taken[order[np.arange(len(order)) - begins < need[asks[order]]]] = True
        return taken

    def _deficits(self, depth: int, amount: IntArray) -> IntArray:
        """Return the deficit of each child to the water level if `amount` is poured into each domain above."""
        below = self.tree.nodes[depth + 1]
        child = np.flatnonzero(self.kept.elsewhere[depth + 1] & (amount > 0)[below.parent])
        deficit = np.zeros(len(below), dtype=np.int64)
        if not len(child):
            return deficit
        held = np.add.reduceat(self.load, below.first_broker)[child]
        room, parent = below.capacity[child].astype(np.float64), below.parent[child]
        order = np.lexsort((held / room, parent))
        child, held, room, parent = child[order], held[order], room[order], parent[order]
        # For each child, the water level if water reaches the child and all less full ones in the same domain above.
        first = np.flatnonzero(np.diff(parent, prepend=-1))
        group = np.repeat(np.arange(len(first)), np.diff(first, append=len(child)))
        volume, surface = (np.cumsum(part) - (np.cumsum(part) - part)[first][group] for part in (held, room))
        water = (volume + amount[parent]) / surface
        reached = np.add.reduceat((held / room <= water).astype(np.int64), first)  # at least one each
        level = water[first + reached - 1][group]
        deficit[child] = np.ceil(np.maximum(level * room - held - _ROUNDING, 0.0))
        return deficit

    def _drawn(
        self, depth: int, weight: IntArray, row: IntArray, domain: IntArray, barred: IntArray, turn: int
    ) -> IntArray:
        """Draw a child for each pair by weight, or any able child if no weight is left; -1 if there is none."""
        below = self.tree.nodes[depth + 1]
        bounds = np.append(self.tree.nodes[depth].first_child, len(below))
        fraction = _evenly(domain, scrambled(self.seed, _FREE + depth, row * turn))
        low, high = bounds[domain], bounds[domain + 1]
        last = barred + 1
        barred, last = (np.where(barred < 0, low[:, None], edge) for edge in (barred, last))
        child = drawn(prefix_of(weight), low, high, barred, last, fraction)
        missing = np.flatnonzero(child < 0)
        any_able = prefix_of(self.kept.elsewhere[depth + 1].astype(np.int64))
        child[missing] = drawn(any_able, low[missing], high[missing], barred[missing], last[missing], fraction[missing])
        return child


def _inside(
    pairs: DomainHoldings, below: int, domains: int, row: IntArray, domain: IntArray
) -> tuple[IntArray, IntArray]:
    """Return where the pairs below each partition and domain begin, and how many there are."""
    if not len(pairs):
        return np.zeros_like(row), np.zeros_like(row)
    keys, wanted = pairs.row * domains + pairs.domain, row * domains + domain
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    there = keys[at] == wanted
    return np.where(there, pairs.first[at], 0), np.where(there, np.diff(pairs.first, append=below)[at], 0)


def _lists(wanted: IntArray, key: IntArray, value: IntArray, keys: int) -> IntArray:
    """Return the values of each wanted key, in order, with -1 before shorter lists; shape (wanted, most values)."""
    order = np.argsort(key * (int(value.max(initial=0)) + 1) + value, kind="stable")  # mostly in order already
    key, value = key[order], value[order]
    counts = np.bincount(key, minlength=keys)
    ends = np.cumsum(counts)[wanted]
    width = int(counts[wanted].max(initial=0))
    at = ends[:, None] - np.arange(width, 0, -1)
    there = np.arange(width, 0, -1) <= counts[wanted][:, None]
    return np.where(there, np.append(value, [-1])[np.where(there, at, -1)], -1)


def _first_of(wanted: IntArray, key: IntArray, value: IntArray, barred: IntArray, values: int) -> IntArray:
    """Return the first value of each wanted key that is not barred."""
    fits = ~np.isin(key * values + value, barred)
    key, value = key[fits], value[fits]
    return value[np.searchsorted(key, wanted)]


def _evenly(group: IntArray, order: npt.NDArray[np.uint32]) -> FloatArray:
    """Return fractions from 0 to 1 that are evenly spaced in each group and increase with `order`."""
    by = np.argsort((group << 32) | order)
    first = np.flatnonzero(np.diff(group[by], prepend=-1))
    count = np.diff(first, append=len(by))
    fraction = np.empty(len(by))
    fraction[by] = (np.arange(len(by)) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
    return fraction
