"""Write guarantees of topics, and the sentences that describe them."""

import numpy as np
import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.durability import write_guarantees

THREE = grid("region zone", 1, 3, 2)
"""Brokers 0 and 1 in the first zone, 2 and 3 in the second, 4 and 5 in the third."""


def guarantee(rows, least, tree=THREE):
    return write_guarantees(tree, np.array(rows), np.zeros(len(rows), dtype=np.int64), np.array([least]))[0]


ACKS_1 = " acks=1: it is on one broker, and losing that may lose it."
IN = "acks=all: an acknowledged write is in at least 1 domain of region,"
KEPT = "losing any one zone or broker keeps it, losing one region may lose it; "
COUNTS = " min.insync.replicas 3 counts as 2, the number of replicas; brokers before Kafka 3.7 refuse all writes."
ELR = " Without eligible leader replicas (KIP-966) it is kept only while replicas elsewhere are in sync."
GOES_ON = "losing any one zone or broker leaves the topic writable, losing one region may stop writes."


@pytest.mark.parametrize(
    ("rows", "least", "sentence"),
    [
        ([[0, 2, 4], [2, 4, 0]], 2, f"{IN} 2 of zone, 2 of broker; {KEPT}{GOES_ON}{ELR}"),
        ([[0, 2, 4]], 1, f"{IN} 1 of zone, 1 of broker; losing one region, zone or broker may lose it; {GOES_ON}"),
        (
            [[0, 2, 4]],
            3,
            f"{IN} 3 of zone, 3 of broker; {KEPT}losing one region, zone or broker may stop writes.{ELR}",
        ),
        (
            [[0, 2]],
            3,
            f"{IN} 2 of zone, 2 of broker; {KEPT}losing one region, zone or broker may stop writes.{ELR}{COUNTS}",
        ),
    ],
)
def test_sentence_says_which_losses_keep_acknowledged_writes_and_which_stop_writes(rows, least, sentence):
    assert guarantee(rows, least).sentence == sentence + ACKS_1


def test_four_replicas_in_three_zones_need_min_insync_three_for_two_zones():
    """Cloudera's example: with min.insync.replicas 2, both in-sync replicas may be in one zone."""
    assert [one.domains for one in guarantee([[0, 1, 2, 4]], 2).levels] == [1, 1, 2]
    assert [one.domains for one in guarantee([[0, 1, 2, 4]], 3).levels] == [1, 2, 3]


def test_guarantees_are_computed_per_topic_and_omit_topics_without_partitions():
    found = write_guarantees(THREE, np.array([[0, 2], [0, 1]]), np.array([2, 0]), np.array([2, 9, 2]))
    assert {topic: one.levels[1].domains for topic, one in found.items()} == {0: 1, 2: 2}


def test_no_guarantees_without_partitions():
    assert write_guarantees(THREE, np.zeros((0, 3), dtype=np.int64), np.array([], dtype=np.int64), np.array([1])) == {}


def test_broker_without_a_rack_counts_as_possibly_in_any_rack():
    tree = cluster("zone", {0: "/a", 1: "/b", 2: None})
    assert [one.domains for one in guarantee([[0, 2]], 2, tree).levels] == [1, 2]
    assert [one.domains for one in guarantee([[0, 1, 2]], 2, tree).levels] == [1, 2]
    assert [one.domains for one in guarantee([[0, 1, 2]], 3, tree).levels] == [2, 3]
