"""
The nearest replication factor with which every fair placement keeps a durability.

How many replicas of a partition any `k` domains of a level can hold together at most, over all fair placements, is a
knapsack on the tree: of each domain, by the replicas it holds, the most that 0, 1, 2 … domains of the level below it
hold. Two tables are joined by a (max, +) convolution. Domains with the same window and the same children have the same
table, and `n` equal ones are joined by doubling, so the work grows with the kinds of domains and not with their number.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.topology import IntArray, RackTree

LARGEST: Final = 32
"""No larger replication factor is looked at: nobody would follow the advice, and each takes longer than the last."""
_NEVER = -(1 << 30)

_Pairs = tuple[tuple[str, int], ...]
_Kind = tuple[object, ...]


def nearest_replication_factor(
    tree: RackTree, size: int, min_domains: Mapping[str, int], tolerate: Mapping[str, int]
) -> int | None:
    """
    Give the nearest other replication factor than `size`, of two equally near the larger; None where none is durable.

    None above `LARGEST` is looked at. `min_domains` and `tolerate` are those of `rackspan.core.durability.Durability`.
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
    least = max((1 + fullest(tree, size, level, domains - 1) for level, domains in min_domains), default=1)
    most = min((size - fullest(tree, size, level, domains) for level, domains in tolerate), default=size)
    return least <= most


def fullest(tree: RackTree, size: int, level: str, domains: int) -> int:
    """Most replicas of one partition that so many domains of a level can hold together in a fair placement."""
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
    """What none and one of a single domain hold."""
    table = np.full(domains + 1, _NEVER)
    table[0] = 0
    table[1:2] = held
    return table


def _joined_all(children: list[tuple[dict[int, IntArray], int]], most: int, domains: int) -> IntArray:
    """Table by replicas held, shape (most + 1, domains + 1), from those of children and how many there are of each."""
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
    """The (max, +) convolution of two tables, cut to their shape."""
    result = np.full_like(one, _NEVER)
    rows, columns = one.shape
    for held, picked in zip(*(index.tolist() for index in np.nonzero(other >= 0)), strict=True):
        reached = one[: rows - held, : columns - picked] + other[held, picked]
        np.maximum(result[held:, picked:], reached, out=result[held:, picked:])
    return np.maximum(result, _NEVER)
