"""The pictures of the demo: they show every replica of Kafka and are readable without colours."""

import pytest
from dev.demo.picture import ASCII, UNICODE, Role, picture, plain
from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.compliance import judge
from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree

LEVELS = ("region", "zone", "rack")


def tree(*racks, levels=LEVELS, **which):
    return RackTree(
        levels,
        tuple(
            Broker(number, parse_rack(rack) if rack else None, **{key: number not in ids for key, ids in which.items()})
            for number, rack in enumerate(racks)
        ),
    )


SIX = tree("/eu/eu-1a/r1", "/eu/eu-1a/r2", "/eu/eu-1b/r1", "/us/us-1a/r1", "/us/us-1a/r2", "/us/us-1a/r2")


def test_picture_shows_replicas_and_leaders_per_domain_and_broker():
    assert plain(picture(SIX, [[0, 3, 2], [4, 1, 5]])) == (
        "               partition 0  1   replicas  leaders\n"
        "eu                       2  1          3        1\n"
        "├─ eu-1a                 1  1          2        1\n"
        "│  ├─ r1 · broker 0      ●  ·          1        1\n"
        "│  └─ r2 · broker 1      ·  ○          1        0\n"
        "└─ eu-1b · r1 · broker 2 ○  ·          1        0\n"
        "us · us-1a               1  2          3        1\n"
        "├─ r1 · broker 3         ○  ·          1        0\n"
        "└─ r2                    ·  2          2        1\n"
        "   ├─ broker 4           ·  ●          1        1\n"
        "   └─ broker 5           ·  ○          1        0"
    )


def test_violation_is_marked_only_in_its_domain():
    replicas = [[0, 3, 2], [3, 4, 5]]
    lines = picture(SIX, replicas, findings=judge(SIX, replicas).findings)
    marked = [line for line in plain(lines).splitlines() if "!" in line]
    assert marked == ["us · us-1a               1  3!         4        1"]
    assert [span.text.strip() for line in lines for span in line if span.role is Role.WRONG] == ["3!"]


def test_replica_on_a_broker_that_the_topic_may_not_use_is_marked():
    eu_only = SIX.selected(["/eu"], [])
    drawn = plain(picture(eu_only, [[0, 3, 2]], findings=judge(eu_only, [[0, 3, 2]]).findings))
    assert [line.split()[-3] for line in drawn.splitlines() if "!" in line] == ["○!"]


def test_empty_domain_that_takes_no_replicas_is_one_line():
    drawn = plain(picture(SIX.selected(["/eu"], []), [[0, 2]])).splitlines()
    assert [line.split(")")[0] for line in drawn if "us" in line] == ["us · us-1a (takes none"]
    assert not any("broker 3" in line for line in drawn)


def test_offline_drained_and_unknown_brokers_have_a_note():
    drawn = plain(picture(tree("/a", "/b", "/c", levels=("rack",), online=[0], eligible=[1]), [[0, 1, 9]]))
    assert "a · broker 0 (offline)" in drawn
    assert "b · broker 1 (takes none)" in drawn
    assert "broker 9 (unknown)" in drawn


def test_picture_shows_racks_with_fewer_levels():
    drawn = plain(picture(tree("/eu/eu-1a/r1", "/eu", "/us"), [[0, 2]])).splitlines()
    assert [line[:25].rstrip() for line in drawn[2:5]] == [
        "├─ broker 1",
        "└─ eu-1a · r1 · broker 0",
        "us · broker 2",
    ]


def test_picture_of_a_tree_without_racks_shows_only_brokers():
    drawn = plain(picture(tree(None, None, levels=()), [[1]])).splitlines()
    assert [line.split() for line in drawn[1:]] == [["broker", "0", "·", "0", "0"], ["broker", "1", "●", "1", "1"]]


def test_picture_with_ascii_glyphs_is_ascii():
    assert plain(picture(SIX, [[0, 3, 2]], glyphs=ASCII)).isascii()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_partitions_that_do_not_fit_are_counted_and_noted(width):
    lines = plain(picture(SIX, [[0, 3, 2]] * 500, width=width)).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[-1].endswith("more partitions are not shown; the sums count them")
    assert sum(int(line.split()[-1]) for line in lines if "broker" in line) == 500


racks = st.lists(st.sampled_from(["/a/a/1", "/a/a/2", "/a/b/1", "/b/a/1", "/b/a", "/c"]), min_size=1, max_size=9)


@given(racks=racks, data=st.data())
def test_picture_shows_every_replica_once_and_every_leader_as_a_leader(racks, data):
    brokers = st.lists(st.integers(0, len(racks) - 1), min_size=1, max_size=4, unique=True)
    replicas = data.draw(st.lists(brokers, min_size=1, max_size=6))
    drawn = plain(picture(tree(*racks), replicas))
    assert drawn.count(UNICODE.leader) == len(replicas)
    assert drawn.count(UNICODE.replica) == sum(map(len, replicas)) - len(replicas)
    assert drawn.count("broker ") == len(racks)
