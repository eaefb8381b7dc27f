"""The status of a KafkaTopic, computed from the state in Kafka and the changes that were made."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.reconcile.examples import CLUSTER, EVEN, NOON, known, seen, sentence, state, told, topic

from rackspan.api.kafkatopic import MAX_DOMAINS, MAX_SAMPLES
from rackspan.api.plans import TopicPlanStatus
from rackspan.api.reasons import Reason
from rackspan.core.compliance import judge
from rackspan.reconcile.failures import UNEXPECTED, Failure, Remedy
from rackspan.reconcile.plans.topology_plan import TopologyPlan
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic, TopicConfig
from rackspan.reconcile.topics.topic_conditions import FALSE, UNKNOWN
from rackspan.reconcile.topics.topic_decision import Outcome, TopicDecision, decide
from rackspan.reconcile.topics.topic_status import failed_status, topic_status

LATER = NOON + timedelta(minutes=1)
FAIR = ((0, 1, 2), (1, 2, 3), (5, 4, 3))  # replicas on the brokers of EVEN
PAUSED = {"rackspan.dev/paused": "true"}
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)


def outcome(wanted, rows=FAIR, *, min_insync=2, **more):
    return Outcome(wanted, seen(*rows), TopicConfig({}, min_insync), **more)


def concluded(found, where=None, now=NOON):
    return topic_status(found, where or state(EVEN), now)


def test_topic_that_matches_its_spec_is_ready_and_compliant():
    status = concluded(outcome(topic(generation=7)))
    assert told(status, "Ready") == ("True", "InSync")
    assert told(status, "Compliant") == ("True", "Compliant")
    assert told(status, "Stalled") is told(status, "Reconciling") is told(status, "Paused") is None
    assert status.observed_generation == 7
    assert {condition.observed_generation for condition in status.conditions} == {7}
    assert (status.topic_name, status.topic_id, status.cluster_id) == ("orders", "id-1", "kafka-1")
    assert (status.partitions, status.replication_factor, status.min_in_sync_replicas) == (3, 3, 2)
    assert status.placer == "MultiLevel"
    assert {item.domain: (item.replicas, item.leaders) for item in status.placement.domains} == {
        "/z0": (3, 1),
        "/z1": (3, 1),
        "/z2": (3, 1),
    }


def test_durability_reports_which_failures_acknowledged_writes_survive():
    durability = concluded(outcome(topic())).durability
    assert [(one.level, one.domains, one.keeps_writes, one.stays_writable) for one in durability.levels] == [
        ("zone", 2, True, True),
        ("broker", 2, True, True),
    ]
    assert durability.message.startswith(
        "acks=all: an acknowledged write is in at least 2 domains of zone, 2 of broker"
    )
    weak = concluded(outcome(topic(), min_insync=1)).durability
    assert [(one.domains, one.keeps_writes) for one in weak.levels] == [(1, False), (1, False)]


def test_durability_is_removed_for_a_missing_topic_and_if_its_config_is_unknown():
    before = concluded(outcome(topic()))
    again = topic(status=before.to_dict())
    assert concluded(Outcome(again, seen((0, 3, 1), *FAIR[1:]), None)).durability is None, "replicas may have moved"
    gone = Outcome(again, None, None, decision=TopicDecision(foreign=AWAY))
    assert concluded(gone).durability is None


@pytest.mark.parametrize("order", [((0, 1, 2), (1, 2, 3)), ((2, 1, 0), (3, 2, 1)), ((3, 1, 2), (1, 2, 0))])
def test_durability_is_the_same_for_different_replicas_with_the_same_guarantee(order):
    told_before = concluded(outcome(topic(partitions=2), ((0, 1, 2), (1, 2, 3)))).durability
    assert concluded(outcome(topic(partitions=2), order)).durability == told_before


def test_ready_message_warns_if_min_insync_replicas_equals_the_replication_factor():
    assert "one replica that lags stops acks=all writes" in sentence(concluded(outcome(topic(), min_insync=3)))
    single = outcome(topic(replicationFactor=1), ((0,), (1,), (2,)), min_insync=1)
    assert "lags" not in sentence(concluded(single))


def test_non_compliant_topic_reports_partition_count_moves_and_samples():
    rows = ((0, 3, 1), (0, 1, 2), (0, 3, 4))
    status = concluded(outcome(topic(), rows))
    assert told(status, "Ready") == ("False", "NotCompliant")
    assert told(status, "Compliant") == ("False", "NotCompliant")
    assert told(status, "Stalled") == ("True", "NotCompliant"), "no reconcile pass fixes it"
    assert (status.compliance.partitions, status.compliance.non_compliant, status.compliance.moves) == (3, 2, 2)
    assert [(item.partition, item.level, item.domain, item.excess) for item in status.compliance.samples] == [
        (0, "zone", "/z0", 1),
        (2, "zone", "/z0", 1),
    ]
    assert sentence(status) == (
        "2 of 3 partitions are not spread as asked; 2 replicas would have to move; "
        "partition 0: zone /z0 holds 1 too many"
    )


@pytest.mark.parametrize("placer", ["Simple", "Striped"])
def test_message_names_a_placer_that_spreads_unfairly_unless_the_spread_allows_it(placer):
    rows = ((0, 3, 1), (0, 1, 2), (0, 3, 4))
    reason = f"; the placer {placer} does not always spread fairly, and plans correct this"
    own, default = topic(placement={"placer": placer}), state(EVEN, defaults={"placer": placer})
    assert sentence(concluded(outcome(own, rows))).endswith(reason)
    assert sentence(concluded(outcome(topic(), rows), default)).endswith(reason)
    assert "placer" not in sentence(concluded(outcome(own, FAIR)))
    spread = [{"level": "zone", "maxSkew": 3}]
    loose = topic(placement={"placer": placer, "spread": spread})
    assert told(concluded(outcome(loose, rows)), "Compliant") == ("True", "Compliant")


@pytest.mark.parametrize("rows", [((0, 1), (1, 2), (2, 3)), ((0, 3), (1, 2), (0, 3, 1)), ((0, 1, 2), (1, 2), (2,))])
async def test_moves_to_reach_the_replication_factor_are_counted_with_and_without_a_plan(rows):
    found = outcome(topic(), rows)
    without = concluded(found).compliance.moves
    found.plan = await planned(found)
    assert concluded(found).compliance.moves == found.plan.moves == without > 0


def test_number_of_samples_is_limited():
    status = concluded(outcome(topic(partitions=50), ((0, 3, 1),) * 50))
    assert status.compliance.non_compliant == 50
    assert len(status.compliance.samples) == MAX_SAMPLES


def test_domains_beyond_the_limit_are_left_out_by_whole_levels():
    racks = {broker: f"/r{broker % 2}/z{broker % 90}/h{broker}" for broker in range(180)}
    rows = tuple((broker,) for broker in range(180))
    wanted = topic(partitions=180, replicationFactor=1)
    domains = concluded(outcome(wanted, rows), state(racks)).placement.domains
    assert len(domains) == 2 + 90 <= MAX_DOMAINS
    assert sum(item.replicas for item in domains if item.domain.count("/") == 1) == 180


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (((0, 1), (1, 2), (2, 3)), "3 of 3 partitions have 2 replicas, the spec says 3"),
        (((0, 1, 2), (1, 2), (2,)), "2 of 3 partitions have 1 to 2 replicas, the spec says 3"),
    ],
)
def test_status_reports_a_different_replication_factor(rows, words):
    status = concluded(outcome(topic(), rows))
    assert told(status, "Ready") == ("False", "ReplicationFactorDiffers")
    assert sentence(status) == words


async def test_status_reports_a_pending_plan_with_its_lower_bound():
    found = outcome(topic(), ((0, 3, 1), (0, 1, 2), (0, 3, 4)))
    found.plan = await planned(found)
    status = concluded(found)
    assert told(status, "Ready") == ("False", "PlanPending")
    assert told(status, "Compliant") == ("False", "NotCompliant")
    assert sentence(status).startswith(
        f"plan {found.plan.hash} copies 2 replicas of 2 partitions, and no plan copies fewer; not executed yet: "
        "2 of 3 partitions are not spread as asked"
    )
    plan = status.plan
    assert (plan.hash, plan.moves, plan.lower_bound, plan.partitions) == (found.plan.hash, 2, 2, 2)
    assert (plan.reorders, plan.bytes) == (0, None)
    assert [(item.partition, item.from_) for item in plan.samples] == [(0, (0, 3, 1)), (2, (0, 3, 4))]
    assert status.to_dict()["plan"]["samples"][0]["from"] == [0, 3, 1]


async def test_status_reports_a_plan_that_only_reorders():
    found = outcome(topic(placement={"leaders": ["/z2"]}))
    found.plan = await planned(found)
    status = concluded(found)
    assert told(status, "Ready") == ("False", "PlanPending")
    assert told(status, "Compliant") == ("True", "Compliant")
    assert "copies nothing, and reorders the replicas of 2 partitions" in sentence(status)
    assert (status.plan.moves, status.plan.reorders) == (0, 2)


async def test_status_reports_a_plan_that_only_removes_replicas():
    found = outcome(topic(replicationFactor=2))
    found.plan = await planned(found)
    assert sentence(concluded(found)).startswith(
        f"plan {found.plan.hash} copies nothing and removes 3 replicas; not executed yet: "
    )
    assert (concluded(found).plan.moves, concluded(found).plan.removals) == (0, 3)


async def test_status_reports_moves_removals_and_reorders_of_a_plan():
    found = outcome(topic(replicationFactor=2, placement={"leaders": ["/z0"]}), ((0, 1, 2), (1, 0), (0, 3)))
    found.plan = await planned(found)
    assert (found.plan.moves, found.plan.removals, found.plan.reorders) == (1, 1, 1)
    assert (
        "copies 1 replica of 3 partitions and removes 1 replica, and no plan copies fewer; not executed yet: "
        in sentence(concluded(found))
    )
    fair = outcome(topic(partitions=2, replicationFactor=2, placement={"leaders": ["/z0"]}), ((0, 1, 2), (1, 0)))
    fair.plan = await planned(fair)
    told = sentence(concluded(fair))
    assert "copies nothing and removes 1 replica, and reorders the replicas of 1 partition; not executed yet: " in told


async def test_status_reports_an_infeasible_plan_with_the_smallest_fix():
    found = outcome(topic(replicationFactor=7))
    found.plan = await planned(found)
    status = concluded(found)
    assert told(status, "Ready") == ("False", "ReplicationFactorDiffers")
    assert sentence(status) == (
        "3 of 3 partitions have 3 replicas, the spec says 7; no plan: replicationFactor 7 needs 7 eligible brokers, "
        "there are 6: lower it to 6 or add 1 broker"
    )
    assert status.plan is None


async def test_plan_for_racks_that_have_changed_since_is_reported_as_racks_settling():
    found = outcome(topic())
    found.plan = await planned(outcome(topic(), ((0, 3, 1), (0, 1, 2), (0, 3, 4))))
    status = concluded(found, replace(state(EVEN), settled=state(EVEN).racks))
    assert told(status, "Ready") == ("False", "RacksSettling")
    assert told(status, "Compliant") == ("True", "Compliant")
    assert sentence(status).startswith(f"plan {found.plan.hash} is for racks that have changed since; planned anew ")


async def test_plan_of_ten_thousand_partitions_is_shorter_than_1000_characters_in_the_status():
    found = outcome(topic(partitions=10_000), ((0, 3, 1),) * 10_000)
    found.plan = await planned(found)
    status = concluded(found)
    assert status.plan.moves == 10_000
    assert len(json.dumps(status.to_dict()["plan"])) < 1_000


async def planned(found):
    return (await TopologyPlan().of([(found.topic, found.seen)], state(EVEN)))[found.topic.key]


def test_status_reports_a_difference_from_the_explicit_assignment():
    wanted = topic(partitions=2, replicationFactor=2, placement={"assignment": [[0, 1], [1, 2]]})
    status = concluded(outcome(wanted, ((1, 0), (1, 2))))
    assert told(status, "Compliant") == ("False", "AssignmentDiffers")
    assert status.compliance.moves == 0
    assert status.placer is None
    assert "partition 0: replicas are [1, 0], the assignment says [0, 1]" in sentence(status)


def test_unfair_explicit_assignment_is_compliant_and_counted_as_pinned():
    wanted = topic(partitions=2, replicationFactor=2, placement={"assignment": [[0, 3], [1, 2]]})
    status = concluded(outcome(wanted, ((0, 3), (1, 2))))
    assert told(status, "Compliant") == ("True", "Compliant")
    assert (status.compliance.non_compliant, status.compliance.pinned) == (0, 1)
    assert sentence(status, "Compliant") == (
        "replicas are where the assignment puts them; 1 of 2 partitions is not spread fairly by it, and 1 replica "
        "would have to move without it"
    )


def test_explicit_assignment_to_a_drained_broker_is_reported_as_holding_up_the_drain():
    wanted = topic(partitions=2, replicationFactor=2, placement={"assignment": [[0, 1], [1, 2]]})
    status = concluded(outcome(wanted, ((0, 1), (1, 2))), state(EVEN, drainBrokers=[0]))
    assert told(status, "Compliant") == told(status, "Ready") == ("False", "HoldsUpDrain")
    assert (status.compliance.non_compliant, status.compliance.moves) == (1, 0)
    assert status.compliance.samples[0].partition == 0
    assert sentence(status) == (
        "the assignment keeps 1 replica on brokers that the topology is to drain (0): "
        "change spec.placement.assignment, or end the drain"
    )


def test_compliance_is_unknown_if_the_rack_of_a_broker_is_missing():
    status = concluded(outcome(topic(), ((0, 1, 6), *FAIR[1:])), state({**EVEN, 6: None}))
    assert told(status, "Compliant") == ("Unknown", "MissingRacks")
    assert told(status, "Ready") == ("False", "MissingRacks")


def test_missing_rack_affects_only_partitions_on_that_broker():
    where = state({**EVEN, 6: None})
    status = concluded(outcome(topic(), FAIR), where)
    assert told(status, "Compliant") == ("True", "Compliant")
    assert told(status, "Ready") == ("True", "InSync")
    mixed = concluded(outcome(topic(), ((0, 1, 6), FAIR[1], (0, 3, 1))), where)
    assert told(mixed, "Compliant") == ("False", "NotCompliant")
    assert (mixed.compliance.partitions, mixed.compliance.non_compliant) == (2, 1)
    assert sentence(mixed, "Compliant") == (
        "1 of 2 partitions is not spread as asked; 1 replica would have to move; partition 2: zone /z0 holds 1 too "
        "many; 1 partition cannot be judged: no rack is known of brokers 6"
    )


# -- changes in progress and failures --------------------------------------------------------------------------------


def test_infeasible_spec_is_stalled_and_unreachable_kafka_is_reconciling():
    wrong = Failure(Reason.INFEASIBLE, "no", Remedy.SPEC)
    stalled = concluded(outcome(topic(), decision=TopicDecision(problem=wrong)))
    assert told(stalled, "Stalled") == ("True", "Infeasible")
    assert told(stalled, "Reconciling") is None
    retried = concluded(outcome(structs.replace(topic(), status=stalled), failures=[AWAY]))
    assert told(retried, "Reconciling") == ("True", "KafkaUnreachable")
    assert told(retried, "Stalled") is None
    assert told(retried, "Ready") == ("False", "KafkaUnreachable")


def test_topic_is_reconciling_until_brokers_show_the_change():
    growing = outcome(topic(partitions=4), settled=False, decision=TopicDecision(grow=NewPartitions("orders", 4, None)))
    status = concluded(growing)
    assert told(status, "Ready") == ("False", "Updating")
    assert told(status, "Reconciling") == ("True", "Updating")
    done = concluded(outcome(structs.replace(topic(partitions=4), status=status), (*FAIR, (0, 1, 2))))
    assert told(done, "Ready") == ("True", "InSync")
    assert told(done, "Reconciling") is None


def test_topic_that_does_not_exist_yet_has_reason_creating():
    status = concluded(Outcome(topic()))
    assert told(status, "Ready") == ("False", "Creating")
    assert told(status, "Reconciling") == ("True", "Creating")
    assert status.topic_id is None


@pytest.mark.parametrize(
    ("found", "reason"), [(seen((0, 3), topic_id="id-2"), "TopicIdMismatch"), (None, "TopicVanished")]
)
def test_facts_of_a_vanished_or_replaced_topic_are_removed_from_the_status(found, reason):
    before = structs.replace(concluded(outcome(topic())), plan=TopicPlanStatus("abc", 1, 1, 0, 1))
    wanted = structs.replace(topic(), status=before)
    status = concluded(Outcome(wanted, found, decision=decide(wanted, found, {}, state(EVEN))), now=LATER)
    assert told(status, "Ready") == ("False", reason)
    assert told(status, "Stalled") == ("True", reason)
    assert told(status, "Compliant") == ("Unknown", reason)
    assert (status.topic_id, status.cluster_id) == ("id-1", "kafka-1"), "the ids of the missing topic stay"
    assert status.compliance is status.placement is status.plan is status.placer is None
    assert status.partitions is status.replication_factor is status.min_in_sync_replicas is None


def test_compliance_becomes_unknown_if_the_object_is_refused():
    before = concluded(outcome(topic()))
    conflict = Failure(Reason.TOPIC_CONFLICT, "an older object owns it", Remedy.SPEC)
    status = failed_status(structs.replace(topic(), status=before), conflict, LATER)
    assert told(status, "Compliant") == ("Unknown", "TopicConflict")
    assert told(failed_status(topic(), conflict, LATER), "Compliant") is None


def test_last_known_facts_stay_while_kafka_is_unreachable():
    before = concluded(outcome(topic()))
    status = failed_status(structs.replace(topic(), status=before), AWAY, LATER)
    assert status.compliance == before.compliance
    assert told(status, "Compliant") == ("True", "Compliant")
    assert told(status, "Ready") == ("False", "KafkaUnreachable")


@pytest.mark.parametrize(
    ("about", "failure", "ready"),
    [
        (topic(generation=2), AWAY, FALSE),
        (topic(), AWAY, UNKNOWN),
        (topic(), Failure(Reason.NOT_AUTHORIZED, "TopicAuthorizationFailed", Remedy.ACCESS), FALSE),
    ],
    ids=["another spec", "not seen for long", "not allowed"],
)
def test_topic_that_cannot_be_compared_is_not_compliant_and_one_that_was_not_stays_so(about, failure, ready):
    before = concluded(outcome(topic()))
    status = failed_status(structs.replace(about, status=before), failure, LATER, ready)
    assert (told(status, "Compliant"), status.compliance) == (("Unknown", failure.reason), before.compliance)
    assert status.observed_generation == about.meta.generation
    unfair = concluded(outcome(topic(), ((0, 3, 1),) * 3))
    assert told(unfair, "Compliant") == ("False", "NotCompliant")
    status = failed_status(structs.replace(about, status=unfair), failure, LATER, ready)
    assert told(status, "Compliant") == ("False", "NotCompliant")


# -- pause -----------------------------------------------------------------------------------------------------------


def test_paused_topic_that_matches_its_spec_stays_ready():
    status = concluded(outcome(topic(annotations=PAUSED)))
    assert told(status, "Paused") == ("True", "Paused")
    assert told(status, "Ready") == ("True", "Paused")
    assert sentence(status) == "paused; 3 partitions of 3 replicas are as asked"


def test_paused_topic_with_a_failure_keeps_the_reason_paused():
    refused = Failure(Reason.INVALID_CONFIG, "no such key", Remedy.SPEC)
    status = concluded(outcome(topic(annotations=PAUSED), failures=[refused]))
    assert told(status, "Ready") == ("False", "Paused")
    assert sentence(status) == "paused; InvalidConfig: no such key"
    assert told(status, "Stalled") == ("True", "Paused"), "no pass can continue before the pause ends"


def test_topic_with_an_invalid_pause_annotation_is_paused_and_stalled():
    unclear = {"rackspan.dev/paused": "until monday"}
    for found in (outcome(topic(annotations=unclear)), Outcome(topic(annotations=unclear))):
        status = concluded(found)
        assert told(status, "Ready") == ("False", "InvalidAnnotation")
        assert told(status, "Stalled") == ("True", "InvalidAnnotation")
        assert told(status, "Paused") == ("True", "InvalidAnnotation")
        assert "is 'until monday'" in sentence(status)
        cleared = concluded(outcome(structs.replace(topic(), status=status)))
        assert told(cleared, "Ready") == ("True", "InSync")
        assert told(cleared, "Stalled") is told(cleared, "Paused") is None


def test_paused_topic_reports_the_changes_that_wait():
    waiting = TopicDecision(configure=ConfigChange("orders", {"retention.ms": "1"}))
    status = concluded(outcome(topic(annotations=PAUSED), paused_decision=waiting))
    assert told(status, "Ready") == ("False", "Paused")
    assert sentence(status) == "paused; waiting for the annotation to go: set retention.ms=1"
    resumed = concluded(outcome(structs.replace(topic(), status=status)))
    assert told(resumed, "Paused") is None
    assert told(resumed, "Ready") == ("True", "InSync")


def test_missing_topic_that_is_paused_has_reason_paused_instead_of_creating():
    status = concluded(Outcome(topic(annotations=PAUSED)))
    assert told(status, "Ready") == ("False", "Paused")


# -- properties ------------------------------------------------------------------------------------------------------

row = st.permutations(range(6)).flatmap(lambda order: st.integers(1, 4).map(lambda size: tuple(order[:size])))


@given(st.lists(row, min_size=1, max_size=6), st.booleans(), st.sampled_from([None, AWAY]))
def test_status_computed_again_from_the_same_state_does_not_change(rows, paused, problem):
    wanted = topic(partitions=len(rows), annotations=PAUSED if paused else {}, status=known())

    def once(status, now):
        failures = [problem] if problem else []
        return concluded(outcome(structs.replace(wanted, status=status), rows, failures=failures), now=now)

    first = once(wanted.status, NOON)
    assert once(first, LATER) == first


@given(
    st.lists(row, min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, AWAY, Failure(Reason.INFEASIBLE, "no", Remedy.SPEC)]),
)
def test_topic_is_reconciling_or_stalled_if_and_only_if_not_ready_or_not_settled(rows, paused, settled, problem):
    wanted = topic(partitions=len(rows), annotations=PAUSED if paused else {})
    failures = [problem] if problem else []
    status = concluded(outcome(wanted, rows, failures=failures, settled=settled))
    abnormal = [kind for kind in ("Reconciling", "Stalled") if told(status, kind) is not None]
    assert bool(abnormal) == (told(status, "Ready")[0] == "False" or not settled)
    never_made = concluded(Outcome(wanted))
    assert [kind for kind in ("Reconciling", "Stalled") if told(never_made, kind)] == [
        "Stalled" if paused else "Reconciling"
    ]


@given(st.lists(row, min_size=1, max_size=6))
def test_ready_is_true_only_if_the_topic_matches_its_spec(rows):
    status = concluded(outcome(topic(partitions=len(rows)), rows))
    as_asked = judge(state(EVEN).racks.tree, rows).compliant and all(len(found) == 3 for found in rows)
    assert told(status, "Ready")[0] == str(as_asked)


# -- adoption and claims -----------------------------------------------------------------------------------------------

CREATION = TopicDecision(create=NewTopic("orders", 3, 3, FAIR, {}))
REFUSED = Failure(Reason.INVALID_CONFIG, "Kafka says INVALID_CONFIG", Remedy.SPEC)
EXISTS = Failure(Reason.KAFKA_REFUSED, "Kafka says TOPIC_ALREADY_EXISTS", Remedy.RETRY)
BEGUN = {"creating": True}


def test_existing_topic_is_recorded_as_adopted_and_created_topic_is_not():
    adopted = concluded(outcome(topic()))
    assert adopted.adopted
    assert concluded(outcome(topic(status=adopted.to_dict()))).adopted, "adopted stays set"
    assert concluded(outcome(topic(status=known("another-id")))).adopted, "adoption by the annotation counts too"
    for made in (outcome(topic(), decision=CREATION), outcome(topic(status=BEGUN)), outcome(topic(status=known()))):
        status = concluded(made)
        assert (status.adopted, status.creating) == (None, None)


@pytest.mark.parametrize(
    ("status", "failures", "new_claim", "creating"),
    [
        ({}, [], False, True),
        ({}, [AWAY], False, True),
        ({}, [Failure(Reason.KAFKA_CLIENT_FAILED, "its process ended", Remedy.RETRY)], False, True),
        ({}, [Failure(Reason.KAFKA_CLIENT_WAITING, "another namespace takes its turn", Remedy.RETRY)], False, True),
        ({}, [UNEXPECTED], False, True),
        (BEGUN, [REFUSED], True, None),
        (BEGUN, [EXISTS], True, None),
        (BEGUN, [EXISTS], False, True),
    ],
    ids=[
        "not shown yet",
        "no answer",
        "no client",
        "no turn",
        "no idea",
        "refused",
        "somebody was quicker",
        "it may be ours",
    ],
)
def test_claim_stays_recorded_while_kafka_may_have_created_the_topic(status, failures, new_claim, creating):
    unseen = Outcome(topic(status=status), decision=CREATION, failures=failures, new_claim=new_claim)
    status = concluded(unseen)
    assert (status.creating, status.cluster_id) == (creating, CLUSTER if creating else None)


def test_ready_message_of_an_adopted_topic_with_policy_delete_names_the_confirmation():
    assert "rackspan.dev/confirm-delete=id-1" in sentence(concluded(outcome(topic(deletionPolicy="Delete"))))
    confirmed = topic(deletionPolicy="Delete", annotations={"rackspan.dev/confirm-delete": "id-1"})
    assert "confirm-delete" not in sentence(concluded(outcome(confirmed)))


async def test_other_brokers_lead_while_the_preferred_domain_is_offline_and_status_reports_it():
    where = state(EVEN)
    rows = tuple(replace(row, online=row.rack != ("z0",)) for row in where.racks.rows)
    offline = replace(where, racks=replace(where.racks, rows=rows))
    lies = ((1, 2), (2, 4), (5, 1))
    wanted = topic(replicationFactor=2, placement={"leaders": ["/z0"]}, status=known())
    plans = await TopologyPlan().of([(wanted, seen(*lies))], offline)
    status = concluded(outcome(wanted, lies, min_insync=1, plan=plans[wanted.key]), offline)
    assert told(status, "Ready") == ("True", "InSync")
    words = "; all brokers of the domains preferred for leaders (/z0) are offline, so others lead"
    assert sentence(status).endswith(words)
    grown = topic(replicationFactor=2, partitions=5, placement={"leaders": ["/z0"]}, status=known())
    decision = decide(grown, seen(*lies), {}, offline)
    assert decision.problem is None
    assert {broker for row in decision.grow.assignment for broker in row} <= {1, 2, 4, 5}
    assert words not in sentence(concluded(outcome(wanted, lies, min_insync=1), where))
    three = topic(placement={"leaders": ["/z0"]}, status=known())
    lies = ((1, 2, 4), (2, 4, 5), (5, 1, 2))
    plans = await TopologyPlan().of([(three, seen(*lies))], where)
    assert {change.replicas[0] for change in plans[three.key].changes} <= {0, 3}, (
        "moved partitions get leaders in that domain"
    )
