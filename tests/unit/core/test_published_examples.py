"""Placers and formulas must reproduce the examples of KIPs and articles exactly."""

from collections import Counter

import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.compliance import judge
from rackspan.core.durability import Durability, min_insync
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.placement.rings import Rings
from rackspan.core.placement.simple import Simple
from rackspan.core.placement.striped import Striped, alternated

KIP_36 = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
KIP_879 = {0: "/DC1/R1", 1: "/DC1/R2", 2: "/DC2/R1", 3: "/DC2/R2", 4: "/DC3/R1", 5: "/DC3/R2"}


def printed(placement):
    return " ".join(",".join(map(str, row)) for row in placement.partitions)


def test_alternated_lists_brokers_as_kip_36():
    tree = cluster("rack", KIP_36)
    assert tree.ids[alternated(tree)].tolist() == [0, 3, 1, 5, 4, 2]


def test_alternated_lists_brokers_as_the_article():
    tree = cluster("rack", {broker: f"rack{broker // 3 + 1}" for broker in range(9)})
    assert tree.ids[alternated(tree)].tolist() == [0, 3, 6, 1, 4, 7, 2, 5, 8]


def test_striped_placer_reproduces_kip_36_with_six_brokers_in_three_racks():
    spec = PlacementSpec(12, 3, start_index=0, shift=0)
    assert printed(Striped().place(spec, ClusterView(cluster("rack", KIP_36)))) == (
        "0,3,1 3,1,5 1,5,4 5,4,2 4,2,0 2,0,3 0,4,2 3,2,0 1,0,3 5,3,1 4,1,5 2,5,4"
    )


def test_striped_placer_reproduces_kip_36_with_three_brokers_in_two_racks():
    tree = cluster("rack", {0: "rack1", 1: "rack2", 2: "rack2"})
    assert printed(Striped().place(PlacementSpec(3, 2, start_index=0, shift=0), ClusterView(tree))) == "0,1 1,0 2,0"


def test_simple_placer_reproduces_the_article_on_admin_utils():
    tree = cluster("rack", dict.fromkeys(range(3)))
    spec = PlacementSpec(6, 3, start_index=2, shift=2)
    assert printed(Simple().place(spec, ClusterView(tree))) == "2,0,1 0,1,2 1,2,0 2,1,0 0,2,1 1,0,2"


def test_simple_placer_starts_the_shift_at_the_start_index_as_kafka_does():
    tree = cluster("rack", dict.fromkeys(range(3)))
    spec = PlacementSpec(6, 3, start_index=2)
    assert printed(Simple().place(spec, ClusterView(tree))) == "2,0,1 0,1,2 1,2,0 2,1,0 0,2,1 1,0,2"


@pytest.mark.parametrize("placer", [MultiLevel, Rings])
def test_kip_879_example_places_each_partition_in_all_three_data_centres(placer):
    tree = cluster("dc rack", KIP_879)
    placement = placer().place(PlacementSpec(60, 3, seed=879), ClusterView(tree))
    for row in placement.partitions:
        assert {KIP_879[broker][:4] for broker in row} == {"/DC1", "/DC2", "/DC3"}
    assert judge(tree, placement).compliant


def test_rings_placer_lists_no_broker_twice_in_an_uneven_tree_unlike_kip_879():
    tree = cluster("dc rack", {0: "/dc1/r1", 1: "/dc2/r1", 2: "/dc2/r2"})
    placement = Rings().place(PlacementSpec(4, 3, start_index=0), ClusterView(tree))
    assert printed(placement) == "0,1,2 1,2,0 2,0,1 0,1,2"


@pytest.mark.parametrize("brokers", [1, 2, 3, 4])
def test_rings_placer_gives_leaders_to_all_brokers_unlike_kip_879(brokers):
    racks = {broker: f"/dc{broker % 3}/r{broker // 3}" for broker in range(3 * brokers)}
    placement = Rings().place(PlacementSpec(36 * brokers, 3), ClusterView(cluster("dc rack", racks)))
    assert set(Counter(row[0] for row in placement.partitions)) == set(racks)


@pytest.mark.parametrize("widths", [(1, 3), (1, 3, 1), (2, 2, 2), (2, 2, 1), (3, 2, 1, 1), (3, 1, 3, 1)])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_rings_placer_balances_leaders_over_all_brokers_unlike_kip_879(widths, size):
    tree = grid(" ".join(f"level-{step}" for step in range(len(widths) - 1)), *widths)
    size = min(size, len(tree))
    placement = Rings().place(PlacementSpec(10 * len(tree), size, seed=3), ClusterView(tree))
    assert Counter(row[0] for row in placement.partitions) == dict.fromkeys(range(len(tree)), 10)


@pytest.mark.parametrize(("size", "expected"), [(3, 2), (4, 3)])
def test_min_insync_matches_the_cloudera_example_with_three_racks(size, expected):
    tree = cluster("rack", {broker: f"rack{broker % 3}" for broker in range(9)})
    placement = MultiLevel().place(PlacementSpec(12, size), ClusterView(tree))
    assert min_insync(tree, placement, Durability(min_domains={"rack": 2})) == expected
