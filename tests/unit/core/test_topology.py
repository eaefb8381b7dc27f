from dataclasses import replace

import pytest
from tests.unit.core.clusters import cluster

from rackspan.core.rack_path import RackPathError, domain_name, format_rack, parse_rack
from rackspan.core.topology import Broker, RackTree, TopologyError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("use1-az1", ("use1-az1",)),
        ("/use1-az1", ("use1-az1",)),
        ("/eu/eu-1a/r7", ("eu", "eu-1a", "r7")),
        ("a/b", ("a", "b")),
    ],
)
def test_parse_rack_accepts_a_path_with_an_optional_leading_slash(text, path):
    assert parse_rack(text) == path
    assert parse_rack(format_rack(path)) == path
    assert parse_rack(domain_name(path)) == path


def test_format_rack_writes_no_leading_slash_for_a_single_step():
    assert format_rack(("use1-az1",)) == "use1-az1"
    assert format_rack(("eu", "a")) == "/eu/a"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("/", "is empty"),
        ("/eu//r1", 'step 2 is empty (after "/eu")'),
        ("/eu/r1/", 'step 3 is empty (after "/eu/r1")'),
        ("//r1", 'step 1 is empty (after "/")'),
        ("/eu/r 1", 'step 2 ("r 1") holds white space'),
        ("zone\t", "holds white space"),
    ],
)
def test_parse_rack_rejects_a_malformed_rack_id_with_position_and_reason(text, complaint):
    with pytest.raises(RackPathError) as caught:
        parse_rack(text)
    assert complaint in str(caught.value)


def test_brokers_with_short_paths_share_one_unnamed_child_domain():
    tree = cluster("region zone", {0: "/eu", 1: "/eu", 2: "/eu/a", 3: "/us/a"})
    zones = tree.level("zone")
    assert [domain_name(path) for path in zones.paths] == ["/eu/<unnamed>", "/eu/a", "/us/a"]
    assert zones.capacity.tolist() == [2, 1, 1]


def test_capacity_counts_eligible_brokers_whether_online_or_not():
    tree = cluster("zone", {0: "a", 1: "a", 2: "b", 3: "b"}, drained={1}, offline={2})
    assert tree.level("zone").capacity.tolist() == [1, 2]
    assert tree.capacity == 3


def test_rack_tree_does_not_depend_on_the_order_of_brokers():
    racks = {3: "b", 1: "a", 2: "b"}
    tree, other = cluster("zone", racks), cluster("zone", dict(sorted(racks.items())))
    assert tree == other
    assert hash(tree) == hash(other)
    assert tree.ids.tolist() == other.ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("brokers", "complaint"),
    [
        ([Broker(1, ("a",)), Broker(1, ("b",))], "broker 1 is listed twice"),
        ([Broker(7, ("a", "b"))], "broker 7 has the rack /a/b of 2 steps, the topology has 1 level"),
        ([Broker(-1, ("a",))], "broker id -1 is negative"),
    ],
)
def test_rack_tree_rejects_invalid_brokers(brokers, complaint):
    with pytest.raises(TopologyError) as caught:
        RackTree(("zone",), tuple(brokers))
    assert complaint in str(caught.value)


def test_unknown_level_is_rejected_with_the_list_of_levels():
    with pytest.raises(TopologyError, match='no level "host" \\(levels: region, zone\\)'):
        cluster("region zone", {0: "/eu/a"}).level("host")


def test_missing_racks_are_reported_only_if_other_brokers_have_a_rack():
    assert cluster("zone", {0: "a", 1: None, 2: None}).missing_racks == (1, 2)
    assert cluster("zone", {0: None, 1: None}).missing_racks == ()
    assert cluster("zone", {0: "a", 1: None}).without_racks().missing_racks == ()


@pytest.mark.parametrize(
    ("pattern", "brokers"),
    [
        ("12", (12,)),
        ("13", ()),
        ("/12", (3,)),
        ("/eu", (0, 1, 2)),
        ("/eu/*/r1", (0, 2)),
        ("/eu/a/*", (0, 1)),
        ("/*/a", (0, 1, 4)),
        ("/e?", (0, 1, 2)),
        ("/us/a/r1/x", ()),
        ("", ()),
        ("/eu//r1", ()),
        ("/eu/\U0001fae8", ()),
        ("/eu/\u0378", ()),
    ],
)
def test_patterns_match_brokers_by_id_or_by_rack(pattern, brokers):
    racks = {0: "/eu/a/r1", 1: "/eu/a/r2", 2: "/eu/b/r1", 3: "/12", 4: "/us/a/r1", 12: "/us/b"}
    assert cluster("region zone rack", racks).matches(pattern) == brokers


@pytest.mark.parametrize(
    ("pattern", "brokers"),
    [
        ("/dc/r[1]", (2,)),
        ("/dc/r[2]", ()),
        ("/dc/r[!2]", ()),
        ("/dc/r[?]", (2,)),
        ("/dc/[*", (3,)),
        ("/dc/*]", (2,)),
        ("1" * 5_000, ()),
    ],
)
def test_only_asterisks_and_question_marks_are_wildcards(pattern, brokers):
    racks = {0: "/dc/r1", 1: "/dc/r2", 2: "/dc/r[1]", 3: "/dc/[x"}
    assert cluster("zone rack", racks).matches(pattern) == brokers


def test_selected_equals_a_tree_built_with_the_same_eligible_brokers():
    racks = {12: "/eu/a/r1", 1: "/eu/a/r2", 2: "/eu/b/r1", 3: "/12", 4: "/us/a/r1", 0: "/us/b"}
    tree = cluster("region zone rack", racks)
    left = tree.selected(["/eu", "/us", "3"], ["/*/a/r2", "0"])
    built = RackTree(
        tree.levels, tuple(replace(broker, eligible=broker.id in {2, 3, 4, 12}) for broker in tree.brokers)
    )
    assert left == built != tree
    assert hash(left) == hash(built)
    assert left.eligible.tolist() == built.eligible.tolist()
    assert [level.capacity.tolist() for level in left.nodes] == [level.capacity.tolist() for level in built.nodes]
    assert tree.capacity == len(racks)


def test_positions_finds_sparse_broker_ids_and_returns_minus_one_for_unknown_ids():
    tree = RackTree(("zone",), (Broker(1, ("b",)), Broker(2_000_000_000, ("a",))))
    assert tree.positions([1, 2_000_000_000, 5, -1]).tolist() == [1, 0, -1, -1]
    small = cluster("zone", {4: "a", 9: "b"})
    assert small.positions([[9, 4], [0, 99]]).tolist() == [[1, 0], [-1, -1]]


def test_rack_tree_without_brokers_has_no_capacity():
    tree = RackTree(("zone",), ())
    assert (tree.capacity, tree.missing_racks, len(tree)) == (0, (), 0)
