"""A batch of topics: observed together, acted on together, and each with an outcome of its own."""

import pytest
from tests.unit.reconcile.examples import known, state, topic
from tests.unit.reconcile.memory import MemoryKafka, reconciled

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy

REFUSED = Failure(Reason.INVALID_CONFIG, "Kafka says INVALID_CONFIG", Remedy.SPEC)
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "Kafka says REQUEST_TIMED_OUT", Remedy.RETRY)
FAIR = ((0, 3, 2), (3, 1, 2), (4, 2, 0))


def kafka(*names, **options):
    """A Kafka that has these topics."""
    return MemoryKafka(dict.fromkeys(names, FAIR), {name: {} for name in names}, **options)


async def outcomes(topics, admin):
    return {outcome.topic.topic_name: outcome for outcome in await reconciled(topics, state(), admin)}


async def test_a_batch_is_one_call_of_each_kind():
    admin = kafka("b", "c")
    topics = [topic("a"), topic("b", partitions=5), topic("c", config={"retention.ms": 1}), topic("d")]
    found = await outcomes(topics, admin)
    assert admin.made("create_topics") == [["a", "d"]]
    assert admin.made("create_partitions") == [["b"]]
    assert admin.made("alter_configs") == [["c"]]
    looked = admin.made("describe_topics")
    assert looked == [["a", "b", "c", "d"], ["d"], ["a", "b", "c"]], (
        "to decide; then the last that was done; then the rest"
    )
    assert all(outcome.settled and outcome.problem is None for outcome in found.values())
    assert len(found["b"].seen.replicas) == 5
    assert found["c"].config.own == {"retention.ms": "1"}


async def test_what_is_in_place_costs_two_calls_and_no_change():
    admin = kafka("a", "b")
    await outcomes([topic("a"), topic("b")], admin)
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]


async def test_one_refusal_is_nobody_else_s():
    admin = kafka(refusing={"bad": REFUSED})
    found = await outcomes([topic("a"), topic("bad"), topic("b")], admin)
    assert found["bad"].problem == REFUSED
    assert found["a"].problem is found["b"].problem is None
    assert set(admin.replicas) == {"a", "b"}


async def test_a_topic_that_cannot_be_read_is_nobody_else_s_problem():
    admin = kafka("a", "bad", refusing={"bad": AWAY})
    found = await outcomes([topic("a", partitions=4), topic("bad", partitions=4)], admin)
    assert found["bad"].problem == AWAY
    assert len(admin.replicas["a"]) == 4


async def test_what_cannot_be_decided_is_nobody_else_s_problem():
    found = await outcomes([topic("a"), topic("bad", replicationFactor=7)], kafka())
    assert found["bad"].problem.reason == "Infeasible"
    assert found["a"].seen is not None


async def test_a_call_that_fails_as_a_whole_fails_its_own_topics_only():
    admin = kafka("b", broken={"create_topics": AWAY})
    found = await outcomes([topic("a"), topic("b", partitions=4)], admin)
    assert found["a"].problem == AWAY
    assert found["b"].problem is None
    assert len(admin.replicas["b"]) == 4


async def test_where_kafka_answers_for_none_it_is_the_caller_s():
    with pytest.raises(FailureError):
        await reconciled([topic("a")], state(), kafka(broken={"describe_topics": AWAY}))


async def test_brokers_may_take_a_moment_to_show_what_was_made():
    admin = kafka(lag=2)
    found = await outcomes([topic("a")], admin)
    assert found["a"].settled
    assert found["a"].seen.topic_id == "id-of-a"
    assert len(admin.made("describe_topics")) == 4


async def test_what_brokers_do_not_show_in_time_is_left_to_a_later_pass(monkeypatch):
    monkeypatch.setattr("rackspan.reconcile.topics.batch._READ_BACK_SECONDS", 0.05)
    found = await outcomes([topic("a")], kafka(lag=10_000))
    assert not found["a"].settled
    assert found["a"].seen is None


async def test_a_paused_topic_is_observed_and_nothing_else():
    admin = kafka("a")
    paused = topic("a", partitions=5, config={"retention.ms": 1}, annotations={"rackspan.dev/paused": "true"})
    found = await outcomes([paused], admin)
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]
    assert found["a"].decision.idle
    assert found["a"].paused_decision.summary == "grow to 5 partitions; set retention.ms=1"


async def test_a_topic_of_somebody_else_is_guarded():
    admin = kafka("a")
    found = await outcomes([topic("a", partitions=5, status=known("another-id"))], admin)
    assert found["a"].is_foreign
    assert admin.replicas["a"] == FAIR


async def test_without_its_configuration_a_topic_is_not_decided_about():
    admin = kafka("a", without_config={"a"})
    admin.own["a"] = {"retention.ms": "1"}
    found = await outcomes([topic("a", config={"retention.ms": 1}, partitions=5)], admin)
    assert found["a"].is_stale
    assert [name for name, _ in admin.calls] == ["describe_topics", "describe_configs"]


async def test_topics_of_one_batch_share_the_load():
    topics = [topic(str(number), partitions=1, replicationFactor=1) for number in range(60)]
    admin = kafka()
    await outcomes(topics, admin)
    led = [rows[0][0] for rows in admin.replicas.values()]
    assert {led.count(broker) for broker in range(6)} == {10}


async def test_what_kafka_refuses_weighs_on_no_later_placement():
    where = state()
    await reconciled([topic("bad")], where, kafka(refusing={"bad": REFUSED}))
    await reconciled([topic("worse")], where, kafka(broken={"create_topics": AWAY}))
    assert not where.load.holders
    await reconciled([topic("good")], where, kafka(refusing={"bad": REFUSED}))
    assert where.load.replicas.total() == 9
    assert where.load.leaders.total() == 3


async def test_a_broker_that_has_not_heard_of_new_partitions_yet_is_not_believed():
    admin = kafka("a")
    grown = topic("a", partitions=5, status=known("id-of-a", partitions=5))
    found = await outcomes([grown], admin)
    assert found["a"].is_stale
    assert admin.made("create_partitions") == []


async def test_what_cannot_be_recorded_is_not_made_and_weighs_on_nothing():
    admin, where = kafka(), state()

    async def prepare(outcomes):
        assert admin.made("create_topics") == []
        return [outcome.topic.key for outcome in outcomes if outcome.topic.topic_name == "a"]

    made = await reconciled([topic("a"), topic("b")], where, admin, prepare)
    assert [outcome.topic.topic_name for outcome in made] == ["b"]
    assert admin.made("create_topics") == [["b"]]
    assert where.load.replicas.total() == 9
