"""Repair of partitions with the fewest moves, and then as even as these moves allow.

The goals in this order: as few replicas as possible are copied; brokers hold equally many replicas; they lead equally
many partitions; the fullest broker holds few bytes. A leader whose replica stays continues to lead. A leader whose
replica leaves is replaced by an existing replica. Another replica leads only if that makes the leaders more even.
"""

from collections.abc import Sequence

import numpy as np

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.compliance.fewest_moves import loosened
from rackspan.core.placement.engine.balance.disk_usage import even_bytes
from rackspan.core.placement.engine.balance.replica_order import with_followers_as_before, with_leader_first
from rackspan.core.placement.engine.balance.replicas import BalanceRules, PlacedReplicas, even_out, once
from rackspan.core.placement.engine.loads import Loads, bytes_on
from rackspan.core.placement.engine.repair.closest_fair import closest_fair
from rackspan.core.placement.engine.repair.closest_within_skew import closest_within_skew, inside_lowest_domains
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.topology import IntArray, RackTree


def repair_partitions(
    tree: RackTree, tasks: Sequence[Task], current: IntArray, size_bytes: IntArray, loads: Loads, seed: int
) -> IntArray:
    """Return the new replicas of each row that a task names, the leader first: positions, shape (rows, replicas).

    `current` (rows, replicas) are the present positions, -1 for unknown brokers and as padding; `size_bytes` (rows,)
    are the bytes of one replica, -1 if unknown. `loads` counts all replicas on the brokers, including these rows, and
    is updated. A row is all -1 if the open brokers do not suffice: its partition stays unchanged.
    """
    count = len(current)
    placed = np.full((count, max((task.size for task in tasks), default=0)), -1, dtype=np.int64)
    held = np.full_like(current, -1)
    rule = np.zeros(count, dtype=np.int64)
    for number, task in enumerate(tasks):
        rows = task.rows
        loads.remove(current[rows], size_bytes[rows])
        held[rows] = _can_stay(current[rows], task.tree)
        rule[rows] = number
        placed[rows, : task.size] = _repaired(task, held[rows], loads.replicas, seed)
        stuck = rows[placed[rows, 0] < 0]
        loads.add(current[stuck], size_bytes[stuck])
    done = np.flatnonzero((placed >= 0).any(axis=1))
    if not len(done):
        return placed
    rules = [
        BalanceRules(
            task.tree,
            inside_lowest_domains(task.tree, task.size) if loosened(task.skews) else fair_windows(task.tree, task.size),
        )
        for task in tasks
    ]
    graph = PlacedReplicas(rules, rule[done], placed[done], held[done], np.ones(len(done), dtype=bool), loads.replicas)
    even_out(graph)
    placed[done] = graph.placed
    rows = with_leader_first(tree, tasks, rule[done], placed[done], current[done], loads.leaders, seed)
    loads.leaders += np.bincount(rows[:, 0], minlength=len(tree))
    loads.size_bytes += bytes_on(rows, size_bytes[done], len(tree))
    if (size_bytes[done] > 0).any():
        graph = PlacedReplicas(rules, rule[done], rows, held[done], np.ones(len(done), dtype=bool), loads.replicas)
        even_bytes(graph, size_bytes[done], loads.size_bytes)
        rows = graph.placed
    placed[done] = with_followers_as_before(rows, current[done], seed)
    return placed


def _can_stay(current: IntArray, tree: RackTree) -> IntArray:
    """Return the replicas on eligible brokers, each broker once; -1 for the others."""
    return once(np.where(np.append(tree.eligible, [False])[current], current, -1))


def _repaired(task: Task, held: IntArray, load: IntArray, seed: int) -> IntArray:
    if loosened(task.skews):
        return closest_within_skew(task.tree, task.size, held, task.skews, load, seed)
    return closest_fair(task.tree, fair_windows(task.tree, task.size), held, load, seed)
