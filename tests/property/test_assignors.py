"""Rack-aware assignment of small groups, compared with every possible assignment."""

from itertools import product

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property import cases

from rackspan.core.consumers.assignors import Readers, assign_evenly, assign_ranges


@st.composite
def groups(draw, *, most_members=4, most_partitions=6):
    """Draw members, domains and partitions that are few enough to try all assignments."""
    members, domains, topics = draw(st.integers(1, most_members)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    domain = draw(st.lists(st.integers(-1, domains - 1), min_size=members, max_size=members))
    sizes = draw(st.lists(st.integers(1, 3), min_size=topics, max_size=topics))
    rows = [(topic, number) for topic, size in enumerate(sizes) for number in range(size)][:most_partitions]
    alike = draw(st.booleans())
    subscribed = np.array(
        [[alike or draw(st.booleans()) for _ in range(topics)] for _ in range(members)], dtype=bool
    ).reshape(members, topics)
    subscribed[0] |= ~subscribed.any(axis=0)
    near = [[draw(st.booleans()) for _ in range(domains)] for _ in rows]
    return readers(rows, near, domain, subscribed)


def readers(rows, near, domain, subscribed):
    topic, number = np.array(rows, dtype=np.int64).T
    return Readers(topic, number, np.array(near, dtype=bool), np.array(domain), np.array(subscribed, dtype=bool))


@st.composite
def chains(draw):
    """Draw members that share topics with the next members only, so that partitions pass along a chain."""
    members, width, domains = draw(st.integers(2, 6)), draw(st.integers(1, 2)), draw(st.integers(1, 6))
    sizes = [draw(st.integers(1, 4)), *[1] * (members + width - 1)][:: draw(st.sampled_from([1, -1]))]
    rows = [(topic, number) for topic, size in enumerate(sizes) for number in range(size)][:7]
    step = np.arange(len(sizes)) - np.arange(members)[:, None]
    near = [[draw(st.booleans()) for _ in range(domains)] for _ in rows]
    domain = draw(st.lists(st.integers(-1, domains - 1), min_size=members, max_size=members))
    return readers(rows, near, domain, (step >= 0) & (step <= width))


def nearness(group, owner):
    """Return how many partitions have a replica in the domain of their reader, counted one by one."""
    pairs = ((row, int(group.domain[member])) for row, member in enumerate(owner))
    return sum(domain >= 0 and bool(group.near[row, domain]) for row, domain in pairs)


def counts(group, owner, rows):
    return [sum(owner[row] == member for row in rows) for member in range(len(group.domain))]


def unevenness(numbers):
    return sum(number * number for number in numbers)


def permitted(group):
    """Return every assignment that the subscriptions allow."""
    return product(*(np.flatnonzero(group.subscribed[:, topic]).tolist() for topic in group.topic.tolist()))


def rows_of(group, topic):
    return [row for row, other in enumerate(group.topic.tolist()) if other == topic]


def bundles(group):
    """Return the co-partitioned topics, as lists of rows with one row list per topic."""
    found = {}
    for topic in sorted(set(group.topic.tolist())):
        rows = rows_of(group, topic)
        key = tuple(group.subscribed[:, topic]), tuple(group.number[row] for row in rows)
        found.setdefault(key, []).append(rows)
    return list(found.values())


@given(groups() | chains())
def test_even_assignment_has_the_most_near_partitions_of_all_most_even_ones(group):
    found = assign_evenly(group)
    everyone = range(len(group.topic))
    every = [(unevenness(counts(group, owner, everyone)), nearness(group, owner)) for owner in permitted(group)]
    least = min(uneven for uneven, _ in every)
    assert found.near == max(near for uneven, near in every if uneven == least)
    assert unevenness(counts(group, found.owner, everyone)) == least
    assert found.near == nearness(group, found.owner)
    assert group.subscribed[found.owner, group.topic].all()
    cases.counted()


def is_range(group, owner):
    """Return whether each topic is split evenly among its subscribers, and co-partitioned topics in the same way."""
    for bundle in bundles(group):
        subscribers = np.flatnonzero(group.subscribed[:, group.topic[bundle[0][0]]])
        numbers = np.array(counts(group, owner, bundle[0]))[subscribers]
        if numbers.max() - numbers.min() > 1 or any(
            [owner[r] for r in rows] != [owner[r] for r in bundle[0]] for rows in bundle
        ):
            return False
    return True


@given(groups())
def test_range_assignment_has_the_most_near_partitions_of_all_range_assignments(group):
    found = assign_ranges(group)
    assert is_range(group, found.owner.tolist())
    assert found.near == max(nearness(group, owner) for owner in permitted(group) if is_range(group, owner))
    assert found.near == nearness(group, found.owner)
    assert group.subscribed[found.owner, group.topic].all()
    cases.counted()


def kafkas_range(group):
    """Assign as the Java client's `range` (KIP-881): to the first matching member with room, then to any with room."""
    owner = [-1] * len(group.topic)
    for bundle in bundles(group):
        members = np.flatnonzero(group.subscribed[:, group.topic[bundle[0][0]]]).tolist()
        floor, extra = divmod(len(bundle[0]), len(members))
        held = dict.fromkeys(members, 0)
        numbers = range(len(bundle[0]))
        one_by_one = [(member, at) for at in numbers for member in members]
        member_by_member = [(member, at) for member in members for at in numbers]
        for pairs, matching in ((one_by_one if len(bundle) > 1 else member_by_member, True), (member_by_member, False)):
            for member, at in pairs:
                extras = sum(number > floor for number in held.values())
                if owner[bundle[0][at]] >= 0 or held[member] >= floor + (extras < extra):
                    continue
                domain = int(group.domain[member])
                if not matching or (domain >= 0 and all(group.near[rows[at], domain] for rows in bundle)):
                    held[member] += 1
                    for rows in bundle:
                        owner[rows[at]] = member
    return owner


GREED = readers([(0, 0), (0, 1)], [[True, True], [True, False]], [0, 1], [[True], [True]])
"""Both partitions are near the first member. Only the first partition is also near the second member."""


@given(groups(most_members=6, most_partitions=9))
@example(GREED)
def test_range_of_kafka_is_a_range_assignment_and_never_has_more_near_partitions(group):
    owner = kafkas_range(group)
    assert is_range(group, owner)
    assert nearness(group, owner) <= assign_ranges(group).near
    cases.counted()


def test_range_of_kafka_can_miss_the_optimum():
    assert nearness(GREED, kafkas_range(GREED)) == 1
    assert assign_ranges(GREED).near == assign_evenly(GREED).near == 2


@given(groups(most_members=6, most_partitions=9))
def test_counts_differ_by_at_most_one_if_all_members_subscribe_to_all_topics(group):
    everything = Readers(group.topic, group.number, group.near, group.domain, np.ones_like(group.subscribed))
    numbers = np.bincount(assign_evenly(everything).owner, minlength=len(group.domain))
    assert numbers.max() - numbers.min() <= 1
    cases.counted()


@given(groups(most_members=6, most_partitions=9))
def test_range_and_even_assignment_of_a_single_topic_have_equally_many_near_partitions(group):
    one_topic = Readers(
        np.zeros_like(group.topic),
        np.arange(len(group.topic)),
        group.near,
        group.domain,
        group.subscribed[:, :1] | True,
    )
    assert assign_ranges(one_topic).near == assign_evenly(one_topic).near
    cases.counted()
