"""
How many replicas of a whole topic each domain gets: water poured over the load that lies there already.

With `count` partitions a domain can be given between `count * low` and `count * high` replicas. Among all totals that
keep to this at every domain, the ones computed here make the load of the brokers as even as can be: pour water into
the tree until the replicas are used up; a domain that has reached its most takes no more, one that has not reached
its least is filled up to it. Because the windows are nested (a laminar family) pouring top-down is exact, and because
they are intervals of whole numbers, every set of totals found here can be dealt to single partitions.

    load 4 0 0 | 2 2 2, 8 replicas over two domains that take 3 to 5 of them each:   0 2 3 | 1 1 1
"""

import numpy as np

from rackspan.core.compliance.fair_split import Windows
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, IntArray, RackTree

_POUR = 0x700


def quotas(tree: RackTree, windows: Windows, count: int, load: IntArray, seed: int) -> IntArray:
    """
    Replicas for each broker, shape (brokers,); each domain gets between `count * low` and `count * high` of them.

    `load` is what lies on each broker already, shape (brokers,), depth-first. `windows` must be feasible.
    """
    least = [count * low for low in windows.low]
    most = [count * high for high in windows.high]
    totals = least[0]
    for depth in range(len(tree.nodes) - 1):
        totals = _split(tree, depth, totals, least, most, load, seed)
    return totals


def poured(load: IntArray, takers: BoolArray, amount: int, seed: int) -> IntArray:
    """Pour `amount` over the brokers that take any, without windows; gives what each takes, shape (brokers,)."""
    order = np.lexsort((scrambled(seed, _POUR, np.arange(len(load))), load, ~takers))[: np.count_nonzero(takers)]
    heights = load[order]
    to_reach = heights * np.arange(len(order)) - (np.cumsum(heights) - heights)  # what lifts all lower ones up to it
    wet = order[: np.count_nonzero(to_reach <= amount)]
    whole, rest = divmod(amount + int(load[wet].sum()), len(wet))
    given = np.zeros_like(load)
    given[wet] = whole - load[wet]
    given[wet[:rest]] += 1
    return given


def _split(
    tree: RackTree, depth: int, totals: IntArray, least: list[IntArray], most: list[IntArray], load: IntArray, seed: int
) -> IntArray:
    """Split the totals of one level over the level below, each domain at the water level that uses its total up."""
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
    """What each domain below level `depth` takes when its ancestor there is filled to the level `water`."""
    volume: IntArray = np.clip(water[tree.nodes[depth].of_broker] - load, least[-1], most[-1])
    for at in range(len(tree.nodes) - 2, depth, -1):
        volume = np.clip(np.add.reduceat(volume, tree.nodes[at].first_child), least[at], most[at])
    return volume


def _shares(tree: RackTree, depth: int, left: IntArray, room: IntArray, seed: int) -> IntArray:
    """Share what is `left` in each domain among its children in proportion to their `room`, by largest remainder."""
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
