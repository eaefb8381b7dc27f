"""Everything that decisions about topics of one topology depend on, besides the topic itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.reconcile.ports import ReplicaCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopologySpec
    from rackspan.core.placement import Placer
    from rackspan.reconcile.cluster.racks import RackView


class BrokerLoad:
    """Replicas and preferred leaders per broker: what Kafka reported plus what was placed since."""

    def __init__(self, seen: ReplicaCounts) -> None:
        self.replicas: Counter[int] = Counter(seen.replicas)
        self.leaders: Counter[int] = Counter(seen.leaders)
        self.turn = asyncio.Lock()
        """Held while placements are computed from this load, so that those after them see what they add."""

    @property
    def holders(self) -> Collection[int]:
        """Brokers with replicas."""
        return {broker for broker, count in self.replicas.items() if count}

    def copy(self) -> BrokerLoad:
        """The same load by itself, to compute with in a thread."""
        return BrokerLoad(ReplicaCounts(self.replicas, self.leaders, 0))

    def add(self, assignment: Iterable[Sequence[int]]) -> None:
        """Count partitions that are about to be created, so that the next topic goes where less lies."""
        for replicas in assignment:
            self.replicas.update(replicas)
            self.leaders.update(replicas[:1])

    def remove(self, assignment: Iterable[Sequence[int]]) -> None:
        """Count partitions no more that Kafka refused to create."""
        for replicas in assignment:
            self.replicas.subtract(replicas)
            self.leaders.subtract(replicas[:1])


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A topology that is fit to act on: Kafka answers, and it is the cluster that was meant."""

    topology: ObjectKey
    spec: RackTopologySpec
    cluster_id: str
    racks: RackView
    load: BrokerLoad = field(compare=False)
    placers: Mapping[str, Placer] = field(compare=False)
    default_min_insync: int | None = field(default=None, compare=False)
    """The brokers' min.insync.replicas, for topics that do not set it."""

    def decides_alike(self, other: object) -> bool:
        """Whether every decision about a topic would come out the same under `other`."""
        return (
            isinstance(other, ClusterState)
            and self.cluster_id == other.cluster_id
            and self.spec == other.spec
            and self.racks == other.racks
        )
