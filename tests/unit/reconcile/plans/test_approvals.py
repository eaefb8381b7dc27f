"""Approval of plans by users and policies: statuses, rejected approvals, and the start of each plan, once."""

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import AsyncMock

import pytest
from msgspec import structs
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import EVEN, PLACERS, seen, state, topology
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.labels import APPROVE_PLAN, FINALIZER, PAUSED
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import ReassignmentState
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.dry_run import ObservedTopology, plan_of
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans import approvals, approved_plans, holds
from rackspan.reconcile.plans.approved_plans import ApprovedPlans, BegunPlan
from rackspan.reconcile.plans.plan_sizes import PlanSizes
from rackspan.reconcile.ports import ReplicaCounts
from rackspan.reconcile.specs import placement
from rackspan.reconcile.topics import topics_reconciler
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler

CROWDED = ((0, 3, 1), (1, 4, 2))
"""With EVEN, each partition has two replicas in one zone."""
DENIED = Failure(Reason.API_SERVER_REFUSED, "a webhook denied the request", Remedy.ACCESS)
EVEN_ROWS = ((0, 1, 2), (1, 2, 3))


def begun_before(name, names, *, succeeded, missing=False):
    return BegunPlan(name, frozenset(names), succeeded, missing, ended=True)


@dataclass
class Begun:
    """Replaces `ApprovedPlans` and records the started plans. The test ends them."""

    plans: list = field(default_factory=list)
    under_way: str | None = None
    before: tuple = ()
    """Plans that started earlier, according to their Reassignments."""
    held: tuple = ()
    """Changes of the running plan, some of which wait for a lower min.insync.replicas."""

    refused: Failure | None = None
    begins: object = None
    """Called when a plan starts."""

    async def begin(self, topology, plan):
        if self.begins is not None:
            self.begins()
        if self.refused is not None:
            raise FailureError(self.refused)
        self.plans.append(plan)
        self.under_way = "prod-1"
        return "prod-1"

    def active(self, topology):
        return self.under_way

    def begun_before(self, topology):
        return self.before

    async def held_by_min_insync(self, topology):
        return self.held


def sizes_of(told):
    made = PlanSizes(None, None)
    made._asked_sizes = told.of
    return made


class Counting(MemoryKafka):
    async def replica_counts(self, without=()):
        rows = [row for name, topic in self.replicas.items() if name not in without for row in topic]
        return ReplicaCounts(Counter(b for row in rows for b in row), Counter(row[0] for row in rows))


class Annotating(MemoryCluster):
    """An API server in memory that can remove annotations."""

    taken: tuple = ()
    denying: tuple = ()
    """Names of objects for which a webhook denies all changes."""

    async def set_annotation(self, ref, name, _value, version):
        if ref.key.name in self.denying:
            raise FailureError(DENIED)
        self.taken = (*self.taken, (ref.kind, ref.key.name, name))
        return None if ref.key.name in self.refusing else {"kind": ref.kind}


@dataclass
class Lookout:
    state: object
    admin: object
    epoch: int = 1
    out_of_sight: float | None = None

    def wake(self):
        pass


class World:
    def __init__(self, **spec):
        self.kube, self.kafka, self.begun, self.cache = Annotating(), Counting(), Begun(), Cache()
        self.cache.put_answer = self.cache.put_topology_answer = self._answered
        self.spec = {"allowedNamespaces": {"from": "All"}, "reassignment": {"topicApproval": "Allowed"}} | spec
        self.observer = Lookout(state(EVEN, **self.spec), self.kafka)
        self.dependencies = dependencies_of(self.cache, self.kube, placers=PLACERS)
        self.topology()
        self.start()
        self.answers = []

    def start(self):
        """Create the reconciler, as the operator does after a restart."""
        self.loop = TopicsReconciler(topology().key, self.observer, self.dependencies, None)
        self.loop.approvals._reassignments = self.begun

    def _answered(self, body):
        """Store the response of the API server in the cache: the object without the annotation."""
        self.answers.append(body)
        kind, name, _ = self.kube.taken[-1]
        objects = self.cache.topologies if kind == "RackTopology" else self.cache.topics
        (one,) = (one for one in objects.values() if one.meta.name == name)
        objects[one.key] = structs.replace(one, meta=structs.replace(one.meta, annotations={}))

    def topology(self, annotation=None, **spec):
        annotations = {APPROVE_PLAN: annotation} if annotation else {}
        made = topology(annotations=annotations, **{**self.spec, **spec})
        self.cache.topologies[made.key] = made
        self.observer.state = replace(self.observer.state, spec=made.spec)

    async def topic(self, name, rows=CROWDED, annotation=None, **spec):
        """Add a KafkaTopic and its topic in Kafka, reconcile, and return the KafkaTopic."""
        self.kafka.replicas[name] = rows
        self.kafka.own[name] = {"min.insync.replicas": "2"}
        one = examples.topic(
            name,
            finalizers=(FINALIZER,),
            status={"topicId": f"id-of-{name}", "clusterId": "kafka-1"},
            annotations={APPROVE_PLAN: annotation} if annotation else {},
            partitions=len(rows),
            **spec,
        )
        self.cache.keep_topic(one)
        self.loop.add([one.key])
        await self.work()
        return one

    async def work(self):
        """Reconcile the queued topics and the plan, in enough rounds to finish."""
        for _ in range(4):
            while self.is_busy:
                await self.loop.process(await self.loop.take())
            await self.loop.approvals.reconcile()

    @property
    def is_busy(self):
        """Whether a topic is in the queue. Topics that are due later do not count."""
        return bool(len(self.loop._queue) or self.loop._queue._processing)

    @property
    def plan(self):
        return self.loop._plans.whole

    @property
    def racks(self):
        return self.observer.state.racks

    def ready(self, name):
        return self.kube.condition(name, "Ready")

    def messages(self):
        """Return what the part of each topic waits for, by the name of the object."""
        holds_ = self.loop.approvals.holds_of(self.cache.topics.values())
        return {key.name: hold.message for key, (hold, _) in holds_.items()}

    async def told(self):
        found = await self.loop.approvals.summary()
        return found.reason, found.message


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(holds, "PLAN_SETTLE_SECONDS", 0.0)


async def test_plan_waits_for_approval_and_the_statuses_say_how_to_approve_it():
    world = World()
    one = await world.topic("one")
    part = world.plan.parts[one.key]
    assert world.ready("one")["reason"] == "PlanPending"
    assert world.ready("one")["message"].endswith(
        "it waits for approval; to approve it: kubectl annotate --overwrite --namespace shop "
        f"kafkatopics.rackspan.dev one rackspan.dev/approve-plan={part.hash}"
    )
    reason, message = await world.told()
    assert reason == "PlanPending"
    assert f"plan {world.plan.hash} copies 2 replicas for 1 topic, and no plan copies fewer" in message
    assert message.endswith(
        f"--namespace kafka racktopologies.rackspan.dev prod rackspan.dev/approve-plan={world.plan.hash}"
    )
    assert not world.begun.plans


async def test_plan_approved_on_the_topology_starts_and_its_annotation_is_removed():
    world = World()
    await world.topic("one")
    await world.topic("two")
    approved = world.plan
    world.topology(approved.hash)
    await world.work()
    (plan,) = world.begun.plans
    assert (plan.plan_hash, plan.cluster_id) == (approved.hash, "kafka-1")
    assert {change.topic for change in plan.changes} == {"one", "two"}
    assert plan.topic_ids == {"one": "id-of-one", "two": "id-of-two"}
    assert plan.approved_by == "approved on RackTopology kafka/prod"
    assert ("RackTopology", "prod", APPROVE_PLAN) in world.kube.taken
    assert world.ready("one")["reason"] == "Reassigning"
    assert "Reassignment prod-1 is under way" in world.ready("one")["message"]
    assert world.kube.condition("one", "Reconciling")["status"] == "True"
    assert world.kube.condition("one", "Stalled") is None
    assert [event.reason for event in world.kube.announced].count("PlanApproved") == 1


async def approve(world, where):
    """Approve the plan of the only topic of the world."""
    (part,) = world.plan.parts.values()
    if where == "RackTopology":
        world.topology(world.plan.hash)
        await world.work()
    else:
        await world.topic("one", annotation=part.hash)


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_annotation_is_removed_before_its_plan_starts_and_does_not_start_it_again(where):
    world = World()
    await world.topic("one")
    taken = []
    world.begun.begins = lambda: taken.extend(kind for kind, _, _ in world.kube.taken)
    await approve(world, where)
    assert taken == [where]
    assert len(world.begun.plans) == 1
    world.begun.under_way = None  # a user cancelled it
    await world.work()
    assert len(world.begun.plans) == 1


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_plan_does_not_start_while_its_annotation_cannot_be_removed(where):
    world = World()
    await world.topic("one")
    world.kube.refusing = {"prod", "one"}
    await approve(world, where)
    assert not world.begun.plans
    world.kube.refusing = set()
    await world.work()
    assert len(world.begun.plans) == 1


async def test_write_conflict_on_one_kafkatopic_does_not_block_the_start_of_another_topic():
    world = World()
    one, two = await world.topic("one"), await world.topic("two")
    world.kube.refusing = {"one"}
    for name, key in (("one", one.key), ("two", two.key)):
        await world.topic(name, annotation=world.plan.parts[key].hash)
    assert [{change.topic for change in plan.changes} for plan in world.begun.plans] == [{"two"}]


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_approval_remains_valid_until_its_plan_has_started(where):
    world = World()
    await world.topic("one")
    world.begun.refused = Failure(Reason.API_SERVER_REFUSED, "no", Remedy.RETRY)
    with pytest.raises(FailureError):
        await approve(world, where)
    world.begun.refused = None
    await world.work()
    assert len(world.begun.plans) == 1
    assert len(world.kube.taken) == 1
    world.begun.under_way = None
    await world.work()
    assert len(world.begun.plans) == 1


async def approved_and_not_begun(where):
    """Return a world with an approval that was removed from its object, and whose plan could not begin."""
    world = World()
    await world.topic("one")
    world.begun.refused = DENIED
    with pytest.raises(FailureError):
        await approve(world, where)
    world.begun.refused = None
    assert len(world.kube.taken) == 1
    return world


def annotate(world, where, annotations):
    """Replace the annotations of the RackTopology, or of the only KafkaTopic."""
    objects = world.cache.topologies if where == "RackTopology" else world.cache.topics
    ((key, one),) = objects.items()
    objects[key] = structs.replace(one, meta=structs.replace(one.meta, annotations=annotations))


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_approval_of_a_plan_that_never_started_does_not_start_the_same_plan_when_it_is_needed_again(where):
    world = await approved_and_not_begun(where)
    approved = world.plan.hash
    await world.topic("one", rows=EVEN_ROWS)
    assert not world.plan.parts
    await world.topic("one")
    assert world.plan.hash == approved
    assert (await world.told())[0] == "PlanPending"
    assert not world.begun.plans


@pytest.mark.parametrize(
    ("where", "meanwhile"),
    [
        ("RackTopology", "the topic is paused"),
        ("KafkaTopic", "the topic is paused"),
        ("KafkaTopic", "another annotation"),
        ("KafkaTopic", "topicApproval: Never"),
    ],
)
async def test_removed_approval_starts_nothing_once_statuses_have_not_shown_it(where, meanwhile):
    world = await approved_and_not_begun(where)
    if meanwhile == "the topic is paused":
        annotate(world, "KafkaTopic", {PAUSED: "true"})
    elif meanwhile == "another annotation":
        annotate(world, where, {APPROVE_PLAN: "f" * 32})
    else:
        world.topology(reassignment={"topicApproval": "Never"})
    await world.loop.approvals.reconcile()
    annotate(world, "KafkaTopic", {})
    world.topology()
    await world.work()
    assert (await world.told())[0] == "PlanPending"
    assert not world.begun.plans


@pytest.mark.parametrize("how", ["annotation", "spec", "policy", "pause"])
async def test_part_does_not_start_if_its_kafkatopic_withdraws_the_approval_during_the_last_read(at_once, how):
    world = World()
    one = await world.topic("one")
    world.begun.under_way = "another"
    text = world.plan.parts[one.key].hash
    approval = {"spec": {"approvedPlan": text}, "annotation": {}}.get(how, {"approval": "Automatic"})
    await world.topic("one", annotation=text if how == "annotation" else None, reassignment=approval)
    world.begun.under_way = None
    await world.loop.approvals._note_end()
    await world.loop.process(await world.loop.take())
    read = world.kafka.topics

    async def read_while_it_is_withdrawn(names):
        known = world.cache.topics[one.key]
        if how == "pause":
            annotate(world, "KafkaTopic", {PAUSED: "true"})
        else:
            spec = structs.replace(known.spec, reassignment=None)
            world.cache.keep_topic(structs.replace(known, meta=structs.replace(known.meta, annotations={}), spec=spec))
        return await read(names)

    world.kafka.topics = read_while_it_is_withdrawn
    await world.loop.approvals.reconcile()
    assert world.kafka.made("describe_topics")[-1] == ["one"]
    assert not world.begun.plans
    assert (await world.told())[0] == ("Paused" if how == "pause" else "PlanPending")


class Stored:
    """Reassignments that the watch reports at once. The responses to the creations with a number in `lost` are lost."""

    def __init__(self, cache):
        self.cache, self.lost, self.made = cache, set(), []

    async def create(self, body):
        self.made.append(body["metadata"]["name"])
        meta = body["metadata"] | {"uid": f"uid-{len(self.made)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.cache.put_reassignment(written := {**body, "metadata": meta})
        if len(self.made) in self.lost:
            raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "no answer", Remedy.RETRY))
        return written

    async def delete(self, known):
        self.cache.drop_reassignment(known.key)

    def end(self, state):
        for key, one in self.cache.reassignments.items():
            self.cache.reassignments[key] = structs.replace(one, status=structs.replace(one.status, state=state))


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic", "spec", "policy"])
async def test_cancelled_plan_does_not_start_again_if_the_response_to_its_start_was_lost(at_once, where):
    world = World(**AUTOMATIC if where == "policy" else {})
    world.begun.under_way = "another"
    one = await world.topic("one")
    world.loop.approvals._reassignments = ApprovedPlans(world.cache, stored := Stored(world.cache))
    stored.lost = {1}
    declared = {"reassignment": {"approvedPlan": world.plan.parts[one.key].hash}} if where == "spec" else {}
    with pytest.raises(FailureError):
        await (approve(world, where) if not declared else world.topic("one", **declared))
    await world.work()
    assert (await world.told())[0] == "Reassigning"
    stored.end(ReassignmentState.CANCELLED)
    await world.work()
    assert len(stored.made) == 1
    assert f"Reassignment {stored.made[0]} was to carry it out, and ended before" in (await world.told())[1]


@pytest.mark.parametrize("restarted", [True, False])
async def test_incompletely_created_plan_starts_again_after_its_created_parts_are_stopped(
    monkeypatch, at_once, restarted
):
    monkeypatch.setattr(approved_plans, "_MOST_PARTITIONS", 1)
    world = World(**AUTOMATIC)
    world.begun.under_way = "another"
    await world.topic("one")
    world.begun = ApprovedPlans(world.cache, stored := Stored(world.cache))
    world.loop.approvals._reassignments, stored.lost = world.begun, {1}
    with pytest.raises(FailureError):
        await world.work()
    if restarted:
        world.start()
    world.loop.add(world.cache.topics)
    await world.work()
    assert (await world.told())[0] == "Reassigning"
    stored.end(ReassignmentState.STOPPED)
    await world.work()
    assert [name[-2:] for name in stored.made] == ["-1", "-1", "-2"]


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_new_operator_with_an_outdated_approval_does_not_start_a_cancelled_plan_again(where):
    before = World()
    await before.topic("one")
    await approve(before, where)
    (plan,) = before.begun.plans
    successor = World()
    successor.kube.refusing = {"prod", "one"}  # the API server has newer objects without the annotation
    successor.begun.before = (begun_before("prod-1", plan.names, succeeded=False),)
    await successor.topic("one")
    await approve(successor, where)
    assert successor.kube.taken
    assert not successor.begun.plans
    successor.topology()
    await successor.topic("one")
    assert successor.plan.hash in plan.names
    assert "Reassignment prod-1 was to carry it out, and ended before; to begin it again" in (await successor.told())[1]
    assert not successor.begun.plans


async def test_approval_in_a_spec_does_not_start_a_plan_again_after_a_restart_with_a_new_topic():
    world = World()
    one = await world.topic("one")
    approved = {"approvedPlan": world.plan.parts[one.key].hash}
    await world.topic("one", reassignment=approved)
    (plan,) = world.begun.plans
    again = World()
    again.begun.before = (begun_before("prod-1", plan.names, succeeded=False),)
    again.begun.under_way = "prod-1"
    await again.topic("two")
    await again.topic("one", reassignment=approved)
    again.begun.under_way = None
    await again.work()
    assert not again.begun.plans


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic"])
async def test_plan_cancelled_after_a_restart_is_not_started_again_by_an_approval_in_a_spec(where):
    """The new operator reads the topic during its move, when the topic needs no change."""
    world = World()
    one = await world.topic("one")
    text = world.plan.hash if where == "RackTopology" else world.plan.parts[one.key].hash
    approved = {"reassignment": {"approvedPlan": text}}
    own = approved if where == "KafkaTopic" else {}
    if where == "RackTopology":
        world.spec["reassignment"] = world.spec["reassignment"] | approved["reassignment"]
        world.topology()
    await world.topic("one", **own)
    (plan,) = world.begun.plans
    again = World(**world.spec)
    again.begun.under_way = "prod-1"
    again.begun.before = (begun_before("prod-1", plan.names, succeeded=False),)
    await again.topic("one", ((0, 1, 2), (1, 3, 5)), **own)
    assert not again.plan.parts
    again.kafka.replicas["one"] = CROWDED
    again.begun.under_way = None
    await again.work()
    assert again.plan.hash in plan.names
    assert not again.begun.plans
    assert "Reassignment prod-1 was to carry it out, and ended before" in (await again.told())[1]


def keep_statuses(world):
    """Store the written statuses in the cache, as watches do."""
    for key, one in list(world.cache.topics.items()):
        status = examples.topic(key.name, status=world.kube.statuses[key.name]).status
        world.cache.keep_topic(structs.replace(one, status=status))


def restarted_without_reassignments(world):
    """Restart the operator with the written statuses of the topics, after all Reassignments were deleted."""
    keep_statuses(world)
    world.begun.under_way = None
    world.start()
    world.loop.add(world.cache.topics)


@pytest.mark.parametrize("where", ["RackTopology", "KafkaTopic", "policy"])
async def test_plan_with_a_deleted_reassignment_does_not_start_again_after_a_restart(at_once, where):
    world = World(**AUTOMATIC if where == "policy" else {})
    one = await world.topic("one")
    if where == "RackTopology":
        world.topology(reassignment=world.spec["reassignment"] | {"approvedPlan": world.plan.hash})
        await world.work()
    elif where == "KafkaTopic":
        await world.topic("one", reassignment={"approvedPlan": world.plan.parts[one.key].hash})
    assert len(world.begun.plans) == 1
    for _ in range(3):
        restarted_without_reassignments(world)
        await world.work()
        assert "Reassignment prod-1 was to carry it out, and ended before; to begin it again" in (await world.told())[1]
    assert len(world.begun.plans) == 1
    world.topology(world.plan.hash)
    await world.work()
    assert len(world.begun.plans) == 2, "a new approval starts it"


async def test_started_parts_are_known_after_a_restart_even_if_topics_are_planned_one_by_one(at_once):
    """The first parts are planned without the other topics, and differ until all topics were read."""
    world = World(**AUTOMATIC)
    world.begun.under_way = "another"
    keys = [(await world.topic(name)).key for name in ("one", "two", "three")]
    world.begun.under_way = None
    await world.work()
    parts = {key: world.plan.parts[key].hash for key in keys}
    restarted_without_reassignments(world)
    world.start()
    provisional = {}
    for key in keys:
        world.loop.add([key])
        await world.loop.process(await world.loop.take())
        provisional[key] = world.plan.parts[key].hash
        keep_statuses(world)
    await world.work()
    assert provisional != parts == {key: world.plan.parts[key].hash for key in keys}
    assert len(world.begun.plans) == 1


async def test_changed_plan_starts_after_a_restart_and_the_deletion_of_the_reassignment(at_once):
    world = World(**AUTOMATIC)
    await world.topic("one")
    restarted_without_reassignments(world)
    world.kafka.replicas["one"] = ((0, 3, 2), (1, 4, 2))
    await world.work()
    assert len(world.begun.plans) == 2
    assert world.kube.statuses["one"]["plan"]["hash"] == world.plan.parts[ObjectKey("shop", "one")].hash


async def test_cancelled_plan_does_not_start_again_if_a_pass_read_kafka_before_the_cancellation():
    """The pass reads the topic during its move, and the Reassignment ends before the pass."""
    world = World()
    one = await world.topic("one")
    approved = {"reassignment": {"approvedPlan": world.plan.parts[one.key].hash}}
    await world.topic("one", **approved)
    (plan,) = world.begun.plans
    world.kafka.replicas["one"] = ((0, 1, 2), (1, 3, 5))
    read = world.kafka.topics

    async def read_before_the_end(names):
        found = await read(names)
        world.kafka.topics = read
        world.kafka.replicas["one"], world.begun.under_way = CROWDED, None
        await world.loop.approvals.reconcile()
        return found

    world.kafka.topics = read_before_the_end
    world.loop.add([one.key])
    await world.loop.process(await world.loop.take())
    await world.loop.approvals.reconcile()
    await world.work()
    assert world.plan.hash in plan.names
    assert world.begun.plans == [plan]
    assert "Reassignment prod-1 was to carry it out, and ended before" in (await world.told())[1]


async def test_summary_is_missing_until_topics_are_read_again_after_a_reassignment(at_once):
    world = World(defaults={"reassignment": {"approval": "Automatic"}})
    await world.topic("one")
    assert (await world.told())[0] == "Reassigning"
    planned = {change.partition: change.replicas for change in world.begun.plans[0].changes}
    world.kafka.replicas["one"] = tuple(planned[number] for number in range(2))
    world.begun.under_way = None
    assert await world.loop.approvals.summary() is None
    await world.work()
    assert (await world.told())[0] == "InSync"


async def test_part_approved_on_a_kafkatopic_starts_alone():
    world = World()
    await world.topic("two")
    one = await world.topic("one")
    part = world.plan.parts[one.key]
    await world.topic("one", annotation=part.hash)
    (plan,) = world.begun.plans
    assert {change.topic for change in plan.changes} == {"one"}
    assert plan.plan_hash != world.plan.hash
    assert plan.approved_by == "approved on KafkaTopics"


@pytest.mark.parametrize("allowed", ["Own", "Never"])
async def test_kafkatopic_of_another_namespace_cannot_approve_its_part_with_own_or_never(allowed, at_once):
    world = World(reassignment={"topicApproval": allowed})
    one = await world.topic("one", reassignment={"approval": "Automatic"})
    part = world.plan.parts[one.key]
    await world.topic("one", annotation=part.hash, reassignment={"approval": "Automatic"})
    assert not world.begun.plans
    assert world.ready("one")["message"].endswith("it waits for approval on RackTopology kafka/prod")


async def test_stale_hash_is_rejected_and_the_message_contains_the_current_hash():
    world = World()
    await world.topic("one")
    stale = world.plan.hash
    await world.topic("one", rows=(CROWDED[0],))
    assert world.plan.hash != stale
    world.topology(stale)
    await world.work()
    assert not world.begun.plans
    reason, message = await world.told()
    assert reason == "StaleApproval"
    assert f"{stale} was approved, which is not the current plan" in message
    assert f"approve-plan={world.plan.hash}" in message


async def test_approved_plan_does_not_start_if_the_replicas_in_kafka_have_changed():
    world = World()
    await world.topic("one")
    approved = world.plan.hash
    world.kafka.replicas["one"] = ((0, 4, 2), CROWDED[1])
    world.topology(approved)
    await world.work()
    assert not world.begun.plans
    assert world.plan.hash != approved
    assert (await world.told())[0] == "StaleApproval"


async def test_hash_of_the_command_line_is_accepted_if_the_operator_has_older_replica_counts():
    world = World()
    await world.topic("one")
    before = world.plan.hash
    await world.topic("crowd", rows=((5, 4, 0),) * 40)  # compliant: not in the plan, but it uses the brokers
    world.kafka.replicas["unmanaged"] = ((2,),) * 40
    fresh = state(EVEN, **world.spec)
    await fresh.load.recount(world.kafka)
    topics = [
        (one, seen(*world.kafka.replicas[one.topic_name], name=one.topic_name)) for one in world.cache.topics.values()
    ]
    outside = plan_of(ObservedTopology(fresh, tuple(topics))).whole.hash
    assert outside != before == world.plan.hash
    world.topology(outside)
    await world.work()
    assert [plan.plan_hash for plan in world.begun.plans] == [outside]


async def test_automatic_plan_starts_once_and_not_again_after_it_ended_without_success(at_once):
    world = World(defaults={"reassignment": {"approval": "Automatic"}})
    await world.topic("one")
    assert [plan.approved_by for plan in world.begun.plans] == ["by the policy Automatic"]
    world.begun.under_way = None
    await world.work()
    assert len(world.begun.plans) == 1
    assert "Reassignment prod-1 was to carry it out, and ended before; to begin it again" in (await world.told())[1]
    world.topology(world.plan.hash)
    await world.work()
    assert len(world.begun.plans) == 2


@pytest.mark.parametrize("succeeded", [True, False])
async def test_automatic_plan_starts_again_after_a_restart_only_if_it_succeeded_before(at_once, succeeded):
    automatic = {"defaults": {"reassignment": {"approval": "Automatic"}}}
    before = World(**automatic)
    await before.topic("one")
    (plan,) = before.begun.plans
    world = World(**automatic)
    world.begun.before = (begun_before("prod-1", plan.names, succeeded=succeeded),)
    await world.topic("one")
    assert world.plan.hash in plan.names
    assert len(world.begun.plans) == succeeded
    if not succeeded:
        assert "Reassignment prod-1 was to carry it out, and ended before" in (await world.told())[1]
        await world.topic("two")  # this makes a different plan
        assert [world.plan.hash in one.names for one in world.begun.plans] == [True]


async def test_topic_whose_namespace_is_no_longer_allowed_leaves_the_plan():
    world = World()
    await world.topic("one")
    world.topology(world.plan.hash, allowedNamespaces={"from": "Same"})
    world.observer.epoch += 1
    world.loop.add(world.cache.topics)
    await world.work()
    assert world.ready("one")["reason"] == "NamespaceNotAllowed"
    assert not world.plan.parts
    assert not world.begun.plans


async def test_automatic_plan_does_not_start_before_its_settle_time():
    world = World(defaults={"reassignment": {"approval": "Automatic"}})
    await world.topic("one")
    assert not world.begun.plans
    assert world.ready("one")["reason"] == "PlanSettling"
    assert world.kube.condition("one", "Reconciling")["reason"] == "PlanSettling"


async def test_topic_is_reconciled_again_after_its_reassignment_has_ended(at_once):
    world = World(defaults={"reassignment": {"approval": "Automatic"}})
    one = await world.topic("one")
    planned = {change.partition: change.replicas for change in world.begun.plans[0].changes}
    world.kafka.replicas["one"] = tuple(planned[number] for number in range(2))
    world.begun.under_way = None
    await world.work()
    assert world.ready("one")["status"] == "True"
    assert (await world.told()) == ("InSync", "no topic needs a change")
    assert one.key not in world.plan.parts


async def test_automatic_plan_above_max_moves_waits_for_a_manual_approval(at_once):
    automatic = {"reassignment": {"approval": "Automatic"}}
    world = World(defaults=automatic, reassignment={"maxMoves": 1, "topicApproval": "Allowed"})
    await world.topic("one")
    assert not world.begun.plans
    assert (await world.told())[0] == "PlanAboveLimit"
    assert (
        "(plans of namespace shop copy 2 replicas, maxMoves is 1 for all namespaces together); to app"
        in (await world.told())[1]
    )
    assert world.kube.condition("one", "Stalled")["reason"] == "PlanAboveLimit"
    world.topology(world.plan.hash, defaults=automatic)
    await world.work()
    assert len(world.begun.plans) == 1


async def test_plan_of_unknown_size_is_above_any_max_bytes(at_once):
    world = World(defaults={"reassignment": {"approval": "Automatic"}}, reassignment={"maxBytes": 10**18})
    await world.topic("one")
    assert (await world.told())[0] == "PlanAboveLimit"


async def test_approved_plan_starts_only_inside_a_window():
    never = {"windows": [{"schedule": "0 0 29 2 *", "duration": "1m"}]}
    world = World(reassignment=never)
    await world.topic("one")
    world.topology(world.plan.hash)
    await world.work()
    assert not world.begun.plans
    assert (await world.told())[0] == "OutsideWindow"
    assert "it waits for a window, which opens at 20" in world.ready("one")["message"]
    world.topology(world.plan.hash, reassignment={"windows": [{"schedule": "* * * * *", "duration": "1h"}]})
    await world.work()
    assert len(world.begun.plans) == 1


async def test_plan_starts_although_its_window_closes_while_its_annotation_is_removed(monkeypatch):
    class Clock(datetime):
        at = datetime(2026, 1, 31, 3, 30, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            return cls.at

    monkeypatch.setattr(approvals, "datetime", Clock)
    world = World(reassignment={"windows": [{"schedule": "0 3 * * *", "duration": "1h"}]})
    await world.topic("one")
    remove = world.kube.set_annotation

    async def removed_later(*arguments):
        Clock.at += timedelta(hours=2)
        return await remove(*arguments)

    world.kube.set_annotation = removed_later
    await approve(world, "RackTopology")
    assert len(world.begun.plans) == 1


async def test_window_with_an_unknown_time_zone_is_closed_and_the_message_says_why():
    world = World(reassignment={"windows": [{"schedule": "@daily", "duration": "1h", "timeZone": "Europe/Nowhere"}]})
    await world.topic("one")
    world.topology(world.plan.hash)
    await world.work()
    assert not world.begun.plans
    assert "none ever opens: there is no time zone 'Europe/Nowhere'" in (await world.told())[1]


async def test_automatic_reorders_start_only_parts_that_change_nothing_but_leaders(at_once):
    world = World(defaults={"reassignment": {"reorders": "Automatic"}})
    await world.topic("one")
    await world.topic("leaders", rows=((0, 1, 2),), placement={"leaders": ["/z1"]})
    (plan,) = world.begun.plans
    assert {change.topic for change in plan.changes} == {"leaders"}


async def test_paused_topic_is_left_out_of_the_started_plan():
    world = World()
    await world.topic("one")
    two = await world.topic("two")
    world.cache.keep_topic(examples.topic("two", annotations={"rackspan.dev/paused": "true"}, partitions=2))
    world.topology(world.plan.hash)
    await world.work()
    assert two.key in world.plan.parts
    assert {change.topic for change in world.begun.plans[0].changes} == {"one"}


async def test_started_plan_has_no_reported_rack_of_an_offline_broker():
    world = World()
    rows = [replace(row, reported_rack=None, online=False) if row.id == 5 else row for row in world.racks.rows]
    world.observer.state = replace(world.observer.state, racks=replace(world.racks, rows=tuple(rows)))
    await world.topic("one")
    world.topology(world.plan.hash)
    await world.work()
    (plan,) = world.begun.plans
    assert plan.reported_racks.keys() == {0, 1, 2, 3, 4}
    assert plan.racks.keys() == {0, 1, 2, 3, 4, 5}


async def test_part_of_a_topic_with_a_pending_deletion_does_not_start_and_the_message_says_why():
    world = World()
    await world.topic("one")
    deleted = examples.topic("one", finalizers=(FINALIZER,), partitions=2, deleted="2026-01-01T00:00:00Z")
    world.cache.keep_topic(deleted)
    world.topology(world.plan.hash)
    await world.loop.approvals.reconcile()
    assert not world.begun.plans
    reason, message = await world.told()
    assert reason == "Deleting"
    assert message.endswith("it does not begin: the KafkaTopic is being deleted")


@pytest.mark.parametrize(
    ("meta", "reason", "told"),
    [
        (
            {"annotations": {"rackspan.dev/paused": "true"}},
            "Paused",
            "it waits for the annotation rackspan.dev/paused of RackTopology kafka/prod to go",
        ),
        (
            {"deletion_timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
            "Deleting",
            "it does not begin: RackTopology kafka/prod is being deleted",
        ),
    ],
    ids=["paused", "deleting"],
)
async def test_paused_or_deleting_topology_starts_no_plan_and_the_messages_say_why(at_once, meta, reason, told):
    world = World(defaults={"reassignment": {"approval": "Automatic"}})
    world.begun.under_way = "another"
    await world.topic("one")
    world.begun.under_way = None
    made = world.cache.topologies[topology().key]
    world.cache.topologies[made.key] = structs.replace(made, meta=structs.replace(made.meta, **meta))
    await world.work()
    assert not world.begun.plans
    assert (await world.told())[0] == reason
    assert (await world.told())[1].endswith(told)
    assert (world.ready("one")["reason"], world.ready("one")["message"].endswith(told)) == (reason, True)
    world.topology()
    await world.work()
    assert len(world.begun.plans) == 1


@pytest.mark.parametrize("how", ["approved", "automatic"])
async def test_plan_of_an_old_topology_spec_does_not_start_after_the_spec_changes(at_once, how):
    """The watch reports the new spec before the operator observes the cluster for it."""
    never = {"windows": [{"schedule": "0 0 29 2 *", "duration": "1m"}]}
    world = World(drainBrokers=[5], reassignment=never)
    await world.topic("one", rows=((0, 1, 5), (1, 3, 2)))
    (part,) = world.plan.parts.values()
    assert [(change.before, change.replicas) for change in part.changes] == [((0, 1, 5), (0, 1, 2))]
    policy = {"defaults": {"reassignment": {"approval": "Automatic"}}} if how == "automatic" else {}
    observed = world.observer.state
    world.topology(world.plan.hash if how == "approved" else None, drainBrokers=[], reassignment={}, **policy)
    world.observer.state = observed
    await world.loop.approvals.reconcile()
    assert not world.begun.plans, "broker 5 is no longer drained"


@pytest.mark.parametrize(
    "meta", [{"annotations": {PAUSED: "true"}}, {"deletion_timestamp": datetime(2026, 1, 1, tzinfo=UTC)}]
)
async def test_plan_does_not_start_if_the_topology_is_paused_or_deleted_during_the_last_read(at_once, meta):
    world = World(**AUTOMATIC)
    world.begun.under_way = "another"
    one = await world.topic("one")
    world.begun.under_way = None
    await world.loop.approvals._note_end()
    await world.loop.process(await world.loop.take())
    read = world.kafka.topics

    async def read_while_it_changes(names):
        prod = world.cache.topologies[one.topology]
        world.cache.topologies[one.topology] = structs.replace(prod, meta=structs.replace(prod.meta, **meta))
        return await read(names)

    world.kafka.topics = read_while_it_changes
    await world.loop.approvals.reconcile()
    assert world.kafka.made("describe_topics")[-1] == ["one"]
    assert world.cache.topologies[one.topology].meta != topology().meta
    assert not world.begun.plans
    world.topology()
    world.kafka.topics = read
    await world.work()
    assert begun(world) == [{"one"}]


@pytest.mark.parametrize("change", ["spec", "racks"])
async def test_plan_does_not_start_if_the_spec_or_the_racks_change_during_the_last_read(at_once, change):
    world = World(drainBrokers=[5])
    await world.topic("one", rows=((0, 1, 5), (1, 3, 2)))
    read = world.kafka.topics

    async def read_while_it_changes(names):
        world.kafka.topics = read
        if change == "spec":
            observed = world.observer.state
            world.topology(world.plan.hash, drainBrokers=[])
            world.observer.state = observed
        else:
            world.observer.epoch += 1
        return await read(names)

    world.topology(world.plan.hash)
    world.kafka.topics = read_while_it_changes
    await world.loop.approvals.reconcile()
    assert world.kafka.topics == read
    assert not world.begun.plans
    world.topology()
    world.observer.epoch += 1
    world.loop.add(world.cache.topics)
    await world.work()
    assert len(world.begun.plans) == 1, "the approved plan is the current plan again"


@pytest.mark.parametrize("annotation", ["the same", "another", "none"])
async def test_approved_plan_starts_despite_a_status_write_unless_its_annotation_changed(annotation):
    """The status of a RackTopology changes with every topic. In a large cluster this happens constantly."""
    world = World()
    one = await world.topic("one")
    read, take = world.kafka.topics, world.kube.set_annotation

    def prod():
        return world.cache.topologies[one.topology]

    async def read_while_it_is_written(names):
        meta = structs.replace(prod().meta, resource_version=f"{prod().meta.resource_version}1")
        if annotation != "the same":
            meta = structs.replace(meta, annotations={APPROVE_PLAN: "f" * 32} if annotation == "another" else {})
        world.cache.topologies[one.topology] = structs.replace(prod(), meta=meta)
        return await read(names)

    async def take_if_unchanged(ref, name, value, version):
        return await take(ref, name, value, version) if version == prod().meta.resource_version else None

    world.topology(world.plan.hash)
    world.kafka.topics, world.kube.set_annotation = read_while_it_is_written, take_if_unchanged
    await world.loop.approvals.reconcile()
    assert begun(world) == ([{"one"}] if annotation == "the same" else [])


@pytest.mark.parametrize("now", [None, ((0, 1, 2), (1, 2, 3))], ids=["gone", "another topic"])
async def test_deleted_or_recreated_topic_leaves_the_plan(monkeypatch, now):
    monkeypatch.setattr(topics_reconciler, "_ABSENCE_SECONDS", 0.0)
    world = World()
    one, two = await world.topic("one"), await world.topic("two")
    if now is None:
        del world.kafka.replicas["one"]
    else:
        world.kafka.ids = lambda name: f"another-{name}" if name == "one" else f"id-of-{name}"
        world.kafka.replicas["one"] = now
    world.loop.add([one.key, two.key])
    await world.work()
    assert world.plan.parts.keys() == {two.key}
    assert "for 1 topic," in (await world.told())[1]
    world.topology(world.plan.hash)
    await world.work()
    assert begun(world) == [{"two"}]


async def test_topic_whose_kafkatopic_is_deleted_during_the_read_has_no_part():
    world = World()
    one = await world.topic("one", rows=EVEN_ROWS)
    world.kafka.replicas["one"] = CROWDED
    described, goes = world.kafka.topics, [one.key]

    async def topics(names):
        while goes:
            world.cache.drop_topic(goes[0])
            world.loop.drop(goes.pop())
        return await described(names)

    world.kafka.topics = topics
    world.loop.add([one.key])
    await world.work()
    assert not goes
    assert not world.plan.parts


async def test_topic_that_became_too_large_leaves_the_plan(monkeypatch):
    world = World()
    one = await world.topic("one")
    monkeypatch.setattr(placement, "MAX_REPLICAS", 5)
    world.loop.add([one.key])
    await world.work()
    assert world.ready("one")["reason"] == "TooLarge"
    assert not world.plan.parts


async def test_topology_does_not_move_a_topic_whose_kafkatopic_now_refers_to_another_topology():
    """An interrupted watch can report a recreated object without the deletion of the previous one."""
    world = World()
    await world.topic("one")
    other = examples.topic("one", uid="another", topologyRef={"namespace": "kafka", "name": "other"}, partitions=2)
    world.cache.topics[other.key] = structs.replace(other, status=world.cache.topics[other.key].status)
    world.topology(world.plan.hash)
    await world.loop.approvals.reconcile()
    assert not world.begun.plans


async def test_plan_approved_in_the_spec_starts_once_and_the_approval_does_not_become_stale():
    world = World()
    await world.topic("one")
    world.topology(reassignment={"approvedPlan": world.plan.hash})
    await world.work()
    assert len(world.begun.plans) == 1
    planned = {change.partition: change.replicas for change in world.begun.plans[0].changes}
    world.kafka.replicas["one"] = tuple(planned[number] for number in range(2))
    world.begun.under_way = None
    await world.work()
    await world.topic("two")
    assert len(world.begun.plans) == 1
    assert (await world.told())[0] == "PlanPending"


async def below(world, *names, **spec):
    """Add topics with three replicas and replicationFactor 1, while min.insync.replicas is 2."""
    for name in names:
        await world.topic(name, ((0, 1, 2), (1, 2, 0)), replicationFactor=1, **spec)
        seen_before = world.cache.topics[ObjectKey("shop", name)]
        status = structs.replace(seen_before.status, min_in_sync_replicas=2)
        world.cache.keep_topic(structs.replace(seen_before, status=status))
        world.loop.add([seen_before.key])
        await world.work()


async def test_plan_below_min_insync_has_the_same_warning_in_statuses_and_on_the_command_line():
    world = World()
    await below(world, "one")
    (one,) = world.cache.topics.values()
    made = plan_of(ObservedTopology(world.observer.state, ((one, seen(*world.kafka.replicas["one"], name="one")),)))
    (told,) = map(str, made.whole.below_min_insync)
    assert told.startswith("topic one: 2 partitions shrink to 1 replica, below min.insync.replicas 2, so that")
    assert (
        f"removes 4 replicas for 1 topic, and no plan copies fewer; {told}; it waits for approval"
        in (await world.told())[1]
    )
    assert f"; {told}; it waits for approval; to approve it: kubectl" in world.ready("one")["message"]
    whole = (await world.loop.approvals.summary()).plan
    assert (whole.moves, whole.removals, [one.removals for one in whole.samples]) == (0, 4, [4])
    await below(world, "two")
    assert f"{told}, and 1 more topic likewise; it waits for approval" in (await world.told())[1]


async def test_event_of_a_started_plan_says_how_many_replicas_it_removes():
    world = World()
    await below(world, "one")
    world.topology(world.plan.hash)
    await world.work()
    (approved,) = (event for event in world.kube.announced if event.reason == "PlanApproved")
    assert "copies nothing and removes 4 replicas; it is begun as" in approved.message


@pytest.mark.parametrize("spec", [{"config": {"min.insync.replicas": 1}}, {"durability": {"minDomains": {"zone": 1}}}])
async def test_plan_has_no_min_insync_warning_if_min_insync_is_lowered_with_the_replicas(spec):
    world = World()
    await below(world, "one", **spec)
    assert "removes 4 replicas" in (await world.told())[1]
    assert "min.insync.replicas" not in (await world.told())[1]


SIX_REPLICAS = ((0, 1, 2, 3, 4, 5), (1, 2, 0, 4, 5, 3))
"""With EVEN, two replicas in each zone, so that four are left if one zone is lost."""


TWO_OF_TWO_ZONES = ((0, 1, 3, 4), (1, 2, 4, 5))


async def lower_to_three(world, own, **spec):
    """Add a topic with six replicas and replicationFactor 3, approve its plan, and return the KafkaTopic."""
    topic = await world.topic("one", SIX_REPLICAS, durability={"tolerate": {"zone": 1}}, **spec)
    world.kafka.own["one"]["min.insync.replicas"] = own
    assert not world.kafka.made("alter_configs")
    world.topology(world.plan.hash)
    await world.work()
    assert [len(plan.changes) for plan in world.begun.plans] == [2]
    return topic


async def test_derived_min_insync_is_lowered_before_replicas_are_removed():
    world = World()
    await lower_to_three(world, "4")
    assert world.kafka.own["one"] == {"min.insync.replicas": "2"}
    told = [event.message for event in world.kube.announced if event.reason == "ConfigUpdated"]
    assert told == ["topic one: set: min.insync.replicas=2"]


async def test_min_insync_is_not_lowered_while_a_partition_has_no_leader():
    world = World()
    world.kafka.without_isr["one"] = 1
    await lower_to_three(world, "4")
    assert world.kafka.own["one"] == {"min.insync.replicas": "4"}


async def test_min_insync_is_not_raised_before_a_removal_and_not_changed_if_the_spec_sets_it():
    world = World()
    await lower_to_three(world, "1")
    assert world.kafka.own["one"] == {"min.insync.replicas": "1"}
    world = World()
    await lower_to_three(world, "2", config={"min.insync.replicas": 2})
    assert world.kafka.own["one"] == {"min.insync.replicas": "2"}
    assert not world.kafka.made("alter_configs")


async def test_min_insync_is_lowered_for_the_last_removals_only_once_they_wait_for_nothing_else(monkeypatch):
    monkeypatch.setattr(approvals, "_ROOM_SECONDS", 0.0)
    world = World()
    wish = {"replicationFactor": 2, "durability": {"minDomains": {"zone": 2}}}
    one = await world.topic("one", TWO_OF_TWO_ZONES, **wish)
    world.kafka.own["one"]["min.insync.replicas"] = "3"
    world.topology(world.plan.hash)
    await world.work()
    assert world.kafka.own["one"]["min.insync.replicas"] == "3", "with two replicas in each zone, three span both zones"
    world.begun.held = tuple(world.begun.plans[0].changes)
    world.kafka.replicas["one"] = tuple(
        (*change.replicas, next(broker for broker in change.before if broker not in change.replicas))
        for change in world.begun.held
    )
    world.loop.add([one.key])
    await world.work()
    assert world.kafka.own["one"]["min.insync.replicas"] == "2"
    told = [event.message for event in world.kube.announced if event.reason == "ConfigUpdated"]
    assert told == ["topic one: set: min.insync.replicas=2"]


async def test_refused_change_of_min_insync_does_not_block_the_plan():
    world = World()
    world.kafka.refusing["one"] = Failure(Reason.KAFKA_REFUSED, "no", Remedy.RETRY)
    world.kafka._seen = lambda name: seen(*SIX_REPLICAS, name=name, topic_id="id-of-one")
    await lower_to_three(world, "4")
    assert world.kafka.own["one"] == {"min.insync.replicas": "4"}


# --- several namespaces -----------------------------------------------------------------------------------------------

OWN = {"namespace": "kafka"}
AUTOMATIC = {"defaults": {"reassignment": {"approval": "Automatic"}}}
NEVER = {"windows": [{"schedule": "0 0 29 2 *", "duration": "1m"}]}


def begun(world):
    return [{change.topic for change in plan.changes} for plan in world.begun.plans]


async def test_constant_changes_of_a_tenant_topic_do_not_delay_another_namespace(monkeypatch):
    monkeypatch.setattr(holds, "PLAN_SETTLE_SECONDS", 0.3)
    world = World(**AUTOMATIC)
    own = await world.topic("own", **OWN)
    await world.topic("restless")
    before = world.plan.parts[own.key]
    for number in range(300):
        await world.topic("restless", replicationFactor=2 + number % 2)
        if world.begun.plans:
            break
    assert begun(world) == [{"own"}]
    assert world.plan.parts[own.key] is before
    assert world.ready("restless")["reason"] in ("PlanSettling", "Reassigning")


async def test_parts_stay_the_same_if_topics_of_other_namespaces_are_added_changed_or_deleted():
    world = World()
    mine = [await world.topic(f"own-{number}", **OWN) for number in range(3)]
    await world.topic("one")
    before = {topic.key: world.plan.parts[topic.key] for topic in mine}
    one = await world.topic("one", rows=CROWDED * 3)
    world.cache.drop_topic(one.key)
    world.loop.drop(one.key)
    await world.topic("two", rows=CROWDED * 5, namespace="bank")
    assert {topic.key: world.plan.parts[topic.key] for topic in mine} == before


async def test_topics_of_all_namespaces_are_planned_together_after_the_cluster_changes():
    world = World()
    for number in range(6):
        await world.topic(f"t{number}", rows=(CROWDED[0],), namespace=f"n{number}")
    world.observer.epoch += 1
    world.loop.add(world.cache.topics)
    await world.work()
    topics = [
        (one, seen(*world.kafka.replicas[one.topic_name], name=one.topic_name)) for one in world.cache.topics.values()
    ]
    assert world.plan.hash == plan_of(ObservedTopology(world.observer.state, tuple(topics))).whole.hash
    given = Counter(
        broker for part in world.plan.parts.values() for change in part.changes for broker in set(change.replicas)
    )
    assert max(given[2], given[5]) == 3, "the replicas do not all go to the same broker"


async def test_tenant_plan_above_the_limit_does_not_block_the_namespace_of_the_topology(at_once):
    world = World(reassignment={"maxMoves": 20, "topicApproval": "Allowed"}, **AUTOMATIC)
    await world.topic("large", rows=(CROWDED[0],) * 30)
    assert world.ready("large")["reason"] == "PlanAboveLimit"
    await world.topic("own", **OWN)
    assert begun(world) == [{"own"}]
    world.begun.under_way = None
    await world.work()
    assert "(plans of namespace shop copy 30 replicas, maxMoves is 20 for all" in world.ready("large")["message"]


async def test_namespaces_share_max_moves_and_the_namespace_of_the_topology_comes_first(at_once):
    world = World(reassignment={"maxMoves": 10, "topicApproval": "Allowed"}, **AUTOMATIC)
    world.begun.under_way = "other"
    for name, moves in (("kafka", 4), ("shop", 3), ("bank", 4), ("mail", 1)):
        await world.topic(name, rows=(CROWDED[0],) * moves, namespace=name)
    world.begun.under_way = None
    await world.work()
    assert begun(world) == [{"kafka", "mail"}], (
        "6 moves are left for 3 namespaces: 2 each, then 5 for shop and bank: also 2 each"
    )


async def test_unknown_size_blocks_only_the_plan_of_its_own_namespace(at_once):
    class Sizes:
        async def of(self, topology, partitions):
            return {at: 1 for at in partitions if at.topic == "own"}

    world = World(reassignment={"maxBytes": 10**6, "topicApproval": "Allowed"}, **AUTOMATIC)
    world.loop.approvals._sizes = sizes_of(Sizes())
    await world.topic("unknown")
    world.loop.approvals._sizes._asked_at = float("-inf")
    await world.topic("own", **OWN)
    assert begun(world) == [{"own"}]
    world.begun.under_way = None
    await world.work()
    assert world.ready("unknown")["reason"] == "PlanAboveLimit"
    assert "how large 1 topic is is not known" in world.ready("unknown")["message"]


async def test_brokers_are_not_queried_again_if_a_new_plan_copies_the_same_partitions(at_once):
    class Sizes:
        asked = 0

        async def of(self, topology, partitions):
            self.asked += 1
            return dict.fromkeys(partitions, 1)

    world, told = World(reassignment={"maxBytes": 10**6}), Sizes()
    world.loop.approvals._sizes = sizes_of(told)
    one = await world.topic("one")
    for number in range(4):
        await world.topic("one", replicationFactor=3 + number % 2)
        assert world.loop.approvals._sizes.is_known(world.plan.parts[one.key])
    assert told.asked == 1


@pytest.mark.parametrize("how", ["annotation", "spec"])
async def test_approval_of_the_whole_plan_stays_valid_if_the_part_of_a_tenant_changes(how):
    world = World(reassignment=NEVER)
    await world.topic("own", **OWN)
    await world.topic("restless")
    approved = world.plan.hash
    annotation = approved if how == "annotation" else None
    declared = {} if annotation else {"approvedPlan": approved}
    world.topology(annotation, reassignment={**NEVER, **declared})
    await world.work()
    assert (await world.told())[0] == "OutsideWindow"
    await world.topic("restless", rows=CROWDED * 2)
    assert approved != world.plan.hash
    world.topology(annotation, reassignment=declared)
    await world.work()
    assert begun(world) == [{"own"}]
    world.begun.under_way = None
    await world.work()
    assert begun(world) == [{"own"}], "the approval covers no other part, and starts its part once"
    assert world.ready("restless")["reason"] == "PlanPending"


async def test_hashes_of_namespaces_approve_their_parts_even_if_another_namespace_changes():
    world = World()
    await world.topic("own", **OWN)
    await world.topic("other", namespace="bank")
    await world.topic("restless")
    told, plan = (await world.told())[1], (await world.loop.approvals.summary()).plan
    by_name = {one.namespace: one for one in plan.namespaces}
    assert {name: (one.topics, one.moves) for name, one in by_name.items()} == dict.fromkeys(
        ("kafka", "bank", "shop"), (1, 2)
    )
    said = ",".join(by_name[name].hash for name in ("bank", "kafka", "shop"))
    assert told.endswith(f"{APPROVE_PLAN}={said}")
    await world.topic("restless", rows=CROWDED * 2)
    world.topology(said)
    await world.work()
    assert begun(world) == [{"own", "other"}]
    assert ("RackTopology", "prod", APPROVE_PLAN) in world.kube.taken


async def test_topic_changed_in_kafka_does_not_block_the_other_parts_of_an_approved_plan():
    world = World()
    await world.topic("own", **OWN)
    await world.topic("restless")
    world.kafka.replicas["restless"] = ((0, 4, 2), CROWDED[1])
    world.topology(world.plan.hash)
    await world.work()
    assert begun(world) == [{"own"}]


async def test_topic_whose_annotation_cannot_be_removed_does_not_block_another_topic():
    world = World()
    other = await world.topic("other")
    denied = await world.topic("denied", namespace="bank")
    world.kube.denying = ("denied",)
    with pytest.raises(FailureError, match="a webhook denied"):
        await world.topic("denied", annotation=world.plan.parts[denied.key].hash, namespace="bank")
    await world.topic("other", annotation=world.plan.parts[other.key].hash)
    assert begun(world) == [{"other"}]
    world.begun.under_way = None
    world.topology("0" * 32)
    with pytest.raises(FailureError, match="a webhook denied"):
        await world.work()
    assert (await world.told())[0] == "StaleApproval", "other approvals are still checked"
    world.kube.denying = ()
    world.topology()
    await world.work()
    await world.topic("denied", annotation=world.plan.parts[denied.key].hash, namespace="bank")
    assert begun(world) == [{"other"}, {"denied"}]


async def test_new_topic_in_the_queue_does_not_delay_the_start_of_an_approved_plan():
    world = World()
    one = await world.topic("one")
    world.topology(world.plan.hash)
    world.observer.epoch += 1
    world.loop.add([one.key])
    await world.loop.process(await world.loop.take())
    world.loop.add([examples.topic("new").key])
    assert world.is_busy
    await world.loop.approvals.reconcile()
    assert begun(world) == [{one.topic_name}]


async def test_no_plan_starts_after_a_cluster_change_until_all_topics_were_read():
    world = World()
    await world.topic("one")
    world.topology(world.plan.hash)
    world.observer.epoch += 1
    await world.loop.approvals.reconcile()
    assert not world.begun.plans
    world.loop.add(world.cache.topics)
    await world.work()
    assert begun(world) == [{"one"}]


@pytest.mark.parametrize("restarted", [False, True])
async def test_unsuccessful_plan_does_not_start_again_because_of_another_topic(at_once, restarted):
    world = World(**AUTOMATIC)
    await world.topic("own", **OWN)
    (plan,) = world.begun.plans
    if restarted:
        world = World(**AUTOMATIC)
        world.begun.before = (begun_before("prod-1", plan.names, succeeded=False),)
        await world.topic("own", **OWN)
    world.begun.under_way = None
    await world.topic("other", annotation=None)
    assert begun(world)[-1] == {"other"}
    assert sum("own" in topics for topics in begun(world)) == (not restarted)


async def test_unsuccessful_plan_before_the_last_plan_is_known_after_a_restart(at_once):
    before = World(**AUTOMATIC)
    own = await before.topic("own", **OWN)
    part = before.plan.parts[own.key].hash
    await before.topic("other")
    world = World(**AUTOMATIC)
    world.begun.before = (
        begun_before("prod-1", {"1", part}, succeeded=False),
        begun_before("prod-2", {"2", "3"}, succeeded=True),
    )
    await world.topic("own", **OWN)
    assert begun(world) == []
    assert "Reassignment prod-1 was to carry it out, and ended before" in (await world.told())[1]


async def test_part_that_never_started_is_not_shown_as_ended_after_a_restart():
    before = World()
    one, two = await before.topic("one"), await before.topic("two")
    whole, part = before.plan.hash, before.plan.parts[one.key].hash
    world = World()
    world.begun.before = (begun_before("prod-1", {whole, part}, succeeded=False),)
    await world.topic("one")
    await world.topic("two")
    assert world.plan.hash == whole
    said = world.messages()
    assert "Reassignment prod-1 was to carry it out, and ended before" in said["one"]
    assert "ended before" not in said[two.key.name]
    world.begun.before = (begun_before("prod-1", {whole, part}, succeeded=False, missing=True),)
    world.start()
    world.loop.add(world.cache.topics)
    await world.work()
    said = world.messages()
    assert all("ended before" in message for message in said.values()), "it is unknown which parts have started"


@pytest.mark.parametrize(
    "error", [FailureError(Failure(Reason.KAFKA_UNREACHABLE, "away", Remedy.RETRY)), ValueError("unexpected")]
)
async def test_failed_read_of_topics_does_not_let_a_cancelled_part_start_again(at_once, error):
    world = World(**AUTOMATIC)
    await world.topic("own", **OWN)
    assert begun(world) == [{"own"}]
    world.kafka.replicas["own"] = ((0, 1, 2), (1, 3, 5))  # during the move the topic is compliant for a moment
    world.loop.add(world.cache.topics)
    await world.work()
    assert not world.plan.parts
    world.kafka.replicas["own"], world.begun.under_way = CROWDED, None
    answered, world.kafka.topics = world.kafka.topics, AsyncMock(side_effect=error)
    await world.loop.approvals.reconcile()
    await world.loop.process(await world.loop.take())
    await world.loop.approvals.reconcile()
    world.kafka.topics = answered
    world.loop.add(world.cache.topics)
    await world.work()
    assert world.plan.parts
    assert begun(world) == [{"own"}]


async def test_failed_read_of_a_single_topic_does_not_let_its_cancelled_part_start_again(at_once):
    """For example during a leader election. Kafka returns the other topics of the batch."""
    world = World(**AUTOMATIC)
    await world.topic("own", **OWN)
    world.kafka.replicas["own"] = ((0, 1, 2), (1, 3, 5))  # during the move the topic is compliant for a moment
    world.loop.add(world.cache.topics)
    await world.work()
    assert not world.plan.parts
    world.kafka.replicas["own"], world.begun.under_way = CROWDED, None
    world.kafka.refusing["own"] = Failure(Reason.KAFKA_UNREACHABLE, "leader not available", Remedy.RETRY)
    await world.loop.approvals.reconcile()
    await world.loop.process(await world.loop.take())
    await world.loop.approvals.reconcile()
    del world.kafka.refusing["own"]
    world.loop.add(world.cache.topics)
    await world.work()
    assert world.plan.parts
    assert begun(world) == [{"own"}]


@pytest.mark.parametrize("digits", [8, 16, 31])
async def test_shortened_hash_does_not_approve_a_plan(digits):
    world = World()
    one = await world.topic("one")
    assert len(world.plan.hash) == len(world.plan.parts[one.key].hash) == 32
    world.topology(world.plan.hash[:digits])
    await world.topic("one", annotation=world.plan.parts[one.key].hash[:digits])
    assert not world.begun.plans
    assert (await world.told())[0] == "StaleApproval"


async def test_part_of_a_tenant_can_be_approved_on_the_topology_by_its_own_hash():
    world = World(reassignment={"topicApproval": "Never"})
    one = await world.topic("one")
    await world.topic("two")
    world.topology(world.plan.parts[one.key].hash)
    await world.work()
    assert begun(world) == [{"one"}]


async def test_approvals_of_unknown_plans_by_a_tenant_do_not_change_parts_of_other_namespaces():
    world = World()
    own = await world.topic("own", **OWN)
    before = world.plan.parts[own.key]
    for number in range(5):
        world.kafka.replicas["crowd"] = ((2,),) * 40 * number
        await world.topic("one", annotation=f"{number:032x}")
    assert world.plan.parts[own.key] is before
    assert world.ready("one")["reason"] == "StaleApproval"


async def test_whole_plan_is_reviewed_outside_the_event_loop(monkeypatch):
    review_plan, reviews = approvals.review_plan, []

    def spied(whole, *rest):
        reviews.append((threading.current_thread().name.split("_")[0], len(whole.parts)))
        return review_plan(whole, *rest)

    monkeypatch.setattr(approvals, "review_plan", spied)
    world = World()
    for name in ("one", "other", "third"):
        await world.topic(name)
    assert {thread for thread, parts in reviews if parts > 1} == {"planning"}
    assert (await world.told())[0] == "PlanPending"


async def test_changes_of_an_approved_plan_are_made_outside_the_event_loop(monkeypatch):
    world, threads = World(), []
    await world.topic("one")
    sized = world.loop.approvals._sizes.sized

    def spied(parts):
        threads.append(threading.current_thread().name.split("_")[0])
        return sized(parts)

    monkeypatch.setattr(world.loop.approvals._sizes, "sized", spied)
    world.topology(world.plan.hash)
    await world.work()
    assert threads == ["planning"]
    assert begun(world) == [{"one"}]


@pytest.fixture
def during_reviews(monkeypatch):
    """A function that sets what happens while each review is in its thread. `None` sets nothing."""
    in_thread, meanwhile = approvals.in_planner_thread, [None]

    async def spied(work, *arguments):
        result = await in_thread(work, *arguments)
        if work is approvals._reviewed and meanwhile[0] is not None:
            await meanwhile[0]()
        return result

    monkeypatch.setattr(approvals, "in_planner_thread", spied)
    return partial(meanwhile.__setitem__, 0)


async def test_topic_that_is_planned_during_a_review_reports_later_what_its_part_waits_for(during_reviews):
    world = World()
    await world.topic("one")

    async def plan_another():
        during_reviews(None)
        world.kafka.replicas["two"], world.kafka.own["two"] = CROWDED, {"min.insync.replicas": "2"}
        two = examples.topic(
            "two", finalizers=(FINALIZER,), status=examples.known("id-of-two"), partitions=len(CROWDED)
        )
        world.cache.keep_topic(two)
        world.loop.add([two.key])
        await world.loop.process(await world.loop.take())

    during_reviews(plan_another)
    await world.loop.approvals.reconcile()
    world.begun.under_way = "prod-1"
    await world.work()
    assert {world.ready(name)["reason"] for name in ("one", "two")} == {"Reassigning"}


async def test_approved_plan_starts_although_a_compliant_topic_changes_during_each_review(during_reviews):
    world, changes = World(), []
    await world.topic("one")

    async def change_another():
        changes.append(len(changes) + 1)
        rows = ((0, 2, 4), (1, 3, 5))[:: (-1) ** len(changes)]
        world.kafka.replicas["restless"], world.kafka.own["restless"] = rows, {"min.insync.replicas": "2"}
        status = examples.known("id-of-restless")
        restless = examples.topic("restless", finalizers=(FINALIZER,), status=status, partitions=2)
        world.cache.keep_topic(restless)
        world.loop.add([restless.key])
        await world.loop.process(await world.loop.take())

    during_reviews(change_another)
    world.topology(world.plan.hash)
    await world.loop.approvals.reconcile()
    assert (begun(world), bool(changes)) == ([{"one"}], True)
