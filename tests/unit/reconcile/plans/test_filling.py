"""With `rebalance: OnNewBrokers` the plan of the topology fills new and emptied brokers, once."""

import pytest
from tests.unit.reconcile.examples import EVEN, seen, state
from tests.unit.reconcile.plans.test_approvals import CROWDED, World

from rackspan.reconcile.dry_run import ObservedTopology, plan_of
from rackspan.reconcile.plans import holds

FILL = {"rebalance": "OnNewBrokers"}
ON_OLD = ((0, 1, 2), (1, 2, 0), (2, 0, 1)) * 3
"""With EVEN: balanced over brokers 0 to 2, while brokers 3 to 5 are new."""


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(holds, "PLAN_SETTLE_SECONDS", 0.0)


async def world(**spec):
    made = World(**spec)
    made.kafka.replicas["one"] = ON_OLD
    await made.observer.state.load.recount(made.kafka)
    return made, await made.topic("one", rows=ON_OLD)


def outside(made, where):
    """Return the plan that the command line makes."""
    topics = [
        (one, seen(*made.kafka.replicas[one.topic_name], name=one.topic_name)) for one in made.cache.topics.values()
    ]
    return plan_of(ObservedTopology(where, tuple(topics)))


async def finish(made):
    """Complete the last started plan: Kafka has the planned replicas, and no plan runs."""
    for change in made.begun.plans[-1].changes:
        rows = list(made.kafka.replicas[change.topic])
        rows[change.partition] = change.replicas
        made.kafka.replicas[change.topic] = tuple(rows)
    made.begun.under_way = None
    await made.work()


async def test_new_brokers_are_not_filled_by_default():
    made, _ = await world()
    assert not made.plan.parts


async def test_new_brokers_are_filled_once_and_by_the_plan_of_the_command_line(at_once):
    made, one = await world(**FILL)
    part = made.plan.parts[one.key]
    assert (part.moves, made.plan.lower_bound) == (12, 12)
    fresh = state(EVEN, **made.spec)
    await fresh.load.recount(made.kafka)
    assert made.plan.hash == outside(made, fresh).whole.hash
    ready = made.ready("one")
    assert (ready["status"], ready["reason"]) == ("True", "InSync")
    assert f"as asked; plan {part.hash} copies 12 replicas to fill brokers; it waits for approval" in ready["message"]
    assert "copies 12 replicas for 1 topic, and no plan copies fewer; it waits for approval" in (await made.told())[1]
    made.topology(made.plan.hash)
    await made.work()
    await finish(made)
    assert (await made.told()) == ("InSync", "no topic needs a change")
    assert len(made.begun.plans) == 1
    assert made.observer.state.load.replicas[3] > 0, "the replicas on the brokers were counted again"


async def test_fill_plan_of_topics_added_one_by_one_equals_the_plan_of_all_at_once():
    made, _ = await world(**FILL)
    await made.topic("two", rows=CROWDED)
    await made.topic("three", rows=ON_OLD)
    await made.observer.state.load.recount(made.kafka)
    made.loop._plans.make_anew()
    await made.work()
    assert made.plan.hash == outside(made, made.observer.state).whole.hash
    assert len(made.plan.parts) > 1


async def test_fill_plan_is_made_with_rebalance_on_new_brokers_and_removed_with_never():
    made, _ = await world()
    for spec, parts in ((FILL, 1), ({"rebalance": "Never"}, 0)):
        made.spec = {**made.spec, **spec}
        load = made.observer.state.load
        made.observer.state = state(EVEN, **made.spec)
        made.topology()
        await made.observer.state.load.recount(made.kafka)
        assert load.replicas == made.observer.state.load.replicas
        made.observer.epoch += 1
        made.loop.add(made.cache.topics)
        await made.work()
        assert len(made.plan.parts) == parts


async def test_fill_plan_moves_no_replica_to_a_broker_that_the_topic_excludes():
    made = World(**FILL)
    rows = ((0, 1, 2), (3, 1, 2), (0, 4, 2), (0, 1, 5), (0, 1, 2))
    made.kafka.replicas["one"] = rows
    await made.observer.state.load.recount(made.kafka)
    await made.topic("one", rows=rows, placement={"brokers": {"exclude": ["3", "4", "5"]}})
    moved = {broker for part in made.plan.parts.values() for change in part.changes for broker in change.replicas}
    assert moved <= {0, 1, 2}


async def test_lower_bound_covers_only_the_current_parts_of_the_plan():
    made, _ = await world(**FILL)
    await made.topic("two", rows=CROWDED)
    await made.topic("three", rows=ON_OLD)
    await made.observer.state.load.recount(made.kafka)
    plans = made.loop._plans
    plans.make_anew()
    await made.work()
    assert plans.whole.lower_bound == sum(part.moves for part in plans.whole.parts.values())
    assert len(plans.whole.parts) > 1
    plans.forget(max(plans.whole.parts, key=lambda key: plans.whole.parts[key].moves))
    assert plans.whole.lower_bound <= sum(part.moves for part in plans.whole.parts.values())
