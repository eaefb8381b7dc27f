"""How many replicas of a whole topic each domain gets, computed like water that is poured over the present load.

With `count` partitions a domain can get between `count * low` and `count * high` replicas. Of all totals within these
bounds, this module returns those that make the load of the brokers as even as possible. It pours water into the tree
until all replicas are used: a domain at its upper bound takes no more, a domain below its lower bound is filled up to
it. Pouring top-down is exact because the windows are nested (a laminar family). The totals can always be split into
single partitions because the windows are intervals of integers.

    load 4 0 0 | 2 2 2, 8 replicas over two domains that take 3 to 5 replicas each:   0 2 3 | 1 1 1
"""

import numpy as np

from rackspan.core.compliance.fair_split import Windows
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, IntArray, RackTree

_POUR = 0x700


def quotas(tree: RackTree, windows: Windows, count: int, load: IntArray, seed: int) -> IntArray:
    """Return the replicas for each broker, shape (brokers,). Each domain gets between `count * low` and `count * high`.

    `load` is the present number of replicas on each broker, shape (brokers,), depth-first. `windows` must be feasible.
    """
    least = [count * low for low in windows.low]
    most = [count * high for high in windows.high]
    totals = least[0]
    for depth in range(len(tree.nodes) - 1):
        totals = _split(tree, depth, totals, least, most, load, seed)
    return totals


def poured(load: IntArray, takers: BoolArray, amount: int, seed: int) -> IntArray:
    """Return how many of `amount` each broker gets, shape (brokers,), if it is poured over `takers` without windows."""
    order = np.lexsort((scrambled(seed, _POUR, np.arange(len(load))), load, ~takers))[: np.count_nonzero(takers)]
    heights = load[order]
    to_reach = heights * np.arange(len(order)) - (np.cumsum(heights) - heights)  # to lift all lower brokers to each
    wet = order[: np.count_nonzero(to_reach <= amount)]
    whole, rest = divmod(amount + int(load[wet].sum()), len(wet))
    given = np.zeros_like(load)
    given[wet] = whole - load[wet]
    given[wet[:rest]] += 1
    return given


def _split(
    tree: RackTree, depth: int, totals: IntArray, least: list[IntArray], most: list[IntArray], load: IntArray, seed: int
) -> IntArray:
    """Split the totals of one level over the level below, each domain at the water level that uses up its total."""
    level = tree.nodes[depth]
    if len(level) == len(tree.nodes[depth + 1]):
        return totals
    dry = np.minimum.reduceat(load, level.first_broker)
    wet = np.maximum.reduceat(load, level.first_broker) + most[-1].max(initial=0) + 1
    while (wet - dry).max() > 1:
        middle = (dry + wet) // 2
        fits = np.add.reduceat(_volumes(tree, depth, middle, least, most, load), level.first_child) <= totals
        dry, wet = np.where(fits, middle, dry), np.where(fits, wet, middle)
    given = _volumes(tree, depth, dry, least, most, load)
    left = totals - np.add.reduceat(given, level.first_child)
    if not left.any():
        return given
    room = _volumes(tree, depth, dry + 1, least, most, load) - given
    return given + _shares(tree, depth, left, room, seed)


def _volumes(
    tree: RackTree, depth: int, water: IntArray, least: list[IntArray], most: list[IntArray], load: IntArray
) -> IntArray:
    """Return what each child of the domains of level `depth` takes if those are filled to the water level `water`."""
    volume: IntArray = np.clip(water[tree.nodes[depth].of_broker] - load, least[-1], most[-1])
    for at in range(len(tree.nodes) - 2, depth, -1):
        volume = np.clip(np.add.reduceat(volume, tree.nodes[at].first_child), least[at], most[at])
    return volume


def _shares(tree: RackTree, depth: int, left: IntArray, room: IntArray, seed: int) -> IntArray:
    """Split what is `left` in each domain over its children in proportion to their `room`, by largest remainder."""
    above, below = tree.nodes[depth], tree.nodes[depth + 1]
    whole = np.maximum(np.add.reduceat(room, above.first_child), 1)[below.parent]
    wanted = left[below.parent] * room
    shares = wanted // whole
    left = left - np.add.reduceat(shares, above.first_child)
    if left.any():
        tie = scrambled(seed, depth, np.arange(len(below)))
        order = np.lexsort((tie, -(wanted % whole) / whole, below.parent))
        rank = np.arange(len(below)) - above.first_child[below.parent]
        shares[order] += rank < left[below.parent]
    return shares
