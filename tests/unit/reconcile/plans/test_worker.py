"""Execution of Reassignments on a simulated cluster, also with a crash of the operator at any of its calls."""

import asyncio
import contextlib
import copy
import dataclasses
import logging
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from tests.support.loop_clock import pass_time
from tests.support.simulated_kafka import CLUSTER_ID, CrashError, SimulatedKafka, SimulatedPartition
from tests.support.simulated_objects import SimulatedObjects
from tests.unit.reconcile.examples import topology

from rackspan.api.conditions import READY, RECONCILING, STALLED, is_true
from rackspan.api.labels import FINALIZER, PAUSED
from rackspan.api.meta import Meta, ObjectKey
from rackspan.api.policies import AdaptiveThrottle, MaintenanceWindow
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import OwnTopologyRef, Reassignment, ReassignmentSpec, ReassignmentStatus, ThrottleStatus
from rackspan.core.planning import Change
from rackspan.core.reassignment import Limits, ListChange, PaceReason, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.reconcile.audit_log import LOGGER, AuditedAdmin
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.dependencies import ReassignmentDependencies
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans import approved_plans, runs, turns, worker
from rackspan.reconcile.plans import reassignment_status as object_journal
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, ApprovedPlans, BegunPlan, record_from
from rackspan.reconcile.plans.reassignment_status import PACES
from rackspan.reconcile.plans.worker import TopologyWorker
from rackspan.reconcile.runtime.namespaces import NamespaceQuota
from rackspan.reconcile.runtime.writers import FinalizerWriter
from rackspan.reconcile.uninstall import clear_throttles

HASH = "0123456789abcdef"
NAME = f"prod-{HASH}"
RATE = 50_000_000
RACKS = {broker: ("eu", f"z{broker % 3}") for broker in range(6)}
BEFORE = {
    TopicPartition("orders", 0): (0, 1, 2),
    TopicPartition("orders", 1): (1, 2, 3),
    TopicPartition("users", 0): (2, 3, 4),
}
PLANNED = {
    TopicPartition("orders", 0): (3, 1, 2),
    TopicPartition("orders", 1): (1, 2, 0),
    TopicPartition("users", 0): (2, 3, 1),
}
OTHERS = Setting(SettingKind.BROKER, "1", RATES[0])
CONFIGS = {OTHERS: "1234", Setting(SettingKind.TOPIC, "users", FOLLOWERS): "0:9"}
AWAY = FailureError(Failure("ApiServerUnreachable", "no answer", Remedy.RETRY))


class Recorded(SimulatedKafka):
    """A Kafka that checks at each change that the API server already has a record of the change."""

    objects = None

    async def alter(self, targets, same_size=()):
        record = self._record()
        for at, target in targets.items():
            if target is not None and set(target) - set(self.state[at].replicas):
                assert record.started.get(at) == tuple(target), f"{at} was not recorded"
        return await super().alter(targets, same_size)

    async def set_settings(self, changes):
        known = self._record().throttles if self.objects.there else {}
        for setting, change in changes.items():
            assert setting in known or not self.objects.there, f"{setting} was not recorded"
            assert setting not in CONFIGS or isinstance(change, ListChange), f"{CONFIGS[setting]} is lost"
        return await super().set_settings(changes)

    def _record(self):
        recorded = [one for one in self.objects.there.values() if one.get("status", {}).get("record")]
        # An ended Reassignment keeps its record while throttles are left on offline brokers.
        (body,) = [one for one in recorded if not one["status"].get("finishedAt")] or recorded
        return record_from(Reassignment.from_object(body), body["spec"]["plan"])

    async def close(self):
        pass


class World:
    """A simulated Kafka and API server, and a worker that restarts after each crash."""

    def __init__(self, **kafka):
        self.kafka = Recorded(RACKS, BEFORE, PLANNED, limits=Limits(2, 2), rate=RATE, configs=dict(CONFIGS), **kafka)
        self.objects = self.kafka.objects = SimulatedObjects(self.kafka)
        self.now = datetime(2026, 1, 31, 12, tzinfo=UTC)
        self.topology = topology(
            status={"brokers": [{"id": b, "rack": "/".join(("", *rack))} for b, rack in RACKS.items()]},
            reassignment={"throttle": RATE, "maxConcurrentMoves": 2, "maxConcurrentMovesPerBroker": 2},
        )
        self.connections = 0
        self.start()

    def start(self):
        self.cache = Cache()
        self.sync()
        self.plans = ApprovedPlans(self.cache, self.objects)
        self.worker = TopologyWorker(ObjectKey("kafka", "prod"), self.dependencies(self.cache))

    def dependencies(self, cache):
        finalizers = FinalizerWriter(self.objects)
        return ReassignmentDependencies(cache, self.objects, self.objects, self, finalizers, lambda: self.now)

    async def connect(self, owner, kafka, credentials):
        self.connections += 1
        return self.kafka

    def sync(self):
        """Update the cache to the current objects, as watches do."""
        self.cache.topologies.clear()
        if self.topology is not None:
            self.cache.topologies[self.topology.key] = self.topology
        for key in list(self.cache.reassignments):
            if key not in self.objects.there:
                self.cache.drop_reassignment(key)
                self.cache.versions._known["Reassignment"].pop(key, None)
        for body in self.objects.there.values():
            if self.cache.versions.record("Reassignment", body):
                self.cache.put_reassignment(copy.deepcopy(body))

    def plan(self, plan_hash=HASH, planned=PLANNED, **more):
        changes = [Change(at.topic, at.partition, planned[at], BEFORE[at], 10) for at in sorted(planned)]
        racks = {broker: "/".join(("", *rack)) for broker, rack in RACKS.items()}
        by = {"approved_by": "", "names": (plan_hash,)} | more
        return ApprovedPlan(CLUSTER_ID, plan_hash, changes, RACKS, racks, **by)

    def move(self, **settings):
        """Change settings for all moves in the spec of the RackTopology."""
        spec = self.topology.spec
        self.topology = replace(self.topology, spec=replace(spec, reassignment=replace(spec.reassignment, **settings)))

    def change_broker(self, broker, **fields):
        """Change fields of one broker in the status of the RackTopology."""
        status = self.topology.status
        brokers = tuple(replace(one, **fields) if one.id == broker else one for one in status.brokers)
        self.topology = replace(self.topology, status=replace(status, brokers=brokers))

    async def begin(self, *plans_):
        for one in plans_ or (self.plan(),):
            await self.plans.begin(self.topology, one)
            self.objects.now = f"2026-01-31T12:00:{self.objects.made:02}Z"

    async def passes(self, number=1):
        """Run passes, with a restart of the operator after each crash. Return the pause after the last pass."""
        for _ in range(number):
            self.sync()
            try:
                pause = await self.worker.reconcile()
            except CrashError:
                self.kafka.crash_at = None
                self.start()
                pause = 0
        return pause

    async def until_ended(self):
        for _ in range(300):
            self.kafka.catch_up_all()
            await self.passes()
            if all(one.get("status", {}).get("finishedAt") for one in self.objects.there.values()):
                await self.passes(3)  # for the remaining cleanup
                return
        raise AssertionError(f"not ended: {self.objects.there}")

    def at(self, at):
        one = self.kafka.state[at]
        return one.replicas, one.adding, one.removing

    def read(self, name=NAME):
        return Reassignment.from_object(self.objects._of(name))

    def all_is_planned(self):
        assert {at: self.at(at) for at in PLANNED} == {
            at: (new, frozenset(), frozenset()) for at, new in PLANNED.items()
        }
        assert sorted(self.kafka.copies) == sorted(
            (at, b) for at in PLANNED for b in set(PLANNED[at]) - set(BEFORE[at])
        )

    def nothing_left(self):
        assert self.kafka.configs == CONFIGS
        assert not [at for at, one in self.kafka.state.items() if one.adding or one.removing]


async def test_status_counts_removed_replicas_and_moves_of_a_plan():
    world, planned = World(), {TopicPartition("orders", 0): (1, 2), TopicPartition("orders", 1): (1, 2, 0)}
    world.kafka.planned = planned
    await world.begin(world.plan(planned=planned))
    await world.until_ended()
    done = world.read()
    assert (done.status.state, done.status.moves, done.status.removals) == ("Succeeded", 1, 1)
    assert done.status.message == "all is as planned: 1 move done, 1 replica removed"


async def test_plan_is_carried_out_completely_and_succeeds():
    world = World()
    await world.begin()
    await world.until_ended()
    world.all_is_planned()
    world.nothing_left()
    done = world.read()
    assert (done.status.state, done.status.moved, done.status.moves) == ("Succeeded", 3, 3)
    assert done.status.progress.moves == "3/3"
    assert is_true(done.status.conditions, READY)
    assert {one.type for one in done.status.conditions} == {READY}
    assert done.status.record is None
    assert done.meta.finalizers == ()
    about = [event.reason for event in world.objects.events if event.about.kind == "Reassignment"]
    assert about == ["ReassignmentStarted", "ReassignmentCompleted"]


def audited(caplog):
    return [record.audit for record in caplog.records if record.name == LOGGER]


async def test_audit_log_contains_the_kafka_changes_of_a_plan_and_its_approval(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    world = World()
    await world.begin(world.plan(approved_by="approved on RackTopology kafka/prod"))
    await world.passes(2)
    world.objects.edit(NAME, cancelled=True)
    await world.passes(2)
    await world.until_ended()
    lines = audited(caplog)
    assert {(line["plan"], line["approvedBy"], line["answer"]) for line in lines} == {
        (HASH, "approved on RackTopology kafka/prod", "ok")
    }
    assert {line["object"]["uid"] for line in lines} == {world.read().meta.uid}
    asked = [(line["topic"], line["partition"]) for line in lines if line["operation"] == "AlterReplicas"]
    assert asked
    assert all(line["replicas"] for line in lines if line["operation"] == "AlterReplicas")
    assert [(line["topic"], line["partition"]) for line in lines if line["operation"] == "CancelReassignment"] == asked
    rates = [line for line in lines if line["operation"] == "AlterThrottle" and "broker" in line]
    assert {str(RATE)} < {value for line in rates for value in line["config"].values()}
    lists = [line["config"] for line in lines if line["operation"] == "AlterThrottle" and "topic" in line]
    assert {LEADERS: {"append": "0:0,0:1,0:2,0:3,1:1,1:2,1:3,1:0"}} in lists


async def test_audit_log_contains_elections_and_failed_calls(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    failure, (one, *_) = Failure(Reason.KAFKA_UNREACHABLE, "gone\n", Remedy.RETRY), PLANNED
    world = World()
    about = Reassignment(Meta(NAME, "kafka", "u"), ReassignmentSpec(OwnTopologyRef("prod"), HASH, approved_by="by"))
    admin = AuditedAdmin(world.kafka, about)
    await admin.elect([one])

    async def fail(targets, same_size=()):
        raise FailureError(failure)

    world.kafka.alter = fail
    with pytest.raises(FailureError):
        await admin.alter({one: (1, 2)})
    assert [(line["operation"], line["answer"]) for line in audited(caplog)] == [
        ("ElectLeader", "ok"),
        ("AlterReplicas", "KafkaUnreachable"),
    ]
    assert all("\n" not in record.getMessage() for record in caplog.records if record.name == LOGGER)


async def test_status_of_a_running_reassignment_shows_its_progress():
    world = World()
    await world.begin()
    await world.passes(2)
    running = world.read()
    assert running.status.state == "Running"
    assert running.status.copying == 2
    assert running.status.throttles > 0
    assert is_true(running.status.conditions, RECONCILING)
    assert [(one.reason, one.partitions, len(one.samples)) for one in running.status.waiting.reasons] == [
        ("Limit", 1, 1)
    ]
    assert running.meta.finalizers == (FINALIZER,)


async def _calls_of(change):
    """Return the number of calls without a crash."""
    world = World()
    await world.begin()
    await world.passes(2)
    await change(world)
    await world.until_ended()
    return world.kafka.calls


async def _go_on(world):
    pass


async def _cancel(world):
    world.objects.edit(NAME, cancelled=True)


async def _delete(world):
    world.objects.delete_by_hand(NAME)


async def _pause_and_resume(world):
    world.objects.edit(NAME, paused=True)
    await world.passes(2)
    world.kafka.catch_up_all()
    await world.passes(2)
    world.objects.edit(NAME, paused=False)


@pytest.mark.parametrize("change", [_go_on, _cancel, _delete, _pause_and_resume])
async def test_crash_at_any_call_leaves_no_throttle_and_repeats_no_copy(change):
    for crash_at in range(1, await _calls_of(change) + 1):
        world = World()
        world.kafka.crash_at = crash_at
        for _ in range(3):
            try:
                await world.begin()
                break
            except CrashError:
                world.kafka.crash_at = None
                world.start()
        await world.passes(2)
        await change(world)
        await world.until_ended()
        world.nothing_left()
        assert len(set(world.kafka.copies)) == len(world.kafka.copies)
        if change in (_go_on, _pause_and_resume):
            world.all_is_planned()
            assert world.read().status.state == "Succeeded"
        elif change is _cancel:
            assert world.read().status.state in ("Cancelled", "Succeeded")
        else:
            assert world.objects.there == {}


async def test_deletion_without_the_finalizer_leaves_no_throttle():
    for told in (True, False):
        world = World()
        await world.begin()
        await world.passes(2)
        assert world.kafka.configs != CONFIGS
        world.objects.tear_away(NAME)
        if told:
            world.sync()
        world.kafka.catch_up_all()
        for _ in range(3):
            await world.worker.reconcile()
        assert world.kafka.configs == CONFIGS


async def test_cancellation_reverts_the_moves_under_way():
    world = World()
    await world.begin()
    await world.passes(2)
    await _cancel(world)
    await world.until_ended()
    world.nothing_left()
    assert {at: world.at(at)[0] for at in BEFORE} == BEFORE
    assert world.read().status.state == "Cancelled"
    assert is_true(world.read().status.conditions, STALLED)


async def test_removal_that_is_cancelled_while_it_waits_ends_as_cancelled():
    world, at = World(min_insync_replicas=3), TopicPartition("orders", 0)
    world.kafka.planned = planned = {at: (1, 2)}
    await world.begin(world.plan(planned=planned))
    await world.passes(4)
    await _cancel(world)
    await world.until_ended()
    assert (world.at(at)[0], world.read().status.state) == (BEFORE[at], "Cancelled")


async def test_reassignment_that_is_cancelled_after_all_moves_are_done_succeeds():
    world = World()
    await world.begin()
    while any(world.at(at)[0] != PLANNED[at] for at in PLANNED):
        world.kafka.catch_up_all()
        await world.passes()
    await _cancel(world)
    await world.until_ended()
    assert world.read().status.state == "Succeeded"


@pytest.mark.parametrize("how", ["cancelled", "deleted", "stopped"])
async def test_revert_keeps_a_replica_that_replaces_an_offline_one_and_the_next_plan_runs(how, monkeypatch):
    """The copy to 3 is complete, and 2 fails, which the plan keeps. Without 3, fewer replicas would be in sync."""
    world, at = World(), TopicPartition("orders", 0)
    world.kafka.planned = planned = {at: (3, 1, 2), TopicPartition("users", 0): (1, 3, 4)}
    await world.begin(world.plan(planned={at: planned[at]}))
    await world.passes(3)
    world.kafka.kill(2)
    await world.begin(world.plan("f" * 16, {TopicPartition("users", 0): (1, 3, 4)}))
    for _ in range(4):
        world.kafka.catch_up_all()
        await world.passes()
    assert (world.at(at)[0], world.kafka.state[at].isr) == ((0, 1, 2, 3), {0, 1, 3})
    match how:
        case "cancelled":
            await _cancel(world)
        case "deleted":
            await _delete(world)
        case _:
            monkeypatch.setattr(runs, "_GONE_SECONDS", 0.0)
            status = world.topology.status
            left = tuple(one for one in status.brokers if one.id != 2)
            world.topology = replace(world.topology, status=replace(status, brokers=left))
    await world.until_ended()
    assert world.at(at)[0] == (0, 1, 2, 3)
    assert world.read(f"prod-{'f' * 16}").status.state == "Succeeded"
    given_up = "1 partition given up (NotTakenBack): orders-0 (broker 2)"
    stopped = "stopped: 1 broker of the plan, such as 2, is gone; the moves under way were cancelled"
    told = {
        "cancelled": ("Cancelled", f"cancelled after 1 of 1 move; {given_up}"),
        "stopped": ("Stopped", f"{stopped}; {given_up}; make a new plan"),
    }
    assert how == "deleted" or (world.read().status.state, world.read().status.message) == told[how]
    world.kafka.revive(2)
    await world.passes(3)
    if how != "deleted":  # the object is deleted, and an Event reported the throttle on broker 2
        world.nothing_left()


async def test_cancellation_does_not_wait_for_a_reassignment_of_another_client():
    world, at = World(), TopicPartition("orders", 0)
    world.kafka.planned = planned = {at: (3, 1, 2)}
    await world.begin(world.plan(planned=planned))
    await world.passes(3)
    world.kafka.kill(5)
    world.kafka.reassigned_by_others(at, (5, 1, 2))
    await _cancel(world)
    await world.until_ended()
    assert world.read().status.state == "Cancelled"
    assert "(ChangedByOthers): orders-0" in world.read().status.message
    assert world.at(at)[1] == {5}


async def test_reassignment_that_is_cancelled_before_its_start_does_not_connect_to_kafka():
    world = World()
    await world.begin()
    await _cancel(world)
    before = world.kafka.calls
    await world.passes(3)
    assert world.read().status.state == "Cancelled"
    assert world.connections == 0
    assert world.kafka.calls - before <= 4  # a status and a finalizer


async def test_paused_reassignment_starts_no_copy_clears_throttles_and_then_makes_no_calls():
    world = World()
    await world.begin()
    await world.passes(2)
    world.objects.edit(NAME, paused=True)
    begun = list(world.kafka.copies)
    await world.passes(2)
    assert world.kafka.configs != CONFIGS, "moves under way stay throttled"
    world.kafka.catch_up_all()
    await world.passes(3)
    assert world.kafka.copies == begun
    world.nothing_left()
    assert world.read().status.state == "Paused"
    calls = world.kafka.calls
    assert await world.passes(3) == worker._IDLE_SECONDS
    assert world.kafka.calls == calls
    world.objects.edit(NAME, paused=False)
    await world.until_ended()
    world.all_is_planned()


async def test_status_has_no_rate_of_copies_while_kafka_is_unreachable(monkeypatch):
    world, away = World(), []
    cluster = world.kafka.cluster

    async def asked():
        if away:
            raise AWAY
        return await cluster()

    monkeypatch.setattr(world.kafka, "cluster", asked)
    monkeypatch.setattr(runs, "_STATUS_SECONDS", 0.0)
    await world.begin()
    for _ in range(4):
        await world.passes()
        world.now += timedelta(seconds=10)
    assert world.read().status.rate is not None
    away.append(True)
    await world.passes()
    status = world.read().status
    assert (status.state, status.message.partition(":")[0]) == ("Running", "tried again")
    assert (status.rate, status.estimated_end, status.progress.rate) == (None, None, None)


@pytest.mark.parametrize("outcome", [AWAY, None])
async def test_status_becomes_paused_even_if_a_status_write_fails(outcome):
    for write in range(1, 8):
        world = World()
        await world.begin()
        await world.passes(2)
        world.objects.edit(NAME, paused=True)
        await world.passes(2)
        world.kafka.catch_up_all()
        world.objects.failing = {world.objects.writes + write: outcome}
        for _ in range(8):
            with contextlib.suppress(FailureError):
                await world.passes()
        status = world.read().status
        assert (status.state, status.copying, status.throttles) == ("Paused", 0, 0)
        assert status.message.startswith("paused by its spec; 2 of 3 moves done, 0 being copied")


async def test_no_copy_starts_if_a_pause_conflicts_with_the_write_of_the_start(monkeypatch):
    world, write = World(), SimulatedObjects.write_status
    await world.begin()

    async def paused_meanwhile(known, status):
        if status.get("state") == "Running":
            world.objects.edit(NAME, paused=True)
        return await write(world.objects, known, status)

    monkeypatch.setattr(world.objects, "write_status", paused_meanwhile)
    await world.passes(3)
    assert world.kafka.copies == []
    assert world.read().status.state == "Paused"
    assert not [event for event in world.objects.events if event.about.kind == "Reassignment"]


async def test_conflict_with_the_write_of_a_pause_is_retried_soon():
    world = World()
    await world.begin()
    world.objects.edit(NAME, paused=True)
    world.objects.failing = {world.objects.writes + 1: None}
    assert await world.passes() == worker._STEP_SECONDS


async def test_topology_above_the_namespace_quota_moves_nothing():
    world = World()
    await world.begin()
    world.cache.quota = NamespaceQuota(0)
    world.cache.quota.put(world.topology)
    assert await world.passes(2) == worker._IDLE_SECONDS
    assert (world.connections, world.read().status.state) == (0, "Queued")
    assert "the operator serves 0 of a namespace" in world.read().status.message
    world.cache.quota = NamespaceQuota(1)
    await world.until_ended()
    world.all_is_planned()


async def test_paused_topology_pauses_its_reassignment():
    world = World()
    await world.begin()
    world.topology = replace(world.topology, meta=replace(world.topology.meta, annotations={PAUSED: "true"}))
    await world.passes(2)
    assert world.read().status.state == "Paused"
    assert "RackTopology" in world.read().status.message
    assert world.connections == 0


async def test_no_copy_starts_between_two_maintenance_windows():
    world = World()
    await world.begin()
    world.move(windows=(MaintenanceWindow("0 12 * * *", "1h"),))
    await world.passes(2)
    assert world.read().status.state == "Running"
    begun = list(world.kafka.copies)
    world.now += timedelta(hours=1)
    await world.passes(2)
    world.kafka.catch_up_all()
    await world.passes(3)
    assert world.kafka.copies == begun
    world.nothing_left()
    assert world.read().status.state == "Paused"
    assert "outside of its windows" in world.read().status.message
    world.now += timedelta(hours=23)
    await world.until_ended()
    world.all_is_planned()


async def test_moves_blocked_only_by_min_insync_are_reported_and_continue_once_it_is_lowered():
    world = World(min_insync_replicas=2)
    at = TopicPartition("orders", 0)
    fewer = {at: BEFORE[at][:1], TopicPartition("users", 0): PLANNED[TopicPartition("users", 0)]}
    world.kafka.planned = fewer
    await world.begin(world.plan(planned=fewer))
    await world.passes(3)
    assert not await world.plans.held_by_min_insync(world.topology.key)
    world.worker._run._written_at = 0
    await world.passes(2)
    held = await world.plans.held_by_min_insync(world.topology.key)
    assert {(one.topic, one.replicas) for one in held} == {(at.topic, fewer[at]) for at in fewer}
    world.objects.edit(NAME, paused=True)
    await world.passes(2)
    assert not await world.plans.held_by_min_insync(world.topology.key)
    world.objects.edit(NAME, paused=False)
    world.kafka.min_insync_replicas = 1
    await world.passes(2)
    assert world.at(at)[0] == BEFORE[at][:1]
    await world.until_ended()
    assert world.read().status.state == "Succeeded"
    assert not await world.plans.held_by_min_insync(world.topology.key)


async def test_plan_blocked_only_by_min_insync_for_long_stops_and_the_next_plan_runs(monkeypatch):
    """Otherwise a user who may change the configs of one topic could block all other plans of the cluster."""
    world = World(min_insync_replicas=2)
    orders, users = TopicPartition("orders", 0), TopicPartition("users", 0)
    world.kafka.planned = {orders: BEFORE[orders][:1], users: PLANNED[users]}
    fewer, other = {orders: BEFORE[orders][:1]}, {users: PLANNED[users]}
    await world.begin(world.plan(planned=fewer), world.plan("0" * 32, planned=other))
    first, second = NAME, f"prod-{'0' * 32}"
    await world.passes(5)
    assert (world.read(first).status.state, world.read(second).status.state) == ("Running", "Queued")
    world.objects.edit(first, paused=True)
    monkeypatch.setattr(runs, "_HELD_SECONDS", 0.0)
    await world.passes(3)
    assert world.read(first).status.state == "Paused", "the pause of a user does not stop the plan"
    world.objects.edit(first, paused=False)
    await world.until_ended()
    assert world.read(first).status.state == "Stopped"
    assert "waits for a lower min.insync.replicas" in world.read(first).status.message
    assert world.at(orders)[0] == BEFORE[orders][:2], "as many as min.insync.replicas needs"
    assert world.read(second).status.state == "Succeeded"
    world.nothing_left()


class OwnMinInsync(Recorded):
    """A Kafka that returns min.insync.replicas even for deleted topics."""

    async def min_insync(self, topics):
        return dict.fromkeys(topics, self.min_insync_replicas)


@pytest.mark.parametrize("how", ["deleted", "made anew", "moved by others"])
async def test_moves_blocked_by_min_insync_are_reported_even_if_another_partition_is_given_up(monkeypatch, how):
    monkeypatch.setattr("tests.unit.reconcile.plans.test_worker.Recorded", OwnMinInsync)
    world = World(min_insync_replicas=3)
    users, orders = TopicPartition("users", 0), TopicPartition("orders", 0)
    world.kafka.planned = planned = {orders: BEFORE[orders][:2], users: PLANNED[users]}
    for one in world.kafka.state.values():
        one.topic_id = "first"
    await world.begin(world.plan(planned=planned, topic_ids={"orders": "first", "users": "first"}))
    match how:
        case "deleted":
            del world.kafka.state[users]
        case "made anew":
            world.kafka.state[users] = SimulatedPartition((0, 1, 2), {0, 1, 2}, 0, topic_id="another")
        case _:
            world.kafka.reassigned_by_others(users, (0, 5, 1))
    for _ in range(8):
        world.kafka.catch_up_all()
        await world.passes()
        world.worker._run._written_at = 0
    assert await world.plans.held_by_min_insync(world.topology.key)
    world.kafka.min_insync_replicas = 2
    await world.until_ended()
    assert world.at(orders)[0] == BEFORE[orders][:2]
    assert world.read().status.state == "Failed"
    world.nothing_left()


def rates(world):
    return {value for setting, value in world.kafka.configs.items() if setting.key in RATES and setting != OTHERS}


@pytest.mark.parametrize("by", ["its spec", "its RackTopology"])
async def test_throttle_can_be_changed_while_the_reassignment_runs(by):
    world = World()
    await world.begin()
    await world.passes(2)
    world.kafka.rate = 7
    if by == "its spec":
        world.objects.edit(NAME, throttle=7)
    else:
        world.move(throttle=7)
    world.worker._run._written_at = 0
    await world.passes()
    assert rates(world) == {"7"}
    assert world.kafka.configs[OTHERS] == "1234", "the throttle of another client stays"
    assert world.read().status.throttle == ThrottleStatus(7, f"as {by} says; throttles that others have set stay")
    await world.until_ended()
    world.nothing_left()
    world.all_is_planned()


async def test_adaptive_throttle_starts_at_its_floor_and_the_status_shows_rate_and_reason():
    world = World()
    world.kafka.rate = 5
    world.move(throttle=None, adaptive_throttle=AdaptiveThrottle(5, 25))
    await world.begin()
    await world.passes(3)
    assert rates(world) == {"5"}
    assert world.read().status.throttle == ThrottleStatus(
        5, f"{PACES[PaceReason.START]}; throttles that others have set stay"
    )
    world.kafka.rate = 7
    world.objects.edit(NAME, throttle=7)
    world.worker._run._written_at = 0
    await world.passes(2)
    assert world.read().status.throttle == ThrottleStatus(7, "as its spec says; throttles that others have set stay")
    await world.until_ended()
    world.nothing_left()
    world.all_is_planned()
    assert world.read().status.throttle is None


@pytest.mark.parametrize("outcome", [AWAY, None])
async def test_failed_status_write_stops_the_pass_before_a_call_that_is_not_recorded(outcome):
    for write in range(1, 30):
        world = World()
        await world.begin()
        world.objects.failing = {write: outcome}
        await _until_ended_through_failures(world)
        world.all_is_planned()
        world.nothing_left()


async def _until_ended_through_failures(world):
    for _ in range(100):
        world.kafka.catch_up_all()
        with contextlib.suppress(FailureError):
            await world.passes()
        if world.read().status.state == "Succeeded":
            return
    raise AssertionError(world.read().status)


async def test_record_that_is_too_large_is_reported_and_no_copy_starts(monkeypatch):
    world = World()
    await world.begin()
    with monkeypatch.context() as patch:
        patch.setattr(object_journal, "MAX_PLAN", 10)
        assert await world.passes(3) == worker._RETRY_SECONDS
    assert "lower maxConcurrentMoves" in world.read().status.message
    assert world.kafka.copies == []
    await world.until_ended()
    world.all_is_planned()
    world.nothing_left()


async def test_cache_does_not_keep_the_plan_of_a_waiting_reassignment():
    world = World()
    await world.begin()
    plan = world.objects.there[ObjectKey("kafka", NAME)]["spec"]["plan"]
    assert plan not in repr(world.cache.reassignments)


async def test_conflict_on_the_record_write_makes_the_worker_read_the_changed_object():
    world = World()
    await world.begin()
    world.sync()
    world.objects.edit(NAME, maxConcurrentMoves=1)  # no watch has reported it
    world.kafka.limits = Limits(1, 2)
    await world.worker.reconcile()
    assert len(world.kafka.copies) <= 1
    await world.until_ended()
    world.all_is_planned()


@pytest.mark.parametrize("acts", range(1, 6))
async def test_worker_continues_from_the_record_that_another_operator_has_written(acts):
    """Two operators with different Leases run by mistake. The other one sets a new throttle, then it ends."""
    world, other = World(), World()
    await world.begin()
    await world.passes(2)
    other.kafka, other.objects = world.kafka, world.objects
    other.start()
    world.kafka.rate = 2 * RATE
    for one in (world, other):
        one.move(throttle=2 * RATE)
    for _ in range(acts):
        await other.passes()
    await world.until_ended()
    world.all_is_planned()
    world.nothing_left()


async def test_worker_without_work_makes_no_calls():
    world = World()
    await world.begin()
    await world.until_ended()
    calls, connections = world.kafka.calls, world.connections
    assert await world.passes(3) == worker._IDLE_SECONDS
    assert (world.kafka.calls, world.connections) == (calls, connections)


@pytest.mark.parametrize("going", [False, True])
async def test_deleted_topology_stops_its_reassignment_and_clears_throttles_and_finalizer(going):
    world = World()
    await world.begin()
    await world.passes(2)
    if going:
        gone = replace(world.topology.meta, deletion_timestamp=world.now)
        world.topology = replace(world.topology, meta=gone)
    else:
        world.topology = None
    await world.passes(2)
    assert world.kafka.configs == CONFIGS
    assert world.read().status.state == "Stopped"
    assert world.read().meta.finalizers == ()


@pytest.mark.parametrize("refused", range(1, 7))
async def test_finalizer_is_removed_after_a_topology_deletion_only_once_the_stop_is_reported(refused):
    """The garbage collector changes the object at the same time, so the API server refuses one of the writes."""
    world = World()
    await world.begin()
    await world.passes(2)
    world.topology = None
    world.objects.delete_by_hand(NAME)
    world.objects.failing = {world.objects.writes + refused: None}
    await world.passes(4)
    assert world.objects.names() == []
    assert "ReassignmentStopped" in {event.reason for event in world.objects.events}
    assert world.kafka.configs == CONFIGS


async def test_event_reports_remaining_throttles_if_the_deleted_topology_is_unknown_after_a_restart():
    world = World()
    await world.begin()
    await world.passes(2)
    world.topology = None
    world.start()  # the new worker does not know how to connect to Kafka
    await world.passes(2)
    assert world.kafka.configs != CONFIGS
    assert world.read().meta.finalizers == ()
    assert "throttles may be left in Kafka" in world.read().status.message
    assert "ThrottlesLeft" in [event.reason for event in world.objects.events]


@pytest.mark.parametrize("answers", [True, False])
async def test_uninstall_clears_throttles_or_reports_those_that_remain(answers):
    world = World()
    await world.begin()
    await world.passes(2)
    world.start()
    if not answers:
        world.topology = None
    world.objects.topologies = {} if world.topology is None else {world.topology.key: world.topology}
    world.sync()
    left = await clear_throttles(world.dependencies(Cache()))
    assert (world.kafka.configs == CONFIGS) is answers
    assert len(left) == (0 if answers else 1)
    assert world.read().status.state == "Running", "an operator that is installed again continues"
    if answers:
        world.start()
        await world.until_ended()
        world.all_is_planned()
        world.nothing_left()


@pytest.mark.parametrize("denied", [False, True])
async def test_topology_that_cannot_be_read_does_not_stop_its_reassignment(denied):
    world = World()
    await world.begin()
    await world.passes(2)
    world.objects.topologies = {} if denied else {world.topology.key: "rt-1"}
    world.objects.denied = frozenset({world.topology.key.namespace} if denied else ())
    world.topology = None
    await world.passes(2)
    assert world.read().status.state == "Running"


async def test_plan_of_another_cluster_stops_and_changes_nothing():
    world = World()
    await world.begin(world.plan())
    body = world.objects._of(NAME)
    other = approved_plans.reassignments_of(world.topology, dataclasses.replace(world.plan(), cluster_id="another"))[0]
    body["spec"]["plan"] = other["spec"]["plan"]
    world.objects._stored(body)
    await world.passes(3)
    assert world.read().status.state == "Stopped"
    assert "another" in world.read().status.message
    assert world.kafka.copies == []
    world.nothing_left()


async def test_lasting_rack_change_stops_the_plan_and_reverts_the_moves_under_way(monkeypatch):
    world = World()
    await world.begin()
    await world.passes(2)
    world.change_broker(3, rack="/us/z9")
    await world.passes(2)
    assert world.read().status.state == "Running", "a label may have changed for a moment only"
    monkeypatch.setattr(runs, "_RACKS_SECONDS", 0.0)
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    assert "broker 3 was in rack /eu/z0" in world.read().status.message
    world.nothing_left()
    assert {at: world.at(at)[0] for at in BEFORE} == BEFORE


@pytest.mark.parametrize("ends", ["restarted", "stepped aside"])
async def test_stopping_plan_does_not_continue_after_a_restart_or_a_lost_place(monkeypatch, ends):
    world = World()
    await world.begin()
    await world.passes(2)
    world.change_broker(3, rack="/us/z9")
    with monkeypatch.context() as at_once:
        at_once.setattr(runs, "_RACKS_SECONDS", 0.0)
        await world.passes(2)
    assert world.read().status.state == "Cancelling"
    copies = len(world.kafka.copies)
    if ends == "restarted":
        world.start()
    else:
        await world.worker.step_aside()
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    assert "broker 3 was in rack /eu/z0" in world.read().status.message
    assert len(world.kafka.copies) == copies, "no further copy starts"
    assert {at: world.at(at)[0] for at in BEFORE} == BEFORE


@pytest.mark.parametrize("ends", ["restarted", "stepped aside", "ran on"])
async def test_copy_cancelled_by_another_client_is_not_repeated_even_after_a_restart(ends):
    world = World()
    await world.begin()
    await world.passes(3)
    at = next(at for at, one in world.kafka.state.items() if one.adding)
    world.kafka.cancelled_by_others(at)
    await world.passes(5)
    if ends == "restarted":
        world.start()
    elif ends == "stepped aside":
        await world.worker.step_aside()
    await world.until_ended()
    assert world.at(at) == (BEFORE[at], frozenset(), frozenset())
    assert len([one for one, _ in world.kafka.copies if one == at]) == 1
    done = world.read()
    assert done.status.state == "Failed"
    assert {one: world.at(one)[0] for one in PLANNED if one != at} == {
        one: PLANNED[one] for one in PLANNED if one != at
    }


async def test_different_rack_reported_by_a_broker_stops_the_plan_and_reverts_the_moves():
    world = World()
    await world.begin()
    await world.passes(2)
    world.kafka.racks = {**RACKS, 3: ("us", "z9")}
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    assert "broker 3 was in rack /eu/z0" in world.read().status.message
    world.nothing_left()
    assert {at: world.at(at)[0] for at in BEFORE} == BEFORE


async def test_plan_gives_up_moves_to_a_drained_and_cordoned_broker_and_ends():
    """The plan gives up its moves to that broker. If it waited, the plan of the drain could never start."""
    world = World()
    orders, users = TopicPartition("orders", 0), TopicPartition("users", 0)
    world.kafka.planned = planned = {orders: (5, 1, 2), users: PLANNED[users]}
    await world.begin(world.plan(planned=planned))
    world.objects.edit(NAME, paused=True)
    await world.passes(2)
    world.change_broker(5, draining=True)
    world.kafka.cordon(5)  # the operator does this with a drained and empty broker
    world.objects.edit(NAME, paused=False)
    await world.until_ended()
    status = world.read().status
    assert (status.state, status.waiting.summary) == ("Failed", "1 Refused")
    assert "it is drained and cordoned" in status.message
    assert (world.at(orders)[0], world.at(users)[0]) == (BEFORE[orders], PLANNED[users])
    world.nothing_left()


async def test_rack_change_of_a_broker_outside_the_plan_does_not_stop_the_plan():
    world = World()
    await world.begin()
    await world.passes(2)
    world.kafka.racks = {**RACKS, 5: ("us", "z9")}
    await world.until_ended()
    world.all_is_planned()


async def test_broker_that_reports_the_rack_of_its_node_only_later_does_not_stop_the_plan():
    """The plan uses the racks of nodes. One broker did not report the rack of its node at that time."""
    world = World()
    plan = world.plan()
    world.kafka.racks = {**RACKS, 3: ("eu", "z9")}
    await world.begin(dataclasses.replace(plan, reported_racks={**plan.reported_racks, 3: "/eu/z9"}))
    await world.passes(2)
    world.kafka.racks = dict(RACKS)
    await world.until_ended()
    world.all_is_planned()


async def test_broker_that_was_offline_at_the_start_does_not_stop_the_plan_when_it_returns():
    world = World()
    plan = world.plan()
    known = {broker: rack for broker, rack in plan.reported_racks.items() if broker != 3}
    world.kafka.kill(3)
    await world.begin(dataclasses.replace(plan, reported_racks=known))
    await world.passes(3)
    world.kafka.revive(3)
    await world.until_ended()
    world.all_is_planned()


@pytest.mark.parametrize("begun", [0, 1], ids=["before it began", "in the middle"])
async def test_plan_resumed_after_a_rack_change_starts_no_copy_before_it_stops(monkeypatch, begun):
    world = World()
    await world.begin()
    for _ in range(begun):
        await world.passes()
    world.objects.edit(NAME, paused=True)
    for _ in range(12):
        world.kafka.catch_up_all()
        await world.passes()
    world.change_broker(3, rack="/us/z9")
    copies = list(world.kafka.copies)
    world.objects.edit(NAME, paused=False)
    await world.passes(5)
    assert world.kafka.copies == copies
    assert world.read().status.state == "Running", "a label may have changed for a moment only"
    monkeypatch.setattr(runs, "_RACKS_SECONDS", 0.0)
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    assert world.kafka.copies == copies
    world.nothing_left()


async def test_plan_stops_if_a_target_broker_is_missing_for_long_enough(monkeypatch):
    world = World()
    await world.begin()
    await world.passes(2)
    brokers = tuple(one for one in world.topology.status.brokers if one.id != 3)
    world.topology = replace(world.topology, status=replace(world.topology.status, brokers=brokers))
    await world.passes(2)
    assert world.read().status.state == "Running", "the broker may only be restarting"
    monkeypatch.setattr(runs, "_GONE_SECONDS", 0.0)
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    assert "1 broker of the plan, such as 3, is gone" in world.read().status.message
    world.nothing_left()


async def test_missing_time_of_a_broker_is_counted_across_turns(monkeypatch):
    world = World()
    await world.begin()
    await world.passes(2)
    brokers = tuple(one for one in world.topology.status.brokers if one.id != 3)
    world.topology = replace(world.topology, status=replace(world.topology.status, brokers=brokers))
    monkeypatch.setattr(runs, "_GONE_SECONDS", 1e-9)
    for _ in range(3):
        await world.passes()
        await world.worker.step_aside()
    assert world.read().status.state == "Cancelling"
    await world.until_ended()
    assert world.read().status.state == "Stopped"
    world.nothing_left()


async def test_plan_succeeds_without_repeated_copies_if_the_worker_steps_aside_after_each_pass():
    world = World()
    await world.begin()
    for _ in range(30):
        world.kafka.catch_up_all()
        await world.passes()
        await world.worker.step_aside()
    await world.until_ended()
    assert world.read().status.state == "Succeeded"
    world.all_is_planned()
    world.nothing_left()


async def test_deletion_without_finalizer_leaves_no_throttle_if_the_worker_has_stepped_aside(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    world = World()
    await world.begin(world.plan(approved_by="kim"))
    await world.passes(2)
    await world.worker.step_aside()
    assert world.kafka.configs != CONFIGS
    world.objects.tear_away(NAME)
    world.sync()
    world.kafka.catch_up_all()
    assert world.worker.has_lost_run
    for _ in range(3):
        await world.worker.reconcile()
    assert world.kafka.configs == CONFIGS
    assert not world.worker.has_lost_run
    assert {line["approvedBy"] for line in audited(caplog)} == {"kim"}


@pytest.mark.parametrize("aside", [True, False])
async def test_deletion_without_finalizer_clears_throttles_once_kafka_is_reachable_again(monkeypatch, aside):
    """A normal deletion waits for Kafka, so a user may remove the finalizer by hand."""
    world = World()
    await world.begin()
    await world.passes(2)
    if aside:
        await world.worker.step_aside()
    world.objects.tear_away(NAME)
    with monkeypatch.context() as away:
        away.setattr(world.kafka, "_call", Mock(side_effect=AWAY))
        await world.passes(3)
    assert world.kafka.configs != CONFIGS
    assert world.worker.has_lost_run
    await world.passes(2)
    assert world.kafka.configs == CONFIGS
    assert not world.worker.has_lost_run


async def test_next_plan_begins_only_after_the_throttles_of_a_lost_run_are_cleared(monkeypatch):
    world, second = World(), f"prod-{'f' * 16}"
    orders = {at: new for at, new in PLANNED.items() if at.topic == "orders"}
    users = {at: new for at, new in PLANNED.items() if at.topic == "users"}
    await world.begin(world.plan(planned=orders), world.plan("f" * 16, planned=users))
    await world.passes(2)
    monkeypatch.setattr(Recorded, "set_settings", SimulatedKafka.set_settings)  # the record is gone
    await world.worker.step_aside()
    world.objects.tear_away(NAME)
    with monkeypatch.context() as away:
        away.setattr(world.kafka, "cluster", Mock(side_effect=AWAY))
        assert await world.passes() == worker._RETRY_SECONDS
    assert world.worker.has_lost_run
    assert world.read(second).status.message == worker._LOST
    await world.until_ended()
    assert world.read(second).status.state == "Succeeded"
    world.nothing_left()


async def test_plan_that_waits_for_the_cleanup_of_a_lost_run_can_be_deleted(monkeypatch):
    world = World()
    await world.begin(world.plan(), world.plan("f" * 16))
    await world.passes(2)
    await world.worker.step_aside()
    world.objects.tear_away(NAME)
    monkeypatch.setattr(world.kafka, "cluster", Mock(side_effect=AWAY))
    await world.passes()
    world.objects.delete_by_hand(f"prod-{'f' * 16}")
    await world.passes(2)
    assert not world.objects.there


@pytest.mark.parametrize("outcome", [AWAY, None])
async def test_deletion_without_finalizer_after_a_failed_record_write_leaves_no_throttle(outcome, monkeypatch):
    world = World()
    await world.begin()
    await world.passes(2)
    world.kafka.catch_up_all()
    with monkeypatch.context() as away:
        world.objects.failing = {world.objects.writes + 1: outcome}
        if outcome is AWAY:
            away.setattr(world.objects, "find", Mock(side_effect=AWAY))
        with contextlib.suppress(FailureError):
            assert await world.passes() == worker._RECORD_SECONDS
    assert world.kafka.configs != CONFIGS
    world.objects.tear_away(NAME)
    await world.passes(2)
    assert world.kafka.configs == CONFIGS


async def test_deletion_without_finalizer_leaves_no_throttle_if_a_topic_was_recreated(monkeypatch):
    world, ids = World(), {"orders": "old", "users": "u"}
    real = world.kafka.partitions

    async def partitions(topics):
        return {at: dataclasses.replace(one, topic_id=ids[at.topic]) for at, one in (await real(topics)).items()}

    monkeypatch.setattr(world.kafka, "partitions", partitions)
    await world.begin(dataclasses.replace(world.plan(), topic_ids=dict(ids)))
    await world.passes(2)
    world.objects.tear_away(NAME)
    ids["orders"] = "new"
    await world.passes(2)
    left = {one.name for one in world.kafka.configs.keys() - CONFIGS.keys()}
    assert left == {"orders"}, "what is set on the new topic is of another client"


async def test_interrupted_cleanup_after_a_deletion_without_finalizer_completes_in_a_later_turn(monkeypatch):
    world = World()
    await world.begin()
    await world.passes(2)
    await world.worker.step_aside()
    world.objects.tear_away(NAME)
    world.sync()
    with monkeypatch.context() as slow:
        slow.setattr(world.kafka, "cluster", asyncio.Event().wait)
        turn = asyncio.create_task(world.worker.reconcile())
        await asyncio.sleep(0)
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
    await world.worker.step_aside()
    assert world.kafka.configs != CONFIGS
    await world.passes(2)
    assert world.kafka.configs == CONFIGS


async def test_paused_reassignment_does_not_connect_to_kafka_in_its_next_turn():
    world = World()
    await world.begin()
    await world.passes(2)
    world.objects.edit(NAME, paused=True)
    for _ in range(4):
        world.kafka.catch_up_all()
        await world.passes()
    connections = world.connections
    await world.worker.step_aside()
    assert await world.passes(2) == worker._IDLE_SECONDS
    assert world.connections == connections
    world.objects.edit(NAME, paused=False)
    await world.until_ended()
    world.all_is_planned()


async def test_throttle_on_an_offline_broker_is_cleared_after_the_broker_returns():
    world = World()
    await world.begin()
    await world.passes(2)
    world.kafka.catch_up_all()
    await world.passes(2)
    world.kafka.catch_up_all()
    world.kafka.kill(4)
    world.kafka.kill(0)
    for _ in range(30):
        world.kafka.catch_up_all()
        await world.passes()
    world.kafka.revive(0)
    await world.until_ended()
    ended = world.read()
    assert ended.status.state == "Succeeded"
    if ended.status.throttles:
        assert ended.meta.finalizers == (FINALIZER,)
        world.kafka.revive(4)
        await world.passes(3)
    world.kafka.revive(4)
    await world.passes(3)
    world.nothing_left()
    assert world.read().meta.finalizers == ()


@pytest.mark.parametrize("paused", [False, True])
async def test_copy_to_an_offline_broker_keeps_its_throttles_until_it_has_ended(paused):
    world, at = World(), TopicPartition("orders", 0)
    world.kafka.planned = planned = {at: (3, 1, 2)}
    await world.begin(world.plan(planned=planned))
    await world.passes(3)
    throttled = dict(world.kafka.configs)
    assert world.at(at)[1] == {3}
    world.kafka.kill(3)
    world.objects.edit(NAME, paused=paused)
    await world.passes(3)
    assert world.kafka.configs == throttled
    world.kafka.revive(3)
    await world.passes()
    assert world.kafka.configs == throttled
    world.kafka.catch_up_all()
    await world.passes(2)
    world.objects.edit(NAME, paused=False)
    await world.until_ended()
    assert world.read().status.state == "Succeeded"
    world.nothing_left()


async def test_reassignment_of_another_client_is_reported_and_not_changed():
    world = World()
    await world.begin()
    at = TopicPartition("users", 0)
    world.kafka.reassigned_by_others(at, (2, 3, 5))
    for _ in range(20):
        for one in set(PLANNED) - {at}:
            for broker in world.kafka.state[one].replicas:
                world.kafka.catch_up(one, broker)
        await world.passes()
    assert world.read().status.state == "Running"
    assert "ReassignedByOthers" in world.read().status.message or "ReassignedByOthers" in str(
        world.read().status.waiting
    )
    await world.until_ended()
    assert world.read().status.state == "Failed"
    assert "users-0" in world.read().status.message
    world.nothing_left()


async def test_a_second_plan_waits_for_the_first():
    world = World()
    later = {TopicPartition("orders", 0): (0, 1, 2)}
    await world.begin(world.plan(planned=dict(list(PLANNED.items())[1:])), world.plan("fedcba9876543210", later))
    await world.passes(2)
    second = world.read("prod-fedcba9876543210")
    assert second.status.state == "Queued"
    assert NAME in second.status.message
    assert world.plans.active(world.topology.key) == NAME
    await world.until_ended()
    assert {world.read(name).status.state for name in world.objects.names()} == {"Succeeded"}
    assert world.plans.active(world.topology.key) is None


@pytest.fixture
def _small_parts(monkeypatch):
    monkeypatch.setattr(approved_plans, "_MOST_PARTITIONS", 1)


@pytest.mark.usefixtures("_small_parts")
async def test_parts_of_a_large_plan_run_one_after_the_other():
    world = World()
    await world.begin()
    assert world.objects.names() == [f"{NAME}-{part}" for part in (1, 2, 3)]
    await world.passes(2)
    assert [world.read(name).status.state for name in world.objects.names()] == ["Running", "Queued", "Queued"]
    await world.until_ended()
    world.all_is_planned()
    world.nothing_left()


@pytest.mark.usefixtures("_small_parts")
async def test_throttle_and_limits_of_a_part_apply_to_later_parts_without_their_own():
    world = World()
    await world.begin()
    world.objects.edit(f"{NAME}-2", paused=False, maxConcurrentMovesPerBroker=1)
    world.objects.edit(f"{NAME}-3", throttle=9)
    await world.passes(2)
    assert rates(world) == {str(RATE)}
    world.objects.edit(f"{NAME}-1", throttle=7, maxConcurrentMoves=1)
    seen = []
    for part, world.kafka.rate in ((1, 7), (2, 7), (3, 9)):
        while not world.read(f"{NAME}-{part}").status.copying:
            await world.passes()
        await world.passes()
        limits = world.worker._run.executor._limits
        seen.append((rates(world), limits.moves, limits.moves_per_broker))
        while not world.read(f"{NAME}-{part}").ended:
            world.kafka.catch_up_all()
            await world.passes()
    assert seen == [({"7"}, 1, 2), ({"7"}, 1, 1), ({"9"}, 1, 1)]
    world.nothing_left()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("when", ["copying", "ended"])
async def test_paused_part_pauses_the_parts_after_it(when):
    world = World()
    await world.begin()
    await until_part_has(world, 1, lambda status: getattr(status, "copying" if when == "copying" else "finished_at"))
    world.objects.edit(f"{NAME}-1", paused=True)
    await until_part_has(world, 2, lambda status: status.state == "Paused")
    for _ in range(5):
        world.kafka.catch_up_all()
        await world.passes()
    assert [world.read(name).status.state for name in world.objects.names()] == ["Succeeded", "Paused", "Queued"]
    assert world.read(f"{NAME}-2").status.message.startswith("paused by the spec of part 1")
    assert len(world.kafka.copies) == 1
    world.nothing_left()
    world.objects.edit(f"{NAME}-1", paused=False)
    await world.until_ended()
    world.all_is_planned()


@pytest.mark.usefixtures("_small_parts")
async def test_pause_of_an_earlier_part_pauses_the_running_part():
    world = World()
    await world.begin()
    await until_part_has(world, 2, lambda status: status.copying)
    world.objects.edit(f"{NAME}-1", paused=True)
    begun = list(world.kafka.copies)
    await world.passes(2)
    assert world.read(f"{NAME}-2").status.state == "Paused"
    assert world.kafka.copies == begun
    world.objects.edit(f"{NAME}-1", paused=False)
    await world.until_ended()
    world.all_is_planned()


@pytest.mark.usefixtures("_small_parts")
async def test_cancelled_part_cancels_the_parts_after_it():
    world = World()
    await world.begin()
    await world.passes(2)
    world.objects.edit(f"{NAME}-1", cancelled=True)
    await world.until_ended()
    assert {world.read(name).status.state for name in world.objects.names()} == {"Cancelled"}
    world.nothing_left()
    assert len(world.kafka.copies) == 1


@pytest.mark.usefixtures("_small_parts")
async def test_part_that_is_cancelled_after_its_moves_are_done_cancels_the_parts_after_it():
    world, at = World(), min(PLANNED)
    await world.begin()
    while world.at(at)[0] != PLANNED[at]:
        world.kafka.catch_up_all()
        await world.passes()
    world.objects.edit(f"{NAME}-1", cancelled=True)
    await world.until_ended()
    ends = [world.read(name).status for name in world.objects.names()]
    assert [one.state for one in ends] == ["Succeeded", "Cancelled", "Cancelled"]
    assert ends[1].message == "part 1 of the plan was cancelled, so this one is too"
    world.nothing_left()


@pytest.mark.usefixtures("_small_parts")
async def test_part_that_ended_in_a_state_of_a_newer_version_stops_the_parts_after_it():
    world = World()
    await world.begin()
    world.objects._of(f"{NAME}-1")["status"] = {"state": "Superseded", "finishedAt": "2026-01-31T11:30:00Z"}
    await world.until_ended()
    assert [world.objects.status(name)["state"] for name in world.objects.names()] == [
        "Superseded",
        "Stopped",
        "Stopped",
    ]
    assert world.kafka.copies == []


@pytest.mark.usefixtures("_small_parts")
async def test_no_part_starts_before_all_parts_exist():
    world = World()
    await world.begin()
    world.objects._of(f"{NAME}-2")["metadata"]["finalizers"] = []
    world.objects.delete_by_hand(f"{NAME}-2")
    await world.passes(3)
    assert world.read(f"{NAME}-1").status.state == "Queued"
    assert "part 2 of 3 of the plan is not there" in world.read(f"{NAME}-1").status.message
    await world.begin()
    await world.until_ended()
    world.all_is_planned()


SKEWS = pytest.mark.parametrize("ahead", [timedelta(0), timedelta(minutes=10), timedelta(days=-3)])
"""How far the operator's clock is ahead of the API server's."""


@SKEWS
@pytest.mark.usefixtures("_small_parts")
async def test_plan_whose_parts_are_still_being_created_begins_later_whatever_the_clocks_say(ahead):
    world = World()
    world.now += ahead
    create = world.objects.create

    async def created_before_a_pass(body):
        stored = await create(body)
        await world.passes()
        return stored

    world.objects.create = created_before_a_pass
    await world.begin()
    await world.until_ended()
    world.all_is_planned()


@SKEWS
@pytest.mark.usefixtures("_small_parts")
async def test_plan_that_stays_incomplete_is_stopped_whatever_the_clocks_say(ahead, monkeypatch):
    world = World()
    world.now += ahead
    await world.begin()
    world.objects._of(f"{NAME}-1")["metadata"]["finalizers"] = []
    world.objects.delete_by_hand(f"{NAME}-1")
    await world.passes()
    pass_time(monkeypatch, 61)
    await world.passes(6)
    assert {world.read(name).status.state for name in world.objects.names()} == {"Stopped"}
    assert world.kafka.copies == []


@pytest.mark.usefixtures("_small_parts")
async def test_plan_waits_for_parts_that_a_slow_api_server_creates_over_minutes(monkeypatch):
    world = World()
    await world.begin()
    late = [(key, world.objects.there.pop(key)) for key in list(world.objects.there) if key.name[-1] != "1"]
    for key, body in late:
        await world.passes(3)
        assert f"part {key.name[-1]} of 3 of the plan is not there yet" in world.read(f"{NAME}-1").status.message
        pass_time(monkeypatch, 50)
        world.objects.there[key] = body
    await world.until_ended()
    world.all_is_planned()


async def until_part_has(world, part, condition):
    for _ in range(100):
        if condition(world.read(f"{NAME}-{part}").status):
            return
        world.kafka.catch_up_all()
        await world.passes()
    raise AssertionError(world.objects.there)


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("begun", [2, 3])
async def test_plan_continues_if_succeeded_parts_are_deleted_after_a_later_part_has_started(begun, restarted):
    world = World()
    await world.begin()
    await until_part_has(world, begun, lambda status: status.started_at is not None)
    for part in range(1, begun):
        world.objects.delete_by_hand(f"{NAME}-{part}")
    if restarted:
        world.start()
    await world.until_ended()
    assert {world.read(name).status.state for name in world.objects.names()} == {"Succeeded"}
    world.all_is_planned()
    world.nothing_left()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("restarted", [True, False])
async def test_deletion_of_a_succeeded_part_does_not_stop_a_part_paused_before_its_start(restarted):
    world = World()
    await world.begin()
    world.objects.edit(f"{NAME}-2", paused=True)
    await until_part_has(world, 2, lambda status: status.state == "Paused")
    world.objects.delete_by_hand(f"{NAME}-1")
    if restarted:
        world.start()
    await world.passes(2)
    world.objects.edit(f"{NAME}-2", paused=False)
    await world.until_ended()
    world.all_is_planned()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(("deleted", "states"), [(1, {"Stopped"}), (2, {"Succeeded", "Stopped"}), (3, {"Succeeded"})])
async def test_deletion_of_a_part_that_has_not_ended_stops_the_parts_after_it(deleted, states, monkeypatch):
    monkeypatch.setattr(turns, "_PARTS_LATE_SECONDS", 0.0)
    world = World()
    await world.begin()
    await until_part_has(world, 1, lambda status: status.copying)
    world.objects.delete_by_hand(f"{NAME}-{deleted}")
    await world.until_ended()
    assert {world.read(name).status.state for name in world.objects.names()} == states
    assert len(world.kafka.copies) == {1: 1, 2: 1, 3: 2}[deleted]
    world.nothing_left()


@pytest.mark.parametrize("started", [{}, {"startedAt": "2026-01-31T11:00:00Z"}])
async def test_reassignment_that_ended_in_a_state_of_a_newer_version_is_not_carried_out_again(started):
    world = World()
    await world.begin()
    status = {"state": "Superseded", "finishedAt": "2026-01-31T11:30:00Z", **started}
    world.objects._of(NAME)["status"] = dict(status)
    await world.passes(3)
    assert world.objects.status(NAME) == status
    assert world.kafka.copies == []
    assert [one.name for one in world.plans.begun_before(world.topology.key)] == [NAME], "no approval begins it again"


async def test_second_start_changes_nothing_while_the_plan_runs_and_restarts_an_ended_plan():
    world = World()
    await world.begin()
    await world.passes(2)
    version = world.objects.version
    await world.begin()
    assert world.objects.version == version
    await world.until_ended()
    ended = world.read().meta.uid
    await world.begin()
    assert world.read().meta.uid != ended
    await world.until_ended()
    world.all_is_planned()


async def test_history_is_bounded():
    world = World()
    for number in range(14):
        await world.begin(world.plan(f"{number:016x}", {}))
        await world.until_ended()
        world.now += timedelta(minutes=1)
    assert world.objects.names() == [f"prod-{number:016x}" for number in range(4, 14)]


@pytest.mark.parametrize("clock", ["operator", "API server"])
async def test_plan_that_has_just_ended_is_kept_although_a_clock_was_set_back(clock):
    world = World()
    for number in range(turns.HISTORY):
        await world.begin(world.plan(f"{number:016x}", {}))
        await world.until_ended()
        world.now += timedelta(minutes=1)
    if clock == "operator":
        world.now -= timedelta(days=1)
    else:
        world.objects.now = "2026-01-30T12:00:00Z"
    await world.begin()
    await world.until_ended()
    assert world.read().status.state == "Succeeded"


@pytest.mark.parametrize("text", ["", "not base64!", "eJw=", "eJyrrgUAAXUA+Q==", "AAAA"])
async def test_reassignment_with_an_unreadable_plan_stops_without_a_copy(text):
    world = World()
    await world.begin()
    world.objects.edit(NAME, plan=text)
    await world.passes(3)
    assert world.read().status.state == "Stopped"
    assert "cannot be read" in world.read().status.message
    assert world.kafka.copies == []


async def test_unreachable_kafka_is_reported_and_retried():
    world = World()
    await world.begin()
    connect = world.connect

    async def refuse(owner, kafka, credentials):
        raise FailureError(Failure("KafkaUnreachable", "no broker answers", Remedy.RETRY))

    world.connect = refuse
    assert await world.passes(2) == worker._RETRY_SECONDS
    assert "no broker answers" in world.read().status.message
    world.connect = connect
    await world.until_ended()
    world.all_is_planned()


def test_moves_of_a_status_survive_a_round_trip_through_json():
    status = ReassignmentStatus(state="Running", moves=3)
    assert ReassignmentStatus.from_dict(status.to_dict()).moves == 3


def test_worker_completes_the_plan_after_its_first_pass_was_cancelled():
    async def cancelled():
        world = World()
        await world.begin()
        task = asyncio.create_task(world.worker.reconcile())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await world.until_ended()
        world.all_is_planned()

    asyncio.run(cancelled())


async def test_started_plans_are_known_from_the_objects_after_a_restart():
    world = World()
    key = world.topology.key
    assert world.plans.begun_before(key) == []
    await world.begin(world.plan(names=("fedcba9876543210",)))
    await world.passes(2)
    world.start()
    under_way = BegunPlan(NAME, frozenset({"fedcba9876543210"}), succeeded=False, missing=False, ended=False)
    assert world.plans.begun_before(key) == [under_way]
    await world.until_ended()
    world.sync()
    first = BegunPlan(NAME, frozenset({"fedcba9876543210"}), succeeded=True, missing=False, ended=True)
    assert world.plans.begun_before(key) == [first]
    await world.begin(world.plan("f" * 16, {}))
    second = BegunPlan(f"prod-{'f' * 16}", frozenset({"f" * 16}), succeeded=False, missing=False, ended=False)
    assert world.plans.begun_before(key) == [first, second]
