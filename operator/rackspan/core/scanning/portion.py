"""All that is found in a portion of a cluster's partitions. Portions add up to the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning.brokers import BrokerLocations
from rackspan.core.scanning.domain_totals import DomainTotals, holdings
from rackspan.core.scanning.examine import Examined, examine
from rackspan.core.scanning.findings import Findings
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class TopicTally:
    """
    Topics that have partitions in a portion, shape (topics,) each.

    `topic` is an index into the names. `replication_factor` is the least of its partitions. `bytes` are all replicas',
    -1 where no size is known; `move_bytes` are what `moves` copy, -1 where one of these sizes is not known.
    """

    topic: IntArray
    partitions: IntArray
    replicas: IntArray
    replication_factor: IntArray
    min_insync: IntArray
    non_compliant: IntArray
    moves: IntArray
    offline: IntArray
    under_replicated: IntArray
    bytes: IntArray
    move_bytes: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """Findings about partitions and topics, and what lies where."""

    findings: Findings
    topics: TopicTally
    holdings: Sequence[DomainTotals]
    unfair: Mapping[str, int]


def portion_of(
    locations: BrokerLocations,
    partitions: Partitions,
    min_insync: IntArray,
    requirements: ClusterRequirements,
    fewest_replicas: IntArray | None = None,
) -> Portion:
    """Look at some partitions. Arguments and errors are those of `examine`."""
    examined = examine(locations, partitions, min_insync, requirements, fewest_replicas)
    return Portion(
        examined.findings,
        _topics(partitions, min_insync, examined),
        tuple(holdings(locations.tree, partitions, min_insync)),
        examined.unfair,
    )


def _topics(partitions: Partitions, min_insync: IntArray, examined: Examined) -> TopicTally:
    used, at = np.unique(partitions.topic, return_inverse=True)
    size = partitions.replication_factor
    in_sync = np.count_nonzero(partitions.in_sync & (partitions.replicas != NONE), axis=1)
    least = np.full(len(used), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, at, size)
    known = partitions.size_bytes != NONE

    def total(values: IntArray) -> IntArray:
        sums = np.zeros(len(used), dtype=np.int64)
        np.add.at(sums, at, values)
        return sums

    sizes = total(np.where(known, partitions.size_bytes * size, 0))
    copied = total(np.where(known, partitions.size_bytes * examined.moves_of, 0))
    copies_unknown = total((~known & (examined.moves_of > 0)).astype(np.int64)) > 0
    return TopicTally(
        topic=used,
        partitions=np.bincount(at, minlength=len(used)),
        replicas=total(size),
        replication_factor=least,
        min_insync=min_insync[used],
        non_compliant=total(examined.broken.astype(np.int64)),
        moves=total(examined.moves_of),
        offline=total((partitions.leader == NONE).astype(np.int64)),
        under_replicated=total((in_sync < size).astype(np.int64)),
        bytes=np.where(total(known.astype(np.int64)) > 0, sizes, NONE),
        move_bytes=np.where(copies_unknown, NONE, copied),
    )
