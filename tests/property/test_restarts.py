"""Restarts by the operator under faults: one broker at a time, none that a partition needs, none repeatedly."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulated_restarts import RESTART, RestartWorld, SimulatedBroker

from rackspan.core.availability import shortfalls_without
from rackspan.core.partitions import InSync

SIZE = 5
brokers = st.integers(0, SIZE - 1)
replicas = st.permutations(range(SIZE)).flatmap(lambda order: st.integers(1, 4).map(lambda size: tuple(order[:size])))
actions = st.one_of(
    st.tuples(st.just("relabel"), brokers, st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("publish"), brokers, st.just("")),
    st.tuples(st.just("crash"), brokers, st.just("")),
    st.tuples(st.just("fail"), brokers, st.sampled_from(["write", "evict", "refuse", "late"])),
    st.tuples(st.just("operator"), brokers, st.just("")),
    st.tuples(st.just("budget"), brokers, st.just("")),
    st.tuples(st.just("ask"), brokers, st.just("")),
    st.tuples(st.just("kafka"), brokers, st.just("")),
    *[st.tuples(st.just("wait"), st.integers(1, 60), st.just(""))] * 4,
)


async def lived(one, todo, hopeless):
    """Run all events, then end all faults, and wait until all possible restarts are complete."""
    happens = {
        "relabel": lambda number, text: one.relabel(number, text, published=False),
        "publish": lambda *_: one.published.update(one.zones),
        "crash": lambda number, _: one.crash(number),
        "fail": lambda _, text: one.failing.add(text),
        "operator": lambda *_: one.restart_operator(),
        "budget": lambda *_: setattr(one, "budget", not one.budget),
        "ask": lambda number, _: one.change(annotations={RESTART: str(number)}),
        "kafka": lambda *_: setattr(one, "hidden", not one.hidden),
    }
    for what, number, text in todo:
        if what == "wait":
            await one.run(5 * number)
        else:
            happens[what](number, text)
    one.published.update(one.zones)
    one.budget, one.hidden, one.failing = True, False, set()
    one.change()  # a request for a broker that cannot be spared waits until a user removes it
    for _ in range(SIZE * 10):
        await one.run(120)
        restarts = one.topology.status.restarts
        if one.drifted <= hopeless and (restarts is None or restarts.current is None):
            break


@given(
    st.lists(replicas, min_size=1, max_size=8),
    st.integers(1, 3),
    st.sets(brokers),
    st.lists(actions, max_size=25),
    st.sampled_from(["Report", "Hold"]),
    st.booleans(),
)
def test_restarts_keep_partitions_available_and_fix_all_rack_drift_that_can_be_fixed(
    rows, min_insync, stubborn, todo, without_spare, renames
):
    there = {id_: SimulatedBroker(id_, "a", takes_rack=id_ not in stubborn) for id_ in range(SIZE)}
    topics = [("t", row) for row in rows]
    one = RestartWorld(there, topics, min_insync, without_spare=without_spare, renames=renames)
    one.change()
    holds = without_spare == "Hold"
    needed = {id_ for row in rows for id_ in row if holds and len(row) - 1 < max(1, min(min_insync, len(row)))}
    asyncio.run(lived(one, todo, stubborn | needed))
    assert one.wrong == []
    assert one.drifted <= stubborn | needed
    # No second restart for the same rack, unless another rack, a request or a lost response came in between.
    changes = Counter(number for what, number, _ in todo if what in ("relabel", "ask"))
    assert all(count <= changes[id_] + 1 for id_, count in Counter(id_ for id_, _ in one.evicted).items())


partitions = st.builds(
    lambda topic, row, kept: InSync(topic, 0, row, frozenset(row[:kept])),
    st.sampled_from("ab"),
    replicas,
    st.integers(0, 4),
)


@given(brokers, st.lists(partitions, max_size=6), st.dictionaries(st.sampled_from("ab"), st.integers(0, 4)))
def test_shortfalls_without_a_broker_match_a_direct_count(broker, seen, min_insync):
    wanted = [
        one
        for one in seen
        if broker in one.replicas
        and (
            one.topic not in min_insync
            or sum(id_ != broker for id_ in one.in_sync) < max(1, min(min_insync[one.topic], len(one.replicas)))
        )
    ]
    found = shortfalls_without(broker, seen, min_insync)
    assert [(one.topic, one.partition) for one in found] == [(one.topic, one.partition) for one in wanted]
    assert [one.lasting for one in found] == [
        one.in_sync >= set(one.replicas) and (one.topic in min_insync or one.replicas == (broker,)) for one in wanted
    ]
    assert all(one.left == len(want.in_sync - {broker}) for one, want in zip(found, wanted, strict=True))
