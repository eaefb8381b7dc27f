"""Plans are made together, kept while nothing that they were made from changed, and made anew when it did."""

from collections import Counter

from tests.unit.reconcile.scenes import EVEN, scene, seen, topic

from rackspan.reconcile.plans import Plans

CROWDED = ((0, 3, 1), (1, 4, 2))  # of EVEN: two replicas in one zone


async def test_topics_do_not_all_choose_the_emptiest_broker():
    topics = [topic(f"t{number}", partitions=1) for number in range(12)]
    found = [(one, seen((0, 3, 1), name=one.topic_name)) for one in topics]
    made = await Plans().of(found, scene(EVEN))
    given = Counter(
        broker for plan in made.values() for change in plan.changes for broker in set(change.replicas) - {0, 3, 1}
    )
    assert set(given.values()) == {6}


async def test_plans_made_later_see_the_earlier_ones_as_carried_out():
    plans, where = Plans(), scene(EVEN)
    given = Counter()
    for number in range(12):
        one = topic(f"t{number}", partitions=1)
        made = await plans.of([(one, seen((0, 3, 1), name=one.topic_name))], where)
        given.update(set(made[one.key].changes[0].replicas) - {0, 3, 1})
    assert set(given.values()) == {6}


async def test_a_plan_is_kept_while_its_topic_and_the_brokers_are_the_same():
    plans, one = Plans(), topic("one", partitions=2)
    first = (await plans.of([(one, seen(*CROWDED))], scene(EVEN)))[one.key]
    busy = scene(EVEN)
    busy.load.replicas.update({2: 100, 5: 100})
    assert (await plans.of([(one, seen(*CROWDED))], busy))[one.key] is first
    assert (await plans.of([(one, seen(CROWDED[0], (1, 2, 3)))], busy))[one.key].hash != first.hash


async def test_a_plan_is_made_anew_when_the_spec_or_the_brokers_change():
    plans, where = Plans(), scene(EVEN)
    one, other = topic("one", partitions=2), topic("one", partitions=2, replicationFactor=2)
    first = (await plans.of([(one, seen(*CROWDED))], where))[one.key]
    assert (await plans.of([(other, seen(*CROWDED))], where))[one.key].hash != first.hash
    moved = scene({**EVEN, 3: "/z1"})
    assert (await plans.of([(one, seen(*CROWDED))], moved))[one.key].hash != first.hash


async def test_the_same_topics_get_the_same_plans_from_an_operator_that_has_just_started():
    found = [(topic(f"t{number}", partitions=2), seen(*CROWDED, name=f"t{number}")) for number in range(5)]
    first, second = await Plans().of(found, scene(EVEN)), await Plans().of(found[::-1], scene(EVEN))
    assert first == second


async def test_a_topic_on_a_broker_whose_rack_is_not_known_has_no_plan():
    one = topic("one", partitions=1)
    assert await Plans().of([(one, seen((0, 1, 6)))], scene({**EVEN, 6: None})) == {}
