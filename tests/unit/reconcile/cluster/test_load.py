"""The load of brokers is the replicas in Kafka and those just placed, at any time of a recount."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.cluster import state
from rackspan.reconcile.cluster.state import BrokerLoad
from rackspan.reconcile.ports import ReplicaCounts


class LaggingKafka:
    """A controller, and a broker that may lag: it returns only the topics in `shown`."""

    def __init__(self):
        self.topics, self.shown = {}, {}
        self.asked, self.answering = asyncio.Event(), asyncio.Event()
        self.answering.set()

    async def replica_counts(self, without=()):
        self.asked.set()
        await self.answering.wait()
        rows = [row for name, topic in self.shown.items() if name not in without for row in topic]
        return ReplicaCounts(Counter(one for row in rows for one in row), Counter(row[0] for row in rows))


def counts(topics):
    rows = [row for topic in topics.values() for row in topic]
    return Counter(broker for row in rows for broker in row), Counter(row[0] for row in rows)


def of(load):
    return +load.replicas, +load.leaders


ROWS = st.lists(st.permutations(range(4)).map(lambda row: tuple(row[:2])), min_size=1, max_size=3).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.sampled_from("abc"), ROWS),
        st.tuples(st.sampled_from(["commit", "refuse", "show"]), st.sampled_from("abc"), st.none()),
        st.tuples(st.sampled_from(["count", "answer"]), st.none(), st.none()),
    ),
    max_size=25,
)


@given(STEPS)
def test_placed_replicas_are_counted_exactly_once_at_any_time_of_a_recount(steps):
    asyncio.run(_load_is_what_there_is(steps))


async def _load_is_what_there_is(steps):
    kafka, load, flying, count = LaggingKafka(), BrokerLoad(ReplicaCounts({}, {})), {}, None
    kafka.topics["others"] = kafka.shown["others"] = ((3, 0), (0, 1))
    await load.recount(kafka)
    for step, name, rows in [*steps, ("answer", None, None), ("count", None, None)]:
        if step == "place" and name not in flying and count is None:  # placements wait for a count in progress
            flying[name] = rows
            load.add(name, rows, kafka.topics.get(name, ()))
        elif step == "commit" and name in flying:
            kafka.topics[name] = kafka.topics.get(name, ()) + flying.pop(name)
        elif step == "refuse" and name in flying:
            del flying[name]
            load.remove(name)
        elif step == "show" and name in kafka.topics:
            kafka.shown[name] = kafka.topics[name]
        elif step == "count" and count is None:
            kafka.answering.clear()
            kafka.asked.clear()
            count = asyncio.create_task(load.recount(kafka))
            await kafka.asked.wait()
        elif step == "answer" and count is not None:
            kafka.answering.set()
            await count
            count = None
    kafka.answering.set()
    if count is not None:
        await count
    there = {name: kafka.topics.get(name, ()) + flying.get(name, ()) for name in {*kafka.topics, *flying}}
    assert of(load) == counts(there)


async def test_old_placement_is_replaced_by_the_count_of_kafka(monkeypatch):
    monkeypatch.setattr(state, "_PLACED_SECONDS", 0.0)
    kafka, load = LaggingKafka(), BrokerLoad(ReplicaCounts({}, {}))
    load.add("a", ((0, 1),))
    await load.recount(kafka)
    assert of(load) == counts({}), "another client has deleted the topic"


async def test_placement_that_is_moved_during_a_count_is_counted_once():
    kafka, load = LaggingKafka(), BrokerLoad(ReplicaCounts({}, {}))
    load.add("a", ((0, 1),))
    kafka.shown["a"] = ((0, 1),)
    kafka.answering.clear()
    count = asyncio.create_task(load.recount(kafka))
    await kafka.asked.wait()
    settling = asyncio.create_task(load.settle(["a"]))
    await asyncio.sleep(0)
    kafka.answering.set()
    await asyncio.gather(count, settling)
    assert of(load) == counts({"a": ((0, 1),)})


async def test_placement_that_is_moved_is_replaced_by_the_count_of_kafka():
    kafka, load = LaggingKafka(), BrokerLoad(ReplicaCounts({}, {}))
    load.add("a", ((0, 1),))
    await load.settle(["a", "never placed"])
    assert of(load) == counts({"a": ((0, 1),)})
    kafka.shown["a"] = ((2, 3),)
    await load.recount(kafka)
    assert of(load) == counts(kafka.shown)


@pytest.mark.parametrize("name", ["a", "of nobody"])
async def test_placement_that_is_refused_twice_is_subtracted_once(name):
    load = BrokerLoad(ReplicaCounts({0: 5}, {0: 5}))
    load.add("a", ((0, 1),))
    load.remove(name)
    load.remove("a")
    load.remove(name)
    assert of(load) == (Counter({0: 5}), Counter({0: 5}))


async def test_placements_wait_for_a_count_in_progress():
    kafka, load = LaggingKafka(), BrokerLoad(ReplicaCounts({}, {}))
    kafka.answering.clear()
    counting = asyncio.create_task(load.recount(kafka))
    await kafka.asked.wait()
    assert load.turn.locked()
    kafka.answering.set()
    await counting
    assert not load.turn.locked()
