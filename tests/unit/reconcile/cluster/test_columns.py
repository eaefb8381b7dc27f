"""The columns of `kubectl get racktopologies` show the worst fault first, and `rackspan status` agrees."""

import itertools

import pytest
from msgspec.structs import replace
from tests.unit.cli.test_status import PLAN, condition, seen

from rackspan.api.plans import TopologyPlanStatus
from rackspan.cli.shared.situation import AspectState, situation
from rackspan.reconcile.cluster.topology_status import offline_summary, overall_state, plan_summary

AWAY = condition("Connected", "False", "KafkaUnreachable")
NOT_READY = condition("Ready", "False", "EmptyLevel")
OFFLINE = {"offline": {"count": 1, "brokers": [4]}}
DRIFT = condition("RacksInSync", "False", "RackDrift")
PENDING = condition("Reassigned", "False", "PlanPending")
STALE = condition("Reassigned", "False", "StaleApproval")
HELD = condition("DeletionsHeld", "True", "DeletionHeld")
MOVING = condition("Reassigned", "False", "Reassigning")
UNFAIR = {"topics": {"total": 3, "ready": 2, "nonCompliant": 1}}
NOT_MADE = {"topics": {"total": 3, "ready": 2}}
DRAINING = condition("Drained", "False", "Draining")
UNSCANNED = condition("Scanned", "False", "ScanFailed")
FAILED_SCAN = {"scanId": "s", "trigger": "Schedule", "state": "Failed", "startedAt": "2026-11-25T10:00:00Z"}
WORST_FIRST = [
    ("KafkaUnreachable", AWAY, {}),
    ("EmptyLevel", NOT_READY, {}),
    ("BrokerOffline", None, OFFLINE),
    ("RackDrift", DRIFT, {}),
    ("PlanPending", PENDING, {"plan": PLAN}),
    ("DeletionHeld", HELD, {}),
    ("NotCompliant", None, UNFAIR),
    ("Draining", DRAINING, {"drains": [{"target": "4", "reason": "Draining", "message": "6 replicas"}]}),
    ("ScanFailed", UNSCANNED, {"lastScan": FAILED_SCAN}),
]


def stood(*faults):
    conditions = [one for _, one, _ in faults if one]
    return seen(*conditions, **{key: value for _, _, more in faults for key, value in more.items()})


def test_topology_without_faults_is_in_sync():
    assert overall_state(seen().status) == "InSync"


def test_drift_of_brokers_without_a_rack_does_not_hide_faults_that_need_a_user():
    """Then no label, and so no plan, is wrong. A plan that follows from a wrong label must wait for the label."""
    unset = {"brokers": [{"id": at, "rack": f"/{at}", "drift": True} for at in range(9)]}
    moved = {"brokers": [*unset["brokers"][1:], {"id": 0, "rack": "/0", "reportedRack": "/1", "drift": True}]}
    for reason, fault, more in WORST_FIRST:
        if reason not in ("RackDrift", "ScanFailed"):
            found = stood(("", DRIFT, unset), (reason, fault, more))
            assert overall_state(found.status) == reason
            if (step := situation(stood((reason, fault, more)), None, ()).step) is not None:
                assert situation(found, None, ()).step == step
    alone = stood(("", DRIFT, unset))
    assert overall_state(alone.status) == "RackDrift"
    assert (
        situation(alone, None, ()).step
        == "set broker.rack of each of these brokers to the rack of its node, and restart it"
    )
    for some in (moved, {"brokers": unset["brokers"][:8]}):
        assert overall_state(stood(("", DRIFT, some), ("", PENDING, {"plan": PLAN})).status) == "RackDrift"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_column_shows_the_worst_of_several_faults(count):
    for some in itertools.combinations(WORST_FIRST, count):
        assert overall_state(stood(*some).status) == some[0][0]


@pytest.mark.parametrize(
    ("one", "more", "shown"),
    [
        (STALE, {"plan": PLAN}, "StaleApproval"),
        (MOVING, {"plan": PLAN, **UNFAIR}, "Reassigning"),
        (None, NOT_MADE, "TopicsNotReady"),
    ],
)
def test_column_shows_stale_approvals_reassignments_and_topics_that_are_not_ready(one, more, shown):
    assert overall_state(stood((shown, one, more)).status) == shown


def test_column_and_status_command_agree_whether_there_is_a_fault():
    kinds = [*WORST_FIRST, ("Reassigning", MOVING, {"plan": PLAN}), ("TopicsNotReady", None, NOT_MADE)]
    for some in itertools.chain.from_iterable(itertools.combinations(kinds, count) for count in range(3)):
        found = stood(*some)
        fine = situation(found, None, ()).state is AspectState.FINE
        assert (overall_state(found.status) == "InSync") == fine, some


def test_number_of_offline_brokers_is_unknown_while_kafka_is_unreachable():
    assert offline_summary(seen(**OFFLINE).status) == "1"
    assert offline_summary(seen(AWAY, **OFFLINE).status) == "?"


def test_plan_is_shown_with_the_first_eight_characters_of_its_hash():
    plan = TopologyPlanStatus(hash="d42a56bd0123", topics=1, moves=6, lower_bound=6, reorders=0, partitions=6)
    assert plan_summary(plan) == "d42a56bd, 6 moves"
    assert plan_summary(replace(plan, removals=2)) == "d42a56bd, 6 moves, 2 removals"
    assert plan_summary(None) is None
