"""A topology has a task if and only if there is work left for its Reassignments."""

import asyncio

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY
from tests.unit.reconcile.examples import topology
from tests.unit.reconcile.plans.test_worker import AWAY, CONFIGS, NAME, World

from rackspan.metrics import forget_topology, serve_topology
from rackspan.reconcile.plans import reassignments_reconciler, runs, turns
from rackspan.reconcile.plans.reassignments_reconciler import ReassignmentsReconciler
from rackspan.reconcile.runtime import controller


@pytest.fixture
async def loop(monkeypatch):
    monkeypatch.setattr(reassignments_reconciler, "_DEBOUNCE_SECONDS", 0.0)
    for name in ("_STEP_SECONDS", "_COPYING_SECONDS", "_WAITING_SECONDS"):
        monkeypatch.setattr(runs, name, 0.0)
    world = Crowd()
    serve_topology(str(world.topology.key))
    found = ReassignmentsReconciler(world.dependencies(world.cache))
    task = asyncio.create_task(found.run())
    yield world, found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    forget_topology("kafka/prod")


async def until(world, loop, condition):
    """Let Kafka copy and the watches report changes until the condition is true."""
    async with asyncio.timeout(300):
        while not condition():
            world.kafka.catch_up_all()
            world.sync()
            loop.changed(world.topology.key)
            await asyncio.sleep(0)


def sample(name, **labels):
    return REGISTRY.get_sample_value(name, {"topology": "kafka/prod", **labels})


async def test_topology_is_served_until_its_reassignment_has_ended_and_metrics_show_the_result(loop):
    world, found = loop
    await asyncio.sleep(0)
    assert found._served == {}
    await world.begin()
    await until(world, found, lambda: found._served)
    await until(world, found, lambda: world.read().ended and not world.read().meta.finalizers)
    await until(world, found, lambda: not found._served)
    world.all_is_planned()
    world.nothing_left()
    assert sample("rackspan_reassignments", state="Succeeded") == 1
    assert sample("rackspan_reassignment_moves_done") == 3
    assert sample("rackspan_reassignment_throttles") == 0


async def test_throttles_are_cleared_before_the_task_ends_after_a_deletion_without_finalizer(loop, monkeypatch):
    world, found = loop
    await world.begin()
    await until(world, found, lambda: world.kafka.configs != CONFIGS)
    answered = world.kafka.cluster

    async def slowly():
        for _ in range(10):
            await asyncio.sleep(0)
        return await answered()

    monkeypatch.setattr(world.kafka, "cluster", slowly)
    world.objects.tear_away(NAME)
    await until(world, found, lambda: not found._served)
    assert world.kafka.configs == CONFIGS


async def test_progress_has_no_metrics_after_the_last_reassignment_of_the_topology(loop):
    world, found = loop
    await world.begin()
    await until(world, found, lambda: (sample("rackspan_reassignment_moves") or 0) > 0)
    world.objects.delete_by_hand(NAME)
    await until(world, found, lambda: not world.objects.there and sample("rackspan_reassignment_moves") is None)
    assert sample("rackspan_reassignments", state="Running") == 0


# -- turns -------------------------------------------------------------------------------------------------------------


class Crowd(World):
    """The world of `kafka/prod`, with topologies of the namespace `team` whose Kafka does not respond."""

    others = ()
    hangs = False

    def sync(self):
        super().sync()
        self.cache.topologies |= {one.key: one for one in self.others}

    async def add(self, count, **spec):
        """Add `count` topologies, each with a Reassignment that is older than that of `kafka/prod`."""
        away = topology(namespace="team", kafka={"bootstrapServers": "away:9092"})
        self.others = [replace(away, meta=replace(away.meta, name=f"t{number}")) for number in range(count)]
        for one in self.others:
            await self.plans.begin(one, self.plan())
        for body in list(self.objects.there.values()):
            self.objects._stored({**body, "spec": {**body["spec"], **spec}})
        self.objects.now = "2026-01-31T12:01:00Z"
        await self.begin()

    async def connect(self, topology, kafka, credentials):
        if kafka != self.topology.spec.kafka:
            if self.hangs:
                await asyncio.Event().wait()
            raise AWAY
        return await super().connect(topology, kafka, credentials)


@pytest.mark.parametrize("spec", [{"paused": True}, {"parts": 2}, {}], ids=["paused", "waiting", "unreachable"])
async def test_reassignments_that_cannot_run_do_not_delay_another_topology(loop, spec):
    world, found = loop
    await world.add(33, **spec)
    await until(world, found, lambda: world.read().ended)
    world.all_is_planned()
    world.nothing_left()


async def test_namespace_with_many_stuck_topologies_leaves_a_place_for_another_namespace(loop):
    world, found = loop
    world.hangs = True
    await world.add(40)
    await until(world, found, lambda: world.read().ended)
    world.all_is_planned()
    busy = [one for one in found._served.values() if one.task is not None]
    assert len(busy) == reassignments_reconciler._PLACES


async def test_namespaces_take_turns_if_there_are_more_namespaces_than_places(loop, monkeypatch):
    monkeypatch.setattr(reassignments_reconciler, "_PLACES", 1)
    monkeypatch.setattr(reassignments_reconciler, "_TURN_SECONDS", 0.0)
    world, found = loop
    world.hangs = True
    await world.add(1)
    await until(world, found, lambda: world.read().ended)
    world.all_is_planned()
    world.nothing_left()


async def test_idle_topology_keeps_its_place_until_another_topology_needs_it(loop, monkeypatch):
    monkeypatch.setattr(reassignments_reconciler, "_PLACES", 1)
    world, found = loop
    await world.begin()
    world.objects.edit(NAME, paused=True)
    await until(world, found, lambda: found._served and all(one.worker.rests for one in found._served.values()))
    (alone,) = found._served.values()
    assert alone.task is not None
    await world.add(1)
    await until(world, found, lambda: alone.task is None)
    world.objects.edit(NAME, paused=False)
    await until(world, found, lambda: world.read().ended)
    world.all_is_planned()


async def test_slow_close_of_a_kafka_client_does_not_delay_another_topology(loop, monkeypatch):
    monkeypatch.setattr(reassignments_reconciler, "_PLACES", 1)
    monkeypatch.setattr(reassignments_reconciler, "_TURN_SECONDS", 0.0)
    world, found = loop
    world.hangs = True
    await world.add(1)
    await until(world, found, lambda: len(found._served) == 2)
    stuck = asyncio.Event()
    monkeypatch.setattr(found._served[world.others[0].key].worker._connection, "close", stuck.wait)
    await until(world, found, lambda: world.read().ended)
    stuck.set()
    world.all_is_planned()


# -- history -----------------------------------------------------------------------------------------------------------


async def end_twelve(world):
    await world.begin(*(world.plan(f"{number:016x}") for number in range(12)))
    for name in world.objects.names():
        world.objects.edit(name, cancelled=True)


async def until_all_ended(world, found):
    def ended():
        return all(one.ended for one in world.cache.reassignments.values())

    await until(world, found, lambda: not found._served and ended())


async def test_old_plans_are_deleted_even_if_no_other_work_is_left(loop, monkeypatch):
    world, found = loop
    delete = world.objects.delete

    async def slowly(known):
        for _ in range(10):
            await asyncio.sleep(0)
        await delete(known)

    monkeypatch.setattr(world.objects, "delete", slowly)
    await end_twelve(world)
    await until_all_ended(world, found)
    assert len(world.objects.there) == turns.HISTORY


async def test_deletion_of_an_old_plan_is_retried_after_an_api_server_error(loop, monkeypatch):
    monkeypatch.setattr(controller, "_RETRY_SECONDS", 0.0)
    world, found = loop
    delete, refused = world.objects.delete, []

    async def once_in_vain(known):
        if not refused:
            refused.append(known.meta.name)
            raise AWAY
        await delete(known)

    monkeypatch.setattr(world.objects, "delete", once_in_vain)
    await end_twelve(world)
    await until_all_ended(world, found)
    assert refused
    assert len(world.objects.there) == turns.HISTORY


async def test_old_plan_with_a_finalizer_of_another_client_takes_no_place_once_it_is_deleted(loop):
    """The finalizer keeps the object. The operator does not request its deletion again."""
    world, found = loop
    await end_twelve(world)
    for body in list(world.objects.there.values()):
        world.objects._stored({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/backup"]}})
    await until_all_ended(world, found)
    deleting = [one for one in world.objects.there.values() if "deletionTimestamp" in one["metadata"]]
    assert len(deleting) == 2
