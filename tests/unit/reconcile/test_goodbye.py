"""Carrying out deletions: what goes is what was compared, in few calls, and one object holds back no other."""

import pytest
from tests.unit.reconcile.memory import MemoryKafka
from tests.unit.reconcile.scenes import known, scene, topic

from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile import goodbye
from rackspan.reconcile.deletion import Step
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.finalizers import Finalizers

BUSY = Failure(Reason.KAFKA_REFUSED, "the controller is busy", Remedy.RETRY)
AWAY = Failure(Reason.API_SERVER_UNREACHABLE, "nobody answers", Remedy.RETRY)


def leaving(name="orders", **spec):
    return topic(name, deletionPolicy="Delete", status=known(f"id-of-{name}"), finalizers=[FINALIZER], **spec)


class MemoryKube:
    """Takes finalizers away, unless the object `changed` or the API server fails for it."""

    def __init__(self, *, changed=False, failing=()):
        self.changed = changed
        self.failing = failing
        self.announced = []

    async def set_finalizers(self, ref, finalizers, version):
        if ref.key.name in self.failing:
            raise FailureError(AWAY)
        return None if self.changed else {"metadata": {"finalizers": list(finalizers)}}

    def announce(self, announcement):
        self.announced.append(announcement.reason)


@pytest.fixture(autouse=True)
def _without_pause(monkeypatch):
    monkeypatch.setattr(goodbye, "_LAG_SECONDS", 0)


@pytest.fixture
def kafka():
    return MemoryKafka({"orders": ((0, 3, 2),) * 3})


@pytest.fixture
def many():
    """500 objects and a Kafka that has all their topics."""
    topics = [leaving(f"orders-{number}") for number in range(500)]
    return topics, MemoryKafka({one.topic_name: ((0, 3, 2),) * 3 for one in topics})


async def let_go(kube, kafka, *topics, refusal=None):
    farewells = goodbye.Goodbye(kube, Finalizers(kube))
    return await farewells.let_go([(one, refusal) for one in topics], scene(), kafka)


async def test_the_topic_goes_and_then_the_object(kafka):
    kube = MemoryKube()
    assert await let_go(kube, kafka, leaving()) == {}
    assert kafka.replicas == {}
    assert kube.announced == ["Deleted"]


async def test_an_object_that_is_not_let_near_its_topic_goes_alone(kafka):
    kube = MemoryKube()
    refusal = Failure(Reason.TOPIC_CONFLICT, "KafkaTopic shop/other is older", Remedy.SPEC)
    assert await let_go(kube, kafka, leaving(), refusal=refusal) == {}
    assert kafka.calls == []
    assert kube.announced == ["Released"]


async def test_one_that_was_made_anew_behind_a_broker_that_is_behind_is_kept(kafka):
    kube, ids = MemoryKube(), iter(["id-of-orders", "another-id"])
    kafka.ids = lambda _: next(ids)
    assert await let_go(kube, kafka, leaving()) == {}
    assert kafka.made("delete_topics") == []
    assert kube.announced == ["Released"]


async def test_an_object_that_changes_meanwhile_is_let_go_later(kafka):
    (words,) = (await let_go(MemoryKube(changed=True), kafka, leaving())).values()
    assert words.step is Step.AGAIN


async def test_five_hundred_deletions_are_a_handful_of_calls(many):
    topics, kafka = many
    assert await let_go(MemoryKube(), kafka, *topics) == {}
    assert kafka.replicas == {}
    assert len(kafka.made("describe_topics")) == 2
    assert [len(names) for names in kafka.made("delete_topics")] == [500], "2,000 records"


async def test_a_call_has_no_more_records_than_kafka_takes():
    topics = [leaving(f"orders-{number}") for number in range(4)]
    kafka = MemoryKafka({one.topic_name: ((0, 3, 2),) * 1_200 for one in topics})
    assert await let_go(MemoryKube(), kafka, *topics) == {}
    assert [len(names) for names in kafka.made("delete_topics")] == [2, 2]


async def test_a_topic_that_kafka_does_not_let_go_of_holds_back_no_other(many):
    topics, kafka = many
    refused = {"orders-7": BUSY}

    async def delete_topics(ids):
        kafka.refusing = refused
        answers = await MemoryKafka.delete_topics(kafka, ids)
        kafka.refusing = {}
        return answers

    kafka.delete_topics = delete_topics
    again = await let_go(MemoryKube(), kafka, *topics)
    assert {key.name: words.message for key, words in again.items()} == {"orders-7": "the controller is busy"}
    assert list(kafka.replicas) == ["orders-7"]


async def test_an_object_that_the_api_server_does_not_release_holds_back_no_other(many):
    topics, kafka = many
    again = await let_go(MemoryKube(failing={"orders-7"}), kafka, *topics)
    assert {key.name: words.step for key, words in again.items()} == {"orders-7": Step.AGAIN}
    assert kafka.replicas == {}


async def test_while_kafka_is_away_all_wait_and_are_told(kafka):
    kafka.broken["describe_topics"] = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)
    (words,) = (await let_go(MemoryKube(), kafka, leaving())).values()
    assert (words.step, words.message) == (Step.HOLD, "no broker answers")
