"""The bytes of a plan: queried from brokers while there is a plan, rounded in statuses, and limited by maxBytes."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from msgspec import structs
from tests.unit.reconcile.plans.test_approvals import CROWDED, World

from rackspan.api.kafkatopic import KafkaTopicStatus
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import TopicPartition
from rackspan.core.text import rounded
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans import holds, plan_sizes
from rackspan.reconcile.plans.plan_sizes import PlanSizes, steady

AUTOMATIC = {"defaults": {"reassignment": {"approval": "Automatic"}}}
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)


@dataclass
class Told:
    """Replaces `LogDirSizes`, with one size per topic. Topics that are not in `known` are on unreachable brokers."""

    known: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    broken: bool = False

    async def of(self, topology, partitions):
        self.asked.append(dict(partitions))
        if self.broken:
            raise FailureError(AWAY)
        return {at: self.known[at.topic] for at in partitions if at.topic in self.known}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(holds, "PLAN_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(plan_sizes, "_LEAST_SECONDS", 0.0)


async def world(told, *names, made=World, **spec):
    made = made(**spec)
    made.loop.approvals._sizes = sizes_of(told)
    for name in names or ["one"]:
        await made.topic(name)
    return made


async def plan(made):
    return (await made.loop.approvals.summary()).plan


async def test_plan_status_has_rounded_bytes_and_the_started_plan_has_exact_sizes():
    told = Told({"one": 123_456})
    made = await world(told)
    assert told.asked == [{TopicPartition("one", number): row for number, row in enumerate(CROWDED)}]
    assert (await plan(made)).bytes == 250_000
    assert "copies 2 replicas (244.1 KiB) for 1 topic, and no plan" in (await made.told())[1]
    made.topology(made.plan.hash)
    await made.work()
    (begun,) = made.begun.plans
    assert {change.size_bytes for change in begun.changes} == {123_456}
    approved = next(event for event in made.kube.announced if event.reason == "PlanApproved")
    assert "copies 2 replicas (244.1 KiB); it is begun as" in approved.message


def sizes_of(told):
    made = PlanSizes(None, None)
    made._asked_sizes = told.of
    return made


class Watched(World):
    """A world whose cache contains the written statuses, as if a watch had reported them."""

    async def work(self):
        await super().work()
        for name, status in self.kube.statuses.items():
            (key,) = (key for key in self.cache.topics if key.name == name)
            known = self.cache.topics[key]
            self.cache.keep_topic(structs.replace(known, status=KafkaTopicStatus.from_dict(status)))
        self.written, self.kube.statuses = list(self.kube.statuses), {}

    def bytes(self, name):
        (found,) = (topic for key, topic in self.cache.topics.items() if key.name == name)
        return found.status.plan.bytes


async def test_topic_status_updates_plan_bytes_only_after_a_change_of_more_than_a_tenth(monkeypatch):
    monkeypatch.setattr(plan_sizes, "LOOK_SECONDS", 0.0)
    told = Told({"one": 123_456, "two": 5})
    made = await world(told, "one", "two", made=Watched)
    assert (made.bytes("one"), made.bytes("two")) == (250_000, 10)
    for size, bytes_, written in ((118_000, 250_000, []), (105_000, 210_000, ["one"]), (115_000, 210_000, [])):
        told.known["one"] = size
        await made.work()
        assert (made.bytes("one"), made.written) == (bytes_, written)
    told.known.clear()
    await made.work()
    assert (made.bytes("one"), made.written) == (210_000, []), "the status keeps the size while no broker reports one"
    made.start()
    made.loop.add(made.cache.topics)
    await made.work()
    assert made.written == [], "no status changes before brokers report sizes again"


async def test_sizes_do_not_change_the_hash_of_the_plan():
    without, small, large = [await world(Told(known)) for known in ({}, {"one": 1}, {"one": 10**15})]
    assert without.plan.hash == small.plan.hash == large.plan.hash


@pytest.mark.parametrize(("most", "begins"), [(246_911, False), (246_912, True)])
async def test_automatic_plan_starts_only_up_to_max_bytes(most, begins):
    made = await world(Told({"one": 123_456}), reassignment={"maxBytes": most}, **AUTOMATIC)
    assert len(made.begun.plans) == begins
    if not begins:
        assert (await made.told())[0] == "PlanAboveLimit"
        assert "(plans of namespace shop copy 2 replicas, maxBytes is 246,911); to approve it" in (await made.told())[1]


async def test_automatic_plan_with_an_unknown_size_does_not_start_and_the_status_says_why():
    made = await world(Told({"one": 1_000}), "two", "one", reassignment={"maxBytes": 10**18}, **AUTOMATIC)
    assert not made.begun.plans
    assert (await plan(made)).bytes is None
    assert "copies 4 replicas (2.0 KiB and more) for 2 topics" in (await made.told())[1]
    assert "maxBytes is 1,000,000,000,000,000,000, how large 1 topic is is not known)" in (await made.told())[1]


async def test_automatic_plan_is_settling_until_the_brokers_report_sizes():
    made = World(reassignment={"maxBytes": 10**18}, **AUTOMATIC)
    await made.topic("two")
    asked = asyncio.Event()

    class Slow(Told):
        async def of(self, topology, partitions):
            asked.set()
            await asyncio.Event().wait()

    made = World(reassignment={"maxBytes": 10**18}, **AUTOMATIC)
    made.loop.approvals._sizes = sizes_of(Slow())
    looking = asyncio.create_task(made.topic("one"))
    await asked.wait()
    assert made.ready("one")["reason"] == "PlanSettling"
    assert not made.begun.plans
    looking.cancel()


async def test_known_sizes_are_kept_if_the_next_query_fails(monkeypatch):
    monkeypatch.setattr(plan_sizes, "LOOK_SECONDS", 0.0)
    told = Told({"one": 500})
    made = await world(told)
    told.broken = True
    await made.work()
    assert (await plan(made)).bytes == 1_000


async def test_brokers_are_queried_once_for_the_same_plan_and_never_without_a_plan():
    told = Told({"one": 1})
    made = await world(told)
    await made.work()
    assert len(told.asked) == 1
    rest = Told()
    calm = World()
    calm.loop.approvals._sizes = sizes_of(rest)
    await calm.topic("one", rows=((0, 1, 2), (3, 4, 5)))
    assert not rest.asked


@pytest.mark.parametrize("broken", [True, False], ids=["no response", "an unknown size"])
async def test_unknown_sizes_are_queried_again_after_growing_pauses_until_they_are_known(monkeypatch, broken):
    monkeypatch.setattr(plan_sizes, "_LEAST_SECONDS", 10.0)
    now = 0
    clock = SimpleNamespace(get_running_loop=lambda: SimpleNamespace(time=lambda: now))
    monkeypatch.setattr(plan_sizes, "asyncio", clock)
    told = Told(broken=broken)
    made = await world(told)
    asked = []

    async def look(until):
        nonlocal now
        while (now := now + 3) < until:
            before = len(told.asked)
            await made.work()
            if len(told.asked) > before:
                asked.append(now)

    await look(until=1000)
    assert asked == [12, 33, 75, 156, 318, 618, 918]
    assert (await plan(made)).bytes is None
    told.known, told.broken = {"one": 500}, False
    await look(until=1600)
    assert asked[7:] == [1218, 1518], "known sizes are read again every five minutes"
    assert (await plan(made)).bytes == 1_000


@pytest.mark.parametrize(
    ("number", "told"), [(0, 0), (7, 7), (99, 99), (123, 120), (9_960, 10_000), (1_234_567_890, 1_200_000_000)]
)
def test_rounded_keeps_two_significant_digits(number, told):
    assert rounded(number) == told


@pytest.mark.parametrize(
    ("number", "before", "told"),
    [(1_234, None, 1_200), (1_260, 1_200, 1_200), (1_320, 1_200, 1_200), (1_321, 1_200, 1_300), (0, 0, 0), (5, 0, 5)],
)
def test_steady_keeps_the_previous_number_within_a_tenth_else_rounds_the_new_one(number, before, told):
    assert steady(number, before) == told
    assert steady(number, told) == told


async def test_log_dir_sizes_returns_the_size_of_the_largest_replica_and_closes_the_connection():
    class Admin:
        closed = False

        async def sizes(self, partitions):
            return {(TopicPartition("one", 0), 1): 5, (TopicPartition("one", 0), 2): 9}

        async def close(self):
            self.closed = True

    class Connector:
        admin = Admin()

        async def connect(self, owner, kafka, credentials):
            return self.admin

    made = World()
    (known,) = made.cache.topologies.values()
    found = await PlanSizes(Connector(), made.kube)._asked_sizes(known, {TopicPartition("one", 0): (1, 2, 3)})
    assert found == {TopicPartition("one", 0): 9}
    assert Connector.admin.closed
