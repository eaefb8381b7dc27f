"""Deletions in Kafka: only compared topics are deleted, in few calls, and no object blocks another."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from tests.support.loop_clock import pass_time
from tests.unit.reconcile.examples import NOON, condition, known, state, topic, topology
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.labels import CONFIRM_DELETIONS, FINALIZER, PAUSED
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Terminating
from rackspan.reconcile.runtime.writers import FinalizerWriter
from rackspan.reconcile.topics import topic_finalizer
from rackspan.reconcile.topics.topic_deletion import DeletionStep

BUSY = Failure(Reason.KAFKA_REFUSED, "the controller is busy", Remedy.RETRY)
AWAY = Failure(Reason.API_SERVER_UNREACHABLE, "nobody answers", Remedy.RETRY)


def leaving(name="orders", **spec):
    given = {"deleted": "2026-01-31T12:00:00Z", "status": known(f"id-of-{name}"), "deletionPolicy": "Delete", **spec}
    return topic(name, finalizers=[FINALIZER], **given)


def burst(count, name="orders", **spec):
    return [leaving(f"{name}-{number}", **spec) for number in range(count)]


def confirming(*confirmations):
    return topology(annotations={CONFIRM_DELETIONS: ",".join(confirmations)})


def confirmation(*topics):
    """Return the confirmation of exactly these deletions, computed without the code under test."""
    lines = sorted(f"{one.meta.name} {one.status.topic_id}\n" for one in topics)
    return f"{topics[0].meta.namespace}:{hashlib.sha256(''.join(lines).encode()).hexdigest()[:32]}"


class MemoryKube:
    """Removes finalizers, unless the object has `changed` or its name is in `failing`."""

    def __init__(self, *, changed=False, failing=(), around=None):
        self.changed = changed
        self.failing = failing
        self.around = around or Terminating()
        self.announced = []
        self.removed = []
        self.kept = []
        """The annotations that were replaced, with their new values."""

    async def set_finalizers(self, ref, finalizers, version, annotations):
        if ref.key.name in self.failing:
            raise FailureError(AWAY)
        return None if self.changed else {"metadata": {"finalizers": list(finalizers)}}

    async def terminating(self, namespaces):
        if isinstance(self.around, Failure):
            raise FailureError(self.around)
        return self.around

    async def set_annotation(self, ref, name, value, version):
        if value is None:
            self.removed.append(name)
        else:
            self.kept.append((name, value))
        return {
            "metadata": {"namespace": ref.key.namespace, "name": ref.key.name, "uid": ref.uid, "resourceVersion": "0"}
        }

    def record_event(self, event):
        self.announced.append(event.reason)


@pytest.fixture(autouse=True)
def _without_pause(monkeypatch):
    monkeypatch.setattr(topic_finalizer, "_LAG_SECONDS", 0)


@pytest.fixture(autouse=True)
def _all_admitted(monkeypatch):
    monkeypatch.setattr(topic_finalizer, "refusals", lambda _: lambda _: None)


@pytest.fixture
def kafka():
    return MemoryKafka({"orders": ((0, 3, 2),) * 3})


@pytest.fixture
def many():
    """Return 500 objects and a Kafka that has all their topics."""
    topics = burst(500)
    return topics, all_of(topics)


class House:
    """One topology, its objects and the finalizer under test."""

    def __init__(self, kube, kafka, *topics, prod=None):
        self.cache = Cache()
        self.kube, self.kafka, self.topics = kube, kafka, topics
        self.recorded = []
        prod = topology(maxDeletionsPerMinute=1000) if prod is None else prod
        self.annotate(prod)
        for one in topics:
            self.cache.keep_topic(one)
        dependencies = SimpleNamespace(cache=self.cache, kube=kube, finalizers=FinalizerWriter(kube))
        self.finalizer = topic_finalizer.TopicFinalizer(prod.key, dependencies, self.record)

    def annotate(self, prod):
        self.cache.topologies[prod.key] = prod

    async def record(self):
        status, _ = self.finalizer.review()
        self.recorded.append((status, len(self.kafka.made("delete_topics"))))

    async def process(self, *topics):
        return await self.finalizer.process(topics or self.topics, state(), self.kafka)


async def process(kube, kafka, *topics, prod=None):
    return await House(kube, kafka, *topics, prod=prod).process()


def held_by(again):
    return {decision.reason for decision in again.values()}


async def test_topic_is_deleted_and_the_object_is_released(kafka):
    kube = MemoryKube()
    assert await process(kube, kafka, leaving()) == {}
    assert kafka.replicas == {}
    assert kube.announced == ["Deleted"]


async def test_refused_object_is_released_without_reading_or_deleting_its_topic(kafka, monkeypatch):
    kube = MemoryKube()
    refusal = Failure(Reason.TOPIC_CONFLICT, "KafkaTopic shop/other is older", Remedy.SPEC)
    monkeypatch.setattr(topic_finalizer, "refusals", lambda _: lambda _: refusal)
    assert await process(kube, kafka, leaving()) == {}
    assert kafka.calls == []
    assert kube.announced == ["Released"]


async def test_topic_recreated_with_another_id_is_kept_if_only_the_second_read_shows_it(kafka):
    kube, ids = MemoryKube(), iter(["id-of-orders", "another-id"])
    kafka.ids = lambda _: next(ids)
    assert await process(kube, kafka, leaving()) == {}
    assert kafka.made("delete_topics") == []
    assert kube.announced == ["Released"]


async def test_finalizer_removal_is_retried_if_the_object_has_changed(kafka):
    (decision,) = (await process(MemoryKube(changed=True), kafka, leaving())).values()
    assert decision.step is DeletionStep.RETRY


async def test_five_hundred_deletions_need_two_describe_calls_and_one_delete_call(many):
    topics, kafka = many
    assert await process(MemoryKube(), kafka, *topics) == {}
    assert kafka.replicas == {}
    assert len(kafka.made("describe_topics")) == 2
    assert [len(names) for names in kafka.made("delete_topics")] == [500], "2,000 records"


async def test_delete_call_has_no_more_records_than_kafka_accepts():
    topics = burst(4)
    kafka = MemoryKafka({one.topic_name: ((0, 3, 2),) * 1_200 for one in topics})
    assert await process(MemoryKube(), kafka, *topics) == {}
    assert [len(names) for names in kafka.made("delete_topics")] == [2, 2]


async def test_topic_that_kafka_refuses_to_delete_does_not_block_others(many):
    topics, kafka = many
    refused = {"orders-7": BUSY}

    async def delete_topics(ids):
        kafka.refusing = refused
        answers = await MemoryKafka.delete_topics(kafka, ids)
        kafka.refusing = {}
        return answers

    kafka.delete_topics = delete_topics
    again = await process(MemoryKube(), kafka, *topics)
    assert {key.name: decision.message for key, decision in again.items()} == {"orders-7": "the controller is busy"}
    assert list(kafka.replicas) == ["orders-7"]


async def test_object_whose_finalizer_cannot_be_removed_does_not_block_others(many):
    topics, kafka = many
    again = await process(MemoryKube(failing={"orders-7"}), kafka, *topics)
    assert {key.name: decision.step for key, decision in again.items()} == {"orders-7": DeletionStep.HOLD}
    assert kafka.replicas == {}


async def test_deletion_is_held_with_a_message_while_kafka_is_unreachable(kafka):
    kafka.broken["describe_topics"] = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)
    (decision,) = (await process(MemoryKube(), kafka, leaving())).values()
    assert (decision.step, decision.message) == (DeletionStep.HOLD, "no broker answers")


async def test_deletion_is_retried_without_event_while_the_client_is_replaced():
    kube = MemoryKube()
    (decision,) = (await process(kube, None, leaving())).values()
    assert (decision.step, kube.announced) == (DeletionStep.RETRY, [])


# -- confirmation by a user ------------------------------------------------------------------------------------------


def all_of(topics):
    return MemoryKafka({one.topic_name: ((0, 3, 2),) * 3 for one in topics})


async def test_ten_deletions_pass_and_eleven_need_confirmation():
    for count, gone in ((10, 10), (11, 0)):
        topics = burst(count)
        kafka = all_of(topics)
        again = await process(MemoryKube(), kafka, *topics, prod=topology())
        assert len(kafka.replicas) == count - gone
        assert len(again) == count - gone


async def test_burst_in_one_namespace_does_not_hold_deletions_of_another():
    topics, single = burst(11, namespace="loud"), leaving("calm", namespace="calm")
    kafka = all_of([*topics, single])
    again = await process(MemoryKube(), kafka, *topics, single, prod=topology())
    assert {key.namespace for key in again} == {"loud"}
    assert held_by(again) == {Reason.DELETION_HELD}
    assert "calm" not in kafka.replicas


async def test_deletions_in_one_namespace_do_not_count_for_another():
    topics, more = burst(10, namespace="loud"), burst(10, "more", namespace="calm")
    kafka = all_of([*topics, *more])
    assert await process(MemoryKube(), kafka, *topics, *more, prod=topology()) == {}
    assert kafka.replicas == {}


async def test_confirmed_deletions_are_carried_out_and_the_confirmation_is_removed():
    topics, more = burst(11), leaving("more")
    kube, kafka = MemoryKube(), all_of([*topics, more])
    house = House(kube, kafka, *topics, prod=topology())
    assert held_by(await house.process()) == {Reason.DELETION_HELD}
    status, _ = house.finalizer.review()
    assert (status.waiting, [one.confirmation for one in status.held]) == (11, [confirmation(*topics)])
    house.annotate(confirming(confirmation(*topics)))
    assert await house.process() == {}
    assert list(kafka.replicas) == ["more"]
    assert kube.removed == [CONFIRM_DELETIONS]


WRONG = [
    lambda topics: confirmation(*topics[1:]),
    lambda topics: confirmation(*topics, leaving("more")),
    lambda topics: confirmation(leaving("orders-0", status=known("id-of-another")), *topics[1:]),
    lambda topics: confirmation(leaving("other"), *topics[1:]),
    lambda topics: confirmation(*topics).partition(":")[2],
    lambda topics: confirmation(*topics)[:-1],
    lambda topics: "shop:",
    lambda topics: "11",
    lambda topics: "",
    lambda topics: "\x1b[2J" * 1000,
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_confirmation_of_other_deletions_than_the_waiting_ones_is_rejected(wrong):
    topics = burst(11)
    kube, kafka = MemoryKube(), all_of(topics)
    house = House(kube, kafka, *topics, prod=topology())
    await house.process()
    house.annotate(confirming(wrong(topics)))
    assert held_by(await house.process()) == {Reason.DELETION_HELD}
    assert len(kafka.replicas) == 11
    assert (kube.removed, kube.announced) == ([CONFIRM_DELETIONS], [Reason.DELETION_HELD])


async def test_event_about_an_invalid_confirmation_is_short_and_printable():
    topics = burst(11)
    kube = MemoryKube()
    told = []
    kube.record_event = told.append
    house = House(kube, all_of(topics), *topics, prod=topology())
    await house.process()
    house.annotate(confirming("shop:", "\x1b[2J" * 10_000 + ":"))
    await house.process()
    (event,) = told
    assert len(event.message) < 400
    assert event.message.isprintable()


async def test_confirmation_does_not_apply_to_topics_that_replaced_the_confirmed_ones():
    topics = burst(11)
    kafka = all_of([*topics, leaving("ledger")])
    house = House(MemoryKube(), kafka, *topics, prod=topology())
    await house.process()
    word = confirmation(*topics)
    house.cache.drop_topic(topics[0].key)
    house.cache.keep_topic(leaving("ledger"))
    house.annotate(confirming(word))
    assert held_by(await house.process(*topics[1:], leaving("ledger"))) == {Reason.DELETION_HELD}
    assert "ledger" in kafka.replicas


async def test_confirmation_applies_to_one_namespace_and_stays_valid_if_another_changes():
    topics, others = burst(11), burst(12, namespace="loud", name="noise")
    kafka = all_of([*topics, *others])
    house = House(MemoryKube(), kafka, *topics, *others, prod=topology())
    await house.process()
    word = confirmation(*topics)
    house.cache.keep_topic(leaving("late", namespace="loud"))
    house.annotate(confirming(word))
    again = await house.process()
    assert {key.namespace for key in again} == {"loud"}
    assert sorted(kafka.replicas) == sorted(one.topic_name for one in others)


async def test_several_namespaces_can_be_confirmed_at_once():
    topics, others = burst(11), burst(12, namespace="loud", name="noise")
    kafka = all_of([*topics, *others])
    house = House(MemoryKube(), kafka, *topics, *others, prod=topology())
    await house.process()
    house.annotate(confirming(confirmation(*topics), " " + confirmation(*others)))
    assert await house.process() == {}
    assert kafka.replicas == {}


async def test_early_confirmation_is_kept_until_its_namespace_has_waiting_deletions():
    topics, others = burst(11), burst(12, namespace="loud", name="noise")
    kube, kafka = MemoryKube(), all_of([*topics, *others])
    house = House(kube, kafka, *others, prod=confirming(confirmation(*topics)))
    assert held_by(await house.process()) == {Reason.DELETION_HELD}
    assert (kube.removed, kube.announced) == ([], [])
    for one in topics:
        house.cache.keep_topic(one)
    assert await house.process(*topics) == {}
    assert kube.removed == [CONFIRM_DELETIONS]


@pytest.mark.parametrize("fits", [True, False])
async def test_only_confirmations_of_namespaces_with_waiting_deletions_are_removed(fits):
    topics, others = burst(11), burst(12, namespace="loud", name="noise")
    kube, kafka = MemoryKube(), all_of([*topics, *others])
    house = House(kube, kafka, *topics, prod=topology())
    await house.process()
    house.annotate(confirming(confirmation(*topics[1 - fits :]), confirmation(*others)))
    assert held_by(await house.process()) == (set() if fits else {Reason.DELETION_HELD})
    assert (kube.removed, kube.kept) == ([], [(CONFIRM_DELETIONS, confirmation(*others))])
    assert kube.announced.count(Reason.DELETION_HELD) == 1 - fits

    house.annotate(confirming(confirmation(*others)))
    for one in others:
        house.cache.keep_topic(one)
    assert await house.process(*others) == {}
    assert kube.removed == [CONFIRM_DELETIONS]


async def test_sparing_one_of_eleven_held_deletions_keeps_the_other_ten_held():
    topics = burst(11)
    kafka = all_of(topics)
    house = House(MemoryKube(), kafka, *topics, prod=topology())
    await house.process()
    house.cache.drop_topic(topics[0].key)
    assert held_by(await house.process(*topics[1:])) == {Reason.DELETION_HELD}
    assert len(kafka.replicas) == 11


async def test_restart_keeps_held_deletions_and_counts_recent_ones():
    waited = leaving(status=known("id-of-orders", conditions=[condition("Stalled", "True", "DeletionHeld")]))
    kafka = all_of([waited])
    assert held_by(await process(MemoryKube(), kafka, waited, prod=topology())) == {Reason.DELETION_HELD}
    went = {"deletions": {"recent": [{"namespace": "shop", "at": "2026-01-31T11:59:30Z", "count": 10}]}}
    assert held_by(await process(MemoryKube(), kafka, leaving(), prod=topology(status=went))) == {Reason.DELETION_HELD}
    assert "orders" in kafka.replicas
    other = leaving("calm", namespace="calm")
    assert await process(MemoryKube(), all_of([other]), other, prod=topology(status=went)) == {}


async def test_deletion_is_recorded_before_it_is_carried_out(kafka):
    house = House(MemoryKube(), kafka, leaving(), prod=topology())
    await house.process()
    ((status, calls),) = house.recorded
    assert [recent.count for recent in status.recent] == [1]
    assert calls == 0


async def test_burst_that_arrives_while_the_first_topic_is_compared_holds_that_topic_too():
    first, *others = burst(11)
    kafka = all_of([first])
    house = House(MemoryKube(), kafka, first, prod=topology())
    describe = kafka.topics

    async def topics(names):
        for one in others:
            house.cache.keep_topic(one)
        return await describe(names)

    kafka.topics = topics
    assert held_by(await house.process()) == {Reason.DELETION_HELD}
    assert list(kafka.replicas) == ["orders-0"]


async def test_nothing_is_deleted_if_the_terminating_namespaces_cannot_be_read(kafka):
    (decision,) = (await process(MemoryKube(around=AWAY), kafka, leaving())).values()
    assert decision.step is DeletionStep.HOLD
    assert "nobody answers" in decision.message
    assert "orders" in kafka.replicas


async def test_deletion_of_the_crd_releases_objects_and_keeps_topics(kafka):
    kube = MemoryKube(around=Terminating(definitions=("kafkatopics.rackspan.dev",)))
    assert await process(kube, kafka, leaving()) == {}
    assert kube.announced == ["Released"]
    assert "orders" in kafka.replicas


async def test_terminating_namespace_with_one_deleted_topic_needs_confirmation_of_all_its_topics():
    living = leaving("later", deleted=None)
    kube = MemoryKube(around=Terminating(namespaces={"shop": datetime.now(UTC)}))
    kafka = all_of([leaving(), living])
    house = House(kube, kafka, leaving(), living, prod=topology())
    assert held_by(await house.process(leaving())) == {Reason.DELETION_HELD}
    assert house.finalizer.review()[0].waiting == 2
    house.annotate(confirming(confirmation(leaving(), living)))
    assert await house.process(leaving()) == {}
    assert list(kafka.replicas) == ["later"]
    house.cache.keep_topic(leaving("later"))
    assert await house.process(leaving("later")) == {}
    assert kafka.replicas == {}


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(minutes=11), timedelta(days=-3)])
async def test_namespace_waits_for_ten_minutes_whatever_the_clock_of_the_api_server_says(kafka, monkeypatch, ahead):
    """Then its objects are released, and their topics kept. `ahead` is the clock of the operator."""
    house = House(MemoryKube(around=Terminating(namespaces={"shop": datetime.now(UTC) - ahead})), kafka, leaving())
    for _ in range(2):
        assert held_by(await house.process()) == {Reason.DELETION_HELD}
        pass_time(monkeypatch, 300)
    assert await house.process() == {}
    assert "orders" in kafka.replicas


async def test_time_of_a_terminating_namespace_does_not_count_for_a_later_one_of_the_same_name(kafka, monkeypatch):
    kube = MemoryKube(around=Terminating(namespaces={"shop": NOON}))
    house = House(kube, kafka, leaving())
    for end in (NOON, NOON + timedelta(hours=1)):
        kube.around = Terminating(namespaces={"shop": end})
        assert held_by(await house.process()) == {Reason.DELETION_HELD}
        pass_time(monkeypatch, 600)
    assert "orders" in kafka.replicas


@pytest.mark.parametrize(("exists", "counted"), [(True, "kafka/prod"), (False, "")])
async def test_errors_have_no_topology_name_if_the_topology_does_not_exist(kafka, monkeypatch, exists, counted):
    names = []
    monkeypatch.setattr(topic_finalizer, "count_error", lambda topology, *_: names.append(topology))
    house = House(MemoryKube(failing={"orders"}), kafka, leaving())
    if not exists:
        house.cache.topologies.clear()
    assert held_by(await house.process()) == {Reason.DELETION_BLOCKED}
    assert names == [counted]


async def test_later_namespace_of_the_same_name_is_not_treated_as_terminating(kafka, monkeypatch):
    kube = MemoryKube(around=Terminating(namespaces={"shop": NOON}))
    house = House(kube, kafka, leaving("old"))
    await house.process()
    pass_time(monkeypatch, 600)
    assert await house.process() == {}
    house.cache.drop_topic(leaving("old").key)
    house.finalizer.review()
    house.cache.keep_topic(leaving())
    kube.around = AWAY
    assert held_by(await house.process(leaving())) == {Reason.DELETION_BLOCKED}


@pytest.mark.parametrize("moment", ["terminating", "topics"])
async def test_topic_is_kept_if_its_policy_changes_to_retain_during_a_request(kafka, moment):
    """The change arrives during the request to the API server or to Kafka."""
    kube = MemoryKube()
    house = House(kube, kafka, leaving(), prod=topology())
    asked = kube if moment == "terminating" else kafka
    ask = getattr(asked, moment)

    async def spare(names):
        house.cache.keep_topic(leaving(deletionPolicy="Retain"))
        return await ask(names)

    setattr(asked, moment, spare)
    (decision,) = (await house.process(leaving())).values()
    assert decision.step is DeletionStep.RETRY
    assert "orders" in kafka.replicas


@pytest.mark.parametrize("change", ["retain", "pause"])
async def test_topic_is_kept_if_its_object_changes_while_the_deletion_is_recorded(kafka, change):
    """The API server may take seconds to write the status of a RackTopology."""
    house = House(MemoryKube(), kafka, leaving(), leaving("other"), prod=topology())
    kafka.replicas["other"] = ((0, 3, 2),)
    spared = {"deletionPolicy": "Retain"} if change == "retain" else {"annotations": {PAUSED: "true"}}

    async def record():
        house.cache.keep_topic(leaving(**spared))

    house.finalizer._write_topology_status = record
    (decision,) = (await house.process()).values()
    assert decision.step is (DeletionStep.RETRY if change == "retain" else DeletionStep.HOLD)
    assert list(kafka.replicas) == ["orders"]


# -- turns -------------------------------------------------------------------------------------------------------------


class SlowKafka(MemoryKafka):
    """Deletes topics after `go` is set, and records the highest number of concurrent deletions."""

    def __init__(self, topics):
        super().__init__({one.topic_name: ((0, 3, 2),) * 3 for one in topics})
        self.go = asyncio.Event()
        self.under_way = self.most = 0

    async def delete_topics(self, ids):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.go.wait()
        self.under_way -= 1
        return await super().delete_topics(ids)


async def until(condition):
    """Run other tasks until the condition is true, without a clock. Fail after 10,000 steps."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


async def test_deletions_requested_during_a_turn_share_the_next_turn_in_order():
    topics = burst(6)
    kube, kafka = MemoryKube(), SlowKafka(topics)
    house = House(kube, kafka, *topics)
    first = asyncio.create_task(house.process(topics[0]))
    await until(lambda: kafka.under_way == 1)
    others = [asyncio.create_task(house.process(*some)) for some in (topics[1:3], topics[3:4], topics[4:])]
    await until(lambda: len(kafka.made("describe_topics")) == 2 + len(others))
    for _ in range(100):
        await asyncio.sleep(0)
    assert kafka.under_way == 1
    kafka.go.set()
    assert [await task for task in (first, *others)] == [{}] * 4
    assert kafka.most == 1
    assert kafka.made("delete_topics") == [["orders-0"], [f"orders-{number}" for number in range(1, 6)]]
    assert kafka.replicas == {}


async def test_finalizers_are_removed_while_the_next_turn_runs():
    topics = burst(2)
    kube, kafka = MemoryKube(), SlowKafka(topics)
    house = House(kube, kafka, *topics)
    kafka.go.set()
    first = asyncio.create_task(house.process(topics[0]))
    await until(lambda: kafka.made("delete_topics"))
    kafka.go.clear()
    second = asyncio.create_task(house.process(topics[1]))
    await until(lambda: kafka.under_way == 1)
    assert await first == {}
    assert kube.announced == ["Deleted"]
    kafka.go.set()
    assert await second == {}


@pytest.mark.parametrize("change", ["retain", "definition", "burst", "recreated", "another cluster"])
async def test_topic_is_kept_after_a_change_during_the_wait_for_a_turn(change):
    first, waits, *more = burst(2 if change != "burst" else 14)
    kube, kafka = MemoryKube(), SlowKafka([first, waits])
    house = House(kube, kafka, first, waits, prod=topology())
    begun = asyncio.create_task(house.process(first))
    await until(lambda: kafka.under_way == 1)
    waiting = asyncio.create_task(house.process(waits))
    await until(lambda: len(kafka.made("describe_topics")) == 3)
    match change:
        case "retain":
            house.cache.keep_topic(leaving(waits.topic_name, deletionPolicy="Retain"))
        case "definition":
            kube.around = Terminating(definitions=("kafkatopics.rackspan.dev",))
        case "burst":
            for one in more:
                house.cache.keep_topic(one)
        case "recreated":
            kafka.ids = "another-{}".format
        case "another cluster":
            house.finalizer._cluster = Failure(Reason.KAFKA_UNREACHABLE, "it is being left", Remedy.RETRY), None
    kafka.go.set()
    assert await begun == {}
    await waiting
    assert list(kafka.replicas) == [waits.topic_name]


@pytest.mark.parametrize("change", ["retain", "pause", "recreated", "definition"])
async def test_topic_is_kept_after_a_change_during_an_earlier_call_of_its_turn(change):
    first, later = burst(2)
    kube, kafka = MemoryKube(), MemoryKafka({one.topic_name: ((0, 3, 2),) * 2_000 for one in (first, later)})
    house = House(kube, kafka, first, later, prod=topology())
    delete = kafka.delete_topics

    async def delete_topics(ids):
        match change:
            case "retain":
                house.cache.keep_topic(leaving(later.topic_name, deletionPolicy="Retain"))
            case "pause":
                house.cache.keep_topic(leaving(later.topic_name, annotations={PAUSED: "true"}))
            case "recreated":
                kafka.ids = "another-{}".format
            case "definition":
                kube.around = Terminating(definitions=("kafkatopics.rackspan.dev",))
        return await delete(ids)

    kafka.delete_topics = delete_topics
    await house.process()
    assert list(kafka.replicas) == [later.topic_name]


# -- brokers that lag --------------------------------------------------------------------------------------------------


async def test_topic_missing_only_in_the_first_read_is_not_treated_as_deleted(kafka):
    kube = MemoryKube()
    house = House(kube, kafka, leaving())
    kafka._hidden["orders"] = 1
    (decision,) = (await house.process()).values()
    assert decision.step is DeletionStep.RETRY
    assert "do not show the same of topic orders" in decision.message
    assert kube.announced == kafka.made("delete_topics") == []
    assert await house.process() == {}
    assert kafka.replicas == {}
    assert kube.announced == ["Deleted"]


async def test_topic_missing_only_in_the_second_read_is_not_treated_as_deleted(kafka):
    house = House(MemoryKube(), kafka, leaving())
    look = kafka.topics

    async def hidden(names):
        found = await look(names)
        return found if len(kafka.made("describe_topics")) != 2 else dict.fromkeys(names)

    kafka.topics = hidden
    (decision,) = (await house.process()).values()
    assert decision.step is DeletionStep.RETRY
    assert await house.process() == {}
    assert kafka.replicas == {}


async def test_topic_missing_in_both_reads_is_treated_as_deleted():
    kube = MemoryKube()
    kafka = MemoryKafka({})
    assert await process(kube, kafka, leaving()) == {}
    assert kube.announced == ["Released"]
    assert len(kafka.made("describe_topics")) == 2


async def test_pause_counts_from_the_start_of_a_batch_and_does_not_restart_in_its_turn(kafka, monkeypatch):
    """So the pauses of batches overlap with each other and with the reads."""
    monkeypatch.setattr(topic_finalizer, "_LAG_SECONDS", 0.5)
    loop, slept, passed = asyncio.get_running_loop(), [], 0.0
    monkeypatch.setattr(loop, "time", lambda: passed)
    look, sleep = kafka.topics, asyncio.sleep

    async def topics(names):
        nonlocal passed
        passed += 0.2
        return await look(names)

    async def pause(seconds):
        slept.append(round(seconds, 3))
        await sleep(0)

    kafka.topics = topics
    monkeypatch.setattr(topic_finalizer.asyncio, "sleep", pause)
    assert await process(MemoryKube(), kafka, leaving()) == {}
    assert slept == [0.3]
