"""The share assignor for brokers, compared with Kafka's, with all possible assignments, and with itself."""

import json
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from dev.paths import REPOSITORY
from tests.plugins.conftest import SHARE_ASSIGNOR
from tests.plugins.test_rack_aware_assignor import PATHS, common, flat, path

pytestmark = pytest.mark.usefixtures("share_groups")

KAFKAS = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
CASES = json.loads((REPOSITORY / "plugins/cases/share_assignment.json").read_text())
GROUPS = 300


def a_group(chance, racks, *, members, partitions, alike=False, replicas=3):
    """Return a group with random members, often more than partitions, some without a rack or with fewer topics."""
    topics = [
        [chance.sample(racks, chance.randint(0, min(replicas, len(racks)))) for _ in range(number)]
        for number in (chance.randint(1, partitions) for _ in range(chance.randint(1, 3)))
    ]
    every = list(range(len(topics)))
    alike = alike or chance.random() < 0.5
    group = {
        f"m{number}": {
            "rack": chance.choice([*racks, None]),
            "topics": every if alike else sorted(chance.sample(every, chance.randint(0, len(every)))),
        }
        for number in range(chance.randint(1, members))
    }
    return {"members": group, "topics": topics, "owners": []}


def groups_like(number, **sizes):
    chance = random.Random(number)
    return [a_group(chance, PATHS, **sizes) for _ in range(GROUPS)]


def subscribers(group, topic):
    return tuple(name for name, member in group["members"].items() if topic in member["topics"])


def by_subscribers(group, owners):
    """Return the members of each partition, grouped by the subscribers of its topic."""
    found = {}
    for topic, row in enumerate(owners):
        found.setdefault(subscribers(group, topic), []).extend(row)
    return {members: rows for members, rows in found.items() if members}


def nearness(group, name, racks):
    """Return the average number of steps in common with the leader, over the racks where the leader may be."""
    here = path(group["members"][name]["rack"])
    return Fraction(sum(common(here, path(rack)) for rack in racks), max(1, len(racks)))


def near(group, owners):
    pairs = zip(flat(group["topics"]), flat(owners), strict=True)
    return sum(nearness(group, name, racks) for racks, names in pairs for name in names)


def moves(before, after):
    return sum(len(set(new) - set(old)) for old, new in zip(flat(before), flat(after), strict=True))


def test_share_assignor_gives_the_expected_result_of_each_case(java):
    for case, owners in zip(CASES, java("Assignments", SHARE_ASSIGNOR, given=CASES), strict=True):
        assert (case["about"], owners) == (case["about"], case["expected"])


def test_share_assignor_is_as_even_as_kafkas_for_partitions_and_members(java):
    groups = groups_like(1, members=12, partitions=4)
    ours, kafkas = (java("Assignments", each, given=groups) for each in (SHARE_ASSIGNOR, KAFKAS))
    for group, own, other in zip(groups, ours, kafkas, strict=True):
        for members, rows in by_subscribers(group, own).items():
            sharing = -(-len(members) // len(rows))
            assert [len(names) for names in rows] == [sharing] * len(rows)
            counts = Counter(name for names in rows for name in names)
            assert set(counts) <= set(members)
            assert max(counts.values()) - min(counts[name] for name in members) <= 1
            assert len(counts) == min(len(members), len(rows) * sharing)
        if len({tuple(member["topics"]) for member in group["members"].values()}) == 1:
            assert [len(names) for names in flat(own)] == [len(names) for names in flat(other)]


@pytest.mark.parametrize("replicas", [3, 6])
def test_no_equally_even_share_assignment_is_nearer_if_members_do_not_share(java, replicas):
    groups = [
        group
        for group in groups_like(2, members=4, partitions=3, alike=True, replicas=replicas)
        if len(group["members"]) <= len(flat(group["topics"])) <= 6
    ]
    assert len(groups) > 50
    for group, owners in zip(groups, java("Assignments", SHARE_ASSIGNOR, given=groups), strict=True):
        even = sorted(Counter(name for names in flat(owners) for name in names).values())
        racks = flat(group["topics"])
        best = max(
            sum(nearness(group, name, where) for name, where in zip(names, racks, strict=True))
            for names in product(group["members"], repeat=len(racks))
            if sorted(Counter(names).values()) == even
        )
        assert near(group, owners) == best


def test_share_assignor_reaches_90_percent_of_the_possible_nearness_if_members_share(java):
    groups = [
        group
        for group in groups_like(3, members=5, partitions=2, alike=True)
        if len(group["members"]) > len(flat(group["topics"]))
    ]
    assert len(groups) > 50
    total = best = worst = Fraction(0)
    for group, owners in zip(groups, java("Assignments", SHARE_ASSIGNOR, given=groups), strict=True):
        even = sorted(Counter(name for names in flat(owners) for name in names).values())
        racks = flat(group["topics"])
        sharing = len(flat(owners)[0])
        found = [
            sum(nearness(group, name, where) for names, where in zip(rows, racks, strict=True) for name in names)
            for rows in product(combinations(group["members"], sharing), repeat=len(racks))
            if sorted(Counter(name for names in rows for name in names).values()) == even
        ]
        assert near(group, owners) <= max(found)
        total, best, worst = total + near(group, owners), best + max(found), worst + min(found)
    share = (total - worst) / (best - worst)
    assert share >= Fraction(9, 10), float(share)


def test_second_share_assignment_moves_nothing(java):
    groups = groups_like(5, members=12, partitions=4)
    first = java("Assignments", SHARE_ASSIGNOR, given=groups)
    again = [{**group, "owners": owners} for group, owners in zip(groups, first, strict=True)]
    assert java("Assignments", SHARE_ASSIGNOR, given=again) == first


def test_share_assignment_does_not_depend_on_the_order_of_members_and_racks(java):
    groups = groups_like(6, members=12, partitions=4)
    turned = [
        {
            **group,
            "members": dict(reversed(group["members"].items())),
            "topics": [[racks[::-1] for racks in row] for row in group["topics"]],
        }
        for group in groups
    ]
    assert java("Assignments", SHARE_ASSIGNOR, given=groups) == java("Assignments", SHARE_ASSIGNOR, given=turned)


def test_joins_and_leaves_move_at_most_20_percent_more_than_with_kafkas_share_assignor(java):
    groups = groups_like(8, members=12, partitions=4, alike=True)
    moved = {}
    for assignor in (SHARE_ASSIGNOR, KAFKAS):
        before = java("Assignments", assignor, given=groups)
        one_more = [{**group["members"], "m5x": group["members"]["m0"]} for group in groups]
        moved[assignor] = []
        for members in (one_more, [group["members"] for group in groups]):
            given = [
                {**group, "members": all_members, "owners": owners}
                for group, all_members, owners in zip(groups, members, before, strict=True)
            ]
            after = java("Assignments", assignor, given=given)
            moved[assignor].append(sum(moves(*pair) for pair in zip(before, after, strict=True)))
            before = after
    assert all(ours <= 1.2 * kafkas for ours, kafkas in zip(*moved.values(), strict=True)), moved


def test_partitions_that_are_not_assignable_are_not_assigned(java):
    groups = groups_like(9, members=6, partitions=4)
    chance = random.Random(9)
    for group in groups:
        group["assignable"] = [[chance.random() < 0.7 for _ in row] for row in group["topics"]]
    for group, owners in zip(groups, java("Assignments", SHARE_ASSIGNOR, given=groups), strict=True):
        for topic, row in enumerate(owners):
            may = subscribers(group, topic)
            assert [bool(names) for names in row] == [bool(may) and able for able in group["assignable"][topic]]


def test_new_partitions_that_are_not_assignable_yet_leave_no_member_without_partitions(java):
    members = {f"m{number}": {"rack": "/a", "topics": [0]} for number in range(10)}
    group = {"members": members, "topics": [[["/a"]] * 10], "owners": [], "assignable": [[True] + [False] * 9]}
    assert java("Assignments", SHARE_ASSIGNOR, given=[group]) == [[[sorted(members), *[[]] * 9]]]
