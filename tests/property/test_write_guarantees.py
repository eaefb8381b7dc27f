"""Write guarantees, compared with every set of replicas that may have acknowledged a write."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases
from tests.property.strategies import LEVELS, trees

from rackspan.core.durability import Durability, insync_bounds, write_guarantees


def padded(rows):
    width = max(map(len, rows))
    return np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=np.int64).reshape(len(rows), width)


def place(tree, broker, depth):
    """Return the domain of a broker, or None for an unknown broker, which may be in any domain."""
    if depth > len(tree.levels):
        return broker
    paths = {b.id: (b.rack + ("",) * len(LEVELS))[:depth] for b in tree.brokers}
    return paths.get(broker)


def holders(row, least):
    """Return every set of replicas that can be in sync when a write is acknowledged."""
    return [chosen for size in range(least, len(row) + 1) for chosen in combinations(row, size)]


@st.composite
def topics(draw, tree):
    ids = [broker.id for broker in tree.brokers]
    one = st.permutations(ids).flatmap(lambda order: st.integers(1, len(order)).map(lambda size: order[:size]))
    rows = draw(st.lists(one, min_size=1, max_size=5))
    topic = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    least = draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))
    return rows, topic, least


@given(trees(most=6, spoiled=True), st.data())
def test_write_guarantees_are_those_of_the_worst_set_of_in_sync_replicas(tree, data):
    rows, topic, least = data.draw(topics(tree))
    found = write_guarantees(tree, padded(rows), np.array(topic), np.array(least))
    assert sorted(found) == sorted(set(topic))
    for at, guarantee in found.items():
        of_topic = [row for row, other in zip(rows, topic, strict=True) if other == at]
        assert (guarantee.min_insync, guarantee.replicas) == (least[at], min(map(len, of_topic)))
        assert [one.level for one in guarantee.levels] == [*tree.levels, "broker"]
        for depth, one in enumerate(guarantee.levels, 1):
            sets = [
                ({place(tree, broker, depth) for broker in chosen}, row)
                for row in of_topic
                for chosen in holders(row, min(least[at], len(row)))
            ]
            assert one.domains == min(len(domains) for domains, _ in sets)
            lost = {place(tree, broker, depth) for row in of_topic for broker in row}
            assert one.keeps_writes == all(domains - {gone} for domains, _ in sets for gone in lost)
            assert one.stays_writable == all(
                sum(place(tree, broker, depth) != gone for broker in row) >= min(least[at], len(row))
                for row in of_topic
                for gone in lost
            )
    cases.counted()


@given(trees(most=6), st.data())
def test_write_guarantees_agree_with_the_bounds_that_min_insync_is_derived_from(tree, data):
    rows, _, _ = data.draw(topics(tree))
    rows = [[*row, 999] if data.draw(st.booleans()) else row for row in rows]
    for least in range(1, min(map(len, rows)) + 1):
        found = write_guarantees(tree, padded(rows), np.zeros(len(rows), dtype=np.int64), np.array([least]))[0]
        for level in tree.levels:
            one = next(one for one in found.levels if one.level == level)
            needed, _ = insync_bounds(tree, padded(rows), Durability({level: one.domains}))
            assert needed.max() <= least
            more, _ = insync_bounds(tree, padded(rows), Durability({level: one.domains + 1}))
            assert more.max() > least
            _, allowed = insync_bounds(tree, padded(rows), Durability({}, {level: 1}))
            assert one.stays_writable == bool(allowed.min() >= least)
    cases.counted()


@given(trees(most=5), st.data())
def test_unknown_broker_counts_as_in_the_worst_possible_domain(tree, data):
    rows, topic, least = data.draw(topics(tree))
    with_ghost = [[*row, 999] for row in rows]
    found = write_guarantees(tree, padded(with_ghost), np.array(topic), np.array(least))
    for at, guarantee in found.items():
        for depth, one in enumerate(guarantee.levels[:-1], 1):
            worst = min(
                len({place(tree, broker, depth) if broker != 999 else where for broker in chosen})
                for row, other in zip(with_ghost, topic, strict=True)
                if other == at
                for where in {place(tree, broker, depth) for broker in row if broker != 999}
                for chosen in holders(row, min(least[at], len(row)))
            )
            assert one.domains == worst
    cases.counted()
