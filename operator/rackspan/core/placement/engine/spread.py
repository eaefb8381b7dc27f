"""
Spreading out: moves that compliance does not need, so that replicas and leaders lie as evenly as fair splits allow.

Any replica may go to any broker that its partition's windows allow. The bound on the moves comes from the result: the
ways to be as even as can be differ by at most one replica per broker, so each broker has to end between its `floor` and
its `ceiling`, and one move brings one replica to one broker and takes it from one other.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import fair_windows
from rackspan.core.placement.engine.mend import Loads, Task, led, with_followers_as_before
from rackspan.core.placement.engine.quotas import quotas
from rackspan.core.placement.engine.replicas import Replicas, Rules, even_out
from rackspan.core.topology import IntArray, RackTree


def spread_out(
    tree: RackTree,
    tasks: Sequence[Task],
    placed: IntArray,
    before: IntArray,
    size_bytes: IntArray,
    loads: Loads,
    seed: int,
) -> IntArray:
    """
    Even out compliant rows that tasks name, the smallest partitions first.

    `placed` (rows, replicas) are positions, the leader first, of which `before` (rows, replicas) lie where they are
    now. Gives the rows anew; `loads` is kept up to date.
    """
    rule = np.zeros(len(placed), dtype=np.int64)
    for number, task in enumerate(tasks):
        rule[task.rows] = number
    rows = np.concatenate([task.rows for task in tasks])
    loads.remove(placed[rows], size_bytes[rows])
    rules = [Rules(task.tree, fair_windows(task.tree, task.size)) for task in tasks]
    goal = loads.replicas.copy()
    for task, rule_of in zip(tasks, rules, strict=True):
        goal += quotas(task.tree, rule_of.windows, len(task.rows), goal, seed)
    loads.replicas += np.bincount(placed[rows][placed[rows] >= 0], minlength=len(tree))
    graph = Replicas(rules, rule[rows], placed[rows], before[rows], np.zeros(len(rows), dtype=bool), loads.replicas)
    cost = np.maximum(size_bytes[rows], 0)
    while graph.relieve(cost, goal):
        pass
    even_out(graph, cost)
    spread = led(tree, tasks, rule[rows], graph.placed, placed[rows], loads.leaders, seed)
    loads.replicas -= np.bincount(spread[spread >= 0], minlength=len(tree))
    loads.add(spread, size_bytes[rows])
    result = placed.copy()
    result[rows] = with_followers_as_before(spread, before[rows], seed)
    return result


def moves_to_balance(before: IntArray, after: IntArray, able: npt.NDArray[np.bool_]) -> int:
    """
    Fewest moves that make loads as even as `after`, which is as even as can be, from `before`, shape (brokers,).

    Brokers that are not `able` to hold replicas have to be emptied.
    """
    values = np.unique(after[able])
    floor = np.where(able, after - np.isin(after - 1, values), 0)
    ceiling = np.where(able, after + np.isin(after + 1, values), 0)
    lacking = np.maximum(floor - before, 0).sum()
    surplus = np.maximum(before - ceiling, 0).sum()
    return int(max(lacking, surplus))
