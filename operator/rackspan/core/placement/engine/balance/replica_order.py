"""The order of a partition's replicas: which one leads, and the order of the followers."""

from collections.abc import Sequence

import numpy as np

from rackspan.core.placement.engine.balance.leaders import choose_leaders
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.placement.seeds import scrambled
from rackspan.core.snapshot import in_row
from rackspan.core.topology import IntArray, RackTree

_ORDER = 0x900  # purpose of hashes


def with_leader_first(
    tree: RackTree,
    tasks: Sequence[Task],
    rule: IntArray,
    placed: IntArray,
    current: IntArray,
    leaders: IntArray,
    seed: int,
) -> IntArray:
    """Return the rows with their leader first: the present leader, else an existing replica, else any replica.

    Only preferred replicas that are online are considered, or preferred ones that are offline if there are no others,
    or all if none is preferred. Another leader is chosen only if that makes the leaders per broker more even.
    """
    preferred = np.array([np.append(task.preferred, [False]) for task in tasks])  # the last entry is for index -1
    wanted = preferred[rule[:, None], placed]
    allowed = wanted & np.append(tree.online, [False])[placed]
    allowed |= ~allowed.any(axis=1, keepdims=True) & wanted
    allowed |= ~allowed.any(axis=1, keepdims=True) & (placed >= 0)
    stays = allowed & in_row(placed, current)
    leads = stays & (placed == current[:, :1]) if current.shape[1] else stays
    first = np.where(
        leads.any(axis=1, keepdims=True), leads, np.where(stays.any(axis=1, keepdims=True), stays, allowed)
    )
    lead = choose_leaders(tree, placed.T, allowed.T, leaders, seed, first.T)
    rest = np.argsort(np.arange(placed.shape[1]) != lead[:, None], axis=1, kind="stable")
    return np.take_along_axis(placed, rest, axis=1)


def with_followers_as_before(led: IntArray, current: IntArray, seed: int) -> IntArray:
    """Return the rows with the followers in their previous order, then new followers in an order that varies."""
    rank = np.full(led.shape, current.shape[1] + 1.0)
    rank += scrambled(seed, _ORDER, np.arange(led.size)).reshape(led.shape) / (1 << 32)
    for column in range(current.shape[1] - 1, -1, -1):
        rank[(led == current[:, column, None]) & (led >= 0)] = column
    rank[:, 0] = -1
    rank[led < 0] = np.inf
    return np.take_along_axis(led, np.argsort(rank, axis=1, kind="stable"), axis=1)
