"""Plans are made together, kept while nothing that they were made from changed, and made anew when it did."""

import asyncio
from collections import Counter

from tests.unit.reconcile.examples import EVEN, seen, state, topic

from rackspan.api.plans import topology_hash
from rackspan.reconcile.dry_run import ObservedTopology, plan_of
from rackspan.reconcile.plans import topology_plan as planning
from rackspan.reconcile.plans.topology_plan import TopologyPlan

CROWDED = ((0, 3, 1), (1, 4, 2))  # of EVEN: two replicas in one zone


async def test_topics_do_not_all_choose_the_emptiest_broker():
    topics = [topic(f"t{number}", partitions=1) for number in range(12)]
    found = [(one, seen((0, 3, 1), name=one.topic_name)) for one in topics]
    made = await TopologyPlan().of(found, state(EVEN))
    given = Counter(
        broker for plan in made.values() for change in plan.changes for broker in set(change.replicas) - {0, 3, 1}
    )
    assert set(given.values()) == {6}


async def test_topics_that_come_one_by_one_end_with_the_plan_of_all_at_once():
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
    assert not told, "whoever had been given an older part has the present one now"


async def test_a_topic_that_is_as_it_should_be_changes_no_plan_of_others():
    plans, one, where = TopologyPlan(), topic("one", partitions=2), state(EVEN)
    first = (await plans.of([(one, seen(*CROWDED, name="one"))], where))[one.key]
    await plans.of([(topic("fine", partitions=1), seen((3, 1, 2), name="fine"))], where)
    assert plans.whole.parts[one.key] is first


async def test_a_topic_that_is_gone_has_the_others_planned_anew():
    told = []
    plans, where = TopologyPlan(told.append), state(EVEN)
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(3)]
    await plans.of(found, where)
    plans.forget(found[0][0].key)
    assert told.pop()[0] in {found[1][0].key, found[2][0].key}
    await plans.of(found[1:2], where)
    assert plans.whole.parts == await TopologyPlan().of(found[1:], where)


async def test_batches_that_wait_for_a_planning_share_the_next_one(monkeypatch):
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


async def test_a_plan_is_kept_while_its_topic_and_the_brokers_are_the_same():
    plans, one = TopologyPlan(), topic("one", partitions=2)
    first = (await plans.of([(one, seen(*CROWDED))], state(EVEN)))[one.key]
    busy = state(EVEN)
    busy.load.replicas.update({2: 100, 5: 100})
    assert (await plans.of([(one, seen(*CROWDED))], busy))[one.key] is first
    assert (await plans.of([(one, seen(CROWDED[0], (1, 2, 3)))], busy))[one.key].hash != first.hash


async def test_a_plan_is_made_anew_when_the_spec_or_the_brokers_change():
    plans, where = TopologyPlan(), state(EVEN)
    one, other = topic("one", partitions=2), topic("one", partitions=2, replicationFactor=2)
    first = (await plans.of([(one, seen(*CROWDED))], where))[one.key]
    assert (await plans.of([(other, seen(*CROWDED))], where))[one.key].hash != first.hash
    moved = state({**EVEN, 3: "/z1"})
    assert (await plans.of([(one, seen(*CROWDED))], moved))[one.key].hash != first.hash


async def test_the_same_topics_get_the_same_plans_from_an_operator_that_has_just_started():
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(5)]
    first, second = await TopologyPlan().of(found, state(EVEN)), await TopologyPlan().of(found[::-1], state(EVEN))
    assert first == second


async def test_a_topic_on_a_broker_whose_rack_is_not_known_has_no_plan():
    one = topic("one", partitions=1)
    assert await TopologyPlan().of([(one, seen((0, 1, 6)))], state({**EVEN, 6: None})) == {}


async def test_plans_for_brokers_that_are_elsewhere_by_now_do_not_count_for_new_ones():
    one, other = topic("one", partitions=2), topic("other", partitions=2)
    plans, moved = TopologyPlan(), state({**EVEN, 3: "/z1"})
    await plans.of([(other, seen(*CROWDED, name="other"))], state(EVEN))
    afterwards = await plans.of([(one, seen(*CROWDED, name="one"))], moved)
    assert afterwards == await TopologyPlan().of([(one, seen(*CROWDED, name="one"))], moved)


async def test_who_looks_from_outside_comes_to_the_plans_of_the_operator():
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(5)]
    made = plan_of(ObservedTopology(state(EVEN), tuple(found)))
    inside = await TopologyPlan().of(found[::-1], state(EVEN))
    assert made.parts == inside
    assert made.whole.hash == topology_hash({str(key): part.hash for key, part in inside.items()})
    assert set(made.whole.changes) == {change for part in inside.values() for change in part.changes}
    assert made.differing == sorted(inside), "no status tells of a plan yet"


async def test_a_topic_of_which_nothing_can_be_said_is_named_from_outside_too():
    one = topic("one", partitions=1, placement={"spread": [{"level": "planet"}]})
    fine = topic("fine", partitions=2)
    found = ((fine, seen(*CROWDED, name="fine")), (one, seen((0, 1, 2), name="one")))
    made = plan_of(ObservedTopology(state(EVEN), found))
    assert (made.unplanned, list(made.parts)) == ((one.key,), [fine.key])
