"""Events report each change in Kafka and each change of a condition once."""

from datetime import timedelta

import pytest
from tests.unit.reconcile.examples import NOON, known, seen, topic

from rackspan.api.conditions import ConditionStatus, set_condition
from rackspan.api.kafkatopic import KafkaTopicStatus
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic, ObjectRef
from rackspan.reconcile.topics.topic_decision import Outcome, TopicDecision
from rackspan.reconcile.topics.topic_events import condition_events

REF = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-1")
ROWS = ((0, 1, 2),)
CREATE = NewTopic("orders", 1, 3, ROWS, {})
CONFIGURE = ConfigChange("orders", {"b": "2", "a": "1"})


def condition(kind, status, reason, message="why", existing=(), now=NOON):
    return set_condition(existing, kind, ConditionStatus(status), reason, message, generation=1, now=now)


def told(before, after, outcome=None):
    return [(item.reason, item.warning) for item in condition_events(REF, before, after, outcome)]


def test_each_change_between_compliant_and_not_compliant_is_an_event():
    good = condition("Compliant", "True", Reason.COMPLIANT)
    bad = condition("Compliant", "False", Reason.NOT_COMPLIANT)
    assert told(good, bad) == [("NotCompliant", True)]
    assert told(bad, good) == [("Compliant", False)]
    assert told(bad, bad) == []


@pytest.mark.parametrize("kind", ["Compliant", "RacksInSync"])
def test_condition_that_is_known_again_and_as_before_is_no_event(kind):
    unknown = condition(kind, "Unknown", Reason.KAFKA_UNREACHABLE)
    assert told(unknown, condition(kind, "True", Reason.COMPLIANT)) == []
    assert told(unknown, condition(kind, "False", Reason.NOT_COMPLIANT)) == [("NotCompliant", True)]


def test_topic_that_is_compliant_after_its_spec_was_corrected_is_an_event():
    unknown = condition("Compliant", "Unknown", Reason.UNKNOWN_LEVEL)
    assert told(unknown, condition("Compliant", "True", Reason.COMPLIANT)) == [("Compliant", False)]


def test_first_compliance_result_is_an_event_only_if_not_compliant():
    assert told((), condition("Compliant", "True", Reason.COMPLIANT)) == []
    assert told((), condition("Compliant", "False", Reason.NOT_COMPLIANT)) == [("NotCompliant", True)]


def test_new_reason_of_stalled_is_an_event_and_a_new_message_is_not():
    first = condition("Stalled", "True", Reason.INFEASIBLE, "six brokers")
    later = NOON + timedelta(hours=1)
    assert told(first, condition("Stalled", "True", Reason.INFEASIBLE, "five brokers", first, later)) == []
    assert told(first, condition("Stalled", "True", Reason.INVALID_CONFIG, "no", first, later)) == [
        ("InvalidConfig", True)
    ]


def test_creation_adoption_and_growth_are_events():
    created = Outcome(topic(), seen(*ROWS), decision=TopicDecision(create=CREATE))
    assert told((), (), created) == [("Created", False)]
    adopted = Outcome(topic(), seen(*ROWS))
    assert told((), (), adopted) == [("Adopted", False)]
    known_already = Outcome(topic(status=known()), seen(*ROWS))
    assert told((), (), known_already) == []
    grown = Outcome(topic(status=known()), seen(*ROWS), decision=TopicDecision(grow=NewPartitions("orders", 2, None)))
    assert told((), (), grown) == [("PartitionsAdded", False)]


def test_event_distinguishes_config_drift_from_a_change_of_the_spec():
    def message(generation=1, reason=Reason.IN_SYNC, topic_id="id-1"):
        ready = condition("Ready", "True" if reason == Reason.IN_SYNC else "False", reason)
        status = {**known(topic_id), "conditions": KafkaTopicStatus(conditions=ready).to_dict()["conditions"]}
        wanted = topic(status=status, generation=generation)
        outcome = Outcome(wanted, seen(*ROWS), decision=TopicDecision(configure=CONFIGURE))
        *_, event = condition_events(REF, (), (), outcome)
        return event.message

    asked_for, drifted = "topic orders: set: a=1, b=2", "topic orders: changed in Kafka, put back: a=1, b=2"
    assert message() == message(reason=Reason.PLAN_PENDING) == drifted
    assert message(generation=2) == asked_for
    assert message(topic_id=None) == message(topic_id="id-2") == asked_for, "the topic was not this object's before"
    for reason in (Reason.TOPOLOGY_NOT_READY, Reason.PAUSED, Reason.INVALID_CONFIG, Reason.ADOPTION_NOT_ALLOWED):
        assert message(reason=reason) == asked_for, "the config had not been set before"


def test_min_insync_replicas_change_after_moves_is_not_reported_as_drift():
    def message(before):
        ready = condition("Ready", "True", Reason.IN_SYNC)
        conditions = KafkaTopicStatus(conditions=ready).to_dict()["conditions"]
        wanted = topic(status={**known("id-1"), "conditions": conditions, "minInSyncReplicas": before}, generation=1)
        change = ConfigChange("orders", {"min.insync.replicas": "3"})
        *_, event = condition_events(
            REF, (), (), Outcome(wanted, seen(*ROWS), decision=TopicDecision(configure=change))
        )
        return event.message

    assert message(before=2) == "topic orders: set: min.insync.replicas=3"
    assert message(before=3) == "topic orders: changed in Kafka, put back: min.insync.replicas=3"


def test_refused_creation_is_not_reported_as_created():
    refused = Failure(Reason.INVALID_CONFIG, "no", Remedy.SPEC)
    outcome = Outcome(topic(), decision=TopicDecision(create=CREATE), failures=[refused])
    assert told((), condition("Stalled", "True", Reason.INVALID_CONFIG), outcome) == [("InvalidConfig", True)]


def test_topic_of_another_cluster_is_not_reported_as_adopted():
    other = Failure(Reason.CLUSTER_ID_MISMATCH, "no", Remedy.SPEC)
    assert told((), (), Outcome(topic(), seen(*ROWS), decision=TopicDecision(foreign=other))) == []
