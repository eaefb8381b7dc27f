"""Rack-aware assignment for small groups. `tests/property` compares random groups with an oracle."""

import json
import tracemalloc

import numpy as np
import pytest
from dev.paths import REPOSITORY

from rackspan.core.consumers import assignors
from rackspan.core.consumers.assignors import Readers, assign_evenly, assign_ranges

CASES = json.loads((REPOSITORY / "plugins/cases/assignment.json").read_text())
"""The tests of the brokers' assignor use these cases too (`tests/plugins`)."""


def readers(near, domain, topic=None, number=None, subscribed=None):
    near = np.array(near, dtype=bool)
    topic = np.zeros(len(near), dtype=np.int64) if topic is None else np.array(topic)
    if subscribed is None:
        subscribed = np.ones((len(domain), int(topic.max(initial=0)) + 1), dtype=bool)
    number = np.arange(len(near)) if number is None else np.array(number)
    return Readers(topic, number, near, np.array(domain), np.array(subscribed, dtype=bool))


def loads(group, owner):
    return np.bincount(owner, minlength=len(group.domain)).tolist()


def test_partitions_go_to_near_members_if_the_counts_stay_balanced():
    group = readers([[1, 0], [0, 1], [1, 0], [0, 1]], [0, 1])
    found = assign_evenly(group)
    assert (found.owner.tolist(), found.near) == ([0, 1, 0, 1], 4)


def test_balance_has_priority_over_locality():
    found = assign_evenly(readers([[1, 0]] * 6, [0, 1]))
    assert sorted(found.owner.tolist()) == [0, 0, 0, 1, 1, 1]
    assert found.near == 3


def test_near_member_gets_the_extra_partition():
    group = readers([[0, 1]] * 5, [0, 1])
    assert loads(group, assign_evenly(group).owner) == [2, 3]
    assert assign_evenly(group).near == 3


def test_members_pass_partitions_along_a_chain_so_that_all_are_near():
    # Partitions 0-1 are near members 0 and 1, 2-3 near 1 and 2, 4-5 near 0 only: 0 and 1 must give way along the chain.
    near = [[1, 1, 0]] * 2 + [[0, 1, 1]] * 2 + [[1, 0, 0]] * 2
    found = assign_evenly(readers(near, [0, 1, 2]))
    assert (found.owner.tolist(), found.near) == ([1, 1, 2, 2, 0, 0], 6)


def test_member_without_a_domain_gets_the_partitions_that_are_far_from_all_members():
    group = readers([[1], [1], [0], [0]], [0, -1])
    found = assign_evenly(group)
    assert (found.owner.tolist(), found.near) == ([0, 0, 1, 1], 2)


def test_far_members_stay_idle_if_there_are_more_members_than_partitions():
    group = readers([[1, 0], [1, 0]], [1, 0, 1, 0])
    found = assign_evenly(group)
    assert sorted(found.owner.tolist()) == [1, 3]
    assert found.near == 2


def test_only_subscriber_of_a_topic_reads_it_and_the_other_members_balance_the_rest():
    subscribed = [[1, 1], [1, 0], [1, 0]]
    group = readers([[1]] * 6, [0, 0, 0], topic=[0, 0, 0, 1, 1, 1], number=[0, 1, 2] * 2, subscribed=subscribed)
    assert loads(group, assign_evenly(group).owner) in ([3, 2, 1], [3, 1, 2])
    assert loads(group, assign_ranges(group).owner) == [4, 1, 1]


def test_range_assigns_the_same_partition_number_of_all_topics_to_one_member():
    near = [[1, 0], [0, 1], [0, 1], [1, 0]]
    group = readers(near, [0, 1], topic=[0, 0, 1, 1], number=[0, 1, 0, 1])
    owner = assign_ranges(group).owner
    assert owner[0] == owner[2] != owner[1] == owner[3]
    assert assign_ranges(group).near == 2
    assert assign_evenly(group).near == 4


def test_range_balances_each_topic_and_not_the_sum():
    group = readers([[1, 0]] * 4, [0, 1, 1], topic=[0, 1, 2, 2], number=[0, 0, 0, 1])
    assert assign_ranges(group).near == 3
    assert loads(group, assign_ranges(group).owner)[0] == 3
    assert max(loads(group, assign_evenly(group).owner)) == 2


def test_large_group_is_balanced_with_the_most_near_partitions():
    chance = np.random.default_rng(7)
    near = np.zeros((9_000, 3), dtype=bool)
    near[:4_000, 0] = near[4_000:, 1] = True
    domain = chance.permutation(np.repeat([0, 1, 2], 50))
    group = readers(near, domain)
    found = assign_evenly(group)
    assert set(loads(group, found.owner)) == {60}
    assert found.near == 6_000


def test_assignment_of_no_partitions_has_no_near_ones():
    group = readers(np.zeros((0, 1)), [0])
    assert (assign_evenly(group).near, assign_ranges(group).near) == (0, 0)


def test_number_of_searches_depends_on_partitions_per_member_not_on_all_partitions(monkeypatch):
    chance = np.random.default_rng(3)
    subscribed = chance.random((60, 30)) < 0.2
    subscribed[0] |= ~subscribed.any(axis=0)
    near = np.argsort(chance.random((3_000, 5)), axis=1) < 2
    group = readers(near, chance.integers(-1, 5, 60), topic=np.arange(3_000) % 30, subscribed=subscribed)
    searches = []
    search = assignors._shortest
    monkeypatch.setattr(assignors, "_shortest", lambda *graph: searches.append(graph) or search(*graph))
    assign_evenly(group)
    assert len(searches) < 10 * 3_000 / 60


def chain(members):
    """Return a group whose member i subscribes to topics i and i + 1; topic 0 has a partition for each member."""
    topic = np.concatenate([np.zeros(members - 1, dtype=np.int64), np.arange(members + 1)])
    step = np.arange(members + 1) - np.arange(members)[:, None]
    return readers(
        topic[:, None] % 3 == np.arange(3), np.arange(members) % 3, topic, subscribed=(step == 0) | (step == 1)
    )


def test_work_for_members_with_different_subscriptions_grows_with_the_partitions(monkeypatch):
    """Otherwise a user who may join a group could exhaust the time of a scan."""
    done = []
    for name in ("_entering", "_passed"):
        step = getattr(assignors._Flow, name)
        monkeypatch.setattr(assignors._Flow, name, lambda *task, step=step: done.append(1) or step(*task))
    group = chain(60)
    found = assign_evenly(group)
    assert sorted(loads(group, found.owner)) == [1] * 58 + [2, 60]
    assert len(done) < 8 * len(group.topic)


def test_search_looks_only_at_kinds_of_members_that_waiting_partitions_can_reach(monkeypatch):
    relaxed = []

    class Counted(np.ndarray):
        def __getitem__(self, rows):
            relaxed.append(len(rows))
            return np.asarray(super().__getitem__(rows))

    search = assignors._shortest
    monkeypatch.setattr(assignors, "_shortest", lambda one, other: search(one, other.view(Counted)))
    group = chain(60)
    assign_evenly(group)
    assert sum(relaxed) < 8 * len(group.topic)


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_assignment_matches_the_case_shared_with_the_brokers_plugin(case):
    rows = [(topic, number, racks) for topic, row in enumerate(case["topics"]) for number, racks in enumerate(row)]
    racks = sorted({rack for *_, found in rows for rack in found})
    members, topics = case["members"].values(), range(len(case["topics"]))
    group = readers(
        np.array([[rack in found for rack in racks] for *_, found in rows]).reshape(len(rows), len(racks)),
        [racks.index(member["rack"]) if member["rack"] in racks else -1 for member in members],
        topic=[topic for topic, *_ in rows],
        number=[number for _, number, _ in rows],
        subscribed=[[topic in member["topics"] for topic in topics] for member in members],
    )
    found = assign_evenly(group)
    assert (sorted(loads(group, found.owner)), found.near) == (case["counts"], case["near"])


def test_memory_does_not_grow_with_topics_times_pairs_of_domains():
    """Otherwise a user who may create topics and groups could exhaust the memory of a scan."""
    domains = topics = 200
    group = readers([[1] * domains] * topics, range(domains), np.arange(topics), np.zeros(topics, dtype=np.int64))
    tracemalloc.start()
    try:
        assert assign_ranges(group).near == topics
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("assign", [assign_evenly, assign_ranges])
@pytest.mark.parametrize(("members", "topics", "domains"), [(1, 0, 0), (1, 1, 0), (2, 2, 1)])
def test_group_without_partitions_has_an_empty_assignment(assign, members, topics, domains):
    group = readers(np.zeros((0, domains)), [-1] * members, subscribed=np.ones((members, topics), dtype=bool))
    assert assign(group).owner.tolist() == []
