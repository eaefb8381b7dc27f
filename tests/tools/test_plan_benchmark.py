"""The benchmark of plans: its clusters have the documented properties, and it verifies the figures of plans."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.plans import clusters, quality, speed
from benchmarks.plans.kafka_tool import ToolRefusedError, proposal, reassignment

from rackspan.core.compliance import judge
from rackspan.core.planning import PlanRequest, plan, rebalance
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import tree_of
from rackspan.snapshots import parse_snapshot, snapshot_lines

SITES = (quality.FLAT, quality.DEEP, quality.UNEVEN)
CASES = [case for site in SITES for case in quality.cases(site)]
COUNT = 300


def named(case):
    return f"{case.site.name}-{case.name}"


def start_of(case):
    return clusters.of(clusters.placed_by_multilevel(case.used, COUNT, case.size))


def test_sites_have_the_expected_brokers_per_domain():
    def per_domain(case, level):
        return tree_of(case.known, case.site.levels).level(level).capacity.tolist()

    drain, equal, rack, *_ = quality.cases(quality.FLAT)
    assert per_domain(drain, "rack") == [34, 33, 33]
    assert per_domain(equal, "rack") == [33, 33, 33]
    assert per_domain(rack, "rack") == [25, 25, 25, 25]
    assert len(rack.drained) == 25
    deep, equal, rack, zone, *_ = quality.cases(quality.DEEP)
    assert len(per_domain(deep, "rack")) == 18
    assert per_domain(equal, "rack") == [5] * 18
    assert tree_of(rack.known, rack.site.levels, drained=rack.drained).level("rack").capacity.min() == 0
    assert len(zone.drained) > len(rack.drained)
    broken, *_ = quality.cases(quality.UNEVEN)
    assert per_domain(broken, "dc") == [40, 33, 27]
    assert len(set(per_domain(broken, "rack"))) > 3


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_plan_needs_exactly_the_least_number_of_moves(case):
    start = start_of(case)
    bound = quality.least_moves(case.tree, start.replicas, case.wanted)
    wishes = {name: TopicRequirements(case.wanted) for name in start.names}
    made = plan(PlanRequest(case.tree, start, requirements=wishes))
    after = quality.applied(made, start, case.wanted)
    result = quality.measured(case, quality.PLAN, bound, start.replicas, after)
    quality.certify(made, result)
    assert result.moves == bound == made.lower_bound
    assert judge(case.tree, after).compliant
    assert result.replicas == made.after.levels[-1].replicas
    assert result.leaders == made.after.levels[-1].leaders


def test_certify_rejects_a_plan_with_a_false_claim():
    case = next(iter(quality.cases(quality.FLAT)))
    start = start_of(case)
    made = plan(PlanRequest(case.tree, start))
    bound = quality.least_moves(case.tree, start.replicas, 3)
    honest = quality.measured(case, quality.PLAN, bound, start.replicas, quality.applied(made, start, 3))
    quality.certify(made, honest)
    for lie in (
        replace(honest, moves=honest.moves + 1),
        replace(honest, bound=honest.bound - 1),
        replace(honest, unfair=(("rack", 1),)),
        replace(honest, left_behind=1),
    ):
        with pytest.raises(quality.BrokenPromiseError, match="drain 1 of 100 brokers, one level"):
            quality.certify(made, lie)


def test_replicas_left_on_drained_brokers_are_counted():
    case = next(iter(quality.cases(quality.FLAT)))
    start = start_of(case)
    result = quality.measured(case, quality.KAFKA, 0, start.replicas, start.replicas)
    assert result.moves == 0
    assert result.left_behind == np.count_nonzero((start.replicas == 7).any(axis=1)) > 0


def test_worse_reports_figures_in_which_kafka_is_better():
    case = next(case for case in CASES if case.added)
    start = start_of(case)
    request = PlanRequest(case.tree, start)
    kept, evened = (quality.applied(made, start, 3) for made in (plan(request), rebalance(request)))
    even, uneven = (
        quality.measured(case, by, 0, start.replicas, after)
        for by, after in ((quality.KAFKA, evened), (quality.PLAN, kept))
    )
    assert [line for line in quality.worse([even, uneven]) if "replicas per broker" in line]
    assert list(quality.worse([even, even])) == []


def test_plans_with_the_same_figures_share_a_row():
    case = next(iter(quality.cases(quality.FLAT)))
    kafka, kept, evened = (
        quality.Result(case, by, 0, moves=5) for by in (quality.KAFKA, quality.PLAN, quality.REBALANCE)
    )
    assert [result.by for result in quality.shortened([kafka, kept, evened])] == [quality.KAFKA, quality.BOTH]
    other = replace(evened, moves=6)
    assert quality.shortened([kafka, kept, other]) == [kafka, kept, other]


def test_moves_are_replicas_on_brokers_that_had_none_of_the_partition():
    before = np.array([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    after = np.array([[3, 2, 1], [1, 2, 4], [4, 5, 6]])
    assert quality.moves_between(before, after) == 4
    assert quality.moves_between(before[:, :2], before) == 3


def test_proposal_is_parsed_in_any_order_and_refusals_raise_an_error():
    start = clusters.of(np.array([[0, 1], [1, 2], [2, 0]]))
    rows = [{"topic": "topic-000000", "partition": number, "replicas": [number, 9]} for number in (2, 0, 1)]
    printed = "Current partition replica assignment\n{}\n\nProposed partition reassignment configuration\n{}"
    full = printed.removesuffix("{}") + json.dumps({"version": 1, "partitions": rows})
    assert proposal(full, start).tolist() == [[0, 9], [1, 9], [2, 9]]
    with pytest.raises(ToolRefusedError, match="2 partitions of 3"):
        reassignment(json.dumps({"partitions": rows[:2]}), start)
    with pytest.raises(ToolRefusedError, match="Not all brokers have rack information"):
        proposal("Not all brokers have rack information.", start)


def test_large_cluster_has_the_requested_share_of_non_compliant_partitions():
    made = clusters.worn(60, 2000, 0.01)
    read = parse_snapshot("".join(snapshot_lines(made)).encode())
    tree = tree_of(read.brokers, speed.LEVELS)
    assert judge(tree, read.partitions.replicas).non_compliant == 20
    assert len(read.partitions) == 2000
    assert (read.partitions.size_bytes >= 0).all()
