"""Rebalancing of small clusters: the fewest moves to the most even load, and a lower bound that proves it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.placement.engine.balance import cycle_cancelling as cheapest
from rackspan.core.placement.engine.balance.moves_by_prices import fewest_by_prices
from rackspan.core.placement.engine.balance.rebalance import moves_to_balance
from rackspan.core.placement.engine.balance.replicas import BalanceRules, PlacedReplicas
from rackspan.core.placer import Spread
from rackspan.core.planning import FalseBoundError, PlanRequest, plan, rebalance
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import table


def anyhow(brokers, partitions, size, seed):
    """Return random replica lists."""
    drawn = np.random.default_rng(seed)
    return [tuple(drawn.choice(brokers, size, replace=False).tolist()) for _ in range(partitions)]


def topics(**lists):
    names = list(lists)
    lines = [
        (at, number, row, row, row[0], None) for at, name in enumerate(names) for number, row in enumerate(lists[name])
    ]
    return table(names, lines)


@pytest.mark.parametrize("widths", [(30,), (3, 10), (5, 6), (2, 3, 5)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_rebalance_makes_the_fewest_moves_and_the_bound_proves_it(widths, size):
    tree = grid(" ".join(["dc", "rack"][: len(widths) - 1]), *widths)
    lists = {"a": anyhow(24, 60, size, seed=size), "b": anyhow(30, 20, 2, seed=9)}
    made = rebalance(PlanRequest(tree, topics(**lists)))
    assert made.gap == 0


def test_bound_is_exact_with_drained_and_offline_brokers():
    tree = cluster("rack", {at: f"/{at % 3}" for at in range(30)}, drained={4, 5}, offline={4})
    assert rebalance(PlanRequest(tree, topics(a=anyhow(30, 80, 3, seed=1)))).gap == 0


def test_moves_and_bound_are_close_to_the_exact_ones_above_the_broker_limit(monkeypatch):
    tree, drawn = grid("dc rack", 3, 4, 5), np.random.default_rng(1)
    crowded = [tuple((drawn.permutation(60)[:9] ** 2 // 60)[[0, 4, 8]].tolist()) for _ in range(400)]
    lying = topics(a=[row for row in crowded if len(set(row)) == 3], b=anyhow(50, 100, 2, seed=9))
    exact = rebalance(PlanRequest(tree, lying))
    monkeypatch.setattr("rackspan.core.placement.engine.balance.rebalance.MOST_BROKERS", 0)
    rough = rebalance(PlanRequest(tree, lying))
    assert rough.lower_bound <= exact.lower_bound == exact.moves <= rough.moves
    assert rough.gap < rough.moves / 50
    assert rough.after.levels[-1].replicas == exact.after.levels[-1].replicas


def test_cycle_that_would_violate_the_fair_split_is_shortened(monkeypatch):
    tree = cluster("rack", {0: "/a", 1: "/b", 2: "/c", 3: "/c"})
    rules = [BalanceRules(tree, fair_windows(tree, size)) for size in (2, 1)]
    placed = np.array([[0, 1], [2, -1], [3, -1]])
    before = np.array([[2, 3], [-1, -1], [-1, -1]])
    load = np.array([1, 1, 1, 1])
    graph = PlacedReplicas(rules, np.array([0, 1, 1]), placed, before, np.zeros(3, dtype=bool), load)
    found = [([[0, 2, 1, 3]], np.zeros(4, dtype=np.int64))]  # rack c would hold two replicas of the first partition
    search = cheapest.negative_cycles
    monkeypatch.setattr(cheapest, "negative_cycles", lambda costs: found.pop() if found else search(costs))
    prices = cheapest.Exchanges(graph, np.ones(3, dtype=np.int64)).cancel_cycles()
    assert len({2, 3}.intersection(placed[0].tolist())) == 1
    assert load.tolist() == [1, 1, 1, 1]
    assert fewest_by_prices(rules, np.array([0, 1, 1]), before, load, prices) == 3


def test_plan_and_bound_stay_valid_if_no_cycle_can_be_shortened(monkeypatch):
    tree, lying = grid("rack", 3, 10), topics(a=anyhow(24, 60, 2, seed=2), b=anyhow(30, 20, 2, seed=9))
    best = rebalance(PlanRequest(tree, lying))
    monkeypatch.setattr(PlacedReplicas, "keeps_to_windows", lambda *_: False)
    monkeypatch.setattr(cheapest.Exchanges, "_shortened", lambda *_: None)
    made = rebalance(PlanRequest(tree, lying))
    assert made.lower_bound <= best.moves <= made.moves
    assert made.after.levels[-1].replicas == best.after.levels[-1].replicas


def test_broker_listed_twice_in_a_partition_counts_once_in_the_bound():
    tree, twice = grid("rack", 2, 3), [(0, 0, 1), (0, 0, 3), (2, 2, 2), (0, 1, 2), (0, 1, 4), (0, 3, 4)]
    made = rebalance(PlanRequest(tree, topics(a=twice)))
    assert made.moves == made.lower_bound
    assert made.after.levels[-1].replicas == (3, 3)


def test_replicas_removed_by_a_smaller_replication_factor_are_not_moves():
    tree = grid("rack", 3, 2)
    lists = [(0, 2, 4), (1, 3, 5), (0, 3, 5), (1, 2, 4)]
    made = rebalance(PlanRequest(tree, topics(a=lists), requirements={"a": TopicRequirements(replication_factor=1)}))
    assert (made.moves, made.lower_bound) == (0, 0)


def test_loosened_spread_lets_brokers_exchange_loads_without_counting_moves():
    before, after = np.array([5, 1, 3]), np.array([1, 5, 3])
    everyone = np.ones(3, dtype=bool)
    assert moves_to_balance(before, after, everyone, even=False) == 0
    assert moves_to_balance(before, np.array([3, 2, 4]), everyone, even=False) == 1
    tree = grid("rack", 3, 4)
    wish = TopicRequirements(spread=(Spread("rack", 2),))
    made = rebalance(PlanRequest(tree, topics(a=anyhow(12, 30, 4, seed=3)), requirements={"a": wish}))
    assert made.gap >= 0


def test_nothing_moves_while_all_brokers_are_offline():
    tree = cluster("rack", {at: f"/{at % 2}" for at in range(4)}, offline=range(4))
    made = rebalance(PlanRequest(tree, topics(a=[(0, 1), (0, 1), (0, 1)])))
    assert (made.moves, made.lower_bound) == (0, 0)


def four_brokers(**options):
    return cluster("rack", {0: "/a", 1: "/b", 2: "/a", 3: "/b"}, **options)


def test_bound_excludes_replicas_that_stay_on_a_drained_broker():
    lying = topics(mine=[(0, 1), (1, 0)], theirs=[(0, 1)] * 3)
    made = rebalance(PlanRequest(four_brokers(drained={0}), lying, topics=frozenset({"mine"})))
    assert made.moves == made.lower_bound == 4


def test_partition_that_cannot_get_all_its_replicas_is_not_rebalanced():
    lying, more = topics(a=[(0, 1)]), {"a": TopicRequirements(replication_factor=4)}
    made = rebalance(PlanRequest(four_brokers(offline={2, 3}), lying, requirements=more))
    assert len(made.problems) == 1
    assert (made.moves, made.lower_bound) == (0, 0)


def test_new_partitions_are_balanced_with_existing_ones():
    tree, lying = cluster("rack", dict.fromkeys(range(4))), topics(t=[(0,), (1,), (2,)] * 3)
    made = rebalance(PlanRequest(tree, lying, requirements={"t": TopicRequirements(partitions=12)}))
    assert (made.moves, made.lower_bound) == (0, 0)
    assert made.after.levels[-1].replicas == (3, 3)


def test_new_partitions_have_their_leaders_in_the_preferred_domain():
    lying, wish = topics(t=[(1,)] * 3), TopicRequirements(partitions=6, leaders=(("a",),))
    made = rebalance(PlanRequest(four_brokers(), lying, requirements={"t": wish}))
    assert {change.replicas[0] for change in made.changes if not change.before} == {0, 2}


def test_new_partitions_of_an_explicit_assignment_count_in_the_load_of_their_brokers():
    pinned = TopicRequirements(assignment=((2,),) * 4)
    lying, tree = topics(a=[(2,)], b=[(0,)]), cluster("rack", dict.fromkeys(range(3)))
    wishes = {"a": pinned, "b": TopicRequirements(partitions=9)}
    assert plan(PlanRequest(tree, lying, requirements=wishes)).after.levels[-1].replicas == (4, 5)


def test_plan_with_fewer_moves_than_its_lower_bound_is_rejected():
    made = plan(PlanRequest(four_brokers(), topics(a=[(0, 1)])))
    with pytest.raises(FalseBoundError, match="0 moves and the lower bound 1"):
        replace(made, lower_bound=1)
