"""Topics are planned together. A plan is kept until its inputs change, and is then made again."""

import asyncio
from collections import Counter

from tests.unit.reconcile.examples import EVEN, seen, state, topic

from rackspan.api.plans import topology_hash
from rackspan.core.planning import TopicPlan
from rackspan.reconcile.dry_run import ObservedTopology, plan_of
from rackspan.reconcile.plans import topology_plan as planning
from rackspan.reconcile.plans.topology_plan import TopologyPlan

CROWDED = ((0, 3, 1), (1, 4, 2))  # with EVEN, each partition has two replicas in one zone


async def test_new_replicas_of_many_topics_are_spread_evenly_over_the_brokers():
    topics = [topic(f"t{number}", partitions=1) for number in range(12)]
    found = [(one, seen((0, 3, 1), name=one.topic_name)) for one in topics]
    made = await TopologyPlan().of(found, state(EVEN))
    given = Counter(
        broker for plan in made.values() for change in plan.changes for broker in set(change.replicas) - {0, 3, 1}
    )
    assert set(given.values()) == {6}


async def test_topics_added_one_by_one_get_the_same_plan_as_all_at_once():
    told = []
    plans, where = TopologyPlan(told.append), state(EVEN)
    topics = [topic(f"t{number}", partitions=1) for number in range(12)]
    found = [(one, seen((0, 3, 1), name=one.topic_name)) for one in topics]
    for one in found:
        await plans.of([one], where)
    at_once = await TopologyPlan().of(found, where)
    assert plans.whole.parts == at_once
    assert {key for keys in told for key in keys} <= {one.key for one in topics[:-1]}
    told.clear()
    assert await plans.of(found, where) == at_once
    assert not told, "the topics with changed parts were reported before"


async def test_compliant_topic_does_not_change_the_plan_of_another_topic():
    plans, one, where = TopologyPlan(), topic("one", partitions=2), state(EVEN)
    first = (await plans.of([(one, seen(*CROWDED, name="one"))], where))[one.key]
    await plans.of([(topic("fine", partitions=1), seen((3, 1, 2), name="fine"))], where)
    assert plans.whole.parts[one.key] is first


async def test_other_topics_are_planned_again_after_a_topic_is_forgotten():
    told = []
    plans, where = TopologyPlan(told.append), state(EVEN)
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(3)]
    await plans.of(found, where)
    plans.forget(found[0][0].key)
    assert told.pop()[0] in {found[1][0].key, found[2][0].key}
    await plans.of(found[1:2], where)
    assert plans.whole.parts == await TopologyPlan().of(found[1:], where)


async def test_topic_deleted_while_its_plan_waits_disturbs_no_other_topic(monkeypatch):
    plans, where = TopologyPlan(), state(EVEN)
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(3)]

    async def forgetting(seconds):
        plans.forget(found[0][0].key)

    monkeypatch.setattr(planning.asyncio, "sleep", forgetting)
    assert await plans.of(found, where) == await TopologyPlan().of(found[1:], where)


async def test_topic_that_gets_a_kafkatopic_while_unmanaged_topics_are_read_has_one_part(monkeypatch):
    plans, where, one = TopologyPlan(), state(EVEN), topic("one", partitions=2)
    news = planning._news

    def adopting(*inputs):
        asyncio.run(plans.of([(one, seen(*CROWDED, name=one.topic_name))], where))
        return news(*inputs)

    monkeypatch.setattr(planning, "_news", adopting)
    await plans.of_unmanaged({one.topic_name: CROWDED}, where)
    assert list(plans.whole.parts) == [one.key]


async def test_changed_part_of_a_topic_that_cannot_be_read_is_reported_once():
    told = []
    plans, where = TopologyPlan(told.append), state(EVEN)
    found = [(topic(f"t{number}", partitions=1), seen((0, 3, 1), name=f"t{number}")) for number in range(12)]
    for one in found:
        await plans.of([one], where)
    told.clear()
    await plans.of((), where)
    assert not told, "the passes that the changes caused could not read the topics"


async def test_batches_that_wait_for_a_planner_run_share_the_next_run(monkeypatch):
    made = []
    plan_topics = planning.plan_topics

    def counting(request):
        made.append(request)
        return plan_topics(request)

    monkeypatch.setattr(planning, "plan_topics", counting)
    plans, where = TopologyPlan(), state(EVEN)
    batches = [[(topic(f"t{n}", partitions=2), seen(*CROWDED, name=f"t{n}"))] for n in range(20)]
    await asyncio.gather(*(plans.of(batch, where) for batch in batches))
    assert len(made) <= 6
    assert len(plans.whole.parts) == 20


async def test_plan_is_reused_if_only_broker_load_changes_and_made_again_if_replicas_change():
    plans, one = TopologyPlan(), topic("one", partitions=2)
    first = (await plans.of([(one, seen(*CROWDED))], state(EVEN)))[one.key]
    busy = state(EVEN)
    busy.load.replicas.update({2: 100, 5: 100})
    assert (await plans.of([(one, seen(*CROWDED))], busy))[one.key] is first
    assert (await plans.of([(one, seen(CROWDED[0], (1, 2, 3)))], busy))[one.key].hash != first.hash


async def test_plan_is_made_again_if_the_spec_or_the_rack_of_a_broker_changes():
    plans, where = TopologyPlan(), state(EVEN)
    one, other = topic("one", partitions=2), topic("one", partitions=2, replicationFactor=2)
    first = (await plans.of([(one, seen(*CROWDED))], where))[one.key]
    assert (await plans.of([(other, seen(*CROWDED))], where))[one.key].hash != first.hash
    moved = state({**EVEN, 3: "/z1"})
    assert (await plans.of([(one, seen(*CROWDED))], moved))[one.key].hash != first.hash


async def test_new_instance_makes_the_same_plans_for_the_topics_in_another_order():
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(5)]
    first, second = await TopologyPlan().of(found, state(EVEN)), await TopologyPlan().of(found[::-1], state(EVEN))
    assert first == second


async def test_topic_on_a_broker_with_unknown_rack_has_no_plan():
    one = topic("one", partitions=1)
    assert await TopologyPlan().of([(one, seen((0, 1, 6)))], state({**EVEN, 6: None})) == {}


async def test_plans_for_old_racks_of_brokers_do_not_influence_new_plans():
    one, other = topic("one", partitions=2), topic("other", partitions=2)
    plans, moved = TopologyPlan(), state({**EVEN, 3: "/z1"})
    await plans.of([(other, seen(*CROWDED, name="other"))], state(EVEN))
    afterwards = await plans.of([(one, seen(*CROWDED, name="one"))], moved)
    assert afterwards == await TopologyPlan().of([(one, seen(*CROWDED, name="one"))], moved)


async def test_dry_run_makes_the_same_plans_as_the_operator():
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(5)]
    made = plan_of(ObservedTopology(state(EVEN), tuple(found)))
    inside = await TopologyPlan().of(found[::-1], state(EVEN))
    assert made.parts == inside
    assert made.whole.hash == topology_hash({str(key): part.hash for key, part in inside.items()})
    assert set(made.whole.changes) == {change for part in inside.values() for change in part.changes}
    assert made.differing == sorted(inside), "no status contains a plan yet"


async def test_dry_run_lists_topics_that_cannot_be_planned():
    one = topic("one", partitions=1, placement={"spread": [{"level": "planet"}]})
    fine = topic("fine", partitions=2)
    found = ((fine, seen(*CROWDED, name="fine")), (one, seen((0, 1, 2), name="one")))
    made = plan_of(ObservedTopology(state(EVEN), found))
    assert (made.unplanned, list(made.parts)) == ((one.key,), [fine.key])


async def test_topic_is_forgotten_without_a_look_at_the_parts_of_all_others(monkeypatch):
    plans, where, looks = TopologyPlan(), state(EVEN), []
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(20)]
    await plans.of(found, where)
    empty = TopicPlan.empty.fget
    monkeypatch.setattr(TopicPlan, "empty", property(lambda part: looks.append(part) or empty(part)))
    for one, _ in found:
        plans.forget(one.key)
    assert len(looks) == len(found)
