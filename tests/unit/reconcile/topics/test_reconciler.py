"""A batch of objects with a Kubernetes API server: a failure of one object does not affect the others."""

import asyncio
import re
import threading
from dataclasses import dataclass, field

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import NOON, PLACERS, state, topology
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.kafkatopic import KIND
from rackspan.api.labels import FINALIZER, PAUSED
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime import threads
from rackspan.reconcile.specs import placement
from rackspan.reconcile.topics import topic_status as statuses
from rackspan.reconcile.topics import topics_reconciler
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler
from rackspan.reconcile.topology_loops import NoTopology


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
        """Set the spec of the RackTopology to the spec of that state."""
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


async def test_topics_wait_until_the_cluster_is_observed_with_the_current_spec_of_the_topology(world):
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {}
    never = state(allowedNamespaces={"from": "All"}, adoption="Never")
    world.topology(never)
    world.add(topic("orders"), topic("new"))
    await world.work()
    assert world.observer.woken, "the topology is observed soon"
    assert world.kube.condition("orders", "Ready") is None, "the previous adoption policy is not applied"
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
    assert "orders" in world.kafka.replicas, "the topic is retried, although an unchanged state queues nothing"


@pytest.mark.parametrize("anew", [True, False], ids=["made anew elsewhere", "gone"])
@pytest.mark.parametrize("fails", [True, False])
async def test_topic_deleted_or_recreated_elsewhere_during_its_pass_is_not_reconciled_again(world, anew, fails):
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
    assert (world.kafka.replicas, world.kube.statuses) == ({}, {}), "another topology creates it, or none"


@pytest.mark.parametrize("change", ["corrected", "paused", "deleting", "made anew", "gone"])
async def test_topic_that_changed_while_its_batch_waited_is_left_out_and_retried(world, change):
    """Kafka carries out a shorter retention within minutes, so a correction must not come too late."""
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {"retention.ms": "2592000000"}
    status, short = examples.known("id-of-orders"), {"retention.ms": "1000"}
    old = topic("orders", status=status, generation=2, config=short)
    finalize = world.loop.finalizer.process

    async def changed(*arguments):
        match change:
            case "corrected":
                world.cache.keep_topic(
                    topic("orders", status=status, generation=3, config={"retention.ms": "2592000000"})
                )
            case "paused":
                world.cache.keep_topic(replace(old, meta=replace(old.meta, annotations={PAUSED: "true"})))
            case "deleting":
                world.cache.keep_topic(_deleted(old))
            case "made anew":
                world.cache.keep_topic(topic("orders", uid="another"))
            case "gone":
                world.cache.drop_topic(old.key)
        return await finalize(*arguments)

    world.loop.finalizer.process = changed
    world.add(old, topic("z"))
    await world.work()
    assert world.kafka.made("alter_configs") == []
    assert "orders" not in world.kube.statuses, "nothing is reported about the old version"
    assert "z" in world.kafka.replicas
    assert len(world.loop._queue) == (change != "gone")


async def test_config_corrected_while_its_batch_creates_topics_is_not_applied_and_the_topic_is_retried(world):
    key = ObjectKey("shop", "orders")
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {"retention.ms": "2592000000"}
    status = examples.known("id-of-orders")
    create = world.kafka.create_topics

    async def created(topics):
        corrected = topic("orders", status=status, generation=3, config={"retention.ms": "2592000000"})
        world.cache.keep_topic(corrected)
        world.loop.add([key])  # as its watch event does
        return await create(topics)

    world.kafka.create_topics = created
    world.add(topic("orders", status=status, generation=2, config={"retention.ms": "1000"}), topic("z"))
    await world.work()
    assert "z" in world.kube.statuses
    assert "orders" not in world.kube.statuses
    await world.work()
    assert world.kafka.made("alter_configs") == []
    assert "orders" in world.kube.statuses


@pytest.mark.parametrize("created", [False, True])
async def test_orphan_whose_topology_is_created_during_its_pass_gets_no_status(world, monkeypatch, created):
    """The loop of the topology may have written a topicId meanwhile."""
    monkeypatch.setattr(topics_reconciler, "_ABSENCE_SECONDS", 0)
    world.cache.topologies.clear()
    orphans = TopicsReconciler(None, NoTopology(), world.dependencies, _recorded)
    finalize = orphans.finalizer.process

    async def meanwhile(*arguments):
        if created:
            world.topology(world.observer.state)
        return await finalize(*arguments)

    orphans.finalizer.process = meanwhile
    world.cache.keep_topic(topic("orders"))
    orphans.add([ObjectKey("shop", "orders")])
    await orphans.process(await orphans.take())
    assert ("orders" in world.kube.statuses) is not created


@pytest.mark.parametrize("corrected", [False, True])
async def test_topic_is_left_out_if_the_answer_to_a_write_shows_another_spec(world, corrected):
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 2, 4),) * 3, {"retention.ms": "2592000000"}
    old = topic("orders", finalizers=(), status=examples.known("id-of-orders"), config={"retention.ms": "1000"})
    metadata = {"namespace": "shop", "name": "orders", "uid": old.meta.uid}

    async def set_finalizers(ref, finalizers, version, annotations):
        new = {"resourceVersion": "2", "generation": 1 + corrected, "finalizers": list(finalizers)}
        spec = {**to_builtins(old.spec), "config": {"retention.ms": "2592000000" if corrected else "1000"}}
        return {"metadata": {**metadata, **new}, "spec": spec, "status": old.status.to_dict()}

    world.kube.set_finalizers = set_finalizers
    world.cache.versions.record(KIND, {"metadata": {**metadata, "resourceVersion": "1"}})
    world.add(old)
    await world.work()
    assert world.cache.topics[old.key].meta.finalizers == (FINALIZER,)
    assert world.kafka.made("alter_configs") == ([] if corrected else [["orders"]])


async def test_refused_finalizer_is_reported_and_does_not_block_other_topics(world):
    world.kube.refusing["set_finalizers", "refused"] = REFUSED
    world.add(topic("a"), topic("refused", finalizers=()), topic("z"))
    await world.work()
    assert set(world.kafka.replicas) == {"a", "z"}, "no topic is created before its finalizer"
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"
    told = world.kube.condition("refused", "Ready")
    assert (told["status"], told["message"]) == ("False", "a policy says no")


async def test_finalizer_that_cannot_be_removed_is_reported_and_does_not_block_other_topics(world):
    world.kube.refusing["set_finalizers", "refused"] = REFUSED
    world.add(*(_deleted(topic(name)) for name in ("a", "refused")), topic("z"))
    await world.work()
    assert world.kube.finalizers["a"] == []
    assert world.kube.condition("refused", "Ready")["message"] == "a policy says no"
    assert world.kube.condition("z", "Ready")["status"] == "True"


@pytest.mark.parametrize("error", [REFUSED, ValueError("a defect")], ids=["refused", "a defect"])
async def test_refused_status_does_not_block_other_topics(world, error):
    world.kube.refusing["replace_status", "mute"] = error
    world.add(topic("a"), topic("mute"), topic("z"))
    await world.work()
    assert set(world.kafka.replicas) == {"a", "mute", "z"}
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"


async def test_unexpected_error_for_one_topic_is_reported_and_does_not_affect_others(world, monkeypatch):
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


async def test_batch_ends_only_after_the_writes_for_all_its_keys_have_ended(world):
    """One key fails at once while the write for the other is in progress. Its next change must wait for that write."""
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
    """A third-party placer that blocks until `go` is set."""

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


async def test_blocking_placer_delays_only_its_own_topics(world, blocks, monkeypatch):
    monkeypatch.setattr(threads, "PLACER_SECONDS", 600)
    world.add(topic("a"), topic("held", placement={"placer": "Blocks"}), topic("z"))
    working = asyncio.create_task(world.work())
    while not all(world.kube.condition(name, "Ready") for name in ("a", "z")):  # noqa: ASYNC110  # tests that the loop is free
        await asyncio.sleep(0.001)
    assert world.kube.condition("a", "Ready")["status"] == world.kube.condition("z", "Ready")["status"] == "True"
    assert not working.done()
    blocks.go.set()
    await working
    assert "held" in world.kafka.replicas


async def test_placer_that_times_out_is_not_called_again_before_its_call_has_ended(world, blocks, monkeypatch):
    monkeypatch.setattr(threads, "PLACER_SECONDS", 0.01)
    world.add(*(topic(name, placement={"placer": "Blocks"}) for name in ("held", "other")), topic("z"))
    await world.work()
    for name in ("held", "other"):
        assert world.kube.condition(name, "Ready")["reason"] == "PlacerTimedOut"
        assert world.kube.condition(name, "Reconciling")["status"] == "True"
    assert world.kube.condition("z", "Ready")["status"] == "True"
    assert world.dependencies.third_party._left_behind == {"Blocks"}
    blocks.go.set()
    while world.dependencies.third_party._left_behind:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.001)
    assert blocks.asked == 1, "no second call before the first has ended"
    monkeypatch.setattr(threads, "PLACER_SECONDS", 600)
    world.loop.add([topic("held").key])
    await world.work()
    assert "held" in world.kafka.replicas


async def test_topic_in_kafka_above_the_size_limit_is_not_judged(world):
    world.kafka.replicas["vast"], world.kafka.own["vast"] = ((0, 1, 2),) * 200_000, {}
    world.add(topic("vast"), topic("z"))
    await world.work()
    assert world.kube.condition("vast", "Ready")["reason"] == "TooLarge"
    assert world.kube.condition("vast", "Compliant")["status"] == "Unknown"
    assert "600,000 replicas" in world.kube.condition("vast", "Stalled")["message"]
    assert world.kube.condition("z", "Ready")["status"] == "True"


async def test_statuses_are_computed_outside_the_event_loop(world, monkeypatch):
    topic_status, threads = statuses.topic_status, set()

    def spied(*arguments):
        threads.add(threading.current_thread().name.split("_")[0])
        return topic_status(*arguments)

    monkeypatch.setattr(statuses, "topic_status", spied)
    world.add(topic("a"), topic("z"))
    await world.work()
    assert threads == {"thinking"}, "a separate pool, because asyncio resolves host names in its own"


async def test_owner_of_a_topic_is_determined_once_for_all_objects_that_claim_it(world, monkeypatch):
    looked_for = []
    claims = world.cache.claims
    monkeypatch.setattr(world.cache, "claims", lambda one: looked_for.append(one.key) or claims(one))
    world.add(*(topic(f"claim-{number}", topicName="orders") for number in range(100)))
    await world.work()
    assert len(looked_for) == 1
    told = [world.kube.condition(f"claim-{number}", "Ready")["status"] for number in range(100)]
    assert told.count("True") == 1


async def test_ready_topics_become_unknown_after_kafka_is_unreachable_for_long(world):
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
    compliant = {name: world.kube.condition(name, "Compliant")["status"] for name in ("fine", "unfair")}
    assert compliant == {"fine": "Unknown", "unfair": "False"}
    assert world.kube.condition("unfair", "Ready") == before, "it was not ready before Kafka became unreachable"
    assert await later(silent, 900.0) == told, "each status is written once"
    assert (await later(seen))["status"] == "True"
    assert world.kube.condition("fine", "Reconciling") is None


async def test_topic_changed_while_kafka_is_unreachable_has_reason_topology_not_ready(world):
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
    """Do nothing, as if the status of the RackTopology was written."""


def _deleted(one):
    return replace(one, meta=replace(one.meta, deletion_timestamp=NOON))


@pytest.mark.parametrize("paused", [{}, {"annotations": {"rackspan.dev/paused": "true"}}])
async def test_compliance_is_judged_once_per_pass(world, monkeypatch, paused):
    judge, asked = placement.judge, []

    def counted(*arguments):
        asked.append(arguments)
        return judge(*arguments)

    monkeypatch.setattr(placement, "judge", counted)
    durable = topic("a", durability={"minDomains": {"zone": 2}})
    world.add(durable)
    await world.work()
    assert len(asked) == 1, "when the topic is created"
    world.add(topic("a", durability={"minDomains": {"zone": 2}}, generation=2, **paused))
    await world.work()
    assert len(asked) == 2, "and when it is reconciled again"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ({}, "AdoptionNotAllowed"),
        ({"topicId": "an-earlier-topic", "clusterId": "kafka-1"}, "TopicIdMismatch"),
        ({"topicId": "id-of-orders", "clusterId": "another"}, "ClusterIdMismatch"),
    ],
)
async def test_topic_of_others_is_not_taken_over_while_its_configuration_cannot_be_read(world, before, reason):
    world.observer.state = state(allowedNamespaces={"from": "All"}, adoption="Never")
    world.topology(world.observer.state)
    world.kafka.replicas["orders"], world.kafka.own["orders"] = ((0, 3, 1),) * 3, {}
    world.kafka.unread_configs = {"orders": Failure(Reason.KAFKA_UNREACHABLE, "no answer", Remedy.RETRY)}
    world.add(topic("orders", status=before, partitions=5))
    await world.work()
    status = world.kube.statuses["orders"]
    assert {name: status[name] for name in ("topicId", "clusterId", "adopted") if name in status} == before
    world.kafka.unread_configs = {}
    world.add(topic("orders", status=status, partitions=5))
    await world.work()
    assert world.kube.condition("orders", "Ready")["reason"] == reason
    assert world.kafka.replicas["orders"] == ((0, 3, 1),) * 3


async def test_topic_whose_configuration_may_not_be_read_is_judged_and_says_so(world):
    world.add(topic("orders"))
    await world.work()
    assert world.kube.condition("orders", "Ready")["status"] == "True"
    denied = Failure(Reason.NOT_AUTHORIZED, "Kafka says TopicAuthorizationFailed", Remedy.ACCESS)
    world.kafka.unread_configs = {"orders": denied, "new": denied}
    for name in ("orders", "new"):
        world.kafka.replicas[name], world.kafka.own[name] = ((0, 3, 1),) * 3, {}
    world.add(topic("orders", status=world.kube.statuses["orders"]), topic("new"))
    await world.work()
    for name in ("orders", "new"):
        ready, compliant = (world.kube.condition(name, kind) for kind in ("Ready", "Compliant"))
        assert (ready["status"], ready["reason"], ready["message"]) == ("False", "NotAuthorized", denied.message)
        assert compliant["status"] == "False", "the replicas have been read"
