"""The assignor for brokers, compared with all possible assignments, with the best of the core, and with itself."""

import json
import random
from collections import Counter
from itertools import product

import numpy as np
import pytest
from dev.paths import REPOSITORY

from rackspan.core.consumers.assignors import Readers, assign_evenly

OURS = "dev.rackspan.kafka.RackAwareAssignor"
CASES = json.loads((REPOSITORY / "plugins/cases/assignment.json").read_text())
SMALL, LARGE = 600, 300
PATHS = ("/eu", "/eu/a", "/eu/a/r1", "/eu/a/r2", "/eu/b/r1", "/us/a/r1", "/us", "eu/a/r1", "/eu/a /r1", "")


def a_group(chance, racks, *, members, partitions, alike=False, replicas=3):
    """Return a group of random members, partitions and owners. Some members lack a rack or some of the topics."""
    topics = [
        [chance.sample(racks, chance.randint(0, min(replicas, len(racks)))) for _ in range(number)]
        for number in (chance.randint(1, partitions) for _ in range(chance.randint(1, 3)))
    ]
    every = list(range(len(topics)))
    names = [f"m{number}" for number in range(chance.randint(1, members))]
    alike = alike or chance.random() < 0.5
    group = {
        name: {
            "rack": chance.choice([*racks, *racks, None]),
            "topics": every if alike else sorted(chance.sample(every, chance.randint(0, len(every)))),
        }
        for name in names
    }
    group[names[0]]["topics"] = every
    has = [name if chance.random() < 0.8 else None for name in names]
    owners = [[chance.choice([*has, None, "gone"]) for _ in topic] for topic in topics]
    return {"members": group, "topics": topics, "owners": known(owners, group)}


def known(owners, members):
    return [
        [owner if owner in members and topic in members[owner]["topics"] else None for owner in row]
        for topic, row in enumerate(owners)
    ]


def path(rack):
    """Return the steps of a rack id. An id that is not a path is one step."""
    if not rack:
        return ()
    steps = tuple(rack.removeprefix("/").split("/"))
    return steps if all(steps) and " " not in rack else (rack,)


def common(one, other):
    steps = 0
    while steps < min(len(one), len(other)) and one[steps] == other[steps]:
        steps += 1
    return steps


def flat(owners):
    return [owner for row in owners for owner in row]


def judged(group, owners):
    """Return the unevenness and the negative nearness of an assignment. Less is better."""
    counts = dict.fromkeys(group["members"], 0)
    steps = 0
    for racks, owner in zip(flat(group["topics"]), owners, strict=True):
        counts[owner] += 1
        here = path(group["members"][owner]["rack"])
        steps += max((common(here, path(rack)) for rack in racks), default=0)
    return sum(count * count for count in counts.values()), -steps


def is_allowed(group, owners):
    return all(topic in group["members"][owner]["topics"] for topic, row in enumerate(owners) for owner in row)


def every_assignment(group):
    may = [
        [name for name, member in group["members"].items() if topic in member["topics"]]
        for topic, row in enumerate(group["topics"])
        for _ in row
    ]
    return product(*may)


def moves(group, owners):
    return sum(
        before is not None and before != after
        for before, after in zip(flat(group["owners"]), flat(owners), strict=True)
    )


def test_assignor_gives_the_expected_result_of_each_case(java):
    for case, owners in zip(CASES, java("Assignments", OURS, given=CASES), strict=True):
        assert is_allowed(case, owners)
        counts = sorted(flat(owners).count(name) for name in case["members"])
        read = zip(flat(case["topics"]), flat(owners), strict=True)
        near = sum(case["members"][owner]["rack"] in racks for racks, owner in read)
        assert (case["about"], counts, near) == (case["about"], case["counts"], case["near"])


@pytest.mark.parametrize("replicas", [3, 7])
def test_no_equally_even_assignment_is_nearer(java, replicas):
    chance = random.Random(3)
    groups = [a_group(chance, PATHS, members=4, partitions=3, replicas=replicas) for _ in range(SMALL)]
    groups = [group for group in groups if len(flat(group["topics"])) <= 6]
    for group, owners in zip(groups, java("Assignments", OURS, given=groups), strict=True):
        assert is_allowed(group, owners)
        assert judged(group, flat(owners)) == min(judged(group, each) for each in every_assignment(group)), group


def of_the_core(group):
    """Return the group as input for the core, with flat racks: each is near or not."""
    names = list(group["members"])
    racks = sorted(set(flat(flat(group["topics"]))))
    at = {rack: number for number, rack in enumerate(racks)}
    rows = [(topic, number, found) for topic, row in enumerate(group["topics"]) for number, found in enumerate(row)]
    near = np.zeros((len(rows), max(1, len(racks))), dtype=bool)
    for row, (*_, found) in enumerate(rows):
        near[row, [at[rack] for rack in found]] = True
    topic, number = np.array([row[:2] for row in rows]).T
    domain = np.array([at.get(group["members"][name]["rack"], -1) for name in names])
    subscribed = np.array(
        [[topic in group["members"][name]["topics"] for topic in range(len(group["topics"]))] for name in names]
    )
    return Readers(topic, number, near, domain, subscribed), names


def test_assignor_with_flat_racks_is_as_good_as_the_core(java):
    chance = random.Random(4)
    groups = [a_group(chance, ["a", "b", "c", "d"], members=9, partitions=30) for _ in range(LARGE)]
    for group, owners in zip(groups, java("Assignments", OURS, given=groups), strict=True):
        readers, names = of_the_core(group)
        best = assign_evenly(readers)
        assert judged(group, flat(owners)) == judged(group, [names[owner] for owner in best.owner]), group


def test_assignor_with_more_racks_than_members_is_as_good_as_the_core(java):
    chance = random.Random(10)
    racks = [f"rack-{letters}{number}" for letters in ("Aa", "BB") for number in range(50)]  # pairs share Java hashes
    groups = [a_group(chance, racks, members=60, partitions=200, replicas=5) for _ in range(LARGE // 10)]
    for group, owners in zip(groups, java("Assignments", OURS, given=groups), strict=True):
        readers, names = of_the_core(group)
        best = assign_evenly(readers)
        assert judged(group, flat(owners)) == judged(group, [names[owner] for owner in best.owner]), group


def test_second_assignment_moves_nothing(java):
    chance = random.Random(5)
    groups = [a_group(chance, PATHS, members=9, partitions=30) for _ in range(LARGE)]
    first = java("Assignments", OURS, given=groups)
    again = [{**group, "owners": owners} for group, owners in zip(groups, first, strict=True)]
    assert java("Assignments", OURS, given=again) == first


def a_group_with_different_subscriptions(members, racks, partitions):
    """Return a group in which nearly every member subscribes to another third of 20 topics."""
    chance, topics = random.Random(11), range(20)
    names = [f"r{number}" for number in range(racks)]
    return {
        "members": {
            f"m{number}": {
                "rack": chance.choice(names),
                "topics": sorted({chance.choice(topics), *(topic for topic in topics if chance.random() < 1 / 3)}),
            }
            for number in range(members)
        },
        "topics": [[[chance.choice(names)] for _ in range(partitions // len(topics))] for _ in topics],
        "owners": [],
    }


def test_five_hundred_members_with_different_subscriptions_are_balanced_and_the_second_assignment_moves_nothing(java):
    group = a_group_with_different_subscriptions(500, racks=30, partitions=20_000)
    (first,) = java("Assignments", OURS, given=[group])
    assert set(Counter(flat(first)).values()) == {40}
    assert java("Assignments", OURS, given=[{**group, "owners": first}]) == [first]


def test_group_above_the_limits_of_the_search_moves_only_for_a_better_assignment(java):
    group = a_group_with_different_subscriptions(1_200, racks=3, partitions=10_000)
    (owners,) = java("Assignments", OURS, given=[group])
    for _ in range(5):
        (after,) = java("Assignments", OURS, given=[{**group, "owners": owners}])
        assert after == owners or judged(group, flat(after)) < judged(group, flat(owners))
        owners = after


def test_long_racks_of_members_take_little_memory(java):
    """A client can send a rack of 32,767 characters. The program has 512 MiB."""
    members = {f"m{number}": {"rack": "/" + 16_000 * "a/" + str(number), "topics": [0]} for number in range(600)}
    (owners,) = java(
        "Assignments", OURS, given=[{"members": members, "topics": [[["/a/a", "/b"]] * 600], "owners": []}]
    )
    assert sorted(owners[0]) == sorted(members)


def test_assignment_does_not_depend_on_the_order_of_members_and_racks(java):
    chance = random.Random(6)
    groups = [a_group(chance, PATHS, members=9, partitions=30) for _ in range(LARGE)]

    def turned(group):
        return {
            **group,
            "members": dict(reversed(group["members"].items())),
            "topics": [[racks[::-1] for racks in row] for row in group["topics"]],
        }

    assert java("Assignments", OURS, given=groups) == java("Assignments", OURS, given=list(map(turned, groups)))


def test_assignor_does_not_read_replica_racks_if_all_members_are_in_one_rack(java):
    for rack in ("/eu/a/r1", None):
        members = {name: {"rack": rack, "topics": [0, 1] if name == "a" else [0]} for name in "abc"}
        group = {"members": members, "topics": [[None] * 4, [None] * 2], "owners": []}
        (owners,) = java("Assignments", OURS, given=[group])
        assert owners[1] == ["a", "a"]
        assert sorted(owners[0]) == ["b", "b", "c", "c"]


def test_static_member_with_a_new_member_id_gets_the_same_partitions(java):
    chance = random.Random(7)
    groups = [a_group(chance, PATHS, members=9, partitions=30) for _ in range(LARGE)]
    for group in groups:
        group["owners"] = []
        for name, member in group["members"].items():
            member["instance"] = f"i-{name}"

    def restarted(group):
        return {**group, "members": {f"x{9 - int(name[1:])}": member for name, member in group["members"].items()}}

    def by_instance(group, owners):
        return [group["members"][owner]["instance"] for owner in flat(owners)]

    before, after = groups, list(map(restarted, groups))
    for old, new, first, second in zip(
        before, after, java("Assignments", OURS, given=before), java("Assignments", OURS, given=after), strict=True
    ):
        assert by_instance(old, first) == by_instance(new, second)


def test_new_member_moves_only_its_share_and_a_leaving_one_moves_nothing_else(java):
    """This holds if locality allows it. Here all members are in one rack."""
    chance = random.Random(8)
    groups = []
    for _ in range(LARGE):
        group = a_group(chance, ["a", "b"], members=9, partitions=40, alike=True)
        for member in group["members"].values():
            member["rack"] = "a"
        groups.append({**group, "owners": []})
    for group, owners in zip(groups, java("Assignments", OURS, given=groups), strict=True):
        group["owners"] = owners
    more = [{**group, "members": {**group["members"], "new": group["members"]["m0"]}} for group in groups]
    for group, owners in zip(more, java("Assignments", OURS, given=more), strict=True):
        assert moves(group, owners) == len(flat(owners)) // len(group["members"])
        assert "new" in flat(owners) or len(flat(owners)) < len(group["members"])
    less = []
    for group in groups:
        if len(group["members"]) > 1:
            members = dict(list(group["members"].items())[:-1])
            less.append({**group, "members": members, "owners": known(group["owners"], members)})
    for group, owners in zip(less, java("Assignments", OURS, given=less), strict=True):
        assert moves(group, owners) == 0
