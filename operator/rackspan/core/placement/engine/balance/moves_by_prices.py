"""
How few moves loads can take, counted from prices of brokers and from what lay there at first, whatever the plan is.

Each partition pays for its moves and is paid the price of each broker that it takes, and does the best it can. What all
have paid then, and the prices of all replicas that lie on brokers, is no more than the moves of any plan with such
loads: that is linear programming's weak duality. So no prices are too good or too bad to prove something, and the bound
needs no trust in how they were found.

A partition's best is found as in `rackspan.core.compliance.fewest_moves`: each domain is asked for its least, and for
one more. Prices are whole numbers, and few different ones. So what one more would cost in each child of a domain is
counted by cost, once for all partitions, and each partition changes the counts of the few domains that hold any of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np

from rackspan.core.compliance.domain_counts import DomainHoldings, blocks, holdings, sums
from rackspan.core.placement.engine.balance.replicas import BalanceRules
from rackspan.core.topology import BoolArray, IntArray

_Lying = tuple[BalanceRules, int, tuple[DomainHoldings, ...]]  # rules, partitions, and where these lie
_NEVER = 1 << 20
_PARTS, _SAMPLE = 8, 1 << 13  # thresholds compared at once, and the partitions by which


def fewest_by_prices(
    rules: Sequence[BalanceRules], rule: IntArray, before: IntArray, load: IntArray, prices: IntArray
) -> int:
    """
    A number of moves that no way to share fair placements out to loads of `load` (brokers,) goes below.

    `before` (partitions, replicas) are positions, -1 for none; `rules[rule[p]]` hold for partition p. `load` counts
    these partitions alone. Where a broker with one replica more has the higher price nowhere, the number holds for all
    loads as even, if the loads are as even as can be.
    """
    return int((prices * load).sum()) + _least(_lying(rules, rule, before), prices)


def fewest_by_surplus(
    rules: Sequence[BalanceRules], rule: IntArray, before: IntArray, load: IntArray, total: IntArray
) -> int:
    """
    The same for all loads that are as even as `load`, by the best prices that set brokers with a surplus apart.

    A broker's surplus is what it holds before above what it holds after. Those with more than a threshold have the
    price 0, all others 1. `total` (brokers,) is the load with what else lies there.
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
    """
    What `some` brokers hold of these partitions at least, in all loads that are as even as `total`.

    Loads that are as even as can be differ by one at most, and change places: the other brokers hold no more than their
    own, one more where there are such loads, and no more of the high ones than there are.
    """
    values = np.unique(total)
    most = np.sort(np.where(np.isin(total + 1, values), total + 1, total)[~some])[::-1]
    others = int(np.minimum(most, np.sort(total)[::-1][: len(most)]).sum())
    return int(total.sum()) - others - int((total - load)[some].sum())


def _lying(rules: Sequence[BalanceRules], rule: IntArray, before: IntArray) -> Iterator[_Lying]:
    """What lies where, by rules and in parts that are looked at in one go."""
    for number, one in enumerate(rules):
        rows, eligible = np.flatnonzero(rule == number), np.append(one.tree.eligible, [False])
        for block in blocks(len(rows), before.shape[1]):
            mine = before[rows[block]]
            yield one, len(mine), holdings(one.tree, np.where(eligible[mine], mine, -1))


def _least(parts: Iterable[_Lying], prices: IntArray) -> int:
    """The least that all partitions pay together."""
    return sum(_least_by(*part, prices) for part in parts)


def _least_by(one: BalanceRules, partitions: int, pairs: tuple[DomainHoldings, ...], prices: IntArray) -> int:
    """The least that some partitions under the same rules pay together."""
    tree, windows = one.tree, one.windows
    costs = np.append(np.arange(-int(prices.max()), 2 - int(prices.min())), _NEVER)  # of a replica, by its number below
    new, never = 1 - prices - costs[0], len(costs) - 1
    lies, flexible = pairs[-1].domain, windows.high[-1] > windows.low[-1]
    forced = windows.low[-1] > 0
    # What children pay for their least, and the number of what one more costs there: where nothing lies, and in pairs.
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
    """How often each number is in each group, shape (groups, numbers)."""
    return np.bincount(group * numbers + number, minlength=groups * numbers).reshape(groups, numbers)


def _cheapest(counts: IntArray, extras: IntArray, costs: IntArray) -> tuple[IntArray, IntArray]:
    """What the cheapest `extras` of each group cost together, and the number of the next one."""
    upto = np.cumsum(counts, axis=1)
    taken = np.clip(extras[:, None] - (upto - counts), 0, counts)
    following = np.minimum((upto <= extras[:, None]).sum(axis=1), len(costs) - 1)
    return (taken * costs).sum(axis=1), following
