"""The actual racks of brokers, and the racks that Kafka reports."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from rackspan.core.snapshot import Snapshot, tree_of
from rackspan.core.topology import BrokerLocation, RackTree


@dataclass(frozen=True)
class BrokerLocations:
    """The brokers of a cluster and the levels of its rack tree.

    If some racks are not known and `ignore_missing` is not set, partitions on those brokers are not judged. None are
    judged if there are levels and no rack is known.
    """

    levels: tuple[str, ...]
    brokers: tuple[BrokerLocation, ...]
    ignore_missing: bool = False

    @cached_property
    def tree(self) -> RackTree:
        """The rack tree, in which drained brokers are not eligible. Raises TopologyError."""
        tree = RackTree(self.levels, tuple(broker.in_tree for broker in self.brokers))
        ignored = self.ignore_missing and any(broker.rack is None for broker in self.brokers)
        return tree.without_racks() if ignored else tree

    @cached_property
    def drained(self) -> frozenset[int]:
        """The ids of drained brokers, which must not keep replicas."""
        return frozenset(broker.id for broker in self.brokers if broker.draining)

    @cached_property
    def online(self) -> frozenset[int]:
        """The ids of the brokers that are online."""
        return frozenset(broker.id for broker in self.brokers if broker.online)

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ids of the brokers without a known rack, ascending; empty with `ignore_missing` and without levels."""
        if self.ignore_missing or not self.levels:
            return ()
        return tuple(sorted(broker.id for broker in self.brokers if broker.rack is None))

    @cached_property
    def missing_apart(self) -> RackTree:
        """The rack tree in which each broker of `missing` is alone in a domain of every level."""
        if not self.missing:
            return self.tree
        alone = {broker: (f"/{broker}",) * len(self.levels) for broker in self.missing}  # no rack has a "/" in a step
        brokers = (replace(broker, rack=alone.get(broker.id, broker.rack)) for broker in self.tree.brokers)
        return RackTree(self.levels, tuple(brokers))


def reported_locations(
    snapshot: Snapshot, levels: tuple[str, ...] = (), drained: Collection[int] = ()
) -> BrokerLocations:
    """Return the brokers of a snapshot in the racks that Kafka reports. Raises RackPathError and TopologyError."""
    return locations_in(tree_of(snapshot.brokers, levels, drained=drained), snapshot)


def rack_warnings(brokers: Collection[BrokerLocation]) -> tuple[str, ...]:
    """Return a warning if no broker reports a rack: every placement is compliant then."""
    if not brokers or any(broker.reported_rack for broker in brokers):
        return ()
    return ("no broker has a rack, so no loss of a rack is checked: set broker.rack, or use a RackTopology",)


def locations_in(tree: RackTree, snapshot: Snapshot) -> BrokerLocations:
    """Return the brokers of a snapshot in the racks of a tree; brokers that are not eligible there are drained."""
    reported = {broker.id: broker.reported_rack for broker in snapshot.brokers}
    brokers = tuple(
        BrokerLocation(b.id, reported[b.id], b.rack, draining=not b.eligible, cordoned=b.cordoned) for b in tree.brokers
    )
    return BrokerLocations(tree.levels, brokers)
