"""A batch of objects through the API server: what befalls one of them is not the others' matter."""

import asyncio
import re
import threading
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import NOON, PLACERS, state, topology
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime import threads
from rackspan.reconcile.specs import placement
from rackspan.reconcile.topics import topic_status as statuses
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler


@dataclass
class FixedLookout:
    """One state that does not change."""

    state: ClusterState
    admin: MemoryKafka
    epoch: int = 1
    woken: int = 0
    out_of_sight: float | None = None

    def wake(self):
        self.woken += 1


@dataclass
class World:
    kube: MemoryCluster = field(default_factory=MemoryCluster)
    kafka: MemoryKafka = field(default_factory=MemoryKafka)
    cache: Cache = field(default_factory=Cache)

    def __post_init__(self):
        self.dependencies = dependencies_of(self.cache, self.kube)
        self.observer = FixedLookout(state(allowedNamespaces={"from": "All"}), self.kafka)
        self.topology(self.observer.state)
        self.loop = TopicsReconciler(topology().key, self.observer, self.dependencies, _recorded)

    def topology(self, asks):
        """The RackTopology asks for what it does in that state."""
        self.cache.topologies[topology().key] = replace(topology(), spec=asks.spec)

    async def work(self):
        await self.loop.process(await self.loop.take())

    def add(self, *topics):
        for one in topics:
            self.cache.keep_topic(one)
        self.loop.add([one.key for one in topics])


def topic(name, *, finalizers=(FINALIZER,), **spec):
    return examples.topic(name, finalizers=finalizers, **spec)


@pytest.fixture
def world():
    return World()


async def test_topics_wait_until_the_cluster_was_observed_with_what_the_topology_asks_for_now(world):
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {}
    never = state(allowedNamespaces={"from": "All"}, adoption="Never")
    world.topology(never)
    world.add(topic("orders"), topic("new"))
    await world.work()
    assert world.observer.woken, "the topology is observed soon"
    assert world.kube.condition("orders", "Ready") is None, "what it said before adopts nothing any more"
    assert "new" not in world.kafka.replicas

    world.observer.state = never
    await world.work()
    assert world.kube.condition("orders", "Ready")["reason"] == "AdoptionNotAllowed"


async def test_topics_wait_while_the_client_is_replaced(world):
    world.observer.admin = None
    world.add(topic("orders"))
    await world.work()
    world.observer.admin = world.kafka
    await asyncio.wait_for(world.work(), 5)
    assert "orders" in world.kafka.replicas, "though the state is the same, which queues nothing"


@pytest.mark.parametrize("anew", [True, False], ids=["made anew elsewhere", "gone"])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_topic_that_leaves_while_it_is_looked_at_is_looked_at_no_more(world, anew, fails):
    lies = ((0, 1, 2), (0, 1, 2), (0, 1, 2))
    world.kafka.replicas["orders"], world.kafka.own["orders"] = lies, {}
    planned, key = world.loop._plans.of, ObjectKey("shop", "orders")

    async def of(*arguments):
        world.cache.drop_topic(key)
        if anew:
            world.cache.keep_topic(topic("orders", uid="another", topologyRef={"namespace": "kafka", "name": "other"}))
        world.loop.drop(key)
        found = await planned(*arguments)
        if fails:
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "no answer", Remedy.RETRY))
        return found

    world.loop._plans.of = of
    world.add(topic("orders"))
    await world.work()
    assert world.loop._plans.whole.parts == {}
    assert (len(world.loop._queue), world.loop._queue._processing) == (0, set())
    del world.kafka.replicas["orders"]
    world.kube.statuses.clear()
    world.loop.add([key])
    await world.work()
    assert (world.kafka.replicas, world.kube.statuses) == ({}, {}), "it is made in another cluster, or nowhere"


async def test_a_finalizer_that_is_refused_is_told_and_holds_back_nobody_else(world):
    world.kube.refusing["set_finalizers", "refused"] = REFUSED
    world.add(topic("a"), topic("refused", finalizers=()), topic("z"))
    await world.work()
    assert set(world.kafka.replicas) == {"a", "z"}, "what its finalizer guards is not made before it is there"
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"
    told = world.kube.condition("refused", "Ready")
    assert (told["status"], told["message"]) == ("False", "a policy says no")


async def test_a_finalizer_that_cannot_be_taken_off_holds_back_nobody_else(world):
    world.kube.refusing["set_finalizers", "refused"] = REFUSED
    world.add(*(_deleted(topic(name)) for name in ("a", "refused")), topic("z"))
    await world.work()
    assert world.kube.finalizers["a"] == []
    assert world.kube.condition("refused", "Ready")["message"] == "a policy says no"
    assert world.kube.condition("z", "Ready")["status"] == "True"


@pytest.mark.parametrize("error", [REFUSED, ValueError("a defect")], ids=["refused", "a defect"])
async def test_a_status_that_is_refused_holds_back_nobody_else(world, error):
    world.kube.refusing["replace_status", "mute"] = error
    world.add(topic("a"), topic("mute"), topic("z"))
    await world.work()
    assert set(world.kafka.replicas) == {"a", "mute", "z"}
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"


async def test_a_defect_over_one_topic_is_told_and_no_other_s(world, monkeypatch):
    topic_status = statuses.topic_status

    def faulty(outcome, *arguments):
        if outcome.topic.key.name == "odd":
            raise AttributeError("None has no attribute lower")
        return topic_status(outcome, *arguments)

    monkeypatch.setattr(statuses, "topic_status", faulty)
    world.add(topic("a"), topic("odd"), topic("z"))
    await world.work()
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"
    assert world.kube.condition("odd", "Ready")["reason"] == "UnexpectedError"


async def test_keys_are_free_again_only_when_nothing_is_under_way_for_any_of_them(world):
    """One fails at once, and another one's write is still on its way: a change to that one has to wait for it."""
    world.kube.refusing["set_finalizers", "refused"] = REFUSED
    answer, asked, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
    slow, replace_status = world.kube.set_finalizers, world.kube.replace_status

    async def tells(ref, status):
        await replace_status(ref, status)
        told.set()

    async def waits(ref, *args):
        if ref.key.name == "slow":
            asked.set()
            await answer.wait()
        return await slow(ref, *args)

    world.kube.set_finalizers, world.kube.replace_status = waits, tells
    world.add(topic("refused", finalizers=()), topic("slow", finalizers=()))
    working = asyncio.create_task(world.work())
    await asked.wait()
    await told.wait()
    assert not working.done()
    answer.set()
    await working


class Blocks:
    """A placer that somebody else wrote: it ends when it is let go."""

    def __init__(self):
        self.asked = 0
        self.go = threading.Event()

    def place(self, spec, cluster):
        self.asked += 1
        self.go.wait()


@pytest.fixture
def blocks(world):
    placer = Blocks()
    world.observer.state = state(placers={**PLACERS, "Blocks": placer}, allowedNamespaces={"from": "All"})
    world.topology(world.observer.state)
    yield placer
    placer.go.set()


async def test_a_placer_that_blocks_holds_up_its_own_topics_only(world, blocks, monkeypatch):
    monkeypatch.setattr(threads, "PLACER_SECONDS", 600)
    world.add(topic("a"), topic("held", placement={"placer": "Blocks"}), topic("z"))
    working = asyncio.create_task(world.work())
    while not all(world.kube.condition(name, "Ready") for name in ("a", "z")):  # noqa: ASYNC110  # that it turns is tested
        await asyncio.sleep(0.001)
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"
    assert not working.done()
    blocks.go.set()
    await working
    assert "held" in world.kafka.replicas


async def test_a_placer_that_takes_too_long_is_left_alone_until_it_has_ended(world, blocks, monkeypatch):
    monkeypatch.setattr(threads, "PLACER_SECONDS", 0.01)
    world.add(*(topic(name, placement={"placer": "Blocks"}) for name in ("held", "other")), topic("z"))
    await world.work()
    for name in ("held", "other"):
        assert world.kube.condition(name, "Ready")["reason"] == "PlacerTimedOut"
        assert world.kube.condition(name, "Reconciling")["status"] == "True"
    assert world.kube.condition("z", "Ready")["status"] == "True"
    assert world.dependencies.third_party._left_behind == {"Blocks"}
    blocks.go.set()
    while world.dependencies.third_party._left_behind:  # noqa: ASYNC110  # no event tells it
        await asyncio.sleep(0.001)
    assert blocks.asked == 1, "not again while one call has not ended"
    monkeypatch.setattr(threads, "PLACER_SECONDS", 600)
    world.loop.add([topic("held").key])
    await world.work()
    assert "held" in world.kafka.replicas


async def test_what_kafka_claims_is_not_judged_beyond_a_size(world):
    world.kafka.replicas["vast"], world.kafka.own["vast"] = ((0, 1, 2),) * 200_000, {}
    world.add(topic("vast"), topic("z"))
    await world.work()
    assert world.kube.condition("vast", "Ready")["reason"] == "TooLarge"
    assert world.kube.condition("vast", "Compliant")["status"] == "Unknown"
    assert "600,000 replicas" in world.kube.condition("vast", "Stalled")["message"]
    assert world.kube.condition("z", "Ready")["status"] == "True"


async def test_conclusions_are_drawn_off_the_event_loop(world, monkeypatch):
    topic_status, threads = statuses.topic_status, set()

    def spied(*arguments):
        threads.add(threading.current_thread().name.split("_")[0])
        return topic_status(*arguments)

    monkeypatch.setattr(statuses, "topic_status", spied)
    world.add(topic("a"), topic("z"))
    await world.work()
    assert threads == {"thinking"}, "in a pool of its own: names of hosts are resolved in asyncio's"


async def test_who_owns_a_topic_is_found_once_for_all_that_claim_it(world, monkeypatch):
    looked_for = []
    claims = world.cache.claims
    monkeypatch.setattr(world.cache, "claims", lambda one: looked_for.append(one.key) or claims(one))
    world.add(*(topic(f"claim-{number}", topicName="orders") for number in range(100)))
    await world.work()
    assert len(looked_for) == 1
    told = [world.kube.condition(f"claim-{number}", "Ready")["status"] for number in range(100)]
    assert told.count("True") == 1


async def test_topics_are_not_said_to_be_ready_while_kafka_is_out_of_sight_for_long(world):
    world.kafka.replicas["unfair"], world.kafka.own["unfair"] = ((0, 1, 2),) * 3, {}
    world.add(topic("fine"), topic("unfair"))
    await world.work()
    seen, before = world.observer.state, world.kube.condition("unfair", "Ready")
    assert (world.kube.condition("fine", "Ready")["status"], before["status"]) == ("True", "False")

    async def later(state, out_of_sight=None):
        world.observer.state, world.observer.out_of_sight = state, out_of_sight
        world.add(*(topic(name, status=world.kube.statuses[name]) for name in ("fine", "unfair")))
        await world.work()
        return world.kube.condition("fine", "Ready")

    refused, silent = (Failure(Reason.KAFKA_UNREACHABLE, why, Remedy.RETRY) for why in ("refused", "silent"))
    assert (await later(refused))["status"] == "True", "a restart of all brokers takes a while"
    told = await later(refused, 300.0)
    assert (told["status"], told["reason"]) == ("Unknown", "KafkaUnreachable")
    assert re.fullmatch(r"not seen in Kafka since 20\d\d-.*Z; this status may be out of date: refused", told["message"])
    assert world.kube.condition("fine", "Reconciling")["status"] == "True"
    assert world.kube.condition("unfair", "Ready") == before, "it was not ready when it was seen last"
    assert await later(silent, 900.0) == told, "each is written once"
    assert (await later(seen))["status"] == "True"
    assert world.kube.condition("fine", "Reconciling") is None


async def test_a_topic_that_was_changed_while_kafka_is_out_of_sight_is_told_once(world):
    world.add(topic("fine"))
    await world.work()
    status = world.kube.statuses["fine"]
    gone = Failure(Reason.KAFKA_UNREACHABLE, "refused", Remedy.RETRY)
    world.observer.state, world.observer.out_of_sight = gone, 300.0
    world.add(topic("fine", status=status, generation=2))
    await world.work()
    told = world.kube.condition("fine", "Ready")
    assert (told["status"], told["reason"], told["observedGeneration"]) == ("False", "TopologyNotReady", 2)
    assert world.kube.statuses["fine"]["observedGeneration"] == 2


async def _recorded():
    """The RackTopology's status is written."""


def _deleted(one):
    return replace(one, meta=replace(one.meta, deletion_timestamp=NOON))


@pytest.mark.parametrize("paused", [{}, {"annotations": {"rackspan.dev/paused": "true"}}])
async def test_compliance_is_judged_once_a_pass(world, monkeypatch, paused):
    judge, asked = placement.judge, []

    def counted(*arguments):
        asked.append(arguments)
        return judge(*arguments)

    monkeypatch.setattr(placement, "judge", counted)
    durable = topic("a", durability={"minDomains": {"zone": 2}})
    world.add(durable)
    await world.work()
    assert len(asked) == 1, "where the topic is made"
    world.add(topic("a", durability={"minDomains": {"zone": 2}}, generation=2, **paused))
    await world.work()
    assert len(asked) == 2, "and where it is looked at anew"
