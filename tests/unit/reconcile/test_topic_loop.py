"""A batch of objects through the API server: what befalls one of them is not the others' matter."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from tests.unit.reconcile import scenes
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster
from tests.unit.reconcile.memory import MemoryKafka
from tests.unit.reconcile.scenes import NOON, scene, topology

from rackspan.api.labels import FINALIZER
from rackspan.reconcile import topic_loop
from rackspan.reconcile.finalizers import Finalizers
from rackspan.reconcile.inventory import Inventory
from rackspan.reconcile.scene import Scene
from rackspan.reconcile.statuses import StatusWriter
from rackspan.reconcile.tools import Tools
from rackspan.reconcile.topic_loop import TopicLoop


@dataclass
class FixedLookout:
    """One scene that does not change."""

    scene: Scene
    admin: MemoryKafka
    epoch: int = 1
    woken: int = 0

    def wake(self):
        self.woken += 1


@dataclass
class World:
    kube: MemoryCluster = field(default_factory=MemoryCluster)
    kafka: MemoryKafka = field(default_factory=MemoryKafka)
    inventory: Inventory = field(default_factory=Inventory)

    def __post_init__(self):
        self.inventory.topologies[topology().key] = topology(allowedNamespaces={"from": "All"})
        tools = Tools(self.inventory, self.kube, None, StatusWriter(self.kube), Finalizers(self.kube), {}, 60)
        self.lookout = FixedLookout(scene(), self.kafka)
        self.loop = TopicLoop(topology().key, self.lookout, tools, _recorded)

    async def work(self):
        await self.loop.see_through(await self.loop.take())

    def add(self, *topics):
        for one in topics:
            self.inventory.keep_topic(one)
        self.loop.add([one.key for one in topics])


def topic(name, *, finalizers=(FINALIZER,), **spec):
    return scenes.topic(name, finalizers=finalizers, **spec)


@pytest.fixture
def world():
    return World()


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
    conclude = topic_loop.conclude

    def faulty(outcome, *arguments):
        if outcome.topic.key.name == "odd":
            raise AttributeError("None has no attribute lower")
        return conclude(outcome, *arguments)

    monkeypatch.setattr(topic_loop, "conclude", faulty)
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

    async def waits(ref, finalizers, version):
        if ref.key.name == "slow":
            asked.set()
            await answer.wait()
        return await slow(ref, finalizers, version)

    world.kube.set_finalizers, world.kube.replace_status = waits, tells
    world.add(topic("refused", finalizers=()), topic("slow", finalizers=()))
    working = asyncio.create_task(world.work())
    await asked.wait()
    await told.wait()
    assert not working.done()
    answer.set()
    await working


async def _recorded():
    """The RackTopology's status is written."""


def _deleted(one):
    return replace(one, meta=replace(one.meta, deletion_timestamp=NOON))
