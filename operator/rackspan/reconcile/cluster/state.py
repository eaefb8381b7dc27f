"""What decisions about the topics of one topology depend on, apart from the topic itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from rackspan.reconcile.ports import ReplicaCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopologySpec
    from rackspan.core.placement import Placer
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import KafkaAdmin


class BrokerLoad:
    """Replicas and preferred leaders per broker id: Kafka's last count plus what was placed since."""

    def __init__(self, seen: ReplicaCounts) -> None:
        self.replicas: Counter[int] = Counter(seen.replicas)
        self.leaders: Counter[int] = Counter(seen.leaders)
        self.turn = asyncio.Lock()
        """Held while placements are computed, so that the next ones see the load that these add."""

    @property
    def holders(self) -> Collection[int]:
        """Brokers with replicas."""
        return {broker for broker, count in self.replicas.items() if count}

    def recount(self, seen: ReplicaCounts) -> None:
        """Take Kafka's newest count."""
        self.replicas, self.leaders = Counter(seen.replicas), Counter(seen.leaders)

    def copy(self) -> BrokerLoad:
        """An independent copy, for use in a thread."""
        return BrokerLoad(ReplicaCounts(self.replicas, self.leaders, 0))

    def add(self, assignment: Iterable[Sequence[int]]) -> None:
        """Add the replica lists of partitions that are about to be created."""
        for replicas in assignment:
            self.replicas.update(replicas)
            self.leaders.update(replicas[:1])

    def remove(self, assignment: Iterable[Sequence[int]]) -> None:
        """Subtract the replica lists of partitions that Kafka refused to create."""
        for replicas in assignment:
            self.replicas.subtract(replicas)
            self.leaders.subtract(replicas[:1])


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A topology whose Kafka cluster answers and is the one that was expected."""

    topology: ObjectKey
    spec: RackTopologySpec
    cluster_id: str
    racks: RackView
    load: BrokerLoad = field(compare=False)
    placers: Mapping[str, Placer] = field(compare=False)
    default_min_insync: int | None = field(default=None, compare=False)
    """The brokers' min.insync.replicas, for topics that do not set it."""
    settled: RackView | None = None
    """The racks that have lasted, where some have not: see `settling`."""

    @property
    def for_plans(self) -> ClusterState:
        """The same with the racks that have lasted: what replicas may be moved for."""
        return self if self.settled is None else replace(self, racks=self.settled, settled=None)

    def decides_like(self, other: object) -> bool:
        """Whether `other` is a state in which every decision about a topic is the same, its load aside."""
        return (
            isinstance(other, ClusterState)
            and self.cluster_id == other.cluster_id
            and self.spec == other.spec
            and self.racks == other.racks
            and self.settled == other.settled
        )


class ObservedCluster(Protocol):
    """The state of a topology's Kafka cluster as it was seen last, and its client where there is one.

    `epoch` changes with every state that decides differently; `out_of_sight` is for how many seconds nothing was seen,
    where that is so long that what was seen is history; `wake` has the cluster observed again soon.
    """

    @property
    def state(self) -> ClusterState | Failure: ...  # noqa: D102
    @property
    def admin(self) -> KafkaAdmin | None: ...  # noqa: D102
    @property
    def epoch(self) -> int: ...  # noqa: D102
    @property
    def out_of_sight(self) -> float | None: ...  # noqa: D102
    def wake(self) -> None: ...  # noqa: D102
