"""Rows of consumer groups, and racks of hosts from nodes and pods."""

import math

import numpy as np
import pytest
from tests.unit.core.clusters import cluster

from rackspan.api.racktopology import KafkaSpec, LevelSpec, RackTopologySpec
from rackspan.core.consumers.group_locality import GroupSeen, MemberSeen, Selector
from rackspan.core.snapshot import Snapshot, table
from rackspan.core.topology import BrokerLocation
from rackspan.reports.document import MAX_GROUPS, GroupRow
from rackspan.reports.group_rows import HostFacts, group_rows, racks_of_hosts

TREE = cluster("zone rack", {0: "/a/r1", 1: "/b/r1"})
SNAPSHOT = Snapshot(
    "cluster",
    (BrokerLocation(0, "/a/r1"), BrokerLocation(1, "/b/r1")),
    table(["orders"], [(0, 0, [0, 1], [0, 1], 0, None), (0, 1, [1], [1], 1, None), (0, 2, [1], [1], 1, None)]),
    ({},),
)
HOSTS = {"10.0.0.1": ("a", "r1"), "10.0.0.2": ("b", "r1")}


def group(name, host, *partitions, rack=None):
    return GroupSeen(name, "range", (MemberSeen(name, name, host, {"orders": partitions}, rack),))


def test_row_has_the_counts_and_the_byte_rate():
    rates = {"shop": np.array([5.0, 7.0, math.nan])}
    (row,) = group_rows([group("shop", "10.0.0.1", 0, 1, 2)], SNAPSHOT, TREE, HOSTS, rates_of=rates.get)
    assert row == GroupRow("shop", 1, 3, 1, 1, 1, 0, 7.0)


def test_most_expensive_groups_are_first():
    groups = [
        group("near", "10.0.0.1", 0),
        group("empty", "10.0.0.9"),
        group("unknown", "10.0.0.9", 0),
        group("far", "10.0.0.1", 1),
        group("farther", "10.0.0.1", 1, 2),
        group("heavy", "10.0.0.1", 1),
    ]
    rates = {"heavy": np.array([0.0, 1.0, 0.0])}
    rows = group_rows(groups, SNAPSHOT, TREE, HOSTS, rates_of=rates.get)
    assert [row.group for row in rows] == ["heavy", "farther", "far", "unknown", "empty", "near"]
    assert [row.members_without_rack for row in rows] == [0, 0, 0, 1, 1, 0]


def test_at_most_max_groups_are_listed_with_the_most_expensive_first():
    groups = [group(f"group-{number}", "10.0.0.1", number % 2) for number in range(MAX_GROUPS + 50)]
    rows = group_rows(groups, SNAPSHOT, TREE, HOSTS)
    assert len(rows) == MAX_GROUPS
    assert all(row.near == 0 for row in rows[: len(groups) // 2])


@pytest.mark.parametrize(("selector", "near"), [(Selector.LEADER, 0), (Selector.SAME_RACK, 1), (Selector.NEAREST, 1)])
def test_selector_determines_which_partitions_are_read_near(selector, near):
    (row,) = group_rows([group("shop", "10.0.0.2", 0, rack="/b/r1")], SNAPSHOT, TREE, HOSTS, selector)
    assert (row.near, row.reads_near) == (1, near)


def test_racks_of_hosts_are_those_of_their_nodes():
    spec = RackTopologySpec(
        kafka=KafkaSpec("kafka:9092"), levels=(LevelSpec("zone", "zone"), LevelSpec("rack", "rack"))
    )
    nodes = {"n1": {"zone": "a", "rack": "r1"}, "n2": {"zone": "b"}, "n3": {"rack": "r1"}}
    hosts = [
        HostFacts(("10.0.0.1", "fd00:0:0::1"), "n1"),
        HostFacts(("10.0.0.2",), "n2"),
        HostFacts(("10.0.0.3",), "n3"),  # the node has no value for the first level
        HostFacts(("10.0.0.4",), "gone"),
        HostFacts(("10.0.0.5",), None),
        HostFacts(("192.168.0.1",), "n1"),
        HostFacts(("192.168.0.1",), "n1"),  # on the host network
        HostFacts(("10.0.0.6",), "n1"),
        HostFacts(("10.0.0.6",), "n2"),  # one address on two nodes
    ]
    assert racks_of_hosts(hosts, nodes, spec) == {
        "10.0.0.1": ("a", "r1"),
        "fd00::1": ("a", "r1"),
        "10.0.0.2": ("b",),
        "192.168.0.1": ("a", "r1"),
    }
