"""What is done about one topic follows from the object, what Kafka holds and the state, and moves nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.examples import EVEN, SIX, known, seen, state, topic

from rackspan.reconcile.cluster.batching import MAX_PARTITIONS_AT_ONCE
from rackspan.reconcile.failures import Remedy
from rackspan.reconcile.specs.placement import too_large
from rackspan.reconcile.topics.topic_decision import decide, ownership_problem

FAIR = ((0, 3, 2), (3, 1, 2), (4, 2, 0))


def test_a_topic_that_is_not_there_is_created_where_the_placer_says():
    decision = decide(topic(config={"retention.ms": 60_000}), None, {}, state())
    create = decision.create
    assert (create.name, create.partitions, create.replication_factor) == ("orders", 3, 3)
    assert create.config == {"retention.ms": "60000"}
    for row in create.assignment:
        assert len({SIX[broker].split("/")[1] for broker in row}) == 2
    assert decision.problem is None
    assert decision.summary == "create 3 partitions of 3 replicas"


def test_a_topic_that_is_as_asked_is_left_alone():
    decision = decide(topic(status=known()), seen(*FAIR), {"segment.bytes": "1"}, state())
    assert decision.idle
    assert decision.problem is decision.foreign is None


@given(st.integers(1, 12), st.integers(0, 12))
def test_growth_lists_only_new_partitions(have, more):
    rows = [FAIR[number % 3] for number in range(have)]
    decision = decide(topic(partitions=have + more), seen(*rows), {}, state())
    if not more:
        assert decision.idle
    else:
        assert decision.grow.total == have + more
        assert len(decision.grow.assignment) == more
        assert decision.create is decision.configure is None


@pytest.mark.parametrize("wanted", [1, 2, 4])
def test_new_partitions_have_as_many_replicas_as_those_that_are_there(wanted):
    """Kafka refuses any other number, and the plan changes all partitions together."""
    grow = decide(topic(partitions=5, replicationFactor=wanted), seen(*FAIR), {}, state()).grow
    assert [len(row) for row in grow.assignment] == [3, 3]


def test_an_explicit_assignment_is_taken_row_by_row():
    assigned = {"replicationFactor": 2, "placement": {"assignment": [[5, 0], [0, 1], [3, 2]]}}
    assert decide(topic(**assigned), None, {}, state()).create.assignment == ((5, 0), (0, 1), (3, 2))
    grow = decide(topic(**assigned), seen((1, 2)), {}, state()).grow
    assert (grow.total, grow.assignment) == (3, ((0, 1), (3, 2)))


def test_only_configs_that_are_named_and_differ_are_set():
    wanted = topic(config={"retention.ms": 60_000, "cleanup.policy": "compact", "preallocate": "TRUE"})
    own = {"retention.ms": "1", "cleanup.policy": "compact", "preallocate": "true", "segment.bytes": "5"}
    decision = decide(wanted, seen(*FAIR), own, state())
    assert decision.configure.set == {"retention.ms": "60000"}
    assert decision.summary == "set retention.ms=60000"


@pytest.mark.parametrize("config", [{"min.insync.replicas": 1}, {}])
def test_min_insync_replicas_stay_while_a_partition_has_no_leader_and_the_rest_is_done(config):
    """With a change Kafka forgets which replicas may lead without a loss (KIP-966), for good."""
    wanted = topic(config={"retention.ms": 1, **config}, durability={"tolerate": {"zone": 1}})
    own = {"min.insync.replicas": "3"}
    away = decide(wanted, replace(seen(*FAIR), without_isr=2), own, state())
    assert (away.problem.reason, away.problem.remedy) == ("MinInsyncHeld", Remedy.RETRY)
    assert "while 2 partitions of topic orders have no leader" in away.problem.message
    assert away.configure.set == {"retention.ms": "1"}
    back = decide(wanted, seen(*FAIR), own, state())
    assert back.problem is None
    assert set(back.configure.set) == {"retention.ms", "min.insync.replicas"}
    as_it_is = decide(wanted, replace(seen(*FAIR), without_isr=2), dict(back.configure.set), state())
    assert (as_it_is.problem, as_it_is.configure) == (None, None)


def test_partitions_are_never_taken_away_and_the_rest_is_done():
    decision = decide(topic(partitions=2, config={"retention.ms": 1}), seen(*FAIR), {}, state())
    assert decision.problem.reason == "PartitionsCannotShrink"
    assert "set spec.partitions to 3 or more" in decision.problem.message
    assert decision.grow is None
    assert decision.configure.set == {"retention.ms": "1"}


def test_a_growth_that_cannot_be_does_not_hold_back_a_config():
    wanted = topic(partitions=6, placement={"brokers": {"include": ["0", "1"]}}, config={"retention.ms": 1})
    decision = decide(wanted, seen(*FAIR), {}, state())
    assert decision.problem.reason == "Infeasible"
    assert decision.configure.set == {"retention.ms": "1"}


def test_a_very_large_topic_is_made_in_steps_that_kafka_takes():
    wanted = topic(partitions=20_000, replicationFactor=1)
    first = decide(wanted, None, {}, state(EVEN)).create
    assert first.partitions == len(first.assignment) == MAX_PARTITIONS_AT_ONCE
    grow = decide(wanted, seen(*first.assignment), {}, state(EVEN)).grow
    assert grow.total == 2 * MAX_PARTITIONS_AT_ONCE
    assert len(grow.assignment) == MAX_PARTITIONS_AT_ONCE


class Defers:
    def place(self, spec, cluster):
        return None


def test_a_placer_may_leave_the_choice_to_kafka():
    where = state(EVEN, placers={"MultiLevel": Defers()})
    assert decide(topic(), None, {}, where).create.assignment is None
    assert decide(topic(partitions=4), seen(*FAIR), {}, where).grow.assignment is None


# -- whose topic it is -----------------------------------------------------------------------------------------------

RECREATE = {"onTopicLoss": "Recreate"}
ADOPT = {"rackspan.dev/adopt-topic-id": "id-2"}


@pytest.mark.parametrize(
    ("wanted", "found", "reason"),
    [
        (topic(), None, None),
        (topic(), seen(*FAIR, topic_id="any"), None),
        (topic(status=known()), seen(*FAIR), None),
        (topic(status=known()), None, "TopicVanished"),
        (topic(status=known(), **RECREATE), None, "TopicVanished"),
        (topic(status=known()), seen(*FAIR, topic_id="id-2"), "TopicIdMismatch"),
        (topic(status=known(), **RECREATE), seen(*FAIR, topic_id="id-2"), "TopicIdMismatch"),
        (topic(status=known(), annotations=ADOPT), seen(*FAIR, topic_id="id-2"), None),
        (topic(status=known(), annotations=ADOPT), seen(*FAIR, topic_id="id-3"), "TopicIdMismatch"),
        (topic(status=known(clusterId="kafka-0")), seen(*FAIR), "ClusterIdMismatch"),
        (topic(status=known(clusterId="kafka-0"), **RECREATE), None, "ClusterIdMismatch"),
    ],
)
def test_nothing_is_done_to_a_topic_that_is_not_the_object_s(wanted, found, reason):
    failure = ownership_problem(wanted, found, state())
    assert (failure and failure.reason) == reason
    decision = decide(wanted, found, {}, state())
    assert decision.foreign == failure
    if reason:
        assert decision.idle


def test_a_lost_topic_is_made_again_only_where_that_was_asked_for():
    assert ownership_problem(topic(status=known()), None, state()).remedy == "spec"
    assert ownership_problem(topic(status=known(), **RECREATE), None, state()).remedy == "retry"


# -- whose it is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adoption", "namespace", "adopts"),
    [
        ("Own", "kafka", True),
        ("Own", "shop", False),
        ("Allowed", "shop", True),
        ("Never", "shop", False),
        ("Never", "kafka", False),
    ],
)
def test_adoption_takes_the_topology_s_consent(adoption, namespace, adopts):
    where, there = state(adoption=adoption), seen(*FAIR, topic_id="id-9")
    annotated = {"rackspan.dev/adopt-topic-id": "id-9"}
    for claim in (
        topic(namespace=namespace),
        topic(namespace=namespace, annotations=annotated),
        topic(namespace=namespace, annotations=annotated, status=known("id-1")),
    ):
        found = decide(claim, there, {}, where).foreign
        assert (found and found.reason) == (None if adopts else "AdoptionNotAllowed")
    recreated = decide(topic(namespace=namespace, status=known("id-1")), there, {}, where).foreign
    assert recreated.reason == "TopicIdMismatch"
    assert ("annotate rackspan.dev/adopt-topic-id=id-9" in recreated.message) == adopts


def test_what_an_object_has_already_or_was_about_to_make_is_no_adoption():
    never = state(adoption="Never")
    assert decide(topic(status=known()), seen(*FAIR), {}, never).foreign is None
    assert decide(topic(status={"creating": True}), seen(*FAIR), {}, never).foreign is None
    assert decide(topic(), None, {}, never).create is not None


def test_a_topic_that_kafka_calls_internal_is_left_alone_unless_it_is_listed():
    internal = replace(seen(*FAIR), internal=True)
    assert decide(topic(), internal, {}, state()).foreign.reason == "InternalTopic"
    assert decide(topic(), internal, {}, state(internalTopics=["orders"])).foreign is None


def test_what_is_too_large_is_not_computed():
    """9,000 partitions of 200 replicas over 400 brokers took half a minute of the processor."""
    racks = {broker: f"/z{broker % 3}" for broker in range(400)}
    found = decide(topic(partitions=9_000, replicationFactor=200), None, {}, state(racks, placers={}))
    assert found.problem.reason == "TooLarge", "the placer, which is not there, is not even looked for"
    assert "1,800,000 replicas" in found.problem.message
    assert "more than the 500,000" in found.problem.message


def test_more_replicas_of_a_partition_than_anybody_has_are_not_placed():
    racks = {broker: f"/z{broker % 3}" for broker in range(1_000)}
    found = decide(topic(partitions=1, replicationFactor=501), None, {}, state(racks, placers={}))
    assert found.problem.reason == "TooLarge"
    assert "501 replicas of one partition" in found.problem.message
    claimed = seen(tuple(range(1_000)))
    found = too_large(topic(partitions=1, replicationFactor=3), claimed, state(racks, placers={}))
    assert "1,000 replicas of one partition" in found.message
