"""
Write locality: how much of what producers write goes to a leader in their own domain.

Kafka does not know where producers are, so the user says it. A producer spreads its records, with or without keys,
evenly over the partitions that have a leader. With `partitioner.rack.aware` (KIP-1123) records without a key go only to
partitions whose leader reports exactly the producer's `client.rack` as its `broker.rack`, if there are any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.snapshot import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.core.consumers.group_locality import ReplicaPlaces
    from rackspan.core.topology import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class WriteCounts:
    """
    Partitions that have a leader, by topic and by the `client.rack` of producers. Counts of portions add up.

    `topic` (topics,) are indices into the names, `partitions` (topics,) the topic's partitions that have a leader. The
    others have shape (topics, racks): partitions whose leader is in the producers' domain (`near`), reports their very
    rack id (`same_rack`), or both (`near_same_rack`), and those that would be led in their domain if in each partition
    the replica in sync led that is nearest to most of all producers (`could_be_near`).
    """

    topic: IntArray
    partitions: IntArray
    near: IntArray
    same_rack: IntArray
    near_same_rack: IntArray
    could_be_near: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class WriteShares:
    """
    Shares of the records, from 0 to 1, shape (topics, racks).

    `near` now, `near_by_rack` of records without a key with `partitioner.rack.aware`, and `could_be_near` with other
    leaders.
    """

    near: FloatArray
    near_by_rack: FloatArray
    could_be_near: FloatArray

    @classmethod
    def of(cls, counts: WriteCounts) -> WriteShares:
        """Give the shares of whole topics."""
        partitions = counts.partitions[:, None]
        near = counts.near / partitions
        by_rack = np.divide(counts.near_same_rack, counts.same_rack, out=near.copy(), where=counts.same_rack > 0)
        return cls(near, by_rack, counts.could_be_near / partitions)


@dataclass(frozen=True, slots=True)
class WriteLocality:
    """
    How near producers write to a topic, of which `partitions` have a leader. The shares are those of `WriteShares`.

    `bytes_per_second` is None where it is not known.
    """

    topic: str
    partitions: int
    near: float
    near_by_rack: float
    could_be_near: float
    bytes_per_second: float | None = None


def write_counts(replicas: ReplicaPlaces, producers: Mapping[str, int]) -> WriteCounts:
    """Count for each `client.rack` of producers, in their order; the values are how many producers have it."""
    table = replicas.partitions
    row = np.flatnonzero(table.leader != NONE)
    topics, topic = np.unique(table.topic[row], return_inverse=True)
    places = np.array([replicas.domain_of(replicas.rack_named(rack)) for rack in producers], dtype=np.int64)
    # The last weight is that of brokers whose domain is not known, which are near to nobody.
    weights = np.zeros(int(replicas.domain.max(initial=NONE)) + 2, dtype=np.int64)
    known = places != NONE
    np.add.at(weights, places[known], np.array(list(producers.values()), dtype=np.int64)[known])
    leader = replicas.leader[row]
    led = replicas.domain[leader]
    best = _best_domains(replicas, row, led, weights)

    def counted(partitions: IntArray) -> IntArray:
        return np.bincount(topic[partitions], minlength=len(topics))

    columns = []
    for rack, place in zip(producers, places, strict=True):
        near, same = (led == place) & (place != NONE), replicas.reported[leader] == replicas.id_of(rack)
        could = (best == place) & (place != NONE)
        columns.append([counted(np.flatnonzero(some)) for some in (near, same, near & same, could)])
    shape = (len(producers), 4, len(topics))
    near, same, both, could = np.array(columns, dtype=np.int64).reshape(shape).transpose(1, 2, 0)
    return WriteCounts(topics, np.bincount(topic, minlength=len(topics)), near, same, both, could)


def _best_domains(replicas: ReplicaPlaces, row: IntArray, led: IntArray, weights: IntArray) -> IntArray:
    """The domain of the replica in sync that is nearest to most producers; the leader's, if it is as near."""
    in_sync = replicas.partitions.in_sync[row] & (replicas.at[row] != NONE)
    domains = np.column_stack([led, np.where(in_sync, replicas.domain[replicas.at[row]], NONE)])
    best: IntArray = domains[np.arange(len(row)), weights[domains].argmax(axis=1)]
    return best


def write_localities(
    replicas: ReplicaPlaces, producers: Mapping[str, int], rates: FloatArray | None = None
) -> list[WriteLocality]:
    """
    Each topic that has a leader, in order of their names.

    `producers` has how many producers have each `client.rack`. `rates` are bytes per second that are written to each
    partition in `replicas`, shape (n,), NaN where not known.
    """
    table = replicas.partitions
    counts = write_counts(replicas, producers)
    shares = WriteShares.of(counts)
    weights = np.array(list(producers.values())) / max(1, sum(producers.values()))
    written: dict[int, float] = {}
    if rates is not None:
        row = np.flatnonzero((table.leader != NONE) & ~np.isnan(rates))
        sums = np.bincount(table.topic[row], weights=rates[row])
        written = {topic: float(sums[topic]) for topic in np.unique(table.topic[row]).tolist()}
    return [
        WriteLocality(
            topic=table.names[topic],
            partitions=int(counts.partitions[at]),
            near=float(shares.near[at] @ weights),
            near_by_rack=float(shares.near_by_rack[at] @ weights),
            could_be_near=float(shares.could_be_near[at] @ weights),
            bytes_per_second=written.get(topic),
        )
        for at, topic in enumerate(counts.topic.tolist())
    ]
