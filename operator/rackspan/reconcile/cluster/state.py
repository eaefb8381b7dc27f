"""What decisions about the topics of one topology depend on, apart from the topic itself.

What is judged and shown follows the labels of nodes at once. Moving replicas costs much, so plans are made from racks
that have lasted (`Settling`): a label that flaps moves nothing.
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
"""How long a broker's rack has to stay the same before plans count on it."""


_PLACED_SECONDS: Final = 30.0
"""For how long Kafka's answers may lack replicas that were placed: a call is under way, or a broker lags behind."""

Rows: TypeAlias = "Sequence[Sequence[int]]"
"""Replica lists, one for each partition."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """What was placed for one topic, and what it had before."""

    at: float
    before: Rows
    added: Rows


class BrokerLoad:
    """Replicas and preferred leaders per broker id: Kafka's last count plus what was placed since."""

    def __init__(self, seen: ReplicaCounts) -> None:
        self.replicas: Counter[int] = Counter(seen.replicas)
        self.leaders: Counter[int] = Counter(seen.leaders)
        self._placed: dict[str, _Placed] = {}
        """By topic."""
        self.turn = asyncio.Lock()
        """Held while placements are computed, so that the next ones see the load that these add."""

    @property
    def holders(self) -> Collection[int]:
        """Brokers with replicas."""
        return {broker for broker, count in self.replicas.items() if count}

    async def recount(self, admin: KafkaAdmin) -> None:
        """Count what lies on the brokers now. What was placed lately counts, whether or not Kafka shows it yet."""
        async with self.turn:
            oldest = time.monotonic() - _PLACED_SECONDS
            lately = [name for name, placed in self._placed.items() if placed.at > oldest]
            seen = await admin.replica_counts(without=lately)
            placed = {name: self._placed[name] for name in lately if name in self._placed}  # not refused since
            replicas, leaders = _counts(row for one in placed.values() for row in (*one.before, *one.added))
            replicas.update(seen.replicas)
            leaders.update(seen.leaders)
            self.replicas, self.leaders, self._placed = replicas, leaders, placed

    def copy(self) -> BrokerLoad:
        """An independent copy, for use in a thread."""
        return BrokerLoad(ReplicaCounts(self.replicas, self.leaders))

    def add(self, topic: str, added: Rows, before: Rows = ()) -> None:
        """Add partitions that are about to be created, of a topic that had those `before`."""
        self._placed[topic] = _Placed(time.monotonic(), before, added)
        replicas, leaders = _counts(added)
        self.replicas.update(replicas)
        self.leaders.update(leaders)

    def remove(self, topic: str) -> None:
        """Subtract what was added for a topic last: Kafka refused to create it."""
        placed = self._placed.pop(topic, None)
        if placed is None:
            return
        if placed.before:
            self._placed[topic] = replace(placed, added=())
        replicas, leaders = _counts(placed.added)
        self.replicas.subtract(replicas)
        self.leaders.subtract(leaders)

    def settle(self, topics: Iterable[str]) -> None:
        """Count these as Kafka does from now on: it shows them, and they are about to be moved."""
        for topic in topics:
            self._placed.pop(topic, None)


def _counts(rows: Iterable[Sequence[int]]) -> tuple[Counter[int], Counter[int]]:
    """The replicas and the preferred leaders of replica lists, by broker."""
    replicas, leaders = Counter[int](), Counter[int]()
    for row in rows:
        replicas.update(row)
        leaders.update(row[:1])
    return replicas, leaders


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A topology whose Kafka cluster answers and is the one that was expected.

    Two states are equal where every decision about a topic is the same, the load of the brokers aside.
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
    """The racks that have lasted, where some have not: see `Settling`."""
    unproven: frozenset[int] = field(default=frozenset(), compare=False)
    """Brokers whose racks have lasted by an earlier operator's word alone, or are seen for the first time."""

    @property
    def for_plans(self) -> ClusterState:
        """The same with the racks that have lasted: what replicas may be moved for."""
        return self if self.settled is None else replace(self, racks=self.settled, settled=None)


class ObservedCluster(Protocol):
    """The state of a topology's Kafka cluster as it was seen last, and the client of just that cluster if there is one.

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


@dataclass(slots=True)
class _Rack:
    """A broker's rack that has lasted, the one seen last, and since when it is that."""

    settled: RackPath
    seen: RackPath | None
    since: float
    proven: bool = False
    """Whether `settled` was seen to last, and not taken for such at first."""


class Settling:
    """The racks of one topology's brokers over time. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._racks: dict[int, _Rack] = {}
        self._asked: str | None = None

    def settled(self, topology: RackTopology, view: RackView, now: float) -> RackView:
        """`view` with the racks that have lasted; `view` itself where all have.

        The first rack of a broker counts at once, and so does every rack after a change of the spec. A rack that is not
        known is not replaced by an old one.
        """
        spec, asked = topology.spec, topology.spec.rack_hash
        if self._asked != asked:
            first, self._asked = self._asked is None, asked
            # When an operator starts, what its predecessor saw last.
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
        """Brokers whose racks count and were not seen to last.

        The status has racks as soon as they are seen: a label that flaps just before an operator starts counts by it.
        """
        return frozenset(broker for broker, known in self._racks.items() if not known.proven)

    def due_in(self, now: float) -> float | None:
        """Seconds until the next rack has lasted, if none changes; None where all have."""
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
