"""Properties of the placers that follow a published source."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.cases import counted
from tests.property.strategies import sites, sized

from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.rings import Rings
from rackspan.core.placement.simple import Simple
from rackspan.core.placement.striped import Striped

SEEDS = st.integers(0, 2**63 - 1)
PLACERS = st.sampled_from([Simple(), Striped(), Rings()])


@given(sized(), st.integers(1, 12), SEEDS)
def test_rings_split_partitions_fairly_at_every_level(case, partitions, seed):
    tree, size = case
    for row in Rings().place(PlacementSpec(partitions, size, seed=seed), ClusterView(tree)).partitions:
        assert len(set(row)) == size
        assert oracle.fair(sites(tree), frozenset(row))
    counted(partitions)


@given(sized(), st.integers(1, 12), SEEDS)
def test_striped_uses_as_many_racks_as_possible(case, partitions, seed):
    tree, size = case
    racks = {broker.id: broker.rack for broker in tree.brokers}
    for row in Striped().place(PlacementSpec(partitions, size, seed=seed), ClusterView(tree)).partitions:
        assert len(set(row)) == size
        assert len({racks[broker] for broker in row}) == min(size, len(set(racks.values())))
    counted(partitions)


@given(st.data())
def test_simple_and_striped_give_every_broker_equally_many_leaders(data):
    tree, size = data.draw(sized())
    placer = data.draw(st.sampled_from([Simple(), Striped()]))
    rounds = data.draw(st.integers(1, 3))
    spec = PlacementSpec(rounds * len(tree), size, seed=data.draw(SEEDS))
    led = Counter(row[0] for row in placer.place(spec, ClusterView(tree)).partitions)
    assert set(led.values()) == {rounds}
    counted()


@given(st.data())
def test_placement_in_two_steps_equals_placement_in_one_step(data):
    tree, size = data.draw(sized())
    placer, seed = data.draw(PLACERS), data.draw(SEEDS)
    first, more = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    once = placer.place(PlacementSpec(first + more, size, seed=seed), ClusterView(tree)).partitions
    begun = placer.place(PlacementSpec(first, size, seed=seed), ClusterView(tree)).partitions
    spec = PlacementSpec(first + more, size, seed=seed, current=begun)
    assert placer.place(spec, ClusterView(tree)).partitions == once
    counted()


@given(st.data())
def test_rings_move_no_remaining_replica_for_a_new_replication_factor(data):
    tree, size = data.draw(sized())
    before = Rings().place(PlacementSpec(4, size, seed=data.draw(SEEDS)), ClusterView(tree)).partitions
    after = data.draw(st.integers(1, tree.capacity))
    grown = Rings().place(PlacementSpec(4, after, current=before), ClusterView(tree)).partitions
    assert judge(tree, grown).compliant
    assert all(set(was) <= set(row) or set(row) <= set(was) for was, row in zip(before, grown, strict=True))
    counted()
