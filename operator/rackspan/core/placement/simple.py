"""The simple placer: round robin over all brokers, regardless of racks. This is the algorithm of Kafka's AdminUtils.

GOALS
Leaders rotate over the brokers. The followers of the partitions that one broker leads vary from round to round.

CONSTRAINTS
A partition has at most one replica per broker. Only brokers that are eligible, online and not cordoned get replicas.

ALGORITHM
With `n` brokers in ascending order of id, partition `p` starts at broker `(p + startIndex) mod n`. Its follower `j` is

    1 + (shift + j) mod (n - 1)

brokers after the first one, and `shift` grows by one with each round of `n` partitions. With three brokers, start index
2, shift 2 and RF 3:

    partition       0      1      2      3      4      5
    shift           2      2      2      3      3      3
    replicas      2 0 1  0 1 2  1 2 0  2 1 0  0 2 1  1 0 2

If only the start index is given, it is also the first shift, as in Kafka. If neither is given, the seed sets both.
"""

import numpy as np

from rackspan.core.placement.feasibility import (
    checked_tree,
    refuse_impossible_spread,
    refuse_leaders,
    refuse_too_few,
)
from rackspan.core.placement.multilevel import continued
from rackspan.core.placer import ClusterView, Placement, PlacementSpec
from rackspan.core.topology import IntArray, RackTree


class Simple:
    """Rack-unaware round robin."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement:
        """Place the partitions of `spec`. Raises InfeasibleError."""
        refuse_leaders(spec, "Simple")
        tree = checked_tree(spec, cluster.tree)
        if not tree.missing_racks:
            refuse_impossible_spread(tree, spec)
        if resized(spec):
            return continued(tree.without_racks(), spec, cluster)
        brokers = np.sort(tree.ids[tree.eligible & tree.open])
        refuse_too_few(tree, spec.replication_factor)
        first, shift = started(spec, len(brokers))
        partition = np.arange(len(spec.current), spec.partitions)
        start = (first + partition) % len(brokers)
        follower = np.arange(spec.replication_factor - 1)
        step = next_replica(shift + partition // len(brokers), follower[:, None], len(brokers)).T
        rows = brokers[np.column_stack([start, (start[:, None] + step) % len(brokers)])]
        return Placement([*spec.current, *rows.tolist()] if spec.current else rows)


def resized(spec: PlacementSpec) -> bool:
    """Check whether existing partitions change their replication factor: the published rules only create partitions."""
    return any(len(row) != spec.replication_factor for row in spec.current)


def started(spec: PlacementSpec, brokers: int) -> tuple[int, int]:
    """Return start index and shift: as given, else from the seed."""
    if spec.start_index is None:
        first, shift = spec.seed % brokers, spec.seed // brokers % brokers
        return first, shift if spec.shift is None else spec.shift
    return spec.start_index, spec.start_index if spec.shift is None else spec.shift


def next_replica(shift: IntArray, follower: IntArray, brokers: int) -> IntArray:
    """Return how many brokers after the first replica a follower is."""
    return 1 + (shift + follower) % max(brokers - 1, 1)


def usable(tree: RackTree) -> RackTree:
    """Return the tree without the brokers that cannot get replicas."""
    return RackTree(tree.levels, tuple(broker for broker in tree.brokers if broker.eligible and broker.open))
