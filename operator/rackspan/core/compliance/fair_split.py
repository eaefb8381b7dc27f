"""The fair split: how many replicas of one partition each domain may hold.

A domain holds `n` replicas and has children with capacities `cap(c)`. The split is fair if no child holds two or more
replicas more than another child that still has a broker free. So there is a water level `q`: children with
`cap(c) <= q` are full, the others hold `q` or `q + 1`.

Applied from the root down, this rule gives every domain a window of at most two sizes, whatever the other domains hold:
if a domain grows from `n` to `n + 1`, one child grows from `q` to `q + 1`, for the same `q`. So the fair placements of
`n` replicas are exactly the sets of `n` brokers with

    low(d) <= replicas in d <= high(d) <= low(d) + 1        for every domain d

This module computes these windows. Checks, placements, repairs and the proof of the fewest moves all use them.

    capacities 1 3 3, n = 6:   q = 2, low 1 2 2, high 1 3 3   (one of the two larger children takes the sixth)
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rackspan.core.topology import IntArray, Level, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The fewest and the most replicas of one partition that each domain may hold.

    `low[k]` and `high[k]` have the shape (domains of level k,). Level 0 is the root, the last level is the brokers.
    `extras[k]`: if a domain holds its `low`, the number of replicas that its children hold above their own `low`.
    """

    low: tuple[IntArray, ...]
    high: tuple[IntArray, ...]
    extras: tuple[IntArray, ...]

    @property
    def feasible(self) -> bool:
        """Whether a placement within all windows exists."""
        return all(bool((low <= high).all()) for low, high in zip(self.low, self.high, strict=True))


@lru_cache(maxsize=1024)
def fair_windows(tree: RackTree, size: int) -> Windows:
    """Return the windows of a fair placement of `size` replicas on the eligible brokers.

    Raises ValueError if there are fewer eligible brokers than replicas.
    """
    if size > tree.capacity:
        raise ValueError(f"{size} replicas need {size} eligible brokers, there are {tree.capacity}")
    low, high, extras = [np.array([size])], [np.array([size])], []
    for above, below in zip(tree.nodes, tree.nodes[1:], strict=False):
        water = water_levels(above, below, low[-1])
        least = np.minimum(below.capacity, water[below.parent])
        given = np.add.reduceat(least, above.first_child)
        lifted = (high[-1] > given)[below.parent]
        extras.append(low[-1] - given)
        low.append(least)
        high.append(np.where(lifted, np.minimum(below.capacity, water[below.parent] + 1), least))
    extras.append(np.zeros_like(low[-1]))
    return Windows(tuple(low), tuple(high), tuple(extras))


def water_levels(above: Level, below: Level, held: IntArray) -> IntArray:
    """Return the water level of each domain that holds `held` replicas: what each child holds at least, unless full."""
    water = np.zeros_like(held)
    filled = np.zeros_like(held)
    while True:
        higher = np.add.reduceat(np.minimum(below.capacity, water[below.parent] + 1), above.first_child)
        rising = (higher <= held) & (higher > filled)
        if not rising.any():
            return water
        water += rising
        filled = np.where(rising, higher, filled)


@lru_cache(maxsize=1024)
def usable_windows(tree: RackTree, size: int) -> Windows:
    """Return the windows of a placement that is fair over all eligible brokers but uses only open ones.

    Check `feasible`: a domain may have too few open brokers. Raises ValueError like `fair_windows`.
    """
    windows = fair_windows(tree, size)
    if bool(tree.open.all()):
        return windows
    low, high = list(windows.low), list(windows.high)
    high[-1] = np.where(tree.open, high[-1], 0)
    for at in range(len(tree.nodes) - 2, -1, -1):
        high[at] = np.minimum(high[at], np.add.reduceat(high[at + 1], tree.nodes[at].first_child))
    return _windows(tree, low, high)


def requiring(tree: RackTree, windows: Windows, depth: int, domain: int) -> Windows:
    """Return windows narrowed so that each partition has at least one replica in one `domain` of level `depth`."""
    low = [level.copy() for level in windows.low]
    broker = tree.nodes[depth].first_broker[domain]
    for at in range(depth + 1):
        above = tree.nodes[at].of_broker[broker]
        low[at][above] = max(low[at][above], 1)
    return _windows(tree, low, list(windows.high))


def _windows(tree: RackTree, low: list[IntArray], high: list[IntArray]) -> Windows:
    """Complete windows from the bottom up: a domain holds at least the sum of its children's `low`."""
    extras = [np.zeros_like(low[-1])]
    for at in range(len(tree.nodes) - 2, -1, -1):
        given = np.add.reduceat(low[at + 1], tree.nodes[at].first_child)
        low[at] = np.maximum(low[at], given)
        extras.append(low[at] - given)
    return Windows(tuple(low), tuple(high), tuple(reversed(extras)))
