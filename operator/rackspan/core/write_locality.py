"""Write locality: the share of records that producers write to a leader in their own domain.

Kafka does not know where producers are, so the user declares it. A producer spreads its records, with or without keys,
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
    """Counts of partitions with a leader, by topic and by the `client.rack` of producers. Counts of portions add up.

    `topic` (topics,) are indices into the names, `partitions` (topics,) the topic's partitions that have a leader. The
    other fields have shape (topics, racks). They count partitions whose leader is in the producers' domain (`near`),
    reports exactly their rack id (`same_rack`), or both (`near_same_rack`). `could_be_near` counts the partitions that
    would have their leader in that domain if each partition's leader were the in-sync replica near most producers.
    """

    topic: IntArray
    partitions: IntArray
    near: IntArray
    same_rack: IntArray
    near_same_rack: IntArray
    could_be_near: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class WriteShares:
    """Shares of records that are written near, from 0 to 1, shape (topics, racks).

    `near` is the present share, `near_by_rack` that of records without a key with `partitioner.rack.aware`, and
    `could_be_near` the share with other leaders.
    """

    near: FloatArray
    near_by_rack: FloatArray
    could_be_near: FloatArray

    @classmethod
    def of(cls, counts: WriteCounts) -> WriteShares:
        """Return the shares of whole topics."""
        partitions = counts.partitions[:, None]
        near = counts.near / partitions
        by_rack = np.divide(counts.near_same_rack, counts.same_rack, out=near.copy(), where=counts.same_rack > 0)
        return cls(near, by_rack, counts.could_be_near / partitions)


@dataclass(frozen=True, slots=True)
class WriteLocality:
    """
    The write locality of a topic; `partitions` counts those that have a leader. The shares are those of `WriteShares`.

    `bytes_per_second` is None if it is not known.
    """

    topic: str
    partitions: int
    near: float
    near_by_rack: float
    could_be_near: float
    bytes_per_second: float | None = None


def write_counts(replicas: ReplicaPlaces, producers: Mapping[str, int]) -> WriteCounts:
    """Return the counts for each `client.rack`, in order; `producers` maps a `client.rack` to a number of producers."""
    table = replicas.partitions
    row = np.flatnonzero(table.leader != NONE)
    topics, topic = np.unique(table.topic[row], return_inverse=True)
    places = np.array([replicas.domain_of(replicas.rack_named(rack)) for rack in producers], dtype=np.int64)
    # The last weight is for brokers whose domain is not known. It stays 0: they are near no producer.
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
    """Return the domain of the in-sync replica that is near most producers; the leader's domain on a tie."""
    in_sync = replicas.partitions.in_sync[row] & (replicas.at[row] != NONE)
    domains = np.column_stack([led, np.where(in_sync, replicas.domain[replicas.at[row]], NONE)])
    best: IntArray = domains[np.arange(len(row)), weights[domains].argmax(axis=1)]
    return best


def write_localities(
    replicas: ReplicaPlaces, producers: Mapping[str, int], rates: FloatArray | None = None
) -> list[WriteLocality]:
    """Return the write locality of each topic that has a leader, in the order of `names`.

    `producers` maps a `client.rack` to the number of producers that have it. `rates` are the bytes per second that are
    written to each partition in `replicas`, shape (n,), NaN if not known.
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
