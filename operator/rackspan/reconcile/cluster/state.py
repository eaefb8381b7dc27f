"""The inputs of decisions about the topics of one topology, apart from the topic.

Compliance and status follow the labels of nodes immediately. Moving replicas is expensive, so plans use only racks that
have been stable for a while (`Settling`): a flapping label moves nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from rackspan.reconcile.cluster.racks import status_racks, with_racks
from rackspan.reconcile.ports import ReplicaCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology, RackTopologySpec
    from rackspan.core.placement import Placer
    from rackspan.core.rack_path import RackPath
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import KafkaAdmin

RACKS_SETTLE_SECONDS: Final = 15.0
"""How long a broker's rack has to stay the same before plans use it."""


_PLACED_SECONDS: Final = 30.0
"""How long Kafka's responses may lack placed replicas, because of an ongoing call or a lagging broker."""

Rows: TypeAlias = "Sequence[Sequence[int]]"
"""Replica lists, one for each partition."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """The replica lists placed for one topic, and its previous ones."""

    at: float
    before: Rows
    added: Rows


class BrokerLoad:
    """Replicas and preferred leaders per broker id: Kafka's last count plus later placements."""

    def __init__(self, seen: ReplicaCounts) -> None:
        self.replicas: Counter[int] = Counter(seen.replicas)
        self.leaders: Counter[int] = Counter(seen.leaders)
        self._placed: dict[str, _Placed] = {}
        """The placements by topic."""
        self.turn = asyncio.Lock()
        """Held while placements or counts are computed, so that the next placements include their load."""

    @property
    def holders(self) -> Collection[int]:
        """The brokers with replicas."""
        return {broker for broker, count in self.replicas.items() if count}

    async def recount(self, admin: KafkaAdmin) -> None:
        """Count the replicas on the brokers again. Recent placements count, whether or not Kafka shows them yet."""
        async with self.turn:
            oldest = time.monotonic() - _PLACED_SECONDS
            lately = [name for name, placed in self._placed.items() if placed.at > oldest]
            seen = await admin.replica_counts(without=lately)
            placed = {name: self._placed[name] for name in lately if name in self._placed}  # not refused meanwhile
            replicas, leaders = _counts(row for one in placed.values() for row in (*one.before, *one.added))
            replicas.update(seen.replicas)
            leaders.update(seen.leaders)
            self.replicas, self.leaders, self._placed = replicas, leaders, placed

    def copy(self) -> BrokerLoad:
        """Return an independent copy, for use in a thread."""
        return BrokerLoad(ReplicaCounts(self.replicas, self.leaders))

    def add(self, topic: str, added: Rows, before: Rows = ()) -> None:
        """Add partitions that are about to be created. `before` are the topic's existing partitions."""
        self._placed[topic] = _Placed(time.monotonic(), before, added)
        replicas, leaders = _counts(added)
        self.replicas.update(replicas)
        self.leaders.update(leaders)

    def remove(self, topic: str) -> None:
        """Subtract the last addition for a topic, because those partitions are not created."""
        placed = self._placed.pop(topic, None)
        if placed is None:
            return
        if placed.before:
            self._placed[topic] = replace(placed, added=())
        replicas, leaders = _counts(placed.added)
        self.replicas.subtract(replicas)
        self.leaders.subtract(leaders)

    async def settle(self, topics: Iterable[str]) -> None:
        """Use Kafka's counts for these topics from now on, because Kafka shows them and they are about to be moved."""
        async with self.turn:  # a count in progress leaves out recent placements
            for topic in topics:
                self._placed.pop(topic, None)


def _counts(rows: Iterable[Sequence[int]]) -> tuple[Counter[int], Counter[int]]:
    """Return the replicas and the preferred leaders of replica lists, by broker."""
    replicas, leaders = Counter[int](), Counter[int]()
    for row in rows:
        replicas.update(row)
        leaders.update(row[:1])
    return replicas, leaders


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A topology whose Kafka cluster responds and is the expected one.

    Two states are equal if every decision about a topic is the same, apart from the load of the brokers.
    """

    topology: ObjectKey
    spec: RackTopologySpec
    cluster_id: str
    racks: RackView
    load: BrokerLoad = field(compare=False)
    placers: Mapping[str, Placer] = field(compare=False)
    default_min_insync: int | None = field(default=None, compare=False)
    """The brokers' min.insync.replicas, for topics that do not set it."""
    settled: RackView | None = None
    """The racks that have been stable, or None if all have been. See `Settling`."""
    unproven: frozenset[int] = field(default=frozenset(), compare=False)
    """The brokers whose racks are used only because an earlier operator saw them or because they are new."""

    @property
    def for_plans(self) -> ClusterState:
        """The state with stable racks only, for which replicas may be moved."""
        return self if self.settled is None else replace(self, racks=self.settled, settled=None)

    @property
    def with_own_load(self) -> ClusterState:
        """The state with a copy of the load, for use in a thread."""
        return replace(self, load=self.load.copy())


class ObservedCluster(Protocol):
    """The last observed state of a topology's Kafka cluster, and the client of exactly that cluster, if any.

    `epoch` changes with every state that changes decisions. `out_of_sight` is how many seconds the cluster has not been
    seen, or None while that is recent enough to trust what was seen. `wake` makes the operator observe the cluster
    again soon.
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


@dataclass(slots=True)
class _Rack:
    """A broker's stable rack, the rack last seen, and since when that one has been seen."""

    settled: RackPath
    seen: RackPath | None
    since: float
    proven: bool = False
    """Whether this process saw `settled` stay stable, instead of assuming that at first."""


class Settling:
    """The racks of one topology's brokers over time. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._racks: dict[int, _Rack] = {}
        self._asked: str | None = None

    def settled(self, topology: RackTopology, view: RackView, now: float) -> RackView:
        """Return `view` with the stable racks, or `view` itself if all racks are stable.

        The first rack of a broker counts immediately, and so does every rack after a change of the spec. An unknown
        rack is not replaced by an old one.
        """
        spec, asked = topology.spec, topology.spec.rack_hash
        if self._asked != asked:
            first, self._asked = self._asked is None, asked
            # At the start of an operator, use what its predecessor saw last.
            lasted = status_racks(topology) if first else {}
            self._racks = {broker: _Rack(path, path, now) for broker, path in lasted.items() if path is not None}
        rows = {row.id: row.rack for row in view.rows}
        self._racks = {broker: known for broker, known in self._racks.items() if broker in rows}
        for broker, rack in rows.items():
            self._see(broker, rack, now)
        kept = {
            broker: self._racks[broker].settled
            for broker, rack in rows.items()
            if rack is not None and self._racks[broker].settled != rack
        }
        return with_racks(spec, view, kept) if kept else view

    @property
    def unproven(self) -> frozenset[int]:
        """The brokers whose racks count although this process has not seen them stay stable.

        The status has racks as soon as they are seen. So a label that flaps before an operator starts counts at first.
        """
        return frozenset(broker for broker, known in self._racks.items() if not known.proven)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the next rack is stable, if none changes, or None if all are."""
        due = [
            known.since + RACKS_SETTLE_SECONDS - now
            for known in self._racks.values()
            if known.seen is not None and known.seen != known.settled
        ]
        return max(0.0, min(due)) if due else None

    def _see(self, broker: int, rack: RackPath | None, now: float) -> None:
        known = self._racks.get(broker)
        if known is None:
            if rack is not None:
                self._racks[broker] = _Rack(rack, rack, now)
            return
        if known.seen != rack:
            known.seen, known.since = rack, now
        if rack is not None and now - known.since >= RACKS_SETTLE_SECONDS:
            known.settled, known.proven = rack, True
