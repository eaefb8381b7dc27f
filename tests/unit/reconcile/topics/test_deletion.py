"""Kafka's topic goes if, and only if, it is the very one that the object recorded."""

from collections import Counter
from datetime import timedelta

import pytest
from tests.unit.reconcile.examples import NOON, known, seen, state, topic, topology

from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import Terminating
from rackspan.reconcile.topics.topic_deletion import (
    DeletionDecision,
    DeletionStep,
    bursts,
    decide_deletion,
    held_or_retained,
    released_after_timeout,
    retained_by_spec,
    retained_by_teardown,
)

PAUSED = {"rackspan.dev/paused": "true"}


REFUSED = Failure(Reason.NAMESPACE_NOT_ALLOWED, "topology prod is not open to namespace shop", Remedy.SPEC)


@pytest.mark.parametrize(
    ("spec", "refusal", "step", "sentence"),
    [
        ({"deletionPolicy": "Retain", "status": known()}, None, DeletionStep.RELEASE, "deletionPolicy is Retain"),
        ({"deletionPolicy": "Delete"}, None, DeletionStep.RELEASE, "never had a topic"),
        (
            {"deletionPolicy": "Delete", "status": known()},
            REFUSED,
            DeletionStep.RELEASE,
            "kept in Kafka: topology prod is not",
        ),
        (
            {"deletionPolicy": "Delete", "status": known(), "annotations": PAUSED},
            REFUSED,
            DeletionStep.RELEASE,
            "topology prod is not open",
        ),
        ({"deletionPolicy": "Retain", "status": known(), "annotations": PAUSED}, None, DeletionStep.RELEASE, "Retain"),
    ],
)
def test_what_is_kept_whatever_kafka_holds(spec, refusal, step, sentence):
    decision = retained_by_spec(topic(**spec), refusal)
    assert decision.step is step
    assert sentence in decision.message


AROUND = Terminating()
ENDING = Terminating(namespaces={"shop": NOON})


def going(name="orders", **spec):
    return topic(name, deletionPolicy="Delete", status=known(), finalizers=[FINALIZER], **spec)


def test_a_definition_that_is_being_deleted_takes_no_topic_along():
    around = Terminating(definitions=("kafkatopics.rackspan.dev",))
    decision = retained_by_teardown(going(), topology(), around)
    assert decision.step is DeletionStep.RELEASE
    assert "kept in Kafka: the definition kafkatopics.rackspan.dev is being deleted" in decision.message


def test_without_its_topology_an_object_waits_for_nothing():
    decision = retained_by_teardown(going(), None, AROUND)
    assert (decision.step, decision.message) == (
        DeletionStep.RELEASE,
        "topic orders is kept in Kafka: there is no RackTopology kafka/prod",
    )


def test_what_is_paused_waits():
    decision = held_or_retained(going(annotations=PAUSED), topology(), AROUND, confirmed=False, waits=False)
    assert (decision.step, decision.reason) == (DeletionStep.HOLD, Reason.DELETION_BLOCKED)
    assert "paused" in decision.message


def test_the_end_of_a_namespace_waits_for_a_person():
    decision = held_or_retained(going(), topology(), ENDING, confirmed=False, waits=True)
    assert (decision.step, decision.reason) == (DeletionStep.HOLD, Reason.DELETION_HELD)
    assert "namespace shop is being deleted: topic orders is deleted once a person confirms it" in decision.message
    assert held_or_retained(going(), topology(), ENDING, confirmed=True, waits=False) is None


def test_a_namespace_that_holds_the_topology_too_ends_at_once_and_the_topics_stay():
    decision = held_or_retained(going(), topology(namespace="shop"), ENDING, confirmed=False, waits=True)
    assert decision.step is DeletionStep.RELEASE
    assert "namespace shop is being deleted, and RackTopology shop/prod with it" in decision.message
    assert held_or_retained(going(), topology(namespace="shop"), ENDING, confirmed=True, waits=False) is None


def test_no_namespace_hangs_for_ever():
    decision = DeletionDecision(DeletionStep.HOLD, "no broker answers")
    assert released_after_timeout(going(), decision, ENDING, NOON + timedelta(minutes=9)) is decision
    assert released_after_timeout(going(), decision, AROUND, NOON + timedelta(days=9)) is decision
    at_last = released_after_timeout(going(), decision, ENDING, NOON + timedelta(minutes=10))
    assert at_last.step is DeletionStep.RELEASE
    assert at_last.message.endswith("and this is still so: no broker answers")
    younger = topic(created="2026-01-31T12:00:01Z", deletionPolicy="Delete")
    assert released_after_timeout(younger, decision, ENDING, NOON + timedelta(days=9)) is decision


@pytest.mark.parametrize(
    ("seconds", "limit", "crowd"),
    [
        ([], 0, []),
        ([0], 0, [0]),
        ([0, 0, 1], 3, []),
        ([0, 0, 1], 2, [0, 1]),
        ([0, 59, 60], 2, []),
        ([0, 1, 59, 200, 201], 2, [0, 1, 59]),
        ([0, 30, 60, 90, 120], 1, [0, 30, 60, 90, 120]),
    ],
)
def test_more_than_so_many_within_a_minute_are_a_crowd(seconds, limit, crowd):
    def at(second):
        return NOON + timedelta(seconds=second)

    assert bursts(Counter(map(at, seconds)), limit) == set(map(at, crowd))


def test_a_topic_of_another_id_is_kept():
    decision = decide_deletion(topic(status=known()), seen((0, 3, 2), topic_id="id-2"), state())
    assert decision.step is DeletionStep.RELEASE
    assert "it is id-2, recreated by someone else; this object's topic was id-1" in decision.message


@pytest.mark.parametrize("found", [None, seen((0, 3, 2))], ids=["gone", "there"])
def test_in_another_cluster_nothing_is_deleted_and_the_object_waits(found):
    decision = decide_deletion(topic(status={**known(), "clusterId": "kafka-0"}), found, state())
    assert decision.step is DeletionStep.HOLD
    assert "belongs to Kafka cluster kafka-0, and the topology is now connected to kafka-1" in decision.message


@pytest.mark.parametrize(("confirmed", "kept"), [(None, True), ("id-1", False), ("id-2", True), ("", True)])
def test_what_was_adopted_is_deleted_only_when_its_id_is_confirmed(confirmed, kept):
    annotations = {} if confirmed is None else {"rackspan.dev/confirm-delete": confirmed}
    adopted = topic(deletionPolicy="Delete", status=known(adopted=True), annotations=annotations)
    decision = retained_by_spec(adopted, None)
    assert (decision is not None) == kept
    if decision:
        assert decision.step is DeletionStep.RELEASE
        assert "rackspan.dev/confirm-delete=id-1" in decision.message
