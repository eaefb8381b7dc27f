"""Consumer locality on a small cluster."""

import itertools

import numpy as np
import pytest
from tests.unit.core.clusters import cluster

from rackspan.core.consumers import group_locality
from rackspan.core.consumers.group_locality import (
    GroupProtocol,
    GroupSeen,
    MemberSeen,
    ReplicaPlaces,
    Selector,
    host_address,
    locality,
    nearest,
)
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation, TopologyError

RACKS = {0: "/eu/a", 1: "/eu/b", 2: "/us/a", 3: "/us/b"}
TREE = cluster("region zone", RACKS)
BROKERS = [BrokerLocation(broker, rack) for broker, rack in RACKS.items()]
PARTITIONS = table(
    ["orders", "sales"],
    [
        (0, 0, [0, 2], [0, 2], 0, None),
        (0, 1, [2, 1], [2, 1], 2, None),
        (0, 2, [1, 0], [1], 1, None),  # broker 0 lags
        (0, 3, [2, 0], [2], None, None),  # no leader
        (1, 0, [3, 1], [3, 1], 3, None),
    ],
)
REPLICAS = ReplicaPlaces(TREE, BROKERS, PARTITIONS)
EU_A, US_B = ("eu", "a"), ("us", "b")
RATES = np.array([1.0, 10.0, 100.0, 1000.0, np.nan])


def member(name="one", *, host="10.0.0.1", rack=None, topics=None, **partitions):
    return MemberSeen(name, name, host, partitions, rack, topics)


def group(*members, assignor="uniform"):
    return GroupSeen("group", assignor, members)


def counts(seen):
    return seen.partitions, seen.near, seen.reads_near, seen.reads_far


def test_member_reads_from_the_replica_with_exactly_its_rack_id():
    seen = locality(REPLICAS, group(member(rack="/eu/a", orders=[0, 1, 2, 3])), {})
    # In /eu/a, partition 0 has its leader, 1 no replica, 2 a replica that is not in sync. Partition 3 has no leader.
    assert counts(seen) == (4, 3, 1, 2)


@pytest.mark.parametrize("number", [-1, 4, 99])
def test_claimed_partition_that_does_not_exist_is_ignored(number):
    # One member of a classic group writes the assignment, and brokers return it without a check.
    assert counts(locality(REPLICAS, group(member(rack="/eu/a", sales=[number])), {})) == (0, 0, 0, 0)


def test_follower_in_the_rack_of_the_reader_serves_it_unless_only_leaders_serve():
    seen = locality(REPLICAS, group(member(rack="/eu/b", orders=[1])), {})
    assert counts(seen) == (1, 1, 1, 0)
    assert counts(locality(REPLICAS, group(member(rack="/eu/b", orders=[1])), {}, Selector.LEADER)) == (1, 1, 0, 1)


@pytest.mark.parametrize("selector", Selector)
def test_member_without_a_rack_id_reads_from_leaders(selector):
    racks = {"10.0.0.1": ("eu", "b")}
    seen = locality(REPLICAS, group(member(orders=[0, 1, 2])), racks, selector)
    assert counts(seen) == (3, 2, 1, 2)


def test_member_with_an_unknown_rack_has_no_near_and_no_far_reads():
    seen = locality(REPLICAS, group(member(orders=[0, 1])), {}, rates=RATES)
    assert seen.members_without_rack == 1
    assert counts(seen) == (2, 0, 0, 0)
    assert seen.could_be_near == 0
    assert seen.cross_bytes_per_second is None


def test_rack_of_the_host_has_priority_over_the_client_rack():
    moved = group(member(rack="/eu/a", orders=[0]))
    assert counts(locality(REPLICAS, moved, {"10.0.0.1": US_B})) == (1, 0, 0, 1)


@pytest.mark.parametrize("selector", Selector)
def test_share_consumer_reads_from_leaders_and_every_reader_of_a_partition_counts(selector):
    members = (member(rack="/eu/b", orders=[1, 2]), member("two", rack="/us/a", orders=[1]))
    seen = locality(REPLICAS, GroupSeen("group", "simple", members, GroupProtocol.SHARE), {}, selector)
    # 1 is led in /us/a and has a replica in /eu/b; 2 is led in /eu/b.
    assert counts(seen) == (3, 2, 2, 1)
    assert seen.could_be_near == 2


def test_could_be_near_of_a_share_group_is_the_maximum_over_all_assignments():
    places = ["/eu/a", "/us/a", "/us/b", None]
    leaders = {0: "/eu/a", 1: "/us/a", 2: "/eu/b"}
    for racks in itertools.product(places, repeat=3):
        for sizes in itertools.product(range(1, 4), repeat=3):
            choices = [list(itertools.combinations(leaders, size)) for size in sizes]
            near = [
                sum(leaders[number] == rack for numbers, rack in zip(chosen, racks, strict=True) for number in numbers)
                for chosen in itertools.product(*choices)
                if {number for numbers in chosen for number in numbers} == set(leaders)
            ]
            if not near:
                continue
            first = next(c for c in itertools.product(*choices) if set().union(*c) == set(leaders))
            members = (member(str(at), rack=rack, orders=list(first[at])) for at, rack in enumerate(racks))
            seen = locality(REPLICAS, GroupSeen("group", "simple", tuple(members), GroupProtocol.SHARE), {})
            assert max(near) == seen.could_be_near, (racks, sizes)


def test_member_with_a_rack_id_that_no_broker_reports_reads_from_the_leader():
    seen = locality(REPLICAS, group(member(rack="eu/b", orders=[1])), {})
    assert counts(seen) == (1, 1, 0, 1)
    assert counts(locality(REPLICAS, group(member(rack="eu/b", orders=[1])), {}, Selector.NEAREST)) == (1, 1, 1, 0)


def test_broker_with_rack_drift_serves_readers_of_its_reported_rack_from_afar():
    drifted = [BrokerLocation(0, "/us/b"), *BROKERS[1:]]
    seen = locality(ReplicaPlaces(TREE, drifted, PARTITIONS), group(member(rack="/us/b", orders=[0])), {})
    assert counts(seen) == (1, 0, 0, 1)


def test_rack_named_resolves_an_id_by_the_brokers_that_report_it_else_as_a_path():
    flat = [BrokerLocation(broker, f"zone-{broker}") for broker in RACKS]
    replicas = ReplicaPlaces(TREE, flat, PARTITIONS)
    assert replicas.rack_named("zone-1") == ("eu", "b")
    assert counts(locality(replicas, group(member(rack="zone-1", orders=[1])), {})) == (1, 1, 1, 0)
    assert replicas.rack_named("/us/b") == US_B
    assert replicas.rack_named("a//b") is None
    assert replicas.rack_named("") is None


def test_nearest_replica_is_the_one_whose_reported_rack_shares_the_most_steps():
    racks = {0: "/eu/a/r1", 1: "/eu/a/r2", 2: "/eu/b/r1", 3: "/us/a/r1"}
    tree = cluster("region zone rack", racks)
    drifted = [BrokerLocation(broker, rack) for broker, rack in ({**racks, 1: "/asia/a/r1"}).items()]
    rows = [(0, 0, [3, 2, 1], [3, 2, 1], 3, None), (0, 1, [2, 1, 0], [2, 1, 0], 0, None), (0, 2, [3], [3], None, None)]
    replicas = ReplicaPlaces(tree, drifted, table(["t"], rows))

    def served(row, rack):
        return int(tree.ids[nearest(replicas, np.array([row]), [rack])[0]])

    assert served(0, "/eu/a/r2") == 2
    assert served(0, "/asia") == 1
    assert served(1, "/eu/c") == 0  # 2 and 0 share a step, and 0 leads
    assert nearest(replicas, np.array([2]), ["/us/a/r1"]).tolist() == [-1]
    assert nearest(replicas, np.array([0, 1, 0]), ["/eu", "/asia", "/eu"]).tolist() == [2, 1, 2]


def test_near_means_the_same_domain_of_the_requested_level():
    reader = group(member(rack="/eu/a", orders=[1, 2]))
    assert counts(locality(ReplicaPlaces(TREE, BROKERS, PARTITIONS, "region"), reader, {})) == (2, 2, 1, 1)
    assert counts(locality(ReplicaPlaces(TREE, BROKERS, PARTITIONS, "zone"), reader, {})) == (2, 1, 0, 2)
    with pytest.raises(TopologyError, match='no level "rack"'):
        ReplicaPlaces(TREE, BROKERS, PARTITIONS, "rack")


def test_short_paths_share_one_domain():
    tree = cluster("region zone", {0: "/eu", 1: "/eu/a"})
    replicas = ReplicaPlaces(tree, (), table(["t"], [(0, 0, [0], [0], 0, None), (0, 1, [1], [1], 1, None)]))
    seen = locality(replicas, group(member(t=[0, 1])), {"10.0.0.1": ("eu",)})
    assert counts(seen) == (2, 1, 1, 1)


def test_brokers_without_a_rack_are_near_no_member():
    tree = cluster("zone", {0: None, 1: "/a"})
    replicas = ReplicaPlaces(tree, (), table(["t"], [(0, 0, [0], [0], 0, None), (0, 1, [1], [1], 1, None)]))
    assert counts(locality(replicas, group(member(t=[0, 1])), {"10.0.0.1": ("a",)})) == (2, 1, 1, 0)
    bare = ReplicaPlaces(tree.without_racks(), (), replicas.partitions)
    assert counts(locality(bare, group(member(t=[0, 1])), {"10.0.0.1": ("a",)})) == (2, 0, 0, 0)


def test_cross_bytes_are_summed_over_partitions_with_a_known_rate():
    reader = group(member(rack="/eu/a", orders=[0, 1, 2, 3], sales=[0]))
    assert locality(REPLICAS, reader, {}).cross_bytes_per_second is None
    assert locality(REPLICAS, reader, {}, rates=RATES).cross_bytes_per_second == 110
    assert locality(REPLICAS, group(member(rack="/eu/a", sales=[0])), {}, rates=RATES).cross_bytes_per_second is None
    assert locality(REPLICAS, group(member(rack="/eu/a", orders=[0])), {}, rates=RATES).cross_bytes_per_second == 0


def test_could_be_near_considers_only_members_that_subscribe_to_the_topic():
    crossed = (member("a", rack="/eu/a", orders=[1]), member("b", rack="/us/a", orders=[0]))
    seen = locality(REPLICAS, group(*crossed), {})
    assert (seen.near, seen.could_be_near) == (1, 2)
    only = (
        member("a", rack="/us/b", orders=[0], topics=frozenset({"orders"})),
        member("b", rack="/eu/a", sales=[0], topics=frozenset({"sales"})),
    )
    assert locality(REPLICAS, group(*only), {}).could_be_near == 0


@pytest.mark.parametrize(("most", "could_be_near"), [(2, 2), (1, 3)])
def test_could_be_near_is_an_upper_bound_for_groups_with_too_many_kinds_of_members(monkeypatch, most, could_be_near):
    monkeypatch.setattr(group_locality, "_MOST_KINDS", most)
    orders = frozenset({"orders"})
    members = (
        member("a", rack="/eu/a", orders=[0, 1], topics=orders),
        member("b", rack="/us/b", orders=[2, 3], topics=orders),
    )
    assert locality(REPLICAS, group(*members), {}).could_be_near == could_be_near
    assert locality(REPLICAS, group(*members[1:]), {}).could_be_near == 0


def test_range_assigns_equal_partition_numbers_of_topics_together():
    one_each = table(
        ["left", "right"],
        [(t, n, [0 if (t + n) % 2 else 2], [0, 2], 0, None) for t in range(2) for n in range(2)],
    )
    replicas = ReplicaPlaces(TREE, BROKERS, one_each)
    members = (member("a", rack="/eu/a", left=[0], right=[0]), member("b", rack="/us/a", left=[1], right=[1]))
    assert locality(replicas, group(*members, assignor="range"), {}).could_be_near == 2
    assert locality(replicas, group(*members, assignor="cooperative-sticky"), {}).could_be_near == 4


def test_deleted_partitions_and_idle_members_add_no_partitions():
    reader = group(member("a", rack="/eu/a", orders=[0, 7], gone=[0]), member("b", rack="/eu/b"))
    seen = locality(REPLICAS, reader, {})
    assert (seen.members, *counts(seen)) == (2, 1, 1, 1, 0)


def test_partition_that_two_members_claim_counts_once():
    seen = locality(REPLICAS, group(member("a", rack="/eu/a", orders=[0]), member("b", rack="/us/b", orders=[0])), {})
    assert counts(seen) == (1, 1, 1, 0)


def test_empty_group_and_empty_cluster_have_no_reads():
    assert counts(locality(REPLICAS, group(), {})) == (0, 0, 0, 0)
    nothing = ReplicaPlaces(cluster("zone", {}), (), table([], []))
    seen = locality(nothing, group(member(rack="/a", t=[0])), {}, rates=np.zeros(0))
    assert (seen.members, seen.cross_bytes_per_second, *counts(seen)) == (1, None, 0, 0, 0, 0)


def test_host_address_normalizes_addresses():
    assert host_address("/10.0.0.7") == "10.0.0.7"
    assert host_address("/fd00:0:0:0:0:0:0:7") == host_address("fd00::7") == "fd00::7"
    assert host_address("/fe80:0:0:0:0:0:0:1%eth0") == "fe80::1"
    assert host_address("client.example") == "client.example"
