"""
Write locality: how much of what producers write goes to a leader in their own domain.

Kafka does not know where producers are, so the one who asks says it. A producer spreads its records, with or without
keys, evenly over the partitions that have a leader. With `partitioner.rack.aware` (KIP-1123) records without a key go
only to partitions whose leader reports exactly the producer's `client.rack` as its `broker.rack`, if there are any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.snapshot import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.core.consumers.group_locality import FloatArray, ReplicaPlaces
    from rackspan.core.topology import IntArray


@dataclass(frozen=True, slots=True)
class WriteLocality:
    """
    How near producers write to a topic, of which `partitions` have a leader.

    Shares of the records, from 0 to 1: `near` now, `near_by_rack` of those without a key with `partitioner.rack.aware`,
    `could_be_near` if in each partition the replica in sync led that is nearest to most of the producers.
    `bytes_per_second` is None where it is not known.
    """

    topic: str
    partitions: int
    near: float
    near_by_rack: float
    could_be_near: float
    bytes_per_second: float | None = None


def write_localities(
    replicas: ReplicaPlaces, producers: Mapping[str, float], rates: FloatArray | None = None
) -> list[WriteLocality]:
    """
    Each topic that has a leader, in order of their names.

    `producers` has the weight, above 0, of each `client.rack`. `rates` are bytes per second that are written to each
    partition in `replicas`, shape (n,), NaN where not known.
    """
    table = replicas.partitions
    row = np.flatnonzero(table.leader != NONE)
    topics, topic = np.unique(table.topic[row], return_inverse=True)
    counts = np.bincount(topic, minlength=len(topics))
    whole = sum(producers.values())
    places = {rack: replicas.domain_of(replicas.rack_named(rack)) for rack in producers}
    # The last weight is that of brokers whose domain is not known, which are near to nobody.
    weights = np.zeros(int(replicas.domain.max(initial=NONE)) + 2)
    for rack, weight in producers.items():
        if places[rack] != NONE:
            weights[places[rack]] += weight / whole
    near = weights[replicas.domain[replicas.leader[row]]]
    fit = table.in_sync[row] & (replicas.at[row] != NONE)
    best = np.where(fit, weights[replicas.domain[replicas.at[row]]], 0.0).max(axis=1, initial=0.0)
    by_rack = np.zeros(len(topics))
    for rack, weight in producers.items():
        by_rack += weight / whole * _near_by_rack(replicas, row, topic, counts, rack, places[rack])
    written = None if rates is None else _sums(np.nan_to_num(rates[row]), topic, counts)
    known = np.zeros(len(counts)) if rates is None else _sums(~np.isnan(rates[row]), topic, counts)
    return [
        WriteLocality(
            table.names[topics[at]],
            int(counts[at]),
            float(near_sum / counts[at]),
            float(by_rack[at]),
            float(best_sum / counts[at]),
            float(written[at]) if written is not None and known[at] else None,
        )
        for at, (near_sum, best_sum) in enumerate(
            zip(_sums(near, topic, counts), _sums(np.maximum(best, near), topic, counts), strict=True)
        )
    ]


def _near_by_rack(
    replicas: ReplicaPlaces, row: IntArray, topic: IntArray, counts: IntArray, rack: str, place: int
) -> FloatArray:
    """Share of a producer's records by topic that a rack-aware partitioner keeps in its domain."""
    leader = replicas.leader[row]
    here = (replicas.domain[leader] == place) & (place != NONE)
    same = replicas.reported[leader] == replicas.id_of(rack)
    chosen = same | (_sums(same, topic, counts) == 0)[topic]
    return _sums(here & chosen, topic, counts) / _sums(chosen, topic, counts)


def _sums(values: FloatArray, topic: IntArray, counts: IntArray) -> FloatArray:
    return np.bincount(topic, weights=values, minlength=len(counts)).astype(np.float64)
