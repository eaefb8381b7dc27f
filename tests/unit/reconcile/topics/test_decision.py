"""Decisions about one topic follow from the object, the topic in Kafka and the cluster state. They move no replica."""

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


def test_missing_topic_is_created_with_the_assignment_of_the_placer():
    decision = decide(topic(config={"retention.ms": 60_000}), None, {}, state())
    create = decision.create
    assert (create.name, create.partitions, create.replication_factor) == ("orders", 3, 3)
    assert create.config == {"retention.ms": "60000"}
    for row in create.assignment:
        assert len({SIX[broker].split("/")[1] for broker in row}) == 2
    assert decision.problem is None
    assert decision.summary == "create 3 partitions of 3 replicas"


def test_topic_that_matches_its_spec_is_not_changed():
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
def test_new_partitions_have_as_many_replicas_as_existing_partitions(wanted):
    """Kafka refuses any other number, and the plan changes all partitions together."""
    grow = decide(topic(partitions=5, replicationFactor=wanted), seen(*FAIR), {}, state()).grow
    assert [len(row) for row in grow.assignment] == [3, 3]


def test_explicit_assignment_sets_the_replicas_of_created_and_added_partitions():
    assigned = {"replicationFactor": 2, "placement": {"assignment": [[5, 0], [0, 1], [3, 2]]}}
    assert decide(topic(**assigned), None, {}, state()).create.assignment == ((5, 0), (0, 1), (3, 2))
    grow = decide(topic(**assigned), seen((1, 2)), {}, state()).grow
    assert (grow.total, grow.assignment) == (3, ((0, 1), (3, 2)))


def test_only_configs_of_the_spec_that_differ_in_kafka_are_set():
    wanted = topic(config={"retention.ms": 60_000, "cleanup.policy": "compact", "preallocate": "TRUE"})
    own = {"retention.ms": "1", "cleanup.policy": "compact", "preallocate": "true", "segment.bytes": "5"}
    decision = decide(wanted, seen(*FAIR), own, state())
    assert decision.configure.set == {"retention.ms": "60000"}
    assert decision.summary == "set retention.ms=60000"


@pytest.mark.parametrize("config", [{"min.insync.replicas": 1}, {}])
def test_min_insync_replicas_is_held_while_partitions_have_no_leader_but_other_configs_are_set(config):
    """After a change Kafka permanently forgets which replicas can lead without data loss (KIP-966)."""
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


def test_fewer_partitions_are_refused_but_configs_are_set():
    decision = decide(topic(partitions=2, config={"retention.ms": 1}), seen(*FAIR), {}, state())
    assert decision.problem.reason == "PartitionsCannotShrink"
    assert "set spec.partitions to 3 or more" in decision.problem.message
    assert decision.grow is None
    assert decision.configure.set == {"retention.ms": "1"}


def test_infeasible_growth_does_not_prevent_config_changes():
    wanted = topic(partitions=6, placement={"brokers": {"include": ["0", "1"]}}, config={"retention.ms": 1})
    decision = decide(wanted, seen(*FAIR), {}, state())
    assert decision.problem.reason == "Infeasible"
    assert decision.configure.set == {"retention.ms": "1"}


def test_very_large_topic_is_created_in_steps_of_the_maximum_number_of_partitions():
    wanted = topic(partitions=20_000, replicationFactor=1)
    first = decide(wanted, None, {}, state(EVEN)).create
    assert first.partitions == len(first.assignment) == MAX_PARTITIONS_AT_ONCE
    grow = decide(wanted, seen(*first.assignment), {}, state(EVEN)).grow
    assert grow.total == 2 * MAX_PARTITIONS_AT_ONCE
    assert len(grow.assignment) == MAX_PARTITIONS_AT_ONCE


class Defers:
    def place(self, spec, cluster):
        return None


def test_no_assignment_is_sent_if_the_placer_leaves_the_choice_to_kafka():
    where = state(EVEN, placers={"MultiLevel": Defers()})
    assert decide(topic(), None, {}, where).create.assignment is None
    assert decide(topic(partitions=4), seen(*FAIR), {}, where).grow.assignment is None


# -- topic ids and cluster ids ---------------------------------------------------------------------------------------

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
def test_topic_that_does_not_belong_to_the_object_is_not_changed(wanted, found, reason):
    failure = ownership_problem(wanted, found, state())
    assert (failure and failure.reason) == reason
    decision = decide(wanted, found, {}, state())
    assert decision.foreign == failure
    if reason:
        assert decision.idle


def test_vanished_topic_is_retried_only_if_on_topic_loss_is_recreate():
    assert ownership_problem(topic(status=known()), None, state()).remedy == "spec"
    assert ownership_problem(topic(status=known(), **RECREATE), None, state()).remedy == "retry"


# -- adoption ----------------------------------------------------------------------------------------------------------


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
def test_existing_topic_is_adopted_only_if_the_topology_allows_it(adoption, namespace, adopts):
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


def test_recorded_claimed_or_new_topic_needs_no_permission_for_adoption():
    never = state(adoption="Never")
    assert decide(topic(status=known()), seen(*FAIR), {}, never).foreign is None
    assert decide(topic(status={"creating": True}), seen(*FAIR), {}, never).foreign is None
    assert decide(topic(), None, {}, never).create is not None


def test_internal_topic_is_refused_unless_the_topology_lists_it():
    internal = replace(seen(*FAIR), internal=True)
    assert decide(topic(), internal, {}, state()).foreign.reason == "InternalTopic"
    assert decide(topic(), internal, {}, state(internalTopics=["orders"])).foreign is None


def test_topic_with_too_many_replicas_is_refused_before_placement():
    """Placement of 9,000 partitions with 200 replicas on 400 brokers took half a minute of CPU time."""
    racks = {broker: f"/z{broker % 3}" for broker in range(400)}
    found = decide(topic(partitions=9_000, replicationFactor=200), None, {}, state(racks, placers={}))
    assert found.problem.reason == "TooLarge", "the missing placer is not looked up"
    assert "1,800,000 replicas" in found.problem.message
    assert "more than the 500,000" in found.problem.message


def test_partition_with_too_many_replicas_is_refused():
    racks = {broker: f"/z{broker % 3}" for broker in range(1_000)}
    found = decide(topic(partitions=1, replicationFactor=501), None, {}, state(racks, placers={}))
    assert found.problem.reason == "TooLarge"
    assert "501 replicas of one partition" in found.problem.message
    claimed = seen(tuple(range(1_000)))
    found = too_large(topic(partitions=1, replicationFactor=3), claimed, state(racks, placers={}))
    assert "1,000 replicas of one partition" in found.message
