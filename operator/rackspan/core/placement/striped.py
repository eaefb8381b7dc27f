"""The striped placer: KIP-36's rack-aware assignment, the algorithm of Kafka's AdminUtils until 4.0.

GOALS
First, the replicas of a partition are in as many racks as possible. Second, leaders rotate over the brokers and
alternate between racks. Third, followers vary from round to round.

A rack is the whole rack id as one string: `/eu/dc1/r1` and `/eu/dc1/r2` are as far apart as `/eu` and `/us`. If racks
differ in size, brokers of small racks get more replicas than others.

CONSTRAINTS
A partition has at most one replica per broker. Either all brokers have a rack id or none has. Only open eligible
brokers get replicas.

ALGORITHM
Brokers are listed with racks alternating: the first of each rack in order, then the second of each, and so on. With `n`
brokers, partition `p` starts at index `(p + startIndex) mod n` of that list. The candidates for followers are those of
the simple placer, with the shift multiplied by the number of racks. A candidate is skipped if

1. its rack has a replica and some rack has none, or
2. it holds a replica itself and some broker holds none.

For example, with start index and shift 0 and RF 3:

    racks        rack1: 0 5   rack2: 3 4   rack3: 1 2
    alternated   0 3 1 5 4 2
    partition      0     1     2     3     4     5       6     7     8     9    10    11
    replicas     0,3,1 3,1,5 1,5,4 5,4,2 4,2,0 2,0,3   0,4,2 3,2,0 1,0,3 5,3,1 4,1,5 2,5,4

The seventh partition starts a new round: the shift grows by three, the number of racks.
"""

import numpy as np

from rackspan.core.placement.feasibility import (
    checked_tree,
    refuse_impossible_spread,
    refuse_leaders,
    refuse_missing_racks,
    refuse_too_few,
)
from rackspan.core.placement.multilevel import continued
from rackspan.core.placement.simple import next_replica, resized, started, usable
from rackspan.core.placer import ClusterView, Placement, PlacementSpec
from rackspan.core.topology import IntArray, RackTree


class Striped:
    """The placer of KIP-36."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement:
        """Place the partitions of `spec`. Raises InfeasibleError, and MissingRackError if some racks are missing."""
        refuse_leaders(spec, "Striped")
        checked = checked_tree(spec, cluster.tree)
        refuse_missing_racks(checked)
        refuse_impossible_spread(checked, spec)
        if resized(spec):
            return continued(checked.flattened(), spec, cluster)
        tree = usable(checked).flattened()
        refuse_too_few(checked, spec.replication_factor)
        brokers = alternated(tree)
        racks = tree.nodes[1].of_broker[brokers]
        first, shift = started(spec, len(tree))
        partition = np.arange(len(spec.current), spec.partitions)
        start = (first + partition) % len(tree)
        rounds = (shift + partition // len(tree)) * len(tree.nodes[1])
        rows = tree.ids[brokers[_stripes(racks, start, rounds, spec.replication_factor)]]
        return Placement([*spec.current, *rows.tolist()] if spec.current else rows)


def alternated(tree: RackTree) -> IntArray:
    """Return the positions of the brokers of a tree of one level, racks alternating."""
    racks = tree.nodes[1]
    turn = np.arange(len(tree)) - racks.first_broker[racks.of_broker]
    return np.lexsort((racks.of_broker, turn))


def _stripes(racks: IntArray, start: IntArray, shift: IntArray, size: int) -> IntArray:
    """Return indexes into the alternated list, shape (partitions, size). All partitions try a candidate at once."""
    brokers, distinct = len(racks), len(np.unique(racks))
    chosen = np.empty((len(start), size), dtype=np.int64)
    chosen[:, 0] = start
    tried = np.zeros(len(start), dtype=np.int64)
    for replica in range(1, size):
        seeking = np.arange(len(start))
        while len(seeking):
            candidate = (start[seeking] + next_replica(shift[seeking], tried[seeking], brokers)) % brokers
            tried[seeking] += 1
            before = chosen[seeking, :replica]
            skip = (before == candidate[:, None]).any(axis=1)
            if replica < distinct:  # each replica so far has a rack of its own, and some rack has none
                skip |= (racks[before] == racks[candidate][:, None]).any(axis=1)
            done = seeking[~skip]
            chosen[done, replica] = candidate[~skip]
            seeking = seeking[skip]
    return chosen
