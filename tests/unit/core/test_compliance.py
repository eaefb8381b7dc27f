import tracemalloc

import numpy as np
import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.compliance import Violation, ViolationReason, judge
from rackspan.core.compliance.fewest_moves import fewest_moves
from rackspan.core.placement import Placement, Spread, Unsatisfiable
from rackspan.core.topology import Broker, RackTree, TopologyError

NINE = grid("zone", 3, 3)  # zones /00 with 0 1 2, /01 with 3 4 5, /02 with 6 7 8


def test_fairly_split_topic_is_compliant():
    assessment = judge(NINE, [(0, 3, 6), (4, 7, 1)])
    assert assessment.compliant
    assert (assessment.partitions, assessment.non_compliant, assessment.moves, assessment.findings) == (2, 0, 0, ())


def test_findings_name_partition_level_domain_and_excess():
    assessment = judge(NINE, [(0, 3, 6), (0, 1, 2), (0, 1, 3)])
    assert assessment.findings == (
        Violation(1, "zone", "/00", ViolationReason.TOO_MANY_REPLICAS, 2),
        Violation(2, "zone", "/00", ViolationReason.TOO_MANY_REPLICAS, 1),
    )
    assert assessment.moves_of.tolist() == [0, 2, 1]
    assert assessment.unfair == {"zone": 2}
    assert assessment.sample(1) == assessment.findings[:1]


@pytest.mark.parametrize(
    ("capacities", "held", "too_many"),
    [
        ((3, 3), (3, 0), (1, 0)),
        ((3, 3, 3), (3, 0, 0), (2, 0, 0)),
        ((3, 3, 3), (2, 2, 0), (1, 1, 0)),  # each may have to give one away
        ((3, 3, 1), (3, 1, 1), (1, 0, 0)),
        ((3, 1, 1), (3, 1, 1), (0, 0, 0)),
        ((4, 4), (4, 1), (1, 0)),
    ],
)
def test_excess_counts_replicas_above_the_maximum_of_a_fair_split(capacities, held, too_many):
    brokers = [
        Broker(10 * domain + number, (f"d{domain}",))
        for domain, room in enumerate(capacities)
        for number in range(room)
    ]
    row = [10 * domain + number for domain, count in enumerate(held) for number in range(count)]
    found = {finding.domain: finding.excess for finding in judge(RackTree(("rack",), tuple(brokers)), [row]).findings}
    assert found == {f"/d{domain}": excess for domain, excess in enumerate(too_many) if excess}


def test_each_level_is_judged_by_the_replicas_of_its_parent_domain():
    tree = grid("region zone", 2, 2, 2)  # /00: 0 1 | 2 3, /01: 4 5 | 6 7
    assessment = judge(tree, [(0, 2, 4), (0, 1, 4), (0, 2, 1)])
    assert [(finding.partition, finding.level, finding.domain) for finding in assessment.findings] == [
        (1, "zone", "/00/10"),
        (2, "region", "/00"),
    ]


def test_uneven_split_is_compliant_if_the_smaller_zone_is_full():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b", 3: "b"})
    assert judge(tree, [(0, 1, 2, 3)]).compliant


def test_replica_on_an_ineligible_broker_is_a_finding():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b"}, drained={1})
    assessment = judge(tree, [(0, 1)])
    assert assessment.findings == (Violation(0, "broker", "1", ViolationReason.BROKER_NOT_ELIGIBLE, 1),)
    assert assessment.moves == 1


def test_replica_on_an_offline_broker_is_compliant():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b"}, offline={1})
    assert judge(tree, [(0, 1)]).compliant


def test_replica_on_an_unknown_broker_is_a_finding():
    assessment = judge(NINE, [(0, 3, 99)])
    assert assessment.findings == (Violation(0, "broker", "99", ViolationReason.BROKER_UNKNOWN, 1),)
    assert assessment.moves == 1


def test_broker_listed_twice_is_a_finding():
    assert [finding.reason for finding in judge(NINE, [(0, 3, 3)]).findings] == [ViolationReason.BROKER_REPEATED]


def test_partitions_of_one_topic_may_differ_in_replication_factor():
    assessment = judge(NINE, [(0,), (0, 3), (0, 1), (0, 3, 6, 1)])
    assert assessment.broken.tolist() == [False, False, True, False]


@pytest.mark.parametrize("replicas", [[], Placement([]), np.empty((0, 3), dtype=np.int32)])
def test_topic_without_partitions_is_compliant(replicas):
    assert judge(NINE, replicas).compliant


def test_without_brokers_all_replicas_are_findings():
    assessment = judge(RackTree(("zone",), ()), [(1, 2)])
    assert assessment.non_compliant == 1
    assert {finding.reason for finding in assessment.findings} == {ViolationReason.BROKER_UNKNOWN}


def test_spread_with_a_larger_skew_allows_more_replicas_per_domain():
    rows = [(0, 1, 3), (0, 1, 2)]
    assert judge(NINE, rows).broken.tolist() == [True, True]
    assert judge(NINE, rows, [Spread("zone", 2)]).broken.tolist() == [False, True]
    assert judge(NINE, rows, [Spread("zone", 2)]).moves_of.tolist() == [0, 1]
    assert judge(NINE, rows, [Spread("zone", 3)]).compliant


def test_full_zone_excuses_a_violated_spread_only_with_best():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b", 3: "b"})
    assert not judge(tree, [(0, 1, 2, 3)], [Spread("zone", 1)]).compliant
    assert judge(tree, [(0, 1, 2, 3)], [Spread("zone", 1, Unsatisfiable.BEST)]).compliant


def test_spread_over_an_unknown_level_is_rejected():
    with pytest.raises(TopologyError, match="rack"):
        judge(NINE, [(0, 3, 6)], [Spread("rack")])


# -- brokers without a rack -------------------------------------------------------------------------------------------


def with_gap(*, eligible=True):
    """Return NINE, but broker 8 has no rack."""
    brokers = [Broker(broker.id, None, eligible=eligible) if broker.id == 8 else broker for broker in NINE.brokers]
    return RackTree(NINE.levels, tuple(brokers))


def test_broker_without_a_rack_is_not_a_domain_of_its_own():
    assessment = judge(with_gap(), [(0, 3, 6), (0, 1, 3), (0, 3, 8), (0, 3, 6, 1)])
    assert assessment.broken.tolist() == [False, True, False, False]
    assert assessment.unknown.tolist() == [False, False, True, False]
    assert assessment.moves_of.tolist() == [0, 1, 0, 0]
    assert (assessment.partitions, assessment.undecided, assessment.compliant) == (3, 1, False)
    assert assessment.findings == (Violation(1, "zone", "/00", ViolationReason.TOO_MANY_REPLICAS, 1),)


def test_assessment_is_unknown_if_it_depends_on_a_missing_rack():
    tree = RackTree(("zone",), (*(Broker(at, ("a",)) for at in range(4)), Broker(4, ("b",)), Broker(5)))
    assessment = judge(tree, [(0, 1, 2, 4), (0, 4), (0, 1)])  # zone b is full, unless broker 5 is there
    assert assessment.unknown.tolist() == [True, False, False]
    assert assessment.broken.tolist() == [False, False, True]


def test_findings_name_the_right_domain_if_a_rack_is_missing():
    columns = judge(with_gap(), [(6, 7, 0)]).columns
    assert [with_gap().nodes[1].paths[at] for at in columns.domain.tolist()] == [("02",)]


def test_partitions_are_compliant_if_no_broker_has_a_rack():
    tree = RackTree(("zone",), (Broker(0), Broker(1)))
    assert judge(tree, [(0, 1)]).compliant


def test_memory_of_judging_and_planning_depends_on_replicas_not_on_brokers():
    tree = RackTree(("zone", "rack"), tuple(Broker(at, (str(at % 3), str(at % 1000))) for at in range(6000)))
    rows = np.arange(6000).reshape(2000, 3) // 2 * 2
    used = []
    for work in (lambda: judge(tree, rows).findings, lambda: fewest_moves(tree, 3, tree.positions(rows), {})):
        work()  # what is computed once per tree
        tracemalloc.start()
        work()
        used.append(tracemalloc.get_traced_memory()[1] / len(rows))
        tracemalloc.stop()
    assert max(used) < 1024  # bytes a partition
