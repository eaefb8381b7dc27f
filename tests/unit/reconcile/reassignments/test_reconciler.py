"""A task for each topology that has anything left to do, and none for others."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from tests.unit.reconcile.reassignments.test_worker import CONFIGS, NAME, World

from rackspan.reconcile.reassignments import reconciler, runs
from rackspan.reconcile.reassignments.reconciler import ReassignmentsReconciler


@pytest.fixture
async def loop(monkeypatch):
    monkeypatch.setattr(reconciler, "_DEBOUNCE_SECONDS", 0.0)
    for name in ("_STEP_SECONDS", "_COPYING_SECONDS", "_WAITING_SECONDS"):
        monkeypatch.setattr(runs, name, 0.0)
    world = World()
    found = ReassignmentsReconciler(world.dependencies(world.cache))
    task = asyncio.create_task(found.run())
    yield world, found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(world, loop, condition):
    """Let the watches tell of what has changed, and Kafka copy, until it is so."""
    async with asyncio.timeout(90):
        while not condition():
            world.kafka.catch_up_all()
            world.sync()
            loop.changed(world.topology.key)
            await asyncio.sleep(0)


def sample(name, **labels):
    return REGISTRY.get_sample_value(name, {"topology": "kafka/prod", **labels})


async def test_a_topology_is_served_while_it_has_anything_to_do(loop):
    world, found = loop
    await asyncio.sleep(0)
    assert found._workers == {}
    await world.begin()
    await until(world, found, lambda: found._workers)
    await until(world, found, lambda: world.read().ended and not world.read().meta.finalizers)
    await until(world, found, lambda: not found._workers)
    world.all_is_planned()
    world.nothing_left()
    assert sample("rackspan_reassignments", state="Succeeded") == 1
    assert sample("rackspan_reassignment_moves_done") == 3
    assert sample("rackspan_reassignment_throttles") == 0


async def test_the_throttles_of_what_is_torn_away_are_cleared_before_its_task_ends(loop, monkeypatch):
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
    await until(world, found, lambda: not found._workers)
    assert world.kafka.configs == CONFIGS


async def test_the_series_go_with_the_objects(loop):
    world, found = loop
    await world.begin()
    await until(world, found, lambda: (sample("rackspan_reassignment_moves") or 0) > 0)
    world.objects.delete_by_hand(NAME)
    await until(world, found, lambda: not world.objects.there and sample("rackspan_reassignment_moves") is None)
    assert sample("rackspan_reassignments", state="Running") is None


async def test_only_so_many_topologies_are_served_at_a_time(loop, monkeypatch):
    world, found = loop
    monkeypatch.setattr(reconciler, "_MOST_TOPOLOGIES", 0)
    await world.begin()
    found.changed(world.topology.key)
    for _ in range(20):
        await asyncio.sleep(0)
    assert found._workers == {}
