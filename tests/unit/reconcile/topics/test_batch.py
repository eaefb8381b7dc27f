"""A batch of topics is read and changed together, and each topic has its own outcome."""

import pytest
from tests.unit.reconcile.examples import known, state, topic
from tests.unit.reconcile.memory import MemoryKafka, reconciled

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy

REFUSED = Failure(Reason.INVALID_CONFIG, "Kafka says INVALID_CONFIG", Remedy.SPEC)
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "Kafka says REQUEST_TIMED_OUT", Remedy.RETRY)
FAIR = ((0, 3, 2), (3, 1, 2), (4, 2, 0))


def kafka(*names, **options):
    """Return a Kafka that has these topics."""
    return MemoryKafka(dict.fromkeys(names, FAIR), {name: {} for name in names}, **options)


async def outcomes(topics, admin):
    return {outcome.topic.topic_name: outcome for outcome in await reconciled(topics, state(), admin)}


async def test_batch_makes_one_call_of_each_kind():
    admin = kafka("b", "c")
    topics = [topic("a"), topic("b", partitions=5), topic("c", config={"retention.ms": 1}), topic("d")]
    found = await outcomes(topics, admin)
    assert admin.made("create_topics") == [["a", "d"]]
    assert admin.made("create_partitions") == [["b"]]
    assert admin.made("alter_configs") == [["c"]]
    looked = admin.made("describe_topics")
    assert looked == [["a", "b", "c", "d"], ["d"], ["a", "b", "c"]], (
        "all topics to decide, then the last change, then the other changes"
    )
    assert all(outcome.settled and outcome.problem is None for outcome in found.values())
    assert len(found["b"].seen.replicas) == 5
    assert found["c"].config.own == {"retention.ms": "1"}


async def test_topics_that_match_their_specs_cost_two_calls_and_no_change():
    admin = kafka("a", "b")
    await outcomes([topic("a"), topic("b")], admin)
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]


async def test_refused_topic_does_not_affect_others():
    admin = kafka(refusing={"bad": REFUSED})
    found = await outcomes([topic("a"), topic("bad"), topic("b")], admin)
    assert found["bad"].problem == REFUSED
    assert found["a"].problem is found["b"].problem is None
    assert set(admin.replicas) == {"a", "b"}


async def test_topic_that_cannot_be_read_does_not_affect_others():
    admin = kafka("a", "bad", refusing={"bad": AWAY})
    found = await outcomes([topic("a", partitions=4), topic("bad", partitions=4)], admin)
    assert found["bad"].problem == AWAY
    assert len(admin.replicas["a"]) == 4


async def test_infeasible_topic_does_not_affect_others():
    found = await outcomes([topic("a"), topic("bad", replicationFactor=7)], kafka())
    assert found["bad"].problem.reason == "Infeasible"
    assert found["a"].seen is not None


async def test_call_that_fails_as_a_whole_affects_only_its_topics():
    admin = kafka("b", broken={"create_topics": AWAY})
    found = await outcomes([topic("a"), topic("b", partitions=4)], admin)
    assert found["a"].problem == AWAY
    assert found["b"].problem is None
    assert len(admin.replicas["b"]) == 4


async def test_failure_of_the_call_for_all_topics_is_raised():
    with pytest.raises(FailureError):
        await reconciled([topic("a")], state(), kafka(broken={"describe_topics": AWAY}))


async def test_new_topic_is_read_again_until_brokers_show_it():
    admin = kafka(lag=2)
    found = await outcomes([topic("a")], admin)
    assert found["a"].settled
    assert found["a"].seen.topic_id == "id-of-a"
    assert len(admin.made("describe_topics")) == 4


async def test_topic_that_brokers_do_not_show_in_time_is_not_settled(monkeypatch):
    monkeypatch.setattr("rackspan.reconcile.topics.batch._READ_BACK_SECONDS", 0.05)
    found = await outcomes([topic("a")], kafka(lag=10_000))
    assert not found["a"].settled
    assert found["a"].seen is None


async def test_paused_topic_is_only_read():
    admin = kafka("a")
    paused = topic("a", partitions=5, config={"retention.ms": 1}, annotations={"rackspan.dev/paused": "true"})
    found = await outcomes([paused], admin)
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]
    assert found["a"].decision.idle
    assert found["a"].paused_decision.summary == "grow to 5 partitions; set retention.ms=1"


async def test_topic_with_another_id_is_not_changed():
    admin = kafka("a")
    found = await outcomes([topic("a", partitions=5, status=known("another-id"))], admin)
    assert found["a"].is_foreign
    assert admin.replicas["a"] == FAIR


async def test_topic_without_known_configuration_is_stale_and_not_changed():
    admin = kafka("a", without_config={"a"})
    admin.own["a"] = {"retention.ms": "1"}
    found = await outcomes([topic("a", config={"retention.ms": 1}, partitions=5)], admin)
    assert found["a"].is_stale
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]


async def test_topics_of_one_batch_get_leaders_spread_evenly_over_brokers():
    topics = [topic(str(number), partitions=1, replicationFactor=1) for number in range(60)]
    admin = kafka()
    await outcomes(topics, admin)
    led = [rows[0][0] for rows in admin.replicas.values()]
    assert {led.count(broker) for broker in range(6)} == {10}


async def test_refused_topic_does_not_count_as_load_for_later_placements():
    where = state()
    await reconciled([topic("bad")], where, kafka(refusing={"bad": REFUSED}))
    await reconciled([topic("worse")], where, kafka(broken={"create_topics": AWAY}))
    assert not where.load.holders
    await reconciled([topic("good")], where, kafka(refusing={"bad": REFUSED}))
    assert where.load.replicas.total() == 9
    assert where.load.leaders.total() == 3


async def test_topic_with_fewer_partitions_than_its_status_is_stale_and_not_grown():
    admin = kafka("a")
    grown = topic("a", partitions=5, status=known("id-of-a", partitions=5))
    found = await outcomes([grown], admin)
    assert found["a"].is_stale
    assert admin.made("create_partitions") == []


async def test_topic_left_out_by_prepare_is_not_created_and_adds_no_load():
    admin, where = kafka(), state()

    async def prepare(outcomes):
        assert admin.made("create_topics") == []
        return [outcome.topic.key for outcome in outcomes if outcome.topic.topic_name == "a"]

    made = await reconciled([topic("a"), topic("b")], where, admin, prepare)
    assert [outcome.topic.topic_name for outcome in made] == ["b"]
    assert admin.made("create_topics") == [["b"]]
    assert where.load.replicas.total() == 9


async def test_changes_of_an_object_that_changes_during_earlier_calls_are_not_sent():
    admin, where = kafka("grown", "configured", "same"), state()
    changed = set()
    create = admin.create_topics

    async def created(topics):
        changed.update(("grown", "configured"))
        return await create(topics)

    admin.create_topics = created
    topics = [
        topic("new"),
        topic("grown", partitions=5),
        topic("configured", config={"retention.ms": 1}),
        topic("same", config={"retention.ms": 1}),
    ]
    found = await reconciled(topics, where, admin, is_current=lambda topic: topic.topic_name not in changed)
    assert [outcome.topic.topic_name for outcome in found] == ["new", "same"]
    assert (admin.made("create_partitions"), admin.made("alter_configs")) == ([], [["same"]])
    assert where.load.replicas.total() == 9, "only the new topic has added load"


async def test_partitions_that_were_added_are_reported_although_the_object_has_changed_since():
    admin = kafka("a")
    grown = topic("a", partitions=5, config={"retention.ms": 1})
    (found,) = await reconciled([grown], state(), admin, is_current=lambda _: not admin.made("create_partitions"))
    assert len(found.seen.replicas) == 5
    assert found.settled
    assert admin.made("alter_configs") == []
