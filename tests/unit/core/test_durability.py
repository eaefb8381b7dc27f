import tracemalloc

import numpy as np
import pytest
from tests.unit.core.clusters import grid

from rackspan.core.durability import Durability, DurabilityError, effective_min_insync, insync_bounds, min_insync
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.topology import TopologyError

THREE = grid("zone", 3, 3)
TWO = grid("zone", 2, 3)


def placed(tree, size):
    return MultiLevel().place(PlacementSpec(12, size), ClusterView(tree))


@pytest.mark.parametrize(
    ("tree", "size", "wishes", "value"),
    [
        (THREE, 3, {"min_domains": {"zone": 2}}, 2),
        (THREE, 4, {"min_domains": {"zone": 2}}, 3),
        (THREE, 3, {"min_domains": {"zone": 3}}, 3),
        (TWO, 3, {"min_domains": {"zone": 2}}, 3),
        (THREE, 3, {"tolerate": {"zone": 1}}, 2),
        (THREE, 3, {"tolerate": {"zone": 2}}, 1),
        (THREE, 6, {"tolerate": {"zone": 1}}, 4),
        (TWO, 3, {"tolerate": {"zone": 1}}, 1),
        (THREE, 5, {"min_domains": {"zone": 2}, "tolerate": {"zone": 1}}, 3),
        (THREE, 6, {"min_domains": {"zone": 2}, "tolerate": {"zone": 1}}, 3),
    ],
)
def test_min_insync_is_derived_from_the_durability(tree, size, wishes, value):
    assert min_insync(tree, placed(tree, size), Durability(**wishes)) == value


def test_min_insync_follows_the_worst_partition():
    rows = [(0, 3, 6), (0, 1, 3)]
    assert min_insync(THREE, rows[:1], Durability(min_domains={"zone": 2})) == 2
    assert min_insync(THREE, rows, Durability(min_domains={"zone": 2})) == 3
    assert min_insync(THREE, rows, Durability(tolerate={"zone": 1})) == 1


def test_min_insync_is_none_without_durability():
    assert min_insync(THREE, placed(THREE, 3), Durability()) is None


@pytest.mark.parametrize(
    ("tree", "size", "wishes", "given", "reason", "change"),
    [
        (
            THREE, 4, {"min_domains": {"zone": 2}, "tolerate": {"zone": 1}}, None,
            "minDomains zone: 2 needs min.insync.replicas 3, tolerate zone: 1 allows 2", "raise replicationFactor to 5",
        ),
        (THREE, 3, {"min_domains": {"zone": 4}}, None, "partition 0 has them in 3", "lower it to 3"),
        (THREE, 2, {"min_domains": {"zone": 3}}, None, "partition 0 has them in 2", "raise replicationFactor to 3"),
        (THREE, 3, {"tolerate": {"zone": 3}}, None, "would leave partition 0 no replica", "lower it to 2"),
        (THREE, 1, {"tolerate": {"zone": 1}}, None, "leave partition 0 no replica", "raise replicationFactor to 2"),
        (THREE, 3, {"min_domains": {"zone": 2}}, 1, "1 is too small for minDomains zone: 2", "raise it to 2"),
        (THREE, 3, {"tolerate": {"zone": 1}}, 3, "3 is too large for tolerate zone: 1", "lower it to 2"),
        (THREE, 3, {"tolerate": {"zone": 1}}, 9, "3 is too large for tolerate zone: 1", "lower it to 2"),
    ],
)  # fmt: skip
def test_durability_error_names_the_contradiction_and_the_smallest_change(tree, size, wishes, given, reason, change):
    with pytest.raises(DurabilityError) as caught:
        min_insync(tree, placed(tree, size), Durability(**wishes), given)
    assert reason in caught.value.reason
    assert change in caught.value.smallest_change


def test_effective_min_insync_is_at_most_the_number_of_replicas():
    assert [int(effective_min_insync(given, 3)) for given in (0, 1, 3, 4)] == [1, 1, 3, 3]
    assert effective_min_insync(np.array([2, 2, 1]), np.array([1, 3, 3])).tolist() == [1, 2, 1]
    assert min_insync(THREE, placed(THREE, 3), Durability(min_domains={"zone": 3}), 4) == 4


def test_smallest_change_of_a_durability_error_resolves_it():
    wishes = Durability(min_domains={"zone": 2}, tolerate={"zone": 1})
    with pytest.raises(DurabilityError, match="raise replicationFactor to 5"):
        min_insync(THREE, placed(THREE, 4), wishes)
    assert min_insync(THREE, placed(THREE, 5), wishes) == 3


def test_durability_with_an_unknown_level_is_rejected():
    with pytest.raises(TopologyError, match='no level "rack"'):
        min_insync(THREE, placed(THREE, 3), Durability(tolerate={"rack": 1}))


def test_durability_with_fewer_than_one_domain_is_rejected():
    with pytest.raises(ValueError, match='tolerate of level "zone" is 0'):
        Durability(tolerate={"zone": 0})


def test_memory_does_not_grow_with_the_number_of_domains():
    """A partition of three replicas is in at most three racks, however many racks exist."""
    used = []
    for racks in (50, 1600):
        tree = grid("rack", racks, 1)
        placement = MultiLevel().place(PlacementSpec(1600, 3), ClusterView(tree))
        wishes = Durability(min_domains={"rack": 2}, tolerate={"rack": 1})
        min_insync(tree, placement, wishes)
        tracemalloc.start()
        min_insync(tree, placement, wishes)
        insync_bounds(tree, placement.matrix, wishes)
        used.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert used[1] <= 2 * used[0]
