"""The rings placer: KIP-879's multi-level assignment, with fixes for two faults of the published algorithm.

GOALS
First, replicas of a partition alternate over the children of every domain, at every level. Second, leaders and
followers rotate over the brokers.

CONSTRAINTS
A partition has at most one replica per broker. Either all brokers have a rack id or none has. Only open eligible
brokers get replicas.

ALGORITHM
KIP-879 in four steps:

1. Build the tree of racks. The children of each domain form a ring with a pointer to one child.
2. For the next replica, start at the root and follow the pointers from domain to child.
3. Advance the pointer of each ring on this path by one.
4. The broker at the end of the path gets the replica.

The published steps have two faults:

- If the number of replicas that a ring assigns per partition is a multiple of its children, the pointer is back at the
  same child for each partition, so all leaders are below that child. This may happen at any level. First fix: the
  replica whose broker leads the fewest partitions leads, the first one if several are equal. The other replicas follow
  in the order of the rings, starting after the leader.
- In an uneven tree, a small domain is visited twice for one partition and gives the same broker twice. Second fix: a
  ring skips children whose brokers all have a replica of this partition.

    /dc1/r1: 0   /dc2/r1: 1   /dc2/r2: 2, RF 3             published   fixed
    partition 0                                              0 1 0      0 1 2
    partition 1                                              2 0 1      1 2 0

With the second fix, each partition has a fair split, because one turn of a ring gives one replica to each child that
has a free broker. The rings do not balance brokers of domains of different sizes, and ignore the present load of
brokers. A leader is never changed afterwards, so leaders are almost, but not always, as even as possible.
"""

from itertools import islice

import numpy as np

from rackspan.core.placement.feasibility import (
    checked_tree,
    refuse_impossible_spread,
    refuse_leaders,
    refuse_missing_racks,
    refuse_too_few,
)
from rackspan.core.placement.multilevel import continued
from rackspan.core.placement.seeds import scrambled
from rackspan.core.placement.simple import resized, usable
from rackspan.core.placer import ClusterView, Placement, PlacementSpec
from rackspan.core.topology import RackTree


class Rings:
    """The placer of KIP-879."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement:
        """Place the partitions of `spec`. Raises InfeasibleError, and MissingRackError if some racks are missing."""
        refuse_leaders(spec, "Rings")
        checked = checked_tree(spec, cluster.tree)
        refuse_missing_racks(checked)
        refuse_impossible_spread(checked, spec)
        if resized(spec):
            return continued(checked, spec, cluster)
        tree = usable(checked)
        refuse_too_few(checked, spec.replication_factor)
        rings = _Rings(tree, spec)
        rows = (rings.place(spec.replication_factor) for _ in range(spec.partitions))
        return Placement([*spec.current, *islice(rows, len(spec.current), None)])


class _Rings:
    """The pointers of all rings. They keep their state from partition to partition."""

    def __init__(self, tree: RackTree, spec: PlacementSpec) -> None:
        self._ids = tree.ids.tolist()
        self._room = [level.capacity.tolist() for level in tree.nodes]
        self._rings: list[list[range]] = []
        self._points: list[list[int]] = []
        for depth, (above, below) in enumerate(zip(tree.nodes, tree.nodes[1:], strict=False)):
            starts = above.first_child.tolist()
            rings = [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(below)], strict=True)]
            drawn = scrambled(spec.seed, depth, np.arange(len(rings))).tolist()
            first = drawn if spec.start_index is None else [spec.start_index] * len(rings)
            self._rings.append(rings)
            self._points.append([at % len(ring) for at, ring in zip(first, rings, strict=True)])
        self._led = dict.fromkeys(self._ids, 0)

    def place(self, size: int) -> tuple[int, ...]:
        """Return the replicas of the next partition."""
        taken: list[dict[int, int]] = [{} for _ in self._room]
        asked = [self._ids[self._ask(taken)] for _ in range(size)]
        leader = min(range(size), key=lambda at: self._led[asked[at]])  # the first fix
        self._led[asked[leader]] += 1
        return (*asked[leader:], *asked[:leader])

    def _ask(self, taken: list[dict[int, int]]) -> int:
        domain = 0
        for depth, rings in enumerate(self._rings):
            ring, at = rings[domain], self._points[depth][domain]
            held, room = taken[depth + 1], self._room[depth + 1]
            while held.get(ring[at], 0) >= room[ring[at]]:  # the second fix
                at = (at + 1) % len(ring)
            self._points[depth][domain] = (at + 1) % len(ring)
            domain = ring[at]
            held[domain] = held.get(domain, 0) + 1
        return domain
