"""Topics without a KafkaTopic stay unchanged or, with Repair, are in the plan, which only the topology approves."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import EVEN, seen, state, topology
from tests.unit.reconcile.plans.test_approvals import CROWDED, World

from rackspan.api.plans import unmanaged_key
from rackspan.cli.rendering.plan_document import topology_document
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import examine
from rackspan.reconcile.cluster.drain_status import drain_statuses
from rackspan.reconcile.cluster.racks import locations_of_topology
from rackspan.reconcile.cluster.topology_status import broker_status
from rackspan.reconcile.dry_run import ObservedTopology, plan_of
from rackspan.reconcile.plans import holds
from rackspan.reconcile.plans.topology_plan import unmanaged_topics
from rackspan.reconcile.ports import RemainingReplicas

REPAIR = {"unmanagedTopics": "Repair"}
WHEN = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
AUTOMATIC = {"defaults": {"reassignment": {"approval": "Automatic"}}}


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(holds, "PLAN_SETTLE_SECONDS", 0.0)


async def world(topics=None, **spec):
    made = World(**spec)
    made.kafka.replicas.update(topics or {"bare": CROWDED})
    await made.work()
    return made


def outside(made):
    """Return the plan that the command line makes for the same cluster."""
    topics = [
        (one, seen(*made.kafka.replicas[one.topic_name], name=one.topic_name)) for one in made.cache.topics.values()
    ]
    found = unmanaged_topics(topology(**made.spec), made.cache.topics.values(), (), made.kafka.replicas)
    return plan_of(ObservedTopology(made.observer.state, tuple(topics), found))


async def test_unmanaged_topics_have_no_part_by_default_and_their_assignments_are_not_read(at_once):
    made = await world(**AUTOMATIC)
    assert not made.plan.parts
    assert not made.kafka.made("assignments")
    assert (await made.told()) == ("InSync", "no topic needs a change")


async def test_plan_includes_unmanaged_topics_and_equals_the_plan_of_the_command_line():
    made = await world(**REPAIR)
    await made.topic("one")
    assert {key.name for key in made.plan.parts} == {"bare", "one"}
    made.loop._plans.make_anew()
    await made.work()
    assert made.plan.hash == outside(made).whole.hash
    plan = (await made.loop.approvals.summary()).plan
    assert (plan.topics, plan.unmanaged, {sample.topic for sample in plan.samples}) == (2, 1, {"bare", "shop/one"})
    assert "for 2 topics, 1 of them without a KafkaTopic, and no plan copies fewer" in (await made.told())[1]


async def test_plan_document_lists_an_unmanaged_topic_by_its_name_in_kafka():
    made = await world(**REPAIR)
    (entry,) = topology_document(topology().key, outside(made), {})["topics"]
    part = made.plan.parts[unmanaged_key("bare")]
    assert (entry["topic"], entry["topicName"], entry["hash"], entry["moves"]) == (None, "bare", part.hash, 2)


async def test_approval_on_the_topology_starts_the_moves_of_unmanaged_topics():
    made = await world(**REPAIR)
    made.topology(made.plan.hash)
    await made.work()
    (begun,) = made.begun.plans
    assert {change.topic for change in begun.changes} == {"bare"}
    assert begun.approved_by == "approved on RackTopology kafka/prod"


async def test_automatic_policy_of_the_topology_starts_the_moves_of_unmanaged_topics(at_once):
    made = await world(**REPAIR, **AUTOMATIC)
    assert [plan.approved_by for plan in made.begun.plans] == ["by the policy Automatic"]


async def test_kafkatopic_cannot_approve_the_part_of_an_unmanaged_topic(at_once):
    made = await world(**REPAIR)
    part = made.plan.parts[unmanaged_key("bare")]
    await made.topic("one", annotation=part.hash, reassignment={"approval": "Automatic"})
    assert {change.topic for plan in made.begun.plans for change in plan.changes} == {"one"}


async def test_approval_is_stale_if_unmanaged_topics_were_changed_or_deleted_after_the_plan():
    made = await world({"bare": CROWDED, "gone": CROWDED}, **REPAIR)
    approved = made.plan.hash
    made.kafka.replicas["bare"] = (CROWDED[0], (1, 2, 3))
    del made.kafka.replicas["gone"]
    made.topology(approved)
    await made.work()
    assert not made.begun.plans
    assert list(made.plan.parts) == [unmanaged_key("bare")]
    assert (await made.told())[0] == "StaleApproval"


async def test_unmanaged_topic_deleted_during_its_move_leaves_the_plan():
    made = await world(**REPAIR)
    made.topology(made.plan.hash)
    await made.work()
    del made.kafka.replicas["bare"]
    made.begun.under_way = None
    await made.work()
    assert (await made.told()) == ("InSync", "no topic needs a change")


async def test_topic_that_gets_a_kafkatopic_has_only_the_part_of_the_kafkatopic():
    made = await world(**REPAIR)
    one = await made.topic("bare")
    assert list(made.plan.parts) == [one.key]
    assert made.plan.hash == outside(made).whole.hash


async def test_kafkatopic_created_before_the_start_removes_the_unmanaged_part():
    made = await world(**REPAIR)
    made.cache.keep_topic(examples.topic("mine", topicName="bare", partitions=2))
    made.topology(made.plan.hash)
    await made.work()
    assert not made.begun.plans
    assert not made.plan.parts


async def test_topic_stays_in_the_plan_as_unmanaged_if_its_kafkatopic_may_not_adopt_it():
    refused = {"conditions": [{"type": "Ready", "status": "False", "reason": "AdoptionNotAllowed", **WHEN}]}
    made = World(**REPAIR)
    made.cache.keep_topic(examples.topic("squat", topicName="bare", status=refused))
    made.kafka.replicas["bare"] = CROWDED
    await made.work()
    assert list(made.plan.parts) == [unmanaged_key("bare")]


async def test_internal_topics_are_planned_only_if_the_spec_lists_them():
    there = {"__consumer_offsets": CROWDED, "__transaction_state": CROWDED, "bare": CROWDED}
    made = await world(there, **REPAIR, internalTopics=["__consumer_offsets"])
    assert {key.name for key in made.plan.parts} == {"__consumer_offsets", "bare"}


async def test_ten_thousand_unmanaged_topics_are_read_with_one_call_and_not_in_every_pass(monkeypatch):
    monkeypatch.setattr(
        "rackspan.reconcile.plans.topology_plan._LOOK_SECONDS", 3600
    )  # no second read, even on a slow machine
    there = {f"bare-{number}": ((0, 1, 2), (3, 4, 5)) for number in range(10_000)}
    made = await world(there, **REPAIR)
    assert len(made.kafka.calls) == 1
    await made.work()
    assert len(made.kafka.calls) == 1
    assert (await made.told()) == ("InSync", "no topic needs a change")


async def test_unmanaged_topics_leave_the_plan_after_a_change_from_repair_to_report():
    made = await world(**REPAIR)
    made.spec = {**made.spec, "unmanagedTopics": "Report"}
    made.topology()
    made.observer.epoch += 1
    await made.work()
    assert not made.plan.parts


async def test_plan_copies_as_many_replicas_per_partition_as_a_scan_finds():
    rng = np.random.default_rng(7)
    there = {
        f"bare-{number}": tuple(tuple(rng.permutation(6)[: rng.integers(1, 5)].tolist()) for _ in range(3))
        for number in range(60)
    }
    where = state(EVEN, drainBrokers=[5], **REPAIR)
    made = plan_of(ObservedTopology(where, (), there))
    brokers = tuple(broker_status(row) for row in where.racks.rows)
    prod = topology(levels=[{"name": "zone"}], drainBrokers=[5])
    prod = replace(prod, status=replace(prod.status, brokers=brokers))
    rows = made.request.partitions
    found = examine(locations_of_topology(prod), rows, np.ones(len(rows.names)), ClusterRequirements(managed=True))
    moves = {}
    for change in made.whole.changes:
        moves[change.topic, change.partition] = change.copied
    told = {
        (rows.names[rows.topic[at]], int(rows.number[at])): int(found.moves_of[at])
        for at in np.flatnonzero(found.broken)
    }
    assert moves == told
    assert moves


def test_drain_status_counts_unmanaged_and_internal_replicas_and_says_why_they_remain():
    there = {"bare": 3, "other": 1, "__consumer_offsets": 2}
    held = RemainingReplicas(examples.NOON, {0: there})
    where = state(EVEN, drainBrokers=[0], **REPAIR)
    planned = {"bare": ((0, 1, 2),) * 3, "__consumer_offsets": ((0, 1, 2),) * 2}
    by_plan = {key.name: part for key, part in plan_of(ObservedTopology(where, (), planned)).parts.items()}
    (drain,) = drain_statuses(where, held, (), by_plan)
    assert [(block.reason, block.topics, block.replicas) for block in drain.blocks] == [
        ("PlanPending", 2, 5),
        ("NotManaged", 1, 1),
    ]
    left = drain.replicas
    assert (left.total, left.managed, left.unmanaged, left.internal) == (6, 0, 4, 2)


async def test_cancelled_repair_does_not_start_again_automatically(at_once):
    made = await world(**REPAIR, **AUTOMATIC)
    assert len(made.begun.plans) == 1
    made.kafka.replicas["bare"] = ((0, 1, 2), (1, 3, 5))  # during the move the topic is compliant for a moment
    made.loop.approvals._unmanaged.look_again()
    await made.work()
    assert not made.plan.parts
    made.kafka.replicas["bare"], made.begun.under_way = CROWDED, None
    await made.work()
    assert made.plan.parts
    assert len(made.begun.plans) == 1
