"""Plans of small clusters."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.placement import ClusterView, MissingRackError, PlacementSpec, Spread, Unsatisfiable
from rackspan.core.placement.engine.balance.replicas import PlacedReplicas
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import PlanRequest, Problem, plan, plan_topics, rebalance
from rackspan.core.planning.draft import Draft
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import table, tree_of
from rackspan.core.topology import BrokerLocation, RackTree

SIX = [BrokerLocation(broker, f"/dc{broker % 3 + 1}/r{broker // 3 + 1}") for broker in range(6)]


def topics(**lists):
    names = list(lists)
    return table(
        names,
        [
            (at, number, row, row, row[0], None)
            for at, name in enumerate(names)
            for number, row in enumerate(lists[name])
        ],
    )


def changed(made):
    return {(change.topic, change.partition): change.replicas for change in made.changes}


def test_drained_broker_is_replaced_in_its_data_centre_and_a_remaining_replica_leads():
    made = plan(PlanRequest(tree_of(SIX, drained={0}), topics(orders=[(0, 1, 2), (3, 4, 5)])))
    assert set(changed(made)[("orders", 0)]) == {1, 2, 3}
    assert changed(made)[("orders", 0)][0] in {1, 2}
    assert (made.moves, made.lower_bound, made.gap) == (1, 1, 0)
    assert (made.before.non_compliant, made.after.non_compliant) == (1, 0)


@pytest.mark.parametrize("name", [f"topic-{number}" for number in range(10)])
def test_leaders_on_a_drained_broker_are_replaced_evenly_by_existing_replicas(name):
    made = plan(PlanRequest(tree_of(SIX, drained={0}), topics(**{name: [(0, 1, 2), (0, 1, 2)]})))
    assert {change.replicas[0] for change in made.changes} == {1, 2}


def test_draining_a_third_of_the_brokers_runs_few_searches_and_keeps_the_balance(monkeypatch):
    racks = [f"/d{at % 3}/z{at // 3 % 4}/r{at // 12 % 5}" for at in range(300)]
    known = [BrokerLocation(broker, rack) for broker, rack in enumerate(racks)]
    rows = MultiLevel().place(PlacementSpec(2_000, 3), ClusterView(tree_of(known))).partitions
    drained = set(np.random.default_rng(1).choice(300, 90, replace=False).tolist())
    searched, looked = [], PlacedReplicas.handovers
    monkeypatch.setattr(PlacedReplicas, "handovers", lambda *args: searched.append(1) or looked(*args))
    made = plan(PlanRequest(tree_of(known, drained=drained), topics(a=list(map(tuple, rows)))))
    assert made.moves == made.lower_bound
    assert len(searched) < 30
    now = changed(made)
    held = np.bincount(np.array([now.get(("a", at), row) for at, row in enumerate(rows)]).ravel())
    for centre in range(3):
        left = [held[broker] for broker in range(centre, 300, 3) if broker not in drained]
        assert max(left) - min(left) <= 1


def test_replica_on_a_removed_broker_is_replaced_and_the_new_one_does_not_lead():
    made = plan(PlanRequest(tree_of(SIX[1:]), topics(orders=[(0, 1, 2)])))
    assert set(changed(made)[("orders", 0)]) == {1, 2, 3}
    assert changed(made)[("orders", 0)][2] == 3  # a replica that must be copied first does not lead


def test_plan_for_named_topics_changes_only_these_topics():
    made = plan(PlanRequest(tree_of(SIX, drained={0}), topics(a=[(0, 1, 2)], b=[(0, 1, 5)]), frozenset({"b"})))
    assert [change.topic for change in made.changes] == ["b"]
    assert (made.before.partitions, made.before.non_compliant, made.after.non_compliant) == (1, 1, 0)
    assert made.after.levels[-1].replicas == (0, 2), "replicas of all topics are counted per broker"


def test_new_partitions_are_placed_without_counting_as_moves():
    made = plan(
        PlanRequest(tree_of(SIX), topics(orders=[(0, 1, 2)]), requirements={"orders": TopicRequirements(partitions=3)})
    )
    assert [(change.partition, change.before) for change in made.changes] == [(1, ()), (2, ())]
    assert made.moves == 0
    assert made.after.levels[-1].replicas == (1, 2)
    assert made.after.partitions == 3


def test_new_partitions_are_refused_if_their_spread_is_impossible():
    tree = cluster("zone", {0: "a", 1: "a", 2: "a", 3: "b"})
    for kind, created in ((Unsatisfiable.REFUSE, 0), (Unsatisfiable.BEST, 1)):
        wanted = TopicRequirements(partitions=2, spread=(Spread("zone", 1, kind),))
        made = plan(PlanRequest(tree, topics(orders=[(0, 1, 2, 3)]), requirements={"orders": wanted}))
        assert made.changes.created == created
        assert len(made.problems) == (not created)


def test_new_partitions_go_to_the_least_loaded_brokers_if_replica_counts_differ():
    tree = cluster("rack", {broker: f"/r{broker}" for broker in range(4)})
    lying = topics(a=[(0,)] * 4 + [(1,)] * 4 + [(0, 1)])
    made = plan(PlanRequest(tree, lying, requirements={"a": TopicRequirements(partitions=12)}))
    assert all(set(change.replicas) == {2, 3} for change in made.changes)
    assert made.after.levels[-1].replicas == (3, 5)


def test_plan_applies_an_explicit_assignment_unchanged():
    wishes = {"orders": TopicRequirements(assignment=((2, 1, 0), (3, 1, 2)))}
    made = plan(PlanRequest(tree_of(SIX), topics(orders=[(0, 1, 2), (3, 4, 5)]), requirements=wishes))
    assert changed(made) == {("orders", 0): (2, 1, 0), ("orders", 1): (3, 1, 2)}
    assert (made.moves, made.lower_bound, made.reorders) == (2, 2, 1)


def test_preferred_leader_domain_is_reached_by_reordering_without_moves():
    wishes = {"orders": TopicRequirements(leaders=(("dc3",),))}
    made = plan(PlanRequest(tree_of(SIX), topics(orders=[(0, 1, 2), (5, 3, 4)]), requirements=wishes))
    assert changed(made) == {("orders", 0): (2, 0, 1)}
    assert (made.moves, made.reorders) == (0, 1)


def while_offline(offline, rows, racks=None):
    """Return the plan for one topic with preferred leaders in dc3."""
    tree = cluster("dc rack", racks or {broker.id: broker.reported_rack for broker in SIX}, offline=offline)
    return plan(PlanRequest(tree, topics(orders=rows), requirements={"orders": TopicRequirements(leaders=(("dc3",),))}))


@pytest.mark.parametrize("offline", [{2}, {5}, {2, 5}, {0}, {0, 1, 2, 3, 4, 5}])
def test_offline_brokers_alone_cause_no_changes(offline):
    made = while_offline(offline, [(2, 0, 1), (5, 3, 4), (2, 5, 1, 0)])
    assert made.empty
    assert made.problems == ()


def test_cordoned_broker_keeps_its_replicas_and_gets_no_new_ones():
    lists = table(["t"], [(0, 0, (1, 0), (1, 0), 1, None), (0, 1, (0, 3), (0, 3), 0, None)])
    racks = {0: "a", 1: "b", 2: "b", 3: "c"}
    tree = cluster("zone", racks, cordoned={1})
    assert plan(PlanRequest(tree, lists)).empty
    more = plan(PlanRequest(tree, lists, requirements=more_of("t")))
    assert [set(change.replicas) - set(change.before) for change in more.changes][:2] == [{3}, {2}]
    assert not any(1 in change.replicas for change in more.changes[2:])
    assert more.hash != plan(PlanRequest(cluster("zone", racks), lists, requirements=more_of("t"))).hash
    pinned = plan(PlanRequest(tree, lists, requirements={"t": TopicRequirements(assignment=((1, 0), (0, 1)))}))
    assert pinned.empty
    assert pinned.problems[0].reason == "partition 1 is assigned to [0, 1], and broker 1 is cordoned"


def more_of(topic):
    return {topic: TopicRequirements(replication_factor=3, partitions=6)}


def test_plan_for_leaders_still_prefers_a_broker_that_is_offline():
    assert changed(while_offline({2}, [(0, 1, 2), (5, 3, 4)])) == {("orders", 0): (2, 0, 1)}


def test_online_broker_leads_if_two_brokers_are_in_the_preferred_domain():
    racks = {0: "/dc3/r1", 1: "/dc3/r2", 2: "/dc1/r1", 3: "/dc1/r2"}
    assert changed(while_offline({0}, [(2, 0, 1, 3)], racks))[("orders", 0)][0] == 1


def test_plan_bytes_sum_the_copied_replicas_and_are_none_if_a_size_is_unknown():
    lists = [(0, 1, 2), (0, 4, 5), (3, 4, 5)]
    for sizes, copied in (([100, 20, None], 120), ([100, None, 7], None), ([0, 0, 0], 0)):
        sized = table(["orders"], [(0, at, row, (), None, sizes[at]) for at, row in enumerate(lists)])
        made = plan(PlanRequest(tree_of(SIX, drained={0}), sized))
        assert (made.moves, made.bytes) == (2, copied)
    assert plan(PlanRequest(tree_of(SIX, drained={0}), topics(orders=[(0, 1, 2)]))).bytes is None
    assert plan(PlanRequest(tree_of(SIX), topics(orders=[(0, 1, 2)]))).bytes == 0


def test_plan_bytes_do_not_overflow_with_the_largest_sizes_of_kafka():
    most = 2**63 - 1
    sized = table(["orders"], [(0, at, (0, 1, 2), (), None, most) for at in range(3)])
    made = plan(PlanRequest(tree_of(SIX, drained={0}), sized))
    assert (made.moves, made.bytes) == (3, 3 * most)


def test_rebalance_fills_new_brokers_exactly_to_their_share():
    lists = [(number % 3, 3 + number % 3) for number in range(12)]
    brokers = [BrokerLocation(broker, f"/r{broker // 3}") for broker in range(6)]
    grown = [*brokers, BrokerLocation(6, "/r0"), BrokerLocation(7, "/r1")]
    made = rebalance(PlanRequest(tree_of(grown), topics(orders=lists)))
    assert (made.moves, made.lower_bound) == (6, 6)
    assert made.after.levels[-1].replicas == (3, 3)
    assert plan(PlanRequest(tree_of(grown), topics(orders=lists))).empty


def test_a_chain_of_handovers_may_use_a_partition_twice():
    tree = cluster("region zone", {0: "/a", 1: "/b", 2: "/c", 3: "/a", 4: "/c/a"})
    lists = {"a": [(4, 0, 1, 3), (3, 0, 2, 1)], "b": [(1, 0, 2, 3), (0, 4, 1, 2)], "c": [(2, 1), (0, 3)]}
    made = rebalance(PlanRequest(tree, topics(**lists), requirements={"a": TopicRequirements(exclude=("0",))}))
    assert made.after.levels[-1].replicas == (4, 4)
    tree = cluster("region zone", dict(enumerate(["/c", "/c/b", "/c", "/b/b", "/c", "/c", "/b/a", "/c/a"])))
    lists = {"a": [(6, 5, 2)], "b": [(1, 7), (2, 7)]}
    after = changed(plan(PlanRequest(tree, topics(**lists))))
    rows = [after.get((name, at), row) for name, rows in lists.items() for at, row in enumerate(rows)]
    assert sorted(np.bincount(np.concatenate(rows), minlength=8)) == [0, 0, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        (
            TopicRequirements(replication_factor=7),
            Problem(
                ("orders",),
                "replicationFactor 7 needs 7 eligible brokers, there are 6",
                "lower it to 6 or add 1 broker",
            ),
        ),
        (
            TopicRequirements(partitions=1),
            Problem(
                ("orders",),
                "the topic has 2 partitions and 1 is asked for; Kafka removes none",
                "raise partitions to 2",
            ),
        ),
        (
            TopicRequirements(assignment=((0, 1, 2),)),
            Problem(
                ("orders",), "its assignment has 1 partition, the topic has 2, and Kafka removes none", "assign 1 more"
            ),
        ),
        (
            TopicRequirements(assignment=((0, 1, 9), (0, 1, 2))),
            Problem(("orders",), "partition 0 is assigned to [0, 1, 9]", "broker 9 is not there, name another one"),
        ),
        (
            TopicRequirements(assignment=((0, 1, 2), (9, 1, 8), (0, 7, 9))),
            Problem(
                ("orders",), "partition 1 is assigned to [9, 1, 8]", "brokers 7, 8, 9 are not there, name other ones"
            ),
        ),
        (
            TopicRequirements(assignment=((0, 1, 1), (0, 1, 2))),
            Problem(
                ("orders",), "partition 0 is assigned to [0, 1, 1]", "name at least one broker, and each only once"
            ),
        ),
    ],
)
def test_infeasible_topic_is_reported_with_the_smallest_change_and_other_topics_are_planned(wish, problem):
    lists = {"orders": [(0, 1, 2), (3, 4, 5)], "other": [(0, 1, 3)]}
    made = plan(PlanRequest(tree_of(SIX), topics(**lists), requirements={"orders": wish}))
    assert made.problems == (problem,)
    assert not made.feasible
    assert [change.topic for change in made.changes] == ["other"]


def test_draining_too_many_brokers_reports_how_many_fewer_to_drain():
    made = plan(PlanRequest(tree_of(SIX, drained=range(6)), topics(a=[(0, 1, 2)], b=[(0, 1, 2)])))
    assert [str(problem) for problem in made.problems] == [
        "topics a, b: replicationFactor 3 needs 3 eligible brokers, there are 0: drain 3 fewer or add 3 brokers"
    ]


def test_plan_rejects_a_cluster_in_which_only_some_brokers_have_a_rack():
    with pytest.raises(MissingRackError, match="broker 6 has no rack id while others have one"):
        plan(PlanRequest(tree_of([*SIX, BrokerLocation(6)]), topics(orders=[(0, 1, 2)])))


def test_plan_hash_is_the_same_in_every_process():
    script = (
        "from tests.unit.core.test_planning import *;"
        "drained, required = tree_of(SIX, drained={0}), {'orders': TopicRequirements()};"
        "print(plan(PlanRequest(drained, topics(orders=[(0, 1, 2)]), requirements=required)).hash)"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(hashes) == 1


def test_plan_hash_does_not_change_between_releases():
    required = {
        "orders": TopicRequirements(
            replication_factor=3,
            partitions=4,
            spread=(Spread("dc"), Spread("rack", 2, Unsatisfiable.BEST)),
            include=("/dc*",),
            exclude=("5",),
            leaders=(("dc1",),),
            seed=7,
        ),
        "payments": TopicRequirements(assignment=((2, 1, 0),)),
    }
    lying = topics(orders=[(0, 3, 1), (1, 2, 4)], payments=[(0, 1, 2)])
    assert (
        plan(PlanRequest(tree_of(SIX, ("dc", "rack")), lying, requirements=required)).hash
        == "16ce87c1718a32b6f0ca944d98664dc0"
    )


def test_plan_hash_differs_for_other_brokers_requirements_or_replicas():
    lying = topics(orders=[(0, 1, 2)])
    hashes = [
        plan(PlanRequest(tree_of(SIX), lying)).hash,
        plan(PlanRequest(tree_of(SIX, drained={5}), lying)).hash,
        plan(PlanRequest(tree_of(SIX[:5]), lying)).hash,
        plan(PlanRequest(tree_of(SIX), topics(orders=[(2, 1, 0)]))).hash,
        plan(PlanRequest(tree_of(SIX), topics(others=[(0, 1, 2)]))).hash,
        plan(PlanRequest(tree_of(SIX), lying, requirements={"orders": TopicRequirements(replication_factor=2)})).hash,
    ]
    assert len(set(hashes)) == len(hashes)


def test_change_columns_agree_with_the_single_changes():
    tree = grid("zone", 3, 3)
    topics = table(
        ["b", "a"],
        [(0, at, row, row, row[0], 5) for at, row in enumerate([(0, 1, 2), (3, 0, 6), (0, 3)])]
        + [(1, at, row, row, row[0], None) for at, row in enumerate([(0, 4, 8), (1, 2, 5), (6, 6, 9)])],
    )
    wishes = {"a": TopicRequirements(leaders=(("02",),)), "b": TopicRequirements(replication_factor=2, partitions=5)}
    made = plan(PlanRequest(tree, topics, requirements=wishes))
    one_by_one = list(made.changes)
    assert [(change.topic, change.partition) for change in one_by_one] == sorted(
        (change.topic, change.partition) for change in one_by_one
    )
    assert [made.changes[at] for at in range(len(made.changes))] == one_by_one
    assert made.changes[1:3] == tuple(one_by_one[1:3]) != made.changes[:2]
    assert made.changes.copied.tolist() == [change.copied for change in one_by_one]
    assert made.moves == sum(change.copied for change in one_by_one) > 0
    assert made.reorders == sum(change.is_reorder for change in one_by_one) > 0
    assert made.changes.created == sum(not change.before for change in one_by_one) == 2
    removed = [max(len(change.before) - len(change.replicas), 0) for change in one_by_one]
    assert made.removals == sum(removed) > 0
    assert made.changes.removed.tolist() == [change.removed for change in one_by_one] == removed


def test_unfair_partitions_of_an_explicit_assignment_are_counted_as_pinned():
    pinned = TopicRequirements(assignment=((0, 3), (1, 2), (0, 3)))
    made = plan(PlanRequest(tree_of(SIX), topics(a=[(0, 3), (2, 1)]), requirements={"a": pinned}))
    assert (made.before.non_compliant, made.before.pinned, made.before.pinned_moves) == (1, 1, 1)
    assert (made.after.non_compliant, made.after.pinned, made.after.pinned_moves) == (0, 2, 2)
    assert set(made.after.unfair.values()) == {0}
    away = plan(PlanRequest(tree_of(SIX, drained={0}), topics(a=[(0, 3)]), requirements={"a": pinned}))
    assert (away.after.non_compliant, away.after.pinned) == (2, 0)


def test_topics_with_different_brokers_do_not_keep_one_tree_each():
    tree = cluster("rack", {at: f"/{at % 3}" for at in range(60)})
    names = [f"t{at:04}" for at in range(800)]
    wishes = {
        name: TopicRequirements(include=tuple(map(str, np.random.default_rng(at).permutation(60)[:20].tolist())))
        for at, name in enumerate(names)
    }
    draft = Draft(PlanRequest(tree, topics(**{name: [(0,)] for name in names}), requirements=wishes))
    assert len(draft.groups) > 600
    kept = [one for one in gc.get_objects() if isinstance(one, RackTree) and one.either is tree.either]
    assert len(kept) < 600  # the size of the cache
    assert {id(broker) for one in kept for broker in one.brokers} <= {id(broker) for broker in tree.either.ravel()}


def test_plan_topics_does_not_compare_every_problem_with_every_topic(monkeypatch):
    names = [f"topic-{number}" for number in range(200)]
    asked = {name: TopicRequirements(include=(f"/{name}",)) for name in names}
    request = PlanRequest(tree_of(SIX), topics(**{name: [(0, 1, 2)] for name in names}), requirements=asked)
    read, slot = [], Problem.topics
    seen = property(lambda problem: read.append(1) or slot.__get__(problem), slot.__set__)
    monkeypatch.setattr(Problem, "topics", seen)
    plans = plan_topics(request)
    monkeypatch.undo()
    assert {name: [one.topics for one in plans[name].problems] for name in names} == {name: [(name,)] for name in names}
    assert len(read) <= 2 * len(names)
