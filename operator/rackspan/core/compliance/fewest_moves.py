"""The fewest moves, computed exactly from the most replicas of a partition that a compliant placement can keep.

With `low`, the fewest replicas that a domain may hold (`rackspan.core.compliance.fair_split`), the kept replicas are

    kept(broker, n)  = 1 if n = 1 and the broker holds a replica, else 0
    kept(domain, n)  = sum over children of kept(c, low(c))
                     + the sum of the largest gains kept(c, low + 1) - kept(c, low)

and the fewest moves are `n - kept(root, n)`. The recursion needs only the two sizes of each domain's window, and the
larger size keeps at most one replica more than the smaller one. So one boolean per domain is enough for the recursion,
and each level is a sum over booleans for all partitions at once. A domain without replicas of a partition gains
nothing, so only domains with replicas are computed (`rackspan.core.compliance.domain_counts`):

    gain(broker) = the broker holds a replica
    gain(domain) = more children gain than the domain has extras when it holds its `low`

`most_kept` works on the windows of the fair split. `most_kept_within` works on splits that a spread has loosened:
their windows are wider, and the recursion has to try all sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rackspan.core.compliance.domain_counts import DomainHoldings, blocks, holdings, sums
from rackspan.core.compliance.fair_split import Windows, fair_windows
from rackspan.core.topology import BoolArray, IntArray, Level, RackTree

_NEVER = -(1 << 30)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The replicas that partitions can keep, and the domains that can keep them.

    `count` and `possible` have the shape (partitions,). `gains[k]` and `able[k]` have the shape of `holdings[k]`:
    whether a domain keeps one more replica if it holds one more than its `low`, and whether it can hold one more at
    all. Domains without replicas of a partition keep none; `elsewhere[k]` (domains of level k,) marks those of them
    that can hold one more.
    """

    count: IntArray
    possible: BoolArray
    holdings: tuple[DomainHoldings, ...]
    gains: tuple[BoolArray, ...]
    able: tuple[BoolArray, ...]
    elsewhere: tuple[BoolArray, ...]


def most_kept(tree: RackTree, windows: Windows, held: IntArray, usable: BoolArray | None = None) -> Kept:
    """Return the most replicas of each partition that a placement within `windows` keeps.

    `held` (partitions, replicas) are the positions of replicas that may be kept, -1 for none. `usable` (brokers,) marks
    the brokers that may get a new replica (default: all eligible brokers). `possible` is false if there are too few.
    """
    new = tree.eligible if usable is None else usable
    pairs = holdings(tree, held)
    brokers = pairs[-1].domain
    forced = windows.low[-1] > 0
    flexible = windows.high[-1] > windows.low[-1]
    elsewhere, missing = new & flexible, forced & ~new  # for domains without replicas of a partition
    able = gain = flexible[brokers]
    short = np.zeros(len(brokers), dtype=bool)
    kept = forced[brokers].astype(np.int64)
    gains, ables, others = [gain], [able], [elsewhere]
    for at in range(len(tree.nodes) - 2, -1, -1):
        first, extras = tree.nodes[at].first_child, windows.extras[at]
        flexible = windows.high[at] > windows.low[at]
        below, pair = pairs[at + 1].domain, pairs[at]
        rooms, shortage = sums(elsewhere, first), sums(missing, first)
        here = rooms[pair.domain] + sums(able.astype(np.int8) - elsewhere[below], pair.first)
        short = shortage[pair.domain] + sums(short.astype(np.int8) - missing[below], pair.first) > 0
        elsewhere, missing = flexible & (rooms > extras), (shortage > 0) | (rooms < extras)
        extra = extras[pair.domain]
        gainers = sums(gain, pair.first)
        kept = sums(kept, pair.first) + np.minimum(gainers, extra)
        short |= here < extra
        able = flexible[pair.domain] & (here > extra)
        gain = able & (gainers > extra)
        gains.append(gain)
        ables.append(able)
        others.append(elsewhere)
    count, possible = np.zeros(len(held), dtype=np.int64), np.full(len(held), not missing[0])
    count[pairs[0].row], possible[pairs[0].row] = kept, ~short
    return Kept(count, possible, pairs, *(tuple(reversed(parts)) for parts in (gains, ables, others)))


def fewest_moves(tree: RackTree, size: int, placed: IntArray, skews: Mapping[int, tuple[int, bool]]) -> IntArray:
    """Return the fewest moves that give each partition `size` replicas in a fair split, or in a split within `skews`.

    `placed` are positions, shape (partitions, replicas), -1 for brokers that are not in the tree. The result has the
    shape (partitions,). For loosened splits it may be too small if brokers are offline.
    """
    held = np.where(np.append(tree.eligible, [False])[placed], placed, -1)
    return size - most_kept_by(tree, size, held, skews, tree.eligible & tree.open)


def loosened(skews: Mapping[int, tuple[int, bool]]) -> bool:
    """Return whether any level allows a larger skew than the fair split."""
    return any(skew > 1 for skew, _ in skews.values())


def most_kept_by(
    tree: RackTree,
    size: int,
    held: IntArray,
    skews: Mapping[int, tuple[int, bool]],
    usable: BoolArray | None = None,
) -> IntArray:
    """Return the most replicas of each partition that a placement of `size` keeps: in a fair split, or within `skews`.

    `held` (partitions, replicas) are positions of eligible brokers, -1 for none. `usable` is that of `most_kept`; it
    has an effect for the fair split only.
    """
    kept = np.zeros(len(held), dtype=np.int64)
    wide = loosened(skews)
    for rows in blocks(len(held), held.shape[1] * (size + 1) if wide else held.shape[1]):
        kept[rows] = (
            np.maximum(most_kept_within(tree, size, held[rows], skews), 0)
            if wide
            else most_kept(tree, fair_windows(tree, size), held[rows], usable).count
        )
    return kept


def most_kept_within(tree: RackTree, size: int, held: IntArray, skews: Mapping[int, tuple[int, bool]]) -> IntArray:
    """Return the most replicas of each partition that a placement of `size` keeps if some levels are loosened.

    `held` (partitions, replicas) are positions of eligible brokers, -1 for none. `skews` maps the index of a level in
    `tree.nodes` to the largest skew in that level, and whether full domains count too. The result has the shape
    (partitions,) and is negative if no placement exists.
    """
    pairs, leaves = holdings(tree, held), tree.nodes[-2]
    lower, sizes = pairs[-2], np.arange(size + 1)
    kept = np.where(sizes <= leaves.capacity[lower.domain, None], np.minimum(sizes, lower.count[:, None]), _NEVER)
    most = np.minimum(leaves.capacity, size)
    for at in range(len(tree.nodes) - 3, -1, -1):
        skew, strict = skews.get(at + 1, (1, False))
        splits = _splits(tree.nodes[at], tree.nodes[at + 1], most, size, skew, strict=strict)
        kept = _joint(splits, (pairs[at], pairs[at + 1]), kept)
        most = np.max([np.minimum(split.highest_above, size) * split.possible for split in splits], axis=0)
    total = np.full(len(held), 0 if most[0] >= size else _NEVER)
    total[pairs[0].row] = kept[:, size]
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """The splits with one base size: the fewest and the most replicas of each domain, and their sums per parent domain.

    If a split is `possible`, every total between the two sums is too: the sizes that a domain can hold have no gaps.
    """

    least: IntArray
    highest: IntArray
    least_above: IntArray
    highest_above: IntArray
    possible: BoolArray


def _splits(above: Level, below: Level, most: IntArray, size: int, skew: int, *, strict: bool) -> list[_Split]:
    """Return the splits of the domains of level `above`, by base size; `most` is what each domain below can hold."""
    found = []
    for base in range(size + 1):
        least = np.minimum(below.capacity, base)
        highest = np.minimum(np.minimum(below.capacity, base + skew), most)
        barred = highest < least
        if strict:
            barred |= (below.capacity > 0) & (below.capacity < base)
        least_above, highest_above = (np.add.reduceat(part, above.first_child) for part in (least, highest))
        possible = (least_above <= size) & ~np.logical_or.reduceat(barred, above.first_child)
        if not possible.any():  # a larger base is impossible too
            break
        found.append(_Split(least, highest, least_above, highest_above, possible))
    return found


def _joint(splits: list[_Split], pairs: tuple[DomainHoldings, DomainHoldings], kept: IntArray) -> IntArray:
    """
    Return the most replicas that the domains of one level keep, by their size, from the same table of their children.

    The tables have the shape (pairs, size + 1). Children without replicas keep none, so they are combined in one step.
    """
    upper, lower = pairs
    best = np.full((len(upper), kept.shape[1]), _NEVER)
    children = np.diff(upper.first, append=len(lower))
    for split in splits:
        at = np.flatnonzero(split.possible[upper.domain])
        low, high = split.least_above[upper.domain[at]], split.highest_above[upper.domain[at]]
        total = np.full((len(at), kept.shape[1]), _NEVER)
        total[:, 0] = 0
        for turn in range(int(children[at].max(initial=0))):
            has = np.flatnonzero(children[at] > turn)
            child = upper.first[at[has]] + turn
            least, highest = (part[lower.domain[child]] for part in (split.least, split.highest))
            low[has] -= least
            high[has] -= highest
            total[has] = _grown(total[has], least, highest, kept[child])
        best[at] = np.maximum(best[at], _grown(total, low, high, np.zeros_like(total)))
    return best


def _grown(total: IntArray, least: IntArray, highest: IntArray, kept: IntArray) -> IntArray:
    """Combine tables of shape (rows, size + 1) with those of one more child, which holds `least` to `highest`."""
    grown = np.full_like(total, _NEVER)
    size = total.shape[1] - 1
    for part in range(int(least.min(initial=size)), min(int(highest.max(initial=0)), size) + 1):
        own = np.where((least <= part) & (part <= highest), kept[:, part], _NEVER)
        np.maximum(grown[:, part:], total[:, : size + 1 - part] + own[:, None], out=grown[:, part:])
    return grown
