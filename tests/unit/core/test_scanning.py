"""The rules of a scan: which data violates each rule, and which does not."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from rackspan.core.compliance import judge
from rackspan.core.durability import Durability
from rackspan.core.partitions import TopicPartition
from rackspan.core.placer import Spread
from rackspan.core.planning import PlanRequest, plan
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.core.scanning import BrokerLocations, examine, examine_brokers, portion_of
from rackspan.core.scanning.findings import RULES, SEVERITIES, Facts
from rackspan.core.scanning.messages import fix, message, moves_that_fix
from rackspan.core.scanning.rules import SEVERITY_OF, Rule
from rackspan.core.snapshot import NONE, table
from rackspan.core.topology import BrokerLocation

NEVER = "no move would fix it: too few brokers may hold it"
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def locations(**of_broker):
    brokers = tuple(
        BrokerLocation(
            broker, **({"rack": ("eu", rack), "reported_rack": f"/eu/{rack}"} | of_broker.get(f"b{broker}", {}))
        )
        for broker, rack in RACKS.items()
    )
    return BrokerLocations(("region", "zone"), brokers)


def partitions(*rows, names=("orders",)):
    """Return a table from rows of replicas, in-sync replicas (default all), leader (default the first), topic index."""
    full = [(*row, *(None,) * (4 - len(row))) for row in rows]
    return table(
        names,
        [
            (
                topic or 0,
                number,
                replicas,
                replicas if isr is None else isr,
                None if leader == "none" else (leader or replicas[0]),
                100,
            )
            for number, (replicas, isr, leader, topic) in enumerate(full)
        ],
    )


def told(locations, rows, expectation=None, least=1, default=None, *, managed=False):
    of_topic = {} if expectation is None else {"orders": expectation}
    expectations = ClusterRequirements(of_topic, default or TopicRequirements(), managed)
    found = examine(locations, rows, np.full(len(rows.names), least), expectations).findings
    return [
        (RULES[rule], *(at if at != -1 else None for at in (partition, broker)), excess, moves)
        for rule, partition, broker, excess, moves in zip(
            found.rule.tolist(),
            found.partition.tolist(),
            found.broker.tolist(),
            found.excess.tolist(),
            found.moves.tolist(),
            strict=True,
        )
    ]


def test_healthy_partitions_have_no_findings():
    assert told(locations(), partitions(([1, 3, 5],), ([2, 4, 6],))) == []


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (([1, 3, 5], [], "none"), (Rule.OFFLINE, 0, None, -3, 0)),
        (([1, 3, 5], [1, 5]), (Rule.UNDER_REPLICATED, 0, 3, -1, 0)),
        (([1, 3, 5], [1]), (Rule.UNDER_REPLICATED, 0, None, -2, 0)),
        (([1, 3, 5], [1, 3, 5], 3), (Rule.LEADER_NOT_PREFERRED, 0, 3, 0, 0)),
        (([1, 2, 3],), (Rule.NOT_COMPLIANT, 0, None, 1, 1)),
        (([1, 3, 9],), (Rule.BROKER_OFFLINE, None, 9, 1, 1)),
    ],
)
def test_unhealthy_partition_has_exactly_one_finding(row, expected):
    assert told(locations(), partitions(row)) == [expected]


AWAY = (Rule.BROKER_OFFLINE, None, 5, 1, 0)


@pytest.mark.parametrize(
    ("row", "least", "expected"),
    [
        (([1, 3, 5], [1, 3]), 1, [AWAY]),
        (([5, 1, 3], [1, 3], 1), 1, [AWAY]),
        (([1, 3, 5],), 1, [AWAY]),
        (([1, 3, 5], [1]), 1, [(Rule.UNDER_REPLICATED, 0, None, -2, 0), AWAY]),
        (([1, 3, 5], [1, 3]), 3, [(Rule.UNDER_REPLICATED, 0, 5, -1, 0), AWAY]),
        (([1, 3, 5], [], "none"), 1, [(Rule.OFFLINE, 0, None, -3, 0), AWAY]),
        (([3, 1, 5], [1, 3], 1), 1, [(Rule.LEADER_NOT_PREFERRED, 0, 1, 0, 0), AWAY]),
        (([1, 3, 6],), 1, []),
    ],
)
def test_offline_broker_replaces_the_minor_findings_that_it_causes(row, least, expected):
    assert told(locations(b5={"online": False}), partitions(row), least=least) == expected


SEVERAL = "bring back broker 3, or another of its ISR or ELR: those that stopped cleanly have all committed writes"
NOBODY = (
    "bring back all of its brokers: none is known to have all committed writes; if none leads then, only an unclean "
    "election helps"
)


@pytest.mark.parametrize(
    ("isr", "elr", "away", "broker", "sentence"),
    [
        ([5], [], "5", 5, "bring back broker 5: no other replica is sure to have all committed writes"),
        ([], [3], "13", 3, "bring back broker 3: no other replica is sure to have all committed writes"),
        ([], [3, 5], "135", 3, SEVERAL),
        ([5], [3], "35", 3, SEVERAL),
        ([], [], "135", None, NOBODY),
        # Broker 5 is online and does not lead: its return is not what the partition needs.
        ([], [3, 5], "13", None, "bring back a broker of its ISR or ELR: kafka-topics --describe names them"),
    ],
)
def test_offline_partition_names_the_brokers_whose_return_loses_no_data(isr, elr, away, broker, sentence):
    """KIP-966: a replica that left the ISR below `min.insync.replicas` is in the ELR, and may lead."""
    row = (0, 0, [1, 3, 5], isr, None, 100)
    rows = table(["orders"], [row], {TopicPartition("orders", 0): elr})
    brokers = locations(**{f"b{one}": {"online": False} for one in away})
    found = examine(brokers, rows, np.array([2]), ClusterRequirements()).findings
    (offline,) = (facts for facts in found.facts(rows.names, brokers.tree) if facts.rule is Rule.OFFLINE)
    assert (offline.broker, fix(offline)) == (broker, sentence)
    nobody = table(["orders"], [(0, 0, [1, 3, 5], [], None, 100)])
    before = examine(locations(), nobody, np.array([2]), ClusterRequirements()).findings
    assert set(before.ids("c", nobody.names, locations().tree)) <= set(found.ids("c", rows.names, brokers.tree))


def test_offline_broker_is_one_finding_for_all_its_partitions():
    rows = partitions(*([([1, 3, 9], [1, 3])] * 14))
    found = examine(locations(), rows, np.array([1]), ClusterRequirements())
    assert np.count_nonzero(found.broken) == 14
    (only,) = found.findings.facts(rows.names, locations().tree)
    assert message(only) == "broker 9 is not online: 14 partitions have a replica there"
    assert "rackspan plan --drain-broker 9" in fix(only)
    by_topology = fix(only, topology="kafka/prod")
    assert by_topology == "bring it back; if it is gone for good: rackspan drain 9 --topology kafka/prod"
    assert (only.moves, SEVERITIES[found.findings.severity[0]]) == (14, "high")


def test_drained_broker_that_is_offline_is_one_finding():
    rows = partitions(([1, 3, 5], [1, 3]), ([2, 4, 5], [2, 4]))
    drained = locations(b5={"online": False, "draining": True})
    assert told(drained, rows) == [(Rule.BROKER_OFFLINE, None, 5, 2, 2)]


def test_excluded_broker_is_reported_even_if_it_is_offline():
    rows = partitions(([1, 3, 5], [1, 3]))
    assert told(locations(b5={"online": False}), rows, TopicRequirements(exclude=("5",))) == [
        (Rule.NOT_COMPLIANT, 0, 5, 1, 1),
        AWAY,
    ]


def test_under_replicated_partition_below_min_insync_is_critical():
    rows = partitions(([1, 3, 5], [1, 3]), ([2, 4, 6], [2]))
    found = examine(locations(), rows, np.array([2]), ClusterRequirements()).findings
    assert [SEVERITIES[at] for at in found.severity.tolist()] == ["medium", "critical"]


def test_drained_and_excluded_brokers_have_different_findings():
    rows = partitions(([1, 3, 5],))
    assert told(locations(b1={"draining": True}), rows) == [(Rule.REPLICA_ON_DRAINED_BROKER, 0, 1, 1, 1)]
    assert told(locations(), rows, TopicRequirements(exclude=("1",))) == [(Rule.NOT_COMPLIANT, 0, 1, 1, 1)]


def test_replication_factor_that_differs_is_one_finding_per_topic():
    rows = partitions(([1, 3],), ([2, 4],), ([5],))
    assert told(locations(), rows, TopicRequirements(replication_factor=3)) == [
        (Rule.REPLICATION_FACTOR_DIFFERS, None, None, -2, 4)
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [(Rule.NOT_COMPLIANT, 1)]),
        (2, [(Rule.NOT_COMPLIANT, 1)]),
        (3, [(Rule.NOT_COMPLIANT, 2), (Rule.REPLICATION_FACTOR_DIFFERS, 3)]),
        (1, [(Rule.NOT_COMPLIANT, 0), (Rule.REPLICATION_FACTOR_DIFFERS, 0)]),
        (7, [(Rule.NOT_COMPLIANT, 0), (Rule.UNSATISFIABLE, 0), (Rule.REPLICATION_FACTOR_DIFFERS, 0)]),
    ],
)
def test_moves_to_the_declared_replication_factor_are_counted_as_in_a_plan(asked, expected):
    rows, wish = partitions(([1, 2],), ([3, 5],)), TopicRequirements(replication_factor=asked)
    found = examine(locations(), rows, np.array([1]), ClusterRequirements({"orders": wish}))
    told = [(facts.rule, facts.moves) for facts in found.findings.facts(rows.names, locations().tree)]
    assert sorted(told) == sorted(expected)
    assert int(found.moves_of.sum()) == plan(PlanRequest(locations().tree, rows, requirements={"orders": wish})).moves


@pytest.mark.parametrize(
    ("rule", "excess", "moves", "words"),
    [
        (Rule.REPLICATION_FACTOR_DIFFERS, -1, 2, "rackspan plan --topology k/m: 2 replicas to copy; or declare"),
        (
            Rule.REPLICATION_FACTOR_DIFFERS,
            1,
            0,
            "rackspan plan --topology k/m: nothing to copy, up to 1 replica of each partition remov",
        ),
        (Rule.REPLICATION_FACTOR_DIFFERS, -1, 0, "rackspan plan --topology k/m says why no replica can be added; or"),
        (Rule.NOT_COMPLIANT, 1, 0, "nothing to copy: rackspan plan --topology k/m removes replicas, or says which bro"),
    ],
)
def test_fix_says_what_the_declared_replication_factor_copies_or_removes(rule, excess, moves, words):
    assert fix(Facts(rule, "orders", excess=excess, moves=moves), topology="k/m").startswith(words)


def test_replication_factor_above_the_broker_count_reports_the_missing_brokers():
    wish = TopicRequirements(replication_factor=7)
    found = examine(locations(), partitions(([1, 2],)), np.array([1]), ClusterRequirements({"orders": wish})).findings
    (never,) = (one for one in found.facts(("orders",), locations().tree) if one.rule is Rule.UNSATISFIABLE)
    assert fix(never) == "add 1 broker, or lower its replication factor by 1"


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (1, [(Rule.MIN_INSYNC_TOO_SMALL, None, None, -1, 0)]),
        (2, []),
        (3, [(Rule.MIN_INSYNC_TOO_LARGE, None, None, 1, 0)]),
    ],
)
def test_min_insync_is_compared_with_the_durability(least, expected):
    wish = TopicRequirements(replication_factor=3, durability=Durability({"zone": 2}, {"zone": 1}))
    assert told(locations(), partitions(([1, 3, 5],)), wish, least) == expected


@pytest.mark.parametrize(
    ("least", "change"), [(1, "raise min.insync.replicas by 1"), (3, "lower min.insync.replicas by 1")]
)
def test_advice_to_change_min_insync_warns_of_partitions_without_a_leader(least, change):
    """KIP-966: the change empties the ELR. Then not even the return of all brokers gives these partitions a leader."""
    wish = TopicRequirements(replication_factor=3, durability=Durability({"zone": 2}, {"zone": 1}))
    rows, brokers = partitions(([1, 3, 5], [], "none")), locations()
    found = examine(brokers, rows, np.array([least]), ClusterRequirements(default=wish)).findings
    (advice,) = (fix(facts) for facts in found.facts(rows.names, brokers.tree) if facts.rule.startswith("MinInsync"))
    assert advice == f"{change}, but never while a partition has no leader: the change empties its ELR (KIP-966)"


@pytest.mark.parametrize(
    ("row", "durability", "rules"),
    [
        ([1, 3], Durability({"zone": 3}), {Rule.MIN_INSYNC_TOO_SMALL}),
        ([1, 3], Durability({}, {"zone": 2}), {Rule.MIN_INSYNC_TOO_LARGE}),
        ([1, 2, 3, 5], Durability({"zone": 3}, {"zone": 1}), {Rule.MIN_INSYNC_TOO_SMALL, Rule.MIN_INSYNC_TOO_LARGE}),
    ],
)
def test_no_value_of_min_insync_is_advised_if_none_meets_the_durability(row, durability, rules):
    brokers, rows = locations(), partitions((row,))
    wish = ClusterRequirements(default=TopicRequirements(durability=durability))
    found = examine(brokers, rows, np.array([3]), wish).findings.facts(rows.names, brokers.tree)
    about = [one for one in found if one.rule.startswith("MinInsync")]
    advice = "change its replication factor or its durability: no min.insync.replicas meets both"
    assert {one.rule: fix(one) for one in about} == dict.fromkeys(rules, advice)


def test_min_insync_above_the_replica_count_counts_as_all_replicas():
    assert told(locations(), partitions(([1],), ([3],)), least=2) == []
    rows = partitions(([1, 3, 5], [1, 3]), ([2], [2]))
    found = examine(locations(), rows, np.array([9]), ClusterRequirements()).findings
    severities = [SEVERITIES[at] for at in found.severity.tolist()]
    assert dict(zip([RULES[at] for at in found.rule.tolist()], severities, strict=True)) == {
        Rule.UNDER_REPLICATED: "critical",
        Rule.REPLICATION_FACTOR_VARIES: "medium",
    }
    wish = TopicRequirements(replication_factor=3, durability=Durability(tolerate={"zone": 1}))
    assert told(locations(), partitions(([1, 3, 5],)), wish, 9) == [(Rule.MIN_INSYNC_TOO_LARGE, None, None, 7, 0)]


def test_non_compliant_partition_does_not_count_for_min_insync():
    wish = TopicRequirements(replication_factor=3, durability=Durability({"zone": 2}))
    rules = [row[0] for row in told(locations(), partitions(([1, 2, 3],), ([1, 3, 5],)), wish, 2)]
    assert rules == [Rule.NOT_COMPLIANT]


@pytest.mark.parametrize("ignored", [False, True])
def test_rules_for_a_level_that_the_tree_does_not_have_are_skipped(ignored):
    """With `ignored`, no broker in the tree has a rack, so the rules have no level."""
    brokers = locations(b6={"rack": None}) if ignored else locations()
    level = "zone" if ignored else "building"
    wish = TopicRequirements(spread=(Spread(level),), durability=Durability({level: 3}, {level: 1}))
    found = told(replace(brokers, ignore_missing=ignored), partitions(([1, 3, 5],)), wish, 3)
    assert [row[0] for row in found] == []


def test_spread_with_a_larger_skew_makes_the_partition_compliant():
    rows = partitions(([1, 2, 3],))
    assert told(locations(), rows, TopicRequirements(spread=(Spread("zone", 2),))) == []


def test_partition_that_no_move_can_fix_is_unsatisfiable():
    gone = locations(b5={"draining": True}, b6={"draining": True})
    rows = partitions(([1, 2, 3, 4, 6],), ([1, 2, 3, 6],))
    found = examine(gone, rows, np.array([1]), ClusterRequirements())
    assert found.moves_of.tolist() == [0, 1]
    facts = list(found.findings.facts(rows.names, gone.tree))
    (never,) = (one for one in facts if one.rule is Rule.UNSATISFIABLE)
    assert (never.partition, message(never)) == (0, "1 more replica than brokers that may hold it")
    assert fix(never) == "add 1 broker, or lower its replication factor by 1"
    (other,) = (one for one in facts if one.rule is Rule.REPLICA_ON_DRAINED_BROKER and one.partition == 0)
    assert fix(other) == "no move fixes it while too few brokers may hold it"


def test_spread_is_unsatisfiable_only_with_too_few_eligible_brokers():
    wish = TopicRequirements(spread=(Spread("zone", 1),))
    small = locations(b5={"draining": True}, b3={"draining": True})
    found = examine(small, partitions(([1, 2, 4, 6],)), np.array([1]), ClusterRequirements({"orders": wish}))
    assert [RULES[at] for at in found.findings.rule.tolist()] == []
    wish = TopicRequirements(spread=(Spread("zone", 1),), exclude=("2", "3", "4"))
    found = examine(locations(), partitions(([1, 3, 5, 6],)), np.array([1]), ClusterRequirements({"orders": wish}))
    assert Rule.UNSATISFIABLE in [RULES[at] for at in found.findings.rule.tolist()]


def test_varying_replication_factors_in_a_topic_are_one_finding():
    rows = partitions(([1, 3, 5],), ([2],), ([1, 3],))
    assert told(locations(), rows) == [(Rule.REPLICATION_FACTOR_VARIES, None, None, 2, 0)]


@pytest.mark.parametrize(
    ("moves", "broken", "never", "differing", "sentence"),
    [
        (2, 2, 0, 0, "2 moves would fix them"),
        (1, 2, 1, 0, "1 move would fix 1 of them, no move would fix the other 1: too few brokers may hold it"),
        (0, 1, 1, 0, "no move would fix it: too few brokers may hold it"),
        (3, 2, 0, 1, "3 moves would fix them, counting those to the declared replication factor"),
        (2, 1, 1, 2, f"{NEVER}; 2 moves would reach the declared replication factors"),
        (1, 0, 0, 1, "1 move would reach the declared replication factor"),
        (0, 0, 0, 1, "nothing to copy"),
    ],
)
def test_moves_that_fix_summarizes_the_moves_in_one_sentence(moves, broken, never, differing, sentence):
    by_rule = {Rule.UNSATISFIABLE: never, Rule.REPLICATION_FACTOR_DIFFERS: differing}
    assert moves_that_fix(moves, broken, by_rule) == sentence


def test_explicit_assignment_overrides_the_spread():
    rows = partitions(([1, 2, 3],), ([1, 3, 5],))
    wish = TopicRequirements(assignment=((1, 2, 3), (1, 3, 6)))
    found = examine(locations(), rows, np.array([1]), ClusterRequirements({"orders": wish}))
    told = [(facts.rule, facts.reason, facts.moves) for facts in found.findings.facts(rows.names, locations().tree)]
    assert told == [(Rule.NOT_COMPLIANT, "AssignmentDiffers", 1), (Rule.PINNED_UNFAIR, None, 1)]
    assert found.moves_of.tolist() == [0, 1]
    assert found.broken.tolist() == [False, True]


def test_explicit_assignment_to_a_drained_broker_blocks_the_drain():
    rows = partitions(([1, 2, 3],), ([2, 3, 5],))
    wish = TopicRequirements(assignment=((1, 2, 3), (2, 3, 5)))
    drained = locations(b1={"draining": True})
    assert told(drained, rows, wish) == [(Rule.REPLICA_ON_DRAINED_BROKER, 0, 1, 0, 0)]
    found = examine(drained, rows, np.array([1]), ClusterRequirements({"orders": wish}))
    assert found.broken.tolist() == [True, False]
    (facts,) = found.findings.facts(rows.names, drained.tree)
    assert message(facts) == "broker 1 is drained, and the explicit assignment keeps a replica there"
    assert fix(facts) == "take broker 1 off the topic's explicit assignment"


def test_topics_without_an_object_are_reported_only_in_a_managed_cluster():
    rows = partitions(([1, 3, 5],), ([2, 4, 6], None, None, 1), names=("orders", "__consumer_offsets"))
    assert told(locations(), rows) == []
    assert told(locations(), rows, managed=True) == [(Rule.UNMANAGED_TOPIC, None, None, 0, 0)]
    assert told(locations(), rows, TopicRequirements(), managed=True) == []


def test_missing_rack_leaves_only_the_affected_partitions_unjudged():
    rows = partitions(([1, 2, 3],), ([1, 2, 5],))
    found = [(Rule.NOT_COMPLIANT, 0, None, 1, 1), (Rule.NOT_JUDGED, None, None, 0, 0)]
    assert told(locations(b5={"rack": None}), rows) == found
    assert told(locations(b5={"rack": None}), rows, TopicRequirements(assignment=((1, 2, 3), (1, 2, 5)))) == [
        (Rule.PINNED_UNFAIR, 0, None, 0, 1)
    ]


def test_no_partition_is_judged_if_no_rack_is_known_unless_levels_are_ignored():
    """The levels show that racks are missing. Without levels, the cluster has no racks."""
    rackless, rows = locations(**{f"b{broker}": {"rack": None} for broker in RACKS}), partitions(([1, 2, 3],))
    wish = TopicRequirements(durability=Durability({"zone": 2}))
    assert told(rackless, rows, wish, least=2) == [(Rule.NOT_JUDGED, None, None, 0, 0)]
    assert len(examine_brokers(rackless)) == len(RACKS)
    for ignored in (replace(rackless, ignore_missing=True), replace(rackless, levels=())):
        assert told(ignored, rows) == told(ignored, rows, wish) == []
        assert len(examine_brokers(ignored)) == 0


NOT_JUDGED = (Rule.NOT_JUDGED, None, None, 0, 0)


def too_large(excess):
    return (Rule.MIN_INSYNC_TOO_LARGE, None, None, excess, 0)


def too_small(lack):
    return (Rule.MIN_INSYNC_TOO_SMALL, None, None, -lack, 0)


@pytest.mark.parametrize(
    ("row", "least", "durability", "expected"),
    [
        # The broker without a rack holds no replica: all replicas are in known racks.
        ([1, 2, 5, 3], 4, Durability(tolerate={"zone": 1}), [too_large(3)]),
        ([1, 2, 5, 3], 2, Durability(tolerate={"zone": 1}), [too_large(1)]),
        ([1, 2, 5, 3], 1, Durability({"zone": 2}), [too_small(3)]),
        ([1, 2, 5, 3], 1, Durability(tolerate={"zone": 1}), []),
        # Broker 4, without a rack, holds a replica: only findings that are true for every rack it may have.
        ([1, 3, 4], 3, Durability(tolerate={"zone": 1}), [too_large(1)]),
        ([1, 3, 4], 2, Durability(tolerate={"zone": 1}), []),
        ([1, 2, 4], 2, Durability(tolerate={"zone": 1}), [too_large(1)]),
        ([1, 3, 4], 1, Durability({"zone": 2}), [too_small(1)]),
        ([1, 3, 4], 2, Durability({"zone": 2}), []),
    ],
)
def test_min_insync_is_reported_if_it_is_wrong_for_every_possible_missing_rack(row, least, durability, expected):
    gap = locations(b4={"rack": None}, b5={"rack": ("eu", "a")}, b6={"rack": ("eu", "a")})
    judged = told(gap, partitions((row,)), TopicRequirements(durability=durability), least)
    assert judged == [*expected, NOT_JUDGED]


def test_two_brokers_without_a_rack_may_be_in_different_racks():
    gap = locations(b4={"rack": None}, b5={"rack": None})
    for least, expected in ((2, []), (3, [too_large(1)])):
        wish = TopicRequirements(durability=Durability(tolerate={"zone": 1}))
        assert told(gap, partitions(([1, 4, 5],)), wish, least) == [*expected, NOT_JUDGED]


def test_brokers_with_rack_drift_or_a_missing_rack_are_findings():
    found = examine_brokers(locations(b2={"reported_rack": "/eu/c"}, b3={"reported_rack": "eu/b"}, b4={"rack": None}))
    told = [(RULES[rule], broker) for rule, broker in zip(found.rule.tolist(), found.broker.tolist(), strict=True)]
    assert told == [(Rule.RACK_DRIFT, 2), (Rule.MISSING_RACK, 4)]


@pytest.mark.parametrize("reported", ["us west", "/eu//b", "/", ""])
def test_broker_whose_reported_rack_is_not_a_path_has_rack_drift(reported):
    brokers = locations(b2={"reported_rack": reported})
    (drift,) = examine_brokers(brokers).facts((), brokers.tree)
    assert (drift.rule, drift.broker) == (Rule.RACK_DRIFT, 2)


def test_online_broker_without_broker_rack_has_rack_drift():
    unset = {"reported_rack": None}
    brokers = locations(b2=unset, b3={**unset, "online": False}, b4={**unset, "rack": None}, b5={"reported_rack": "/x"})
    drifts = [one for one in examine_brokers(brokers).facts((), brokers.tree) if one.rule is Rule.RACK_DRIFT]
    assert [(one.broker, message(one)) for one in drifts] == [
        (2, "broker 2 has no broker.rack"),
        (5, "broker 5 is in another rack than its broker.rack says"),
    ]
    assert fix(drifts[0]) == "set broker.rack to the rack of its node, and restart it"


def test_finding_ids_depend_on_topic_names_and_not_on_their_order():
    one = partitions(([1, 2, 3],), ([1, 2, 3], None, None, 1), names=("orders", "payments"))
    other = partitions(([1, 2, 3],), ([1, 2, 3], None, None, 1), names=("payments", "orders"))
    ids = []
    for rows in (one, other):
        found = examine(locations(), rows, np.array([1, 1]), ClusterRequirements()).findings
        names = [rows.names[at] for at in found.topic.tolist()]
        ids.append(dict(zip(names, found.ids("prod", rows.names, locations().tree).tolist(), strict=True)))
    # Partition numbers differ with the order; the same partition of the same topic is the same finding.
    again = examine(locations(), partitions(([2, 1, 3],)), np.array([1]), ClusterRequirements()).findings
    assert again.ids("prod", ["orders"], locations().tree).tolist() == [ids[0]["orders"]]
    assert ids[0]["orders"] != ids[0]["payments"]
    assert again.ids("test", ["orders"], locations().tree).tolist() != [ids[0]["orders"]]


def test_portions_add_up_to_the_whole():
    rows = partitions(([1, 2, 3], [1]), ([1, 3, 5],), ([2, 4, 6], None, 4), ([3, 5],))
    whole = portion_of(locations(), rows, np.array([2]), ClusterRequirements())
    parts = [
        portion_of(locations(), rows.rows(np.array(at)), np.array([2]), ClusterRequirements(), rows.fewest_replicas)
        for at in ([0, 3], [1, 2])
    ]
    for one, *some in zip(whole.holdings, *(part.holdings for part in parts), strict=True):
        assert {(row.level, row.domain, row.brokers) for row in some} == {(one.level, one.domain, one.brokers)}
        for name in ("replicas", "leaders", "leading", "offline", "not_writable", "last_replica", "bytes"):
            assert sum(getattr(row, name) for row in some) == getattr(one, name), name
    ids = [set(part.findings.ids("c", rows.names, locations().tree).tolist()) for part in (whole, *parts)]
    assert ids[0] == ids[1] | ids[2]
    assert whole.topics.partitions.tolist() == [4]
    assert whole.topics.under_replicated.tolist() == [1]
    assert whole.topics.bytes.tolist() == [1100]


def test_move_bytes_are_known_only_if_all_sizes_are_known():
    rows = partitions(
        *[([1, 2, 3], None, None, topic) for topic in (0, 0, 1, 1)], ([1, 3, 5], None, None, 1), names=("a", "b")
    )
    sized = replace(rows, size_bytes=np.array([70, 8, 4, NONE, 2]))
    found = portion_of(locations(), sized, np.array([2, 2]), ClusterRequirements()).topics
    assert (found.moves.tolist(), found.move_bytes.tolist()) == ([2, 2], [78, NONE])
    known = sized.with_sizes({TopicPartition("b", 3): 1, TopicPartition("gone", 0): 1})
    assert known.size_bytes.tolist() == [70, 8, 4, 1, 2]
    assert portion_of(locations(), known, np.array([2, 2]), ClusterRequirements()).topics.move_bytes.tolist() == [78, 5]


def test_holders_are_the_leader_or_all_replicas_without_a_leader():
    rows = partitions(([1, 2, 3], None, 2), ([4, 5], None, "none"), ([6],))
    assert rows.holders(np.array([0, 1])) == {
        TopicPartition("orders", 0): [2],
        TopicPartition("orders", 1): [4, 5],
    }


def test_scan_without_partitions_has_no_findings():
    nothing = portion_of(locations(), table((), []), np.array([], dtype=np.int64), ClusterRequirements())
    assert len(nothing.findings) == 0
    assert {row.replicas for row in nothing.holdings} == {0}


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_a_severity_a_message_and_a_fix(rule):
    facts = Facts(rule, "orders", 3, 7, "zone", "/eu/a", "TooManyReplicas", -1, 2)
    assert SEVERITY_OF[rule] in SEVERITIES
    for sentence in (message(facts), fix(facts)):
        assert sentence
        assert "{" not in sentence
        assert "None" not in sentence


def test_topics_that_differ_only_in_fields_unused_by_rules_are_judged_together(monkeypatch):
    rows = table(("a", "b", "c"), [(at, 0, (1, 3, 5), (1, 3, 5), 1, None) for at in range(3)])
    of_topic = {
        "a": TopicRequirements(partitions=1, seed=1, durability=Durability({"zone": 2})),
        "b": TopicRequirements(partitions=2, leaders=(("z1",),), durability=Durability({"zone": 2})),
        "c": TopicRequirements(shift=2, durability=Durability({"zone": 3})),
    }
    calls = []
    monkeypatch.setattr(
        import_module("rackspan.core.scanning.examine"), "judge", lambda *args: calls.append(1) or judge(*args)
    )
    examine(locations(), rows, np.array([2, 2, 2]), ClusterRequirements(of_topic))
    assert len(calls) == 2
