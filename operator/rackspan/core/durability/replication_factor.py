"""The nearest replication factor with which every fair placement meets a durability.

The most replicas of a partition that `k` domains of a level can hold together, over all fair placements, is a knapsack
problem on the tree. Each domain has a table: by the replicas that it holds, the most that 0, 1, 2 … of the level's
domains inside it hold. Two tables are joined by a (max, +) convolution. Domains with the same window and the same
children have the same table, and `n` equal tables are joined by doubling, so the work grows with the kinds of domains
and not with their number.

A replication factor that one fair placement refutes needs no table. So one such placement, computed in a single pass,
is checked first.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.topology import IntArray, Level, RackTree

LARGEST: Final = 32
"""The largest replication factor to try. Larger ones are no useful advice, and each takes longer than the last."""
_NEVER = -(1 << 30)

_Pairs = tuple[tuple[str, int], ...]
_Kind = tuple[object, ...]


def nearest_replication_factor(
    tree: RackTree, size: int, min_domains: Mapping[str, int], tolerate: Mapping[str, int]
) -> int | None:
    """Return the nearest other replication factor than `size`, the larger of two equally near; None if none is durable.

    None above `LARGEST` is tried. `min_domains` and `tolerate` are those of `rackspan.core.durability.Durability`.
    """
    return _nearest(tree, size, tuple(sorted(min_domains.items())), tuple(sorted(tolerate.items())))


@lru_cache(maxsize=256)
def _nearest(tree: RackTree, size: int, min_domains: _Pairs, tolerate: _Pairs) -> int | None:
    if any(_domains(tree, level) < domains for level, domains in min_domains):
        return None
    if any(_domains(tree, level) <= domains for level, domains in tolerate):
        return None
    largest = min(LARGEST, tree.capacity)
    sizes = [other for other in range(1, largest + 1) if other != size]
    for other in sorted(sizes, key=lambda other: (abs(other - size), -other)):
        if _achievable(tree, other, min_domains, tolerate):
            return other
    return None


def _domains(tree: RackTree, name: str) -> int:
    return int(np.count_nonzero(tree.level(name).capacity))


def _achievable(tree: RackTree, size: int, min_domains: _Pairs, tolerate: _Pairs) -> bool:
    return all(
        _keeps(partial(hold_together, tree, size), size, min_domains, tolerate) for hold_together in (_in_one, fullest)
    )


def _keeps(hold_together: Callable[[str, int], int], size: int, min_domains: _Pairs, tolerate: _Pairs) -> bool:
    """Return whether a valid min.insync.replicas exists if `hold_together` gives the most that some domains hold."""
    least = max((1 + hold_together(level, domains - 1) for level, domains in min_domains), default=1)
    most = min((size - hold_together(level, domains) for level, domains in tolerate), default=size)
    return least <= most


def _in_one(tree: RackTree, size: int, level: str, domains: int) -> int:
    """Return what the fullest domains of a level hold in one fair placement, a cheap check before `fullest`."""
    windows, held = fair_windows(tree, size), np.array([size])
    for at in range(1, tree.levels.index(level) + 2):
        held = _split(tree.nodes[at - 1], tree.nodes[at], held, windows.low[at], windows.high[at])
    return int(np.sort(held)[::-1][:domains].sum())


def _split(above: Level, below: Level, held: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """Split what domains hold over their children: the first ones that may hold more than their `low` hold one more."""
    flexible = (high > low).astype(np.int64)
    ahead = np.cumsum(flexible) - flexible
    rank = ahead - ahead[above.first_child][below.parent]
    extra = held - np.add.reduceat(low, above.first_child)
    return low + flexible * (rank < extra[below.parent])


def fullest(tree: RackTree, size: int, level: str, domains: int) -> int:
    """Return the most replicas of one partition that `domains` domains of a level can hold in a fair placement."""
    domains = min(domains, size)
    windows = fair_windows(tree, size)
    depth = tree.levels.index(level) + 1
    tables: dict[_Kind, dict[int, IntArray]] = {}
    kinds: list[_Kind] = list(zip(windows.low[depth].tolist(), windows.high[depth].tolist(), strict=True))
    for kind in set(kinds):
        tables[kind] = {held: _one(held, domains) for held in kind if isinstance(held, int)}
    for at in range(depth - 1, -1, -1):
        bounds = pairwise([*tree.nodes[at].first_child.tolist(), len(kinds)])
        below, kinds = kinds, []
        for (start, stop), low, high in zip(bounds, windows.low[at].tolist(), windows.high[at].tolist(), strict=True):
            children = Counter(below[start:stop])
            kind = (low, high, tuple(sorted(children.items(), key=repr)))
            kinds.append(kind)
            if kind not in tables:
                joined = _joined_all([(tables[child], count) for child, count in children.items()], high, domains)
                tables[kind] = {held: joined[held] for held in {low, high}}
    most: int = tables[kinds[0]][size].max()
    return most


def _one(held: int, domains: int) -> IntArray:
    """Return the table of one domain of the level itself: 0 replicas for no domain, `held` for one."""
    table = np.full(domains + 1, _NEVER)
    table[0] = 0
    table[1:2] = held
    return table


def _joined_all(children: list[tuple[dict[int, IntArray], int]], most: int, domains: int) -> IntArray:
    """Return the table of a domain, shape (most + 1, domains + 1), from the tables of its children and their counts."""
    total = np.full((most + 1, domains + 1), _NEVER)
    total[0, 0] = 0
    for rows, count in children:
        power = np.full_like(total, _NEVER)
        for held, row in rows.items():
            if held <= most:
                power[held] = row
        number = count
        while number:
            if number % 2:
                total = _joined(total, power)
            number //= 2
            if number:
                power = _joined(power, power)
    return total


def _joined(one: IntArray, other: IntArray) -> IntArray:
    """Return the (max, +) convolution of two tables, cut to their shape."""
    result = np.full_like(one, _NEVER)
    rows, columns = one.shape
    ahead = np.full((rows, columns - 1), _NEVER)
    shifted = sliding_window_view(np.concatenate([ahead, one], axis=1), columns, axis=1)  # by number of domains
    for held in np.flatnonzero((other >= 0).any(axis=1)).tolist():
        reached = (shifted[: rows - held] + other[held, ::-1]).max(axis=2)
        np.maximum(result[held:], reached, out=result[held:])
    return np.maximum(result, _NEVER)
