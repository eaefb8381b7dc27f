"""Kafka's topic goes if, and only if, it is the very one that the object recorded."""

import pytest
from tests.unit.reconcile.scenes import known, scene, seen, topic

from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile.deletion import Step, farewell, finalizers_for, retained, without_finalizer
from rackspan.reconcile.failures import Failure, Remedy

PAUSED = {"rackspan.dev/paused": "true"}


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_every_object_carries_the_finalizer_since_its_policy_may_change_any_time(policy):
    assert finalizers_for(topic(deletionPolicy=policy)) == (FINALIZER,)
    assert finalizers_for(topic(deletionPolicy=policy, finalizers=["theirs"])) == ("theirs", FINALIZER)
    assert finalizers_for(topic(deletionPolicy=policy, finalizers=["theirs", FINALIZER])) is None
    assert without_finalizer(topic(finalizers=[FINALIZER, "theirs"])) == ("theirs",)


REFUSED = Failure(Reason.NAMESPACE_NOT_ALLOWED, "topology prod is not open to namespace shop", Remedy.SPEC)


@pytest.mark.parametrize(
    ("spec", "refusal", "step", "sentence"),
    [
        ({"deletionPolicy": "Retain", "status": known()}, None, Step.RELEASE, "deletionPolicy is Retain"),
        ({"deletionPolicy": "Delete"}, None, Step.RELEASE, "never had a topic"),
        ({"deletionPolicy": "Delete", "status": known()}, REFUSED, Step.RELEASE, "kept in Kafka: topology prod is not"),
        ({"deletionPolicy": "Delete", "status": known(), "annotations": PAUSED}, None, Step.HOLD, "paused"),
        (
            {"deletionPolicy": "Delete", "status": known(), "annotations": PAUSED},
            REFUSED,
            Step.RELEASE,
            "topology prod is not open",
        ),
        ({"deletionPolicy": "Retain", "status": known(), "annotations": PAUSED}, None, Step.RELEASE, "Retain"),
    ],
)
def test_what_is_kept_whatever_kafka_holds(spec, refusal, step, sentence):
    words = retained(topic(**spec), refusal)
    assert words.step is step
    assert sentence in words.message


def test_else_kafka_has_to_be_asked():
    assert retained(topic(deletionPolicy="Delete", status=known()), None) is None


def test_the_very_topic_is_deleted():
    words = farewell(topic(deletionPolicy="Delete", status=known()), seen((0, 3, 2)), scene())
    assert words.step is Step.DELETE


def test_a_topic_that_is_gone_already_holds_nobody_up():
    assert farewell(topic(status=known()), None, scene()).step is Step.RELEASE


def test_a_topic_of_another_id_is_kept():
    words = farewell(topic(status=known()), seen((0, 3, 2), topic_id="id-2"), scene())
    assert words.step is Step.RELEASE
    assert "it is id-2, recreated by someone else; this object's topic was id-1" in words.message


@pytest.mark.parametrize("found", [None, seen((0, 3, 2))], ids=["gone", "there"])
def test_in_another_cluster_nothing_is_deleted_and_the_object_waits(found):
    words = farewell(topic(status={**known(), "clusterId": "kafka-0"}), found, scene())
    assert words.step is Step.HOLD
    assert "belongs to Kafka cluster kafka-0, the topology now leads to kafka-1" in words.message


@pytest.mark.parametrize(("confirmed", "kept"), [(None, True), ("id-1", False), ("id-2", True), ("", True)])
def test_what_was_adopted_is_deleted_only_when_its_id_is_confirmed(confirmed, kept):
    annotations = {} if confirmed is None else {"rackspan.dev/confirm-delete": confirmed}
    adopted = topic(deletionPolicy="Delete", status=known(adopted=True), annotations=annotations)
    words = retained(adopted, None)
    assert (words is not None) == kept
    if words:
        assert words.step is Step.RELEASE
        assert "rackspan.dev/confirm-delete=id-1" in words.message
