"""Outages of small clusters, counted by hand. `tests/property/test_outage.py` compares with an oracle."""

import numpy as np
from tests.unit.core.clusters import cluster

from rackspan.core.outage import Outage, min_insync_replicas, outage_of, outages
from rackspan.core.partitions import TopicPartition
from rackspan.core.snapshot import table
from rackspan.core.topology import Broker, RackTree

TREE = cluster("zone rack", {0: "/a/r1", 1: "/a/r2", 2: "/b/r1", 3: "/b/r1"})
PARTITIONS = table(
    ["two", "one"],
    [
        (0, 0, [0, 2], [0, 2], 0, 100),
        (0, 1, [0, 1], [0, 1], 0, 10),
        (0, 2, [2, 0], [2], 2, 1),
        (1, 0, [3], [3], 3, None),
    ],
)
LEAST = np.array([2, 1])


def test_outages_lists_the_loss_of_each_domain_of_each_level():
    rows = {(row.level, row.domain): row.outage for row in outages(TREE, PARTITIONS, LEAST)}
    assert rows["zone", "/a"] == Outage(1, 3, 3, 4, 121)
    assert rows["zone", "/b"] == Outage(2, 3, 1, 3, 101)
    assert rows["rack", "/a/r1"] == Outage(0, 3, 4, 3, 111)
    assert rows["broker", "3"] == Outage(1, 2, 1, 1, None), "the size of its replica is not known"
    assert len(rows) == 2 + 3 + 4


def test_min_insync_above_the_replica_count_counts_as_the_replica_count():
    assert outage_of(TREE, PARTITIONS, np.array([9, 2]), ()) == outage_of(TREE, PARTITIONS, LEAST, ())
    assert list(outages(TREE, PARTITIONS, np.array([9, 2]))) == list(outages(TREE, PARTITIONS, LEAST))


def test_outage_of_no_brokers_is_the_current_state():
    assert outage_of(TREE, PARTITIONS, LEAST, ()) == Outage(0, 1, 2, 0, 0)


def test_outage_bytes_sum_the_known_sizes_and_are_none_if_no_size_is_known():
    partitions = table(["a"], [(0, 0, [0], [0], 0, 0), (0, 1, [1], [1], 1, None), (0, 2, [1, 2], [1], 1, 7)])
    told = {row.domain: row.outage.size_bytes for row in outages(TREE, partitions, np.array([1]))}
    assert [told[broker] for broker in "0123"] == [0, 7, 7, 0], "the sum of the known sizes, and 0 without replicas"
    some = partitions.rows(np.array([0, 1]))
    told = {row.domain: row.outage.size_bytes for row in outages(TREE, some, np.array([1]))}
    assert [told[broker] for broker in "0123"] == [0, None, 0, 0]


def test_loss_of_two_brokers_takes_more_partitions_offline_than_the_single_losses():
    both = outage_of(TREE, PARTITIONS, LEAST, [0, 2])
    assert both.offline == 2
    assert outage_of(TREE, PARTITIONS, LEAST, [0]).offline + outage_of(TREE, PARTITIONS, LEAST, [2]).offline == 1


def test_replicas_on_unknown_brokers_count_as_lost():
    partitions = table(["a"], [(0, 0, [0, 99], [0, 99], 99, 5)])
    assert outage_of(TREE, partitions, np.array([1]), ()) == Outage(0, 0, 1, 0, 0)
    assert outage_of(TREE, partitions, np.array([1]), [0]).offline == 1


def test_replicas_on_offline_brokers_neither_lead_nor_acknowledge():
    """The last ISR member and the ELR members stay listed while they are offline. Their data may have to be copied."""
    tree = RackTree(("zone",), (Broker(0, ("a",), online=False), Broker(1, ("b",))))
    rows = [(0, 0, [0, 1], [0], None, 5), (0, 1, [0, 1], [], None, 5)]
    partitions = table(["a"], rows, {TopicPartition("a", 1): [0]})
    assert outage_of(tree, partitions, np.array([1]), ()) == Outage(2, 2, 0, 0, 0)
    assert [(row.domain, row.outage) for row in outages(tree, partitions, np.array([1])) if row.level == "zone"] == [
        ("/a", Outage(2, 2, 0, 2, 10)),
        ("/b", Outage(2, 2, 0, 2, 10)),
    ]


def test_outage_bytes_are_exact_beyond_64_bits():
    large = 2**63 - 1
    partitions = table(["a"], [(0, number, [0], [0], 0, large) for number in range(3)])
    row = next(row for row in outages(TREE, partitions, np.array([1])) if row.domain == "0")
    assert row.outage.size_bytes == 3 * large == outage_of(TREE, partitions, np.array([1]), [0]).size_bytes


def test_min_insync_has_the_default_of_kafka_if_it_is_not_set():
    assert min_insync_replicas([{}, {"min.insync.replicas": "2"}]).tolist() == [1, 2]
