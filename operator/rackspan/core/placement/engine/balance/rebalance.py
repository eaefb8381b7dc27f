"""Rebalancing: moves beyond those for compliance, so that replicas and leaders are as even as fair splits allow.

Any replica may go to any broker that its partition's windows allow. First the loads are made as even as possible, then
the moves as few as possible for such loads (`engine.balance.cycle_cancelling`), with prices that prove it. If that
would take too long, the bound uses two prices, for brokers with and without a surplus
(`engine.balance.moves_by_prices`), and the plan does not always reach the bound.

Partitions to be created take part, because a new place for them copies nothing.

If fair splits are loosened, the bound comes from the loads alone: each broker has to end between its `floor` and its
`ceiling`, and one move adds one replica to one broker and removes one from another.
"""

from collections.abc import Sequence

import numpy as np

from rackspan.core.compliance.fair_split import Windows
from rackspan.core.compliance.fewest_moves import loosened
from rackspan.core.placement.engine.allocation.quotas import quotas
from rackspan.core.placement.engine.balance.cycle_cancelling import MOST_BROKERS, MOST_CELLS, MOST_PAIRS, Exchanges
from rackspan.core.placement.engine.balance.moves_by_prices import fewest_by_prices, fewest_by_surplus
from rackspan.core.placement.engine.balance.replica_order import with_followers_as_before, with_leader_first
from rackspan.core.placement.engine.balance.replicas import BalanceRules, PlacedReplicas, even_out, once
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.topology import BoolArray, IntArray, RackTree


def rebalance_loads(
    tree: RackTree,
    tasks: Sequence[Task],
    windows: Sequence[Windows],
    placed: IntArray,
    before: IntArray,
    size_bytes: IntArray,
    loads: Loads,
    seed: int,
) -> tuple[IntArray, int | None]:
    """Even out the compliant rows that tasks name, the smallest partitions first.

    `windows` are the windows of each task's rows. `placed` (rows, replicas) are planned positions, the leader first;
    `before` (rows, replicas) are the present ones. Returns the new rows, and a lower bound of their moves for equally
    even loads, or None if it is not known. All replicas of a row without present positions count as moves. `loads` is
    updated.
    """
    rule = np.zeros(len(placed), dtype=np.int64)
    for number, task in enumerate(tasks):
        rule[task.rows] = number
    rows = np.concatenate([task.rows for task in tasks])
    loads.remove(placed[rows], size_bytes[rows])
    rules = [BalanceRules(task.tree, own) for task, own in zip(tasks, windows, strict=True)]
    goal = loads.replicas.copy()
    for task, rule_of in zip(tasks, rules, strict=True):
        goal += quotas(task.tree, rule_of.windows, len(task.rows), goal, seed)
    loads.replicas += np.bincount(placed[rows][placed[rows] >= 0], minlength=len(tree))
    free = np.zeros(len(rows), dtype=bool)  # none has to stay
    graph = PlacedReplicas(rules, rule[rows], placed[rows], once(before[rows]), free, loads.replicas)
    cost = np.maximum(size_bytes[rows], 0)
    while graph.relieve(cost, goal):
        pass
    even_out(graph, cost)
    fewest = _cheapened(tasks, rules, rule[rows], graph, before[rows], cost)
    spread = with_leader_first(tree, tasks, rule[rows], graph.placed, placed[rows], loads.leaders, seed)
    loads.replicas -= np.bincount(spread[spread >= 0], minlength=len(tree))
    loads.add(spread, size_bytes[rows])
    result = placed.copy()
    result[rows] = with_followers_as_before(spread, before[rows], seed)
    return result, fewest


def _cheapened(
    tasks: Sequence[Task],
    rules: Sequence[BalanceRules],
    rule: IntArray,
    graph: PlacedReplicas,
    before: IntArray,
    cost: IntArray,
) -> int | None:
    """Make the moves as few as possible, unless that takes too long. Return a lower bound of the moves.

    Returns None if fair splits are loosened.
    """
    if any(loosened(task.skews) for task in tasks):
        return None
    brokers, cells = len(graph.load), graph.placed.size * graph.placed.shape[1]
    small = brokers <= MOST_BROKERS and len(graph.able) * brokers**2 <= MOST_PAIRS and cells <= MOST_CELLS
    prices = Exchanges(graph, cost).cancel_cycles() if small else None
    held = np.bincount(graph.placed[graph.placed >= 0], minlength=len(graph.load))
    if prices is None:
        return fewest_by_surplus(rules, rule, before, held, graph.load)
    return fewest_by_prices(rules, rule, before, held, prices)


def moves_to_balance(before: IntArray, after: IntArray, able: BoolArray, *, even: bool = True) -> int:
    """Return a lower bound of the moves from `before` to loads as even as `after`, shape (brokers,) each.

    Brokers that are not `able` to get replicas end as in `after`. `even` says that `after` is as even as possible;
    otherwise brokers may exchange loads in any way.
    """
    floor, ceiling = after.copy(), after.copy()
    if even:
        values = np.unique(after[able])
        floor -= able & np.isin(after - 1, values)
        ceiling += able & np.isin(after + 1, values)
    else:
        alike = np.flatnonzero(able)[np.argsort(before[able], kind="stable")]
        floor[alike] = ceiling[alike] = np.sort(after[able])
    deficit = np.maximum(floor - before, 0).sum()
    surplus = np.maximum(before - ceiling, 0).sum()
    return int(max(deficit, surplus + after.sum() - before.sum()))
