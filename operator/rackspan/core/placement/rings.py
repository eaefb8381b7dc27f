"""
The rings placer: KIP-879's multi-level assignment, repaired where its steps go wrong.

GOALS
First, replicas of a partition alternate over the children of every domain, at every level. Second, leaders and
followers go round the brokers.

CONSTRAINTS
No broker twice in a partition; all brokers have a rack id or none has; only open eligible brokers.

ALGORITHM
KIP-879 in four steps:

1. Build the tree of racks; the children of each domain form a ring.
2. For the next replica, ask the root. A domain that is asked passes the question to the child its ring points at.
3. The ring moves on by one each time it was asked.
4. A broker that is asked takes the replica.

Taken literally this goes wrong twice:

- A ring that is asked as often for each partition as it has children, or a multiple of that, turns by whole turns, and
  every leader is below the same child; so it goes at any level. Repair: of the replicas of a partition, in the order in
  which the rings gave them, the one whose broker leads fewest leads, the first of those; the others follow in turn.
- In an uneven tree a small domain is asked twice for one partition and names the same broker twice. Repair: a ring
  passes over children whose brokers all have a replica of this partition.

    /dc1/r1: 0   /dc2/r1: 1   /dc2/r2: 2, RF 3             literally   repaired
    partition 0                                              0 1 0      0 1 2
    partition 1                                              2 0 1      1 2 0

With the second repair the rings deal each partition by a fair split, since a turn gives one replica to each child that
has a broker free. They do not balance brokers over uneven domains, and do not see what lies on brokers already. A
choice of leader is not taken back, so that leaders are nearly, not always quite, as even as they could be.
"""

from itertools import islice

import numpy as np

from rackspan.core.placement.feasibility import checked_tree, refuse_missing_racks, refuse_too_few
from rackspan.core.placement.multilevel import continued
from rackspan.core.placement.seeds import scrambled
from rackspan.core.placement.simple import resized, usable
from rackspan.core.placer import ClusterView, Placement, PlacementSpec
from rackspan.core.topology import RackTree


class Rings:
    """KIP-879."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement:
        """Place the partitions of `spec`. Raises InfeasibleError, and MissingRackError where some racks are missing."""
        checked = checked_tree(spec, cluster.tree)
        refuse_missing_racks(checked)
        if resized(spec):
            return continued(checked, spec, cluster)
        tree = usable(checked)
        refuse_too_few(checked, spec.replication_factor)
        rings = _Rings(tree, spec)
        rows = (rings.place(spec.replication_factor) for _ in range(spec.partitions))
        return Placement([*spec.current, *islice(rows, len(spec.current), None)])


class _Rings:
    """Where every ring points, from partition to partition."""

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
        """Replicas of the next partition."""
        taken: list[dict[int, int]] = [{} for _ in self._room]
        asked = [self._ids[self._ask(taken)] for _ in range(size)]
        leader = min(range(size), key=lambda at: self._led[asked[at]])  # the first repair
        self._led[asked[leader]] += 1
        return (*asked[leader:], *asked[:leader])

    def _ask(self, taken: list[dict[int, int]]) -> int:
        domain = 0
        for depth, rings in enumerate(self._rings):
            ring, at = rings[domain], self._points[depth][domain]
            held, room = taken[depth + 1], self._room[depth + 1]
            while held.get(ring[at], 0) >= room[ring[at]]:  # the second repair
                at = (at + 1) % len(ring)
            self._points[depth][domain] = (at + 1) % len(ring)
            domain = ring[at]
            held[domain] = held.get(domain, 0) + 1
        return domain
