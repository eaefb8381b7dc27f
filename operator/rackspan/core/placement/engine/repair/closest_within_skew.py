"""Repair under a loosened spread: the fewest moves if some levels allow a larger skew than the fair split.

With `maxSkew` above one, the sizes that a domain may hold no longer form a window, so all sizes are tried: for each
domain and size, the best split over its children, computed child by child for each base size of the split. Many
partitions are processed at once. Of the splits that keep equally many replicas, the most even one is chosen. Of equally
even splits, one is drawn by the deficits of domains: each new replica has a price in its domain, an exponentially
distributed number divided by the weight of the domain. So each domain is the cheapest as often as its weight says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rackspan.core.compliance.domain_counts import blocks, holdings
from rackspan.core.compliance.fair_split import Windows
from rackspan.core.placement.engine.weighted_choice import drawn, poured, prefix_of, ranks
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, IntArray, RackTree

_PRICE, _TIE, _DRAW = 0x800, 0x840, 0x880  # purposes of hashes
_KEPT, _UNEVEN = 1 << 40, 1 << 24  # value of a kept replica, and cost factor of a domain's squared number of replicas
_STEPS, _CHEAPEST = 2000, -30.0  # resolution and minimum of prices, which are logarithms; all are below 1 << 17
_NEVER = -(1 << 60)
_WIDTH = 8  # table cells per unit of width in `blocks`: blocks are larger by about this factor


def inside_lowest_domains(tree: RackTree, size: int) -> Windows:
    """Return windows under which a replica may move only to other brokers of its lowest domain."""
    most = tuple(np.full(len(nodes), size) for nodes in tree.nodes)
    return Windows(most, most, tuple(np.zeros(len(nodes), dtype=np.int64) for nodes in tree.nodes))


def closest_within_skew(
    tree: RackTree,
    size: int,
    held: IntArray,
    skews: Mapping[int, tuple[int, bool]],
    load: IntArray,
    seed: int,
) -> IntArray:
    """Return for each partition a placement of `size` within `skews` that keeps as many replicas as possible.

    `skews` are those of `rackspan.core.compliance.fewest_moves`. `held` (partitions, replicas) are the positions that
    may be kept, -1 for none. The new replicas are added to `load` (brokers,). Returns positions of shape (partitions,
    size). A row is -1 if no placement on the open brokers exists.
    """
    placed = np.full((len(held), size), -1, dtype=np.int64)
    still = np.bincount(held[held >= 0], minlength=len(tree))  # replicas of partitions that are not placed yet
    new = np.maximum(size - (held >= 0).sum(axis=1), 0)
    usable = tree.eligible & tree.open
    tops = np.append(tree.nodes[1].first_broker, len(tree))
    room = np.add.reduceat(usable.astype(np.int64), tops[:-1])
    for block in blocks(len(held), len(tree.nodes[-2]) * (size + 1) // _WIDTH):
        mine = held[block]
        # A deficit of one top domain cannot be met in another, so each gets its part of the remaining new replicas.
        deficit = poured(load + still, usable, tops, -(-new[block.start :].sum() * room // max(int(room.sum()), 1)))
        sizes, possible = _Splits(tree, size, skews).best(mine, _prices(tree, deficit, len(mine), seed + block.start))
        chosen = _brokers(tree, size, mine[possible], sizes[possible], (load, deficit), seed + block.start)
        placed[block.start + np.flatnonzero(possible)] = chosen
        load += np.bincount(chosen.ravel(), minlength=len(load))
        still -= np.bincount(mine[mine >= 0], minlength=len(tree))
    return placed


def _prices(tree: RackTree, deficit: IntArray, rows: int, seed: int) -> IntArray:
    """Return the price of a new replica in each lowest domain, shape (rows, lowest domains)."""
    weight = np.add.reduceat(deficit, tree.nodes[-2].first_broker).astype(np.float64)
    weight = np.maximum(weight / max(weight.sum(), 1.0), 1e-9)
    hashes = scrambled(seed, _PRICE, np.arange(rows * len(weight))).reshape(rows, len(weight))
    race = -np.log((hashes + 1.0) / ((1 << 32) + 1)) / weight
    prices: IntArray = ((np.log(race) - _CHEAPEST) * _STEPS).astype(np.int64)
    return prices


@dataclass(frozen=True, slots=True, eq=False)
class _Joint:
    """The best splits over some `children`: `score` (size + 1, rows) by the number of replicas that they hold together.

    `capacities` are the eligible brokers of the children. `base` (size + 1, rows) is the base size of the best split.
    `sums[base]` are the best scores of the first 0, 1, 2 … children.
    """

    children: list[IntArray]
    capacities: list[int]
    score: IntArray
    base: IntArray
    sums: dict[int, list[IntArray]]


@dataclass(frozen=True, slots=True, eq=False)
class _Splits:
    """The best split of each partition over all domains, within skews."""

    tree: RackTree
    size: int
    skews: Mapping[int, tuple[int, bool]]

    def best(self, held: IntArray, prices: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the replicas in each lowest domain, shape (rows, lowest domains), and which rows have a split."""
        nodes = self.tree.nodes
        joints: list[list[_Joint]] = []
        tables = self._lowest(held, prices)
        for at in range(len(nodes) - 3, -1, -1):
            skew, strict = self.skews.get(at + 1, (1, False))
            capacity = nodes[at + 1].capacity.tolist()
            stops = [*nodes[at].first_child.tolist(), len(tables)]
            joints.append([self._joint(tables[a:b], capacity[a:b], skew, strict=strict) for a, b in pairwise(stops)])
            tables = [joint.score for joint in joints[-1]]
        possible = tables[0][self.size] > _NEVER // 2
        parts = [np.full(len(held), self.size)]
        for level in reversed(joints):
            pairs = zip(level, parts, strict=True)
            parts = [part for joint, own in pairs for part in self._parts(joint, own, possible)]
        return np.stack(parts, axis=1), possible

    def _lowest(self, held: IntArray, prices: IntArray) -> list[IntArray]:
        """Return the scores of the lowest domains by the number of replicas that they hold."""
        tree, sizes = self.tree, np.arange(self.size + 1)[:, None]
        lowest, brokers = holdings(tree, held)[-2:]
        there, room = (np.zeros(prices.shape, dtype=np.int64) for _ in range(2))
        there[lowest.row, lowest.domain] = lowest.count
        usable = tree.eligible & tree.open
        room += np.add.reduceat(usable.astype(np.int64), tree.nodes[-2].first_broker)
        resting = ~usable[brokers.domain]  # may stay, but the broker gets no new ones
        np.add.at(room, (brokers.row[resting], tree.nodes[-2].of_broker[brokers.domain[resting]]), 1)
        return [
            np.where(
                sizes <= room[:, at],
                np.minimum(sizes, there[:, at]) * _KEPT
                - sizes * sizes * _UNEVEN
                - np.maximum(sizes - there[:, at], 0) * prices[:, at],
                _NEVER,
            )
            for at in range(prices.shape[1])
        ]

    def _joint(self, children: list[IntArray], capacities: list[int], skew: int, *, strict: bool) -> _Joint:
        size, sums = self.size, dict[int, list[IntArray]]()
        score, best = np.full_like(children[0], _NEVER), np.zeros_like(children[0])
        for base in _bases(capacities, size, strict=strict):
            total = np.full_like(score, _NEVER)
            total[0] = 0
            sums[base] = [total]
            for table, capacity in zip(children, capacities, strict=True):
                merged = np.full_like(score, _NEVER)
                for part in range(min(capacity, base), min(capacity, base + skew, size) + 1):
                    np.maximum(merged[part:], total[: size + 1 - part] + table[part], out=merged[part:])
                total = np.maximum(merged, _NEVER)
                sums[base].append(total)
            better = total > score
            score, best = np.where(better, total, score), np.where(better, base, best)
        return _Joint(children, capacities, score, best, sums)

    def _parts(self, joint: _Joint, own: IntArray, possible: BoolArray) -> list[IntArray]:
        """Return what each child holds in the best split of `own` (rows,) replicas over all children."""
        rows = np.arange(len(own))
        base, parts = joint.base[own, rows], [np.zeros(len(own), dtype=np.int64) for _ in joint.children]
        for one, sums in joint.sums.items():
            mine = np.flatnonzero((base == one) & possible)
            left = own[mine]
            for child in range(len(parts) - 1, -1, -1):
                found = np.full(len(mine), -1)
                most = min(joint.capacities[child], self.size)
                for part in range(min(joint.capacities[child], one), most + 1):
                    fits = np.flatnonzero((left >= part) & (found < 0))
                    row, rest = mine[fits], left[fits] - part
                    whole = sums[child][rest, row] + joint.children[child][part, row]
                    found[fits[whole == sums[child + 1][left[fits], row]]] = part
                parts[child][mine] = found
                left = left - found
        return parts


def _bases(capacities: Sequence[int], size: int, *, strict: bool) -> Iterator[int]:
    """Yield base sizes that a split of at most `size` may have: each child holds at least that many or is full."""
    for base in range(size + 1):
        if strict and any(0 < capacity < base for capacity in capacities):
            return
        if sum(min(capacity, base) for capacity in capacities) > size:
            return
        yield base


def _brokers(
    tree: RackTree, size: int, held: IntArray, sizes: IntArray, loads: tuple[IntArray, IntArray], seed: int
) -> IntArray:
    """
    Return positions of partitions with the given `sizes` in each lowest domain: kept replicas, then draws by deficits.

    `sizes` has the shape (rows, lowest domains). `loads` are the present loads of the brokers and their deficits.
    """
    leaves, (load, deficit) = tree.nodes[-2], loads
    row, column = np.nonzero(held >= 0)
    broker = held[row, column]
    domain = leaves.of_broker[broker]
    key = row * len(leaves) + domain
    order = np.lexsort((scrambled(seed, _TIE, broker), load[broker], ~tree.open[broker], key))
    order = order[ranks(key[order]) < sizes[row, domain][order]]
    kept = np.full((len(held), size), -1, dtype=np.int64)
    kept[row[np.sort(order)], ranks(row[np.sort(order)])] = broker[np.sort(order)]
    need = sizes - np.bincount(key[order], minlength=sizes.size).reshape(sizes.shape)
    filled = (kept >= 0).sum(axis=1)
    bounds = np.append(leaves.first_broker, len(tree))
    usable = prefix_of((tree.eligible & tree.open).astype(np.int64))
    turn = 0
    while (need > 0).any():
        turn += 1
        row, domain = np.nonzero(need > 0)
        some = np.flatnonzero(np.diff(row, prepend=-1))  # one domain of each row at a time
        row, domain = row[some], domain[some]
        low, high = bounds[domain], bounds[domain + 1]
        barred = np.sort(kept[row], axis=1)
        inside = (barred >= low[:, None]) & (barred < high[:, None])
        first, last = (np.where(inside, edge, low[:, None]) for edge in (barred, barred + 1))
        fraction = scrambled(seed + turn, _DRAW, row) / (1 << 32)
        found = drawn(prefix_of(deficit), low, high, first, last, fraction)
        missing = np.flatnonzero(found < 0)
        found[missing] = drawn(usable, low[missing], high[missing], first[missing], last[missing], fraction[missing])
        kept[row, filled[row]] = found
        filled[row] += 1
        need[row, domain] -= 1
    return kept
