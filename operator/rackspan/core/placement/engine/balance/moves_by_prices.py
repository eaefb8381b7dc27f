"""A lower bound of the moves to given loads, computed from prices of brokers and the initial replicas, for every plan.

Each partition pays 1 per move, receives the price of each broker that it uses, and pays as little as possible in total.
The sum of these payments and the prices of all replicas on brokers is at most the number of moves of any plan with such
loads (weak duality of linear programming). So any prices give a valid bound, however they were found.

The least payment of a partition is computed as in `rackspan.core.compliance.fewest_moves`: for each domain with its
`low` and with one replica more. Prices are integers with few different values. So the costs of one more replica in the
children of a domain are counted per cost, once for all partitions. Each partition then changes only the counts of the
few domains with its replicas.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np

from rackspan.core.compliance.domain_counts import DomainHoldings, blocks, holdings, sums
from rackspan.core.placement.engine.balance.replicas import BalanceRules
from rackspan.core.topology import BoolArray, IntArray

_Lying = tuple[BalanceRules, int, tuple[DomainHoldings, ...]]  # rules, number of partitions, holdings
_NEVER = 1 << 20
_PARTS, _SAMPLE = 8, 1 << 13  # thresholds compared at once, and partitions in the sample for this


def fewest_by_prices(
    rules: Sequence[BalanceRules], rule: IntArray, before: IntArray, load: IntArray, prices: IntArray
) -> int:
    """Return a lower bound of the moves from `before` to fair placements with the loads `load` (brokers,).

    `before` (partitions, replicas) are positions, -1 for none; `rules[rule[p]]` are the rules of partition p. `load`
    counts only these partitions. If the loads are as even as possible, and no broker has a higher price than a broker
    with one replica fewer, the bound holds for all equally even loads.
    """
    return int((prices * load).sum()) + _least(_lying(rules, rule, before), prices)


def fewest_by_surplus(
    rules: Sequence[BalanceRules], rule: IntArray, before: IntArray, load: IntArray, total: IntArray
) -> int:
    """Return such a bound for all loads that are as even as `load`, from prices that set brokers with a surplus apart.

    A broker's surplus is what it holds before minus what it holds after. Brokers with more than a threshold have the
    price 0, all others 1; the best threshold is used. `total` (brokers,) is the load including all other replicas.
    """
    surplus = np.bincount(before[before >= 0], minlength=len(load)) - load
    some = np.arange(0, len(before), max(1, len(before) // _SAMPLE))
    part, sample = len(before) / max(len(some), 1), list(_lying(rules, rule[some], before[some]))

    @cache
    def about(threshold: int) -> float:
        priced = surplus <= threshold
        return _at_least(load, total, priced) + part * _least(sample, priced.astype(np.int64))

    thresholds, near = np.unique(surplus), np.empty(0, dtype=np.int64)
    while len(near) != len(thresholds):
        thresholds = near if len(near) else thresholds
        at = np.unique(np.linspace(0, len(thresholds) - 1, _PARTS + 1).astype(np.int64))
        best = int(np.argmax([about(threshold) for threshold in thresholds[at].tolist()]))
        near = thresholds[at[max(best - 1, 0)] : at[min(best + 1, len(at) - 1)] + 1]
    priced = surplus <= thresholds[at[best]]
    return _at_least(load, total, priced) + _least(_lying(rules, rule, before), priced.astype(np.int64))


def _at_least(load: IntArray, total: IntArray, some: BoolArray) -> int:
    """Return the least that `some` brokers hold of these partitions, over all loads that are as even as `total`.

    Loads that are as even as possible differ by at most one if brokers can exchange them. So each other broker holds
    at most its own load, or one more if such a load exists, and the high loads are at most as many as in `total`.
    """
    values = np.unique(total)
    most = np.sort(np.where(np.isin(total + 1, values), total + 1, total)[~some])[::-1]
    others = int(np.minimum(most, np.sort(total)[::-1][: len(most)]).sum())
    return int(total.sum()) - others - int((total - load)[some].sum())


def _lying(rules: Sequence[BalanceRules], rule: IntArray, before: IntArray) -> Iterator[_Lying]:
    """Yield the holdings of all partitions, by rules and in blocks."""
    for number, one in enumerate(rules):
        rows, eligible = np.flatnonzero(rule == number), np.append(one.tree.eligible, [False])
        for block in blocks(len(rows), before.shape[1]):
            mine = before[rows[block]]
            yield one, len(mine), holdings(one.tree, np.where(eligible[mine], mine, -1))


def _least(parts: Iterable[_Lying], prices: IntArray) -> int:
    """Return the least that all partitions pay together."""
    return sum(_least_by(*part, prices) for part in parts)


def _least_by(one: BalanceRules, partitions: int, pairs: tuple[DomainHoldings, ...], prices: IntArray) -> int:
    """Return the least that some partitions under the same rules pay together."""
    tree, windows = one.tree, one.windows
    costs = np.append(np.arange(-int(prices.max()), 2 - int(prices.min())), _NEVER)  # of one replica
    new, never = 1 - prices - costs[0], len(costs) - 1
    lies, flexible = pairs[-1].domain, windows.high[-1] > windows.low[-1]
    forced = windows.low[-1] > 0
    # What children pay for their `low`, and the index in `costs` of one more: for empty domains, then for pairs.
    total, more = np.where(forced, 1 - prices, 0), np.where(flexible & tree.eligible & tree.open, new, never)
    paid, next_one = np.where(forced[lies], -prices[lies], 0), np.where(flexible[lies], new[lies] - 1, never)
    for at in range(len(tree.nodes) - 2, -1, -1):
        nodes, pair, below = tree.nodes[at], pairs[at], pairs[at + 1].domain
        parent = np.repeat(np.arange(len(nodes)), np.diff(nodes.first_child, append=len(total)))
        counts = _counted(parent, more, len(nodes), len(costs))
        owner = np.repeat(np.arange(len(pair)), np.diff(pair.first, append=len(below)))
        own = counts[pair.domain] + _counted(owner, next_one, len(pair), len(costs))
        own -= _counted(owner, more[below], len(pair), len(costs))
        whole = np.add.reduceat(total, nodes.first_child)
        paid = whole[pair.domain] + sums(paid - total[below], pair.first)
        flexible = windows.high[at] > windows.low[at]
        cheapest, next_one = _cheapest(own, windows.extras[at][pair.domain], costs)
        paid, next_one = paid + cheapest, np.where(flexible[pair.domain], next_one, never)
        cheapest, more = _cheapest(counts, windows.extras[at], costs)
        total, more = whole + cheapest, np.where(flexible, more, never)
    return int(paid.sum()) + (partitions - len(paid)) * int(total[0])


def _counted(group: IntArray, number: IntArray, groups: int, numbers: int) -> IntArray:
    """Return how often each number is in each group, shape (groups, numbers)."""
    return np.bincount(group * numbers + number, minlength=groups * numbers).reshape(groups, numbers)


def _cheapest(counts: IntArray, extras: IntArray, costs: IntArray) -> tuple[IntArray, IntArray]:
    """Return the total cost of the cheapest `extras` of each group, and the index in `costs` of the next one."""
    upto = np.cumsum(counts, axis=1)
    taken = np.clip(extras[:, None] - (upto - counts), 0, counts)
    following = np.minimum((upto <= extras[:, None]).sum(axis=1), len(costs) - 1)
    return (taken * costs).sum(axis=1), following
