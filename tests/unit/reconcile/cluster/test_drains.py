"""The status of drained brokers and racks. Nothing is reported as empty while facts are missing."""

from dataclasses import replace

import pytest
from msgspec import structs
from tests.unit.reconcile.examples import EVEN, NOON, condition, known, seen, state, status_inputs, topic, topology

from rackspan.api.racktopology import MAX_DRAIN_SAMPLES
from rackspan.reconcile.cluster.drain_status import drain_statuses, drained_condition, summary
from rackspan.reconcile.cluster.state import BrokerLoad
from rackspan.reconcile.cluster.topology_status import NO_PLAN, topology_status
from rackspan.reconcile.dry_run import ObservedTopology, drains_of, plan_of
from rackspan.reconcile.ports import RemainingReplicas, ReplicaCounts


def draining(racks=EVEN, holders=(), **spec):
    load = BrokerLoad(ReplicaCounts(dict.fromkeys(holders, 1), {}))
    return replace(state(racks, **spec), load=load)


def held(**of_broker):
    return RemainingReplicas(NOON, {int(broker[1:]): topics for broker, topics in of_broker.items()})


def managed(name, *, compliant=None, plan=False, ready="InSync", **spec):
    status = known(
        conditions=[condition("Ready", "False", ready), *([condition("Compliant", compliant)] if compliant else [])],
        **({"plan": {"hash": "a", "moves": 1, "lowerBound": 1, "reorders": 0, "partitions": 1}} if plan else {}),
    )
    return topic(name, status=status, **spec)


def assessment(drains):
    status, reason, _ = drained_condition(drains)
    return status.value, reason.value


def test_remaining_replicas_are_reported_by_owner_and_by_blocking_reason():
    topics = [
        managed("planned", plan=True, compliant="False"),
        managed("stuck", compliant="False"),
        managed("fixed", placement={"assignment": [[0, 1, 2]]}),
        managed("new", compliant="True"),
        managed("theirs", ready="TopicConflict", plan=True),
    ]
    there = {"planned": 5, "stuck": 2, "fixed": 1, "new": 1, "theirs": 1, "bare": 3, "__consumer_offsets": 4}
    (drain,) = drains = drain_statuses(draining(drainBrokers=[0]), held(b0=there), topics)
    assert (drain.target, drain.drained, drain.reason, drain.brokers) == ("0", False, "Draining", 1)
    left = drain.replicas
    assert (left.total, left.managed, left.explicit, left.unmanaged, left.internal) == (17, 8, 1, 4, 4)
    assert [(block.reason, block.topics, block.replicas) for block in drain.blocks] == [
        ("PlanPending", 1, 5),
        ("InternalTopic", 1, 4),
        ("NotManaged", 2, 4),
        ("Infeasible", 1, 2),
        ("ExplicitAssignment", 1, 1),
        ("Waiting", 1, 1),
    ]
    assert drain.blocks[2].samples == ("bare", "theirs")
    assert drain.observed_at == NOON
    assert drain.message.startswith("17 replicas left: 5 to move by the plan, 4 of Kafka's own topics")
    assert assessment(drains) == ("False", "Draining")
    assert summary(drains) == "0 of 1 drained, 17 replicas left"


def test_internal_topic_with_a_kafka_topic_object_counts_as_managed():
    drains = drain_statuses(draining(drainBrokers=[0]), held(b0={"__x": 1}), [managed("x", topicName="__x", plan=True)])
    assert (drains[0].replicas.managed, drains[0].replicas.internal) == (1, 0)


def test_drain_is_done_when_kafka_shows_no_replica():
    drains = drain_statuses(draining(drainBrokers=[0], drainRacks=["z1"]), held(b0={}, b1={}, b4={}), [])
    assert [(drain.target, drain.drained) for drain in drains] == [("0", True), ("/z1", True)]
    assert assessment(drains) == ("True", "Drained")
    assert summary(drains) == "2 of 2 drained"


def test_unfinished_drains_come_first():
    drains = drain_statuses(draining(drainBrokers=[0], drainRacks=["/z1"]), held(b0={}, b1={}, b4={"t": 2}), [])
    assert [drain.target for drain in drains] == ["/z1", "0"]
    assert assessment(drains) == ("False", "Draining")


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"drainBrokers": [77]}, "UnknownBroker", "no broker 77 is known: Kafka lists none"),
        ({"drainRacks": ["/eu/nope"]}, "UnknownRack", "no broker is in /eu/nope: correct spec.drainRacks"),
        ({"drainRacks": ["/eu/\U0001fae8"]}, "UnknownRack", "no broker is in /eu/\U0001fae8: correct spec.drainRacks"),
        ({"drainRacks": ["/eu/\u0378"]}, "UnknownRack", "no broker is in /eu/\u0378: correct spec.drainRacks"),
    ],
)
def test_unknown_broker_or_rack_is_never_drained(spec, reason, words):
    drains = drain_statuses(draining(**spec), held(b77={}), [])
    assert assessment(drains) == ("False", reason)
    assert drains[0].drained is False
    assert drains[0].replicas is None
    assert words in drained_condition(drains)[2]


def test_offline_broker_without_rack_is_known_by_its_replicas():
    where = draining(drainBrokers=[77], holders=[77])
    assert assessment(drain_statuses(where, held(b77={"t": 3}), [])) == ("False", "Draining")
    assert assessment(drain_statuses(where, held(b77={}), [])) == ("True", "Drained")


@pytest.mark.parametrize("asked", [None, held(), held(b3={})], ids=["not", "for none", "for others"])
def test_drain_is_unknown_until_kafka_has_reported_the_remaining_replicas(asked):
    drains = drain_statuses(draining(drainBrokers=[0]), asked, [])
    assert assessment(drains) == ("Unknown", "Waiting")
    assert drains[0].drained is None


def test_rack_drain_is_unknown_while_a_broker_with_unknown_rack_may_be_in_it():
    where = draining({**EVEN, 6: None}, drainRacks=["/z0"])
    assert assessment(drain_statuses(where, held(b0={}, b3={}), [])) == ("Unknown", "MissingRacks")
    assert assessment(drain_statuses(where, held(b0={"t": 1}, b3={}), [])) == ("False", "Draining")
    lost = draining(drainRacks=["/z0"], holders=[0, 9])
    assert (
        "no rack is known of brokers 9, which may be in this rack"
        in drain_statuses(lost, held(b0={}, b3={}), [])[0].message
    )


def test_broker_whose_rack_changes_briefly_still_counts_for_the_drain_of_its_settled_rack():
    """A label that is wrong for a second must not make the rack look empty."""
    lasting = draining(drainRacks=["/z0"])
    seen = replace(draining({**EVEN, 3: "/z1"}, drainRacks=["/z0"]), settled=lasting.racks)
    (drain,) = drains = drain_statuses(seen, held(b0={}, b3={"t": 7}), [])
    assert assessment(drains) == ("False", "Draining")
    assert (drain.brokers, drain.replicas.total) == (2, 7)
    assert assessment(drain_statuses(seen, held(b0={}), [])) == ("Unknown", "Waiting")


def test_rack_listed_twice_is_one_drain_and_its_samples_are_limited():
    topics = {f"t{number}": 1 for number in range(9)}
    drains = drain_statuses(draining(drainRacks=["z0", "/z0"]), held(b0=topics, b3={}), [])
    assert len(drains) == 1
    assert len(drains[0].blocks[0].samples) == MAX_DRAIN_SAMPLES


def test_dry_run_of_a_drain_reports_remaining_replicas_with_its_new_plan():
    where = state(EVEN, drainBrokers=[0, 3])
    here = ((0, 1, 2),)
    old = known(plan={"hash": "a", "moves": 1, "lowerBound": 1, "reorders": 0, "partitions": 1})
    topics = (
        (topic("leaves", partitions=1, replicationFactor=2, status=old), seen((0, 1), name="leaves")),
        (topic("fixed", partitions=1, placement={"assignment": [[0, 1, 2]]}, status=old), seen(*here, name="fixed")),
        (
            topic("stuck", partitions=1, status=old, placement={"brokers": {"include": ["0", "1", "2"]}}),
            seen(*here, name="stuck"),
        ),
    )
    observed = ObservedTopology(where, topics)
    remaining = RemainingReplicas(NOON, {0: {"leaves": 1, "fixed": 1, "stuck": 1, "bare": 2}, 3: {}})
    left, empty = drains_of(observed, plan_of(observed), remaining)
    said = "2 of topics without a KafkaTopic, 1 assigned there explicitly, 1 with no other place (stuck: "
    assert (left.target, left.message.startswith(f"5 replicas left: {said}")) == ("0", True)
    assert left.message.endswith("), 1 to move by the plan")
    assert (empty.target, empty.drained, empty.message) == ("3", True, "Kafka shows no replica there")


def test_movable_and_infeasible_replicas_of_one_topic_are_reported_separately():
    """Only broker 5 takes new replicas: partition 0 on brokers 0, 1 can use it, partition 1 on 0, 5 already does."""
    where = state(EVEN, drainBrokers=[0])
    rows = tuple(replace(row, cordoned=row.id not in (0, 5)) for row in where.racks.rows)
    where = replace(where, racks=replace(where.racks, rows=rows))
    half = topic("half", partitions=2, replicationFactor=2)
    observed = ObservedTopology(where, ((half, seen((0, 1), (0, 5), name="half")),))
    made = plan_of(observed)
    (left,) = drains_of(observed, made, held(b0={"half": 2}))
    assert [(one.reason, one.topics, one.replicas) for one in left.blocks] == [
        ("Infeasible", 1, 1),
        ("PlanPending", 1, 1),
    ]
    assert (
        "1 with no other place (half: partition 1 cannot get 2 replicas by a fair split of the brokers" in left.message
    )
    assert left.message.endswith("1 to move by the plan")
    planned = replace(NO_PLAN, parts=made.parts)
    inputs = status_inputs(where, where.racks, (half,), held(b0={"half": 2}), planned=planned)
    (told,) = topology_status(structs.replace(topology(), spec=where.spec), inputs, NOON).drains
    assert told.blocks == left.blocks


def test_topic_partly_assigned_to_a_drained_broker_is_reported_in_both_parts():
    fixed = managed("fixed", partitions=2, replicationFactor=2, placement={"assignment": [[0, 1], [1, 2]]})
    where = draining(drainBrokers=[0])
    made = plan_of(ObservedTopology(where, ((fixed, seen((0, 1), (0, 2), name="fixed")),)))
    (drain,) = drain_statuses(where, held(b0={"fixed": 2}), [fixed], {"fixed": made.parts[fixed.key]})
    assert {one.reason: one.replicas for one in drain.blocks} == {"ExplicitAssignment": 1, "PlanPending": 1}
