"""A topic is deleted from Kafka if and only if it is the one that the object recorded."""

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
    DeletionGate,
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
def test_object_is_released_without_reading_kafka_if_its_topic_is_kept(spec, refusal, step, sentence):
    decision = retained_by_spec(topic(**spec), refusal)
    assert decision.step is step
    assert sentence in decision.message


AROUND = Terminating()
ENDING = Terminating(namespaces={"shop": NOON})


def going(name="orders", **spec):
    return topic(name, deletionPolicy="Delete", status=known(), finalizers=[FINALIZER], **spec)


def test_deletion_of_the_crd_keeps_the_topic():
    around = Terminating(definitions=("kafkatopics.rackspan.dev",))
    decision = retained_by_teardown(going(), topology(), around)
    assert decision.step is DeletionStep.RELEASE
    assert "kept in Kafka: the definition kafkatopics.rackspan.dev is being deleted" in decision.message


def test_object_without_topology_is_released_and_its_topic_kept():
    decision = retained_by_teardown(going(), None, AROUND)
    assert (decision.step, decision.message) == (
        DeletionStep.RELEASE,
        "topic orders is kept in Kafka: there is no RackTopology kafka/prod",
    )


def test_deletion_of_a_paused_object_is_held():
    decision = held_or_retained(going(annotations=PAUSED), topology(), AROUND, confirmed=False, waits=False)
    assert (decision.step, decision.reason) == (DeletionStep.HOLD, Reason.DELETION_BLOCKED)
    assert "paused" in decision.message


def test_deletion_of_a_namespace_is_held_until_it_is_confirmed():
    decision = held_or_retained(going(), topology(), ENDING, confirmed=False, waits=True)
    assert (decision.step, decision.reason) == (DeletionStep.HOLD, Reason.DELETION_HELD)
    assert "namespace shop is being deleted: topic orders is deleted once a person confirms it" in decision.message
    assert held_or_retained(going(), topology(), ENDING, confirmed=True, waits=False) is None


def test_deletion_of_a_namespace_with_its_topology_releases_objects_and_keeps_topics():
    decision = held_or_retained(going(), topology(namespace="shop"), ENDING, confirmed=False, waits=True)
    assert decision.step is DeletionStep.RELEASE
    assert "namespace shop is being deleted, and RackTopology shop/prod with it" in decision.message
    assert held_or_retained(going(), topology(namespace="shop"), ENDING, confirmed=True, waits=False) is None


def test_held_object_is_released_after_the_namespace_timeout():
    decision = DeletionDecision(DeletionStep.HOLD, "no broker answers")
    assert released_after_timeout(going(), decision, ENDING, timedelta(minutes=9)) is decision
    assert released_after_timeout(going(), decision, AROUND, timedelta(days=9)) is decision
    at_last = released_after_timeout(going(), decision, ENDING, timedelta(minutes=10))
    assert at_last.step is DeletionStep.RELEASE
    assert at_last.message.endswith("and this is still so: no broker answers")
    younger = topic(created="2026-01-31T12:00:01Z", deletionPolicy="Delete")
    assert released_after_timeout(younger, decision, ENDING, timedelta(days=9)) is decision


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
def test_deletions_above_the_limit_within_a_minute_are_a_burst(seconds, limit, crowd):
    def at(second):
        return NOON + timedelta(seconds=second)

    assert bursts(Counter(map(at, seconds)), limit) == set(map(at, crowd))


class Clocks:
    """A gate, and requests of which each is seen once the earlier ones are done. Times are seconds after NOON."""

    def __init__(self):
        self.now = 0.0
        self.asked = 0
        self.waiting = []
        self.start()

    def start(self, status=None):
        self.gate = DeletionGate(lambda: self.now)
        self.gate.restore(status)

    def passes(self, at):
        """Return whether the topic of a request is deleted without a confirmation. Else the request waits."""
        self.asked += 1
        deleted = (NOON + timedelta(seconds=at)).isoformat()
        one = topic(f"orders-{self.asked}", deleted=deleted, deletionPolicy="Delete", status=known())
        self.gate.review([*self.waiting, one], (), 10)
        if one.key in self.gate.waiting:
            self.waiting.append(one)
            return False
        self.gate.record_deletions([one])
        return True


AHEAD = pytest.mark.parametrize("ahead", [0, 90, 3 * 86_400])
"""By how many seconds the clock of an API server is ahead at first."""


@pytest.mark.parametrize("seen_late", [True, False])
def test_deletions_below_the_limit_pass_also_if_they_are_seen_late(seen_late):
    clocks = Clocks()
    for at in range(0, 700, 7):
        clocks.now = 700 if seen_late else at
        assert clocks.passes(at)


@AHEAD
@pytest.mark.parametrize("first", [1, 9, 11])
def test_clock_that_was_ahead_lets_no_more_deletions_pass_than_the_limit_also_after_a_restart(ahead, first):
    clocks = Clocks()
    requests = [ahead] * first + list(range(40))
    assert sum(map(clocks.passes, requests)) == 10
    clocks.start(clocks.gate.status)
    assert not any(map(clocks.passes, range(40, 59)))


def test_each_of_two_clocks_that_differ_lets_no_more_deletions_pass_than_the_limit():
    clocks = Clocks()
    assert sum(clocks.passes(at + ahead) for at in range(50) for ahead in (0, 90)) <= 20


@AHEAD
@pytest.mark.parametrize("restarted", [True, False])
def test_deletions_before_a_clock_was_set_back_count_for_a_minute(ahead, restarted):
    clocks = Clocks()
    assert all(clocks.passes(ahead) for _ in range(10))
    if restarted:
        clocks.start(clocks.gate.status)
    clocks.now = 59
    assert not clocks.passes(59)
    clocks.waiting.clear()
    clocks.now = 60
    assert clocks.passes(60)
    assert [one.count for one in clocks.gate.status.recent] == [1]


def test_deletion_that_passed_and_takes_longer_than_a_minute_is_not_held():
    clocks = Clocks()
    going_on = [topic(f"slow-{at}", deleted=NOON.isoformat(), deletionPolicy="Delete") for at in range(10)]
    clocks.gate.record_deletions(going_on)
    clocks.now = 61
    clocks.waiting += going_on
    assert not clocks.passes(59)
    assert len(clocks.gate.waiting) == 1


def test_topic_with_another_id_is_kept():
    decision = decide_deletion(topic(status=known()), seen((0, 3, 2), topic_id="id-2"), state())
    assert decision.step is DeletionStep.RELEASE
    assert "it is id-2, recreated by someone else; this object's topic was id-1" in decision.message


@pytest.mark.parametrize("found", [None, seen((0, 3, 2))], ids=["gone", "there"])
def test_deletion_is_held_while_the_topology_is_connected_to_another_cluster(found):
    decision = decide_deletion(topic(status={**known(), "clusterId": "kafka-0"}), found, state())
    assert decision.step is DeletionStep.HOLD
    assert "belongs to Kafka cluster kafka-0, and the topology is now connected to kafka-1" in decision.message


@pytest.mark.parametrize(("confirmed", "kept"), [(None, True), ("id-1", False), ("id-2", True), ("", True)])
def test_adopted_topic_is_deleted_only_if_its_id_is_confirmed(confirmed, kept):
    annotations = {} if confirmed is None else {"rackspan.dev/confirm-delete": confirmed}
    adopted = topic(deletionPolicy="Delete", status=known(adopted=True), annotations=annotations)
    decision = retained_by_spec(adopted, None)
    assert (decision is not None) == kept
    if decision:
        assert decision.step is DeletionStep.RELEASE
        assert "rackspan.dev/confirm-delete=id-1" in decision.message
