"""Write locality, compared with writes that are counted one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.clusters import cluster
from tests.unit.core.test_locality import BROKERS, RACKS, REPLICAS, TREE

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation
from rackspan.core.write_locality import WriteLocality, write_localities

IDS = [*RACKS.values(), "/eu/c", "us/a", "nowhere"]


def test_writes_go_evenly_to_all_leaders_and_skip_partitions_without_a_leader():
    orders, sales = write_localities(REPLICAS, {"/eu/a": 1, "/eu/b": 1})
    # Leaders of orders: 0 in /eu/a, 2 in /us/a, 1 in /eu/b, none. Leader of sales: 3 in /us/b; its follower: /eu/b.
    assert (orders.topic, orders.partitions) == ("orders", 3)
    assert orders.near == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert orders.near_by_rack == 1
    assert orders.could_be_near == pytest.approx(1 / 2)
    assert sales == WriteLocality("sales", 1, 0, 0, 0.5)


def test_partitioner_compares_whole_rack_ids_so_another_spelling_finds_no_leader():
    (orders, _) = write_localities(REPLICAS, {"us/a": 1})
    assert orders.near == orders.near_by_rack == pytest.approx(1 / 3)


def test_leader_with_rack_drift_is_chosen_by_its_reported_rack_and_counts_in_its_real_rack():
    drifted = ReplicaPlaces(TREE, [BrokerLocation(0, "/us/b"), *BROKERS[1:]], REPLICAS.partitions)
    (orders, _) = write_localities(drifted, {"/us/b": 1})
    assert orders.near_by_rack == 0


def test_rates_are_summed_over_partitions_with_a_known_rate():
    orders, sales = write_localities(REPLICAS, {"/eu/a": 1}, np.array([1.0, 10.0, math.nan, 1000.0, math.nan]))
    assert (orders.bytes_per_second, sales.bytes_per_second) == (11.0, None)


def test_topic_without_a_leader_has_no_write_locality():
    replicas = ReplicaPlaces(
        cluster("zone", {0: "/a"}), [BrokerLocation(0, "/a")], table(["t"], [(0, 0, [0], [], None, None)])
    )
    assert write_localities(replicas, {"/a": 1}) == []


@given(
    st.lists(st.permutations(list(RACKS)).map(lambda brokers: brokers[:2]), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.sampled_from(["/eu/a", "/us/b", None]), min_size=4, max_size=4),
    st.dictionaries(st.sampled_from(IDS), st.integers(1, 5), min_size=1),
    st.sampled_from(["region", "zone"]),
)
def test_shares_match_writes_that_are_counted_one_by_one(rows, in_sync, said, producers, level):
    reported = {broker: one or RACKS[broker] for broker, one in zip(RACKS, said, strict=True)}
    brokers = [BrokerLocation(broker, rack) for broker, rack in reported.items()]
    isr = [row if both else row[:1] for row, both in zip(rows, in_sync, strict=False)]
    made = table(["t"], [(0, at, row, isr[at], row[0], None) for at, row in enumerate(rows)])
    replicas = ReplicaPlaces(TREE, brokers, made, level)
    depth = ("region", "zone").index(level) + 1

    def domain(path):
        return path[:depth] if path else None

    of = {broker: domain(tuple(rack.strip("/").split("/"))) for broker, rack in RACKS.items()}
    whole = sum(producers.values())
    near = by_rack = 0.0
    weight_of = dict.fromkeys(of.values(), 0.0)
    for rack, weight in producers.items():
        here = domain(replicas.rack_named(rack))
        if here in weight_of:
            weight_of[here] += weight / whole
        leaders = [row[0] for row in rows]
        same = [leader for leader in leaders if reported[leader] == rack] or leaders
        near += weight / whole * sum(of[leader] == here for leader in leaders) / len(leaders)
        by_rack += weight / whole * sum(of[leader] == here for leader in same) / len(same)
    (found,) = write_localities(replicas, producers)
    assert found.near == pytest.approx(near)
    assert found.near_by_rack == pytest.approx(by_rack)
    assert found.could_be_near == pytest.approx(
        sum(max(weight_of[of[broker]] for broker in brokers) for brokers in isr) / len(rows)
    )
