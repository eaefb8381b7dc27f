"""Where brokers stand, beside where Kafka believes they stand."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from rackspan.core.snapshot import Snapshot, tree_of
from rackspan.core.topology import Broker, RackPath, RackTree, parse_rack


@dataclass(frozen=True, slots=True)
class BrokerTruth:
    """
    A broker: the rack it stands in, and its `broker.rack` as Kafka reports it; None where there is none.

    `draining`: it shall hold nothing.
    """

    id: int
    rack: RackPath | None = None
    reported: str | None = None
    online: bool = True
    draining: bool = False

    @property
    def drifts(self) -> bool:
        """Whether Kafka believes it stands elsewhere."""
        return self.rack is not None and self.reported is not None and parse_rack(self.reported) != self.rack


@dataclass(frozen=True)
class Truth:
    """
    The brokers of a cluster and the levels of its rack tree.

    Where some racks are not known and `ignore_missing` is not set, nothing is said of partitions on those brokers.
    """

    levels: tuple[str, ...]
    brokers: tuple[BrokerTruth, ...]
    ignore_missing: bool = False

    @cached_property
    def tree(self) -> RackTree:
        """The rack tree; drained brokers are not eligible. Raises TopologyError."""
        brokers = tuple(Broker(b.id, b.rack, eligible=not b.draining, online=b.online) for b in self.brokers)
        tree = RackTree(self.levels, brokers)
        return tree.without_racks() if self.ignore_missing and tree.missing_racks else tree

    @cached_property
    def drained(self) -> frozenset[int]:
        """Ids of the brokers that shall hold nothing."""
        return frozenset(broker.id for broker in self.brokers if broker.draining)

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """Ids of the brokers whose rack is not known while others' are, ascending."""
        return () if self.ignore_missing else self.tree.missing_racks


def truth_of(snapshot: Snapshot, levels: tuple[str, ...] = (), drained: Collection[int] = ()) -> Truth:
    """Take Kafka's word for where brokers stand. Raises RackPathError and TopologyError."""
    return truth_in(tree_of(snapshot.brokers, levels, drained=drained), snapshot)


def truth_in(tree: RackTree, snapshot: Snapshot) -> Truth:
    """Take a tree's word for where a snapshot's brokers stand; those not eligible are drained."""
    reported = {broker.id: broker.rack for broker in snapshot.brokers}
    brokers = tuple(BrokerTruth(b.id, b.rack, reported[b.id], draining=not b.eligible) for b in tree.brokers)
    return Truth(tree.levels, brokers)
