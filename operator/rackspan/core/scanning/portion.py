"""The results of examining a portion of a cluster's partitions. The portions add up to the cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackspan.core.outage import outages
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning.brokers import BrokerLocations
from rackspan.core.scanning.examine import Examined, examine
from rackspan.core.scanning.findings import Findings
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class TopicTally:
    """Totals of the topics that have partitions in a portion, shape (topics,) each.

    `topic` is an index into the names. `replication_factor` is the lowest of the topic's partitions. `bytes` is the sum
    over all replicas, -1 if no size is known. `move_bytes` is what `moves` copy, -1 if one of these sizes is not known.
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


@dataclass(frozen=True, slots=True)
class DomainTotals:
    """The contents of one domain. The last level is `broker`, with broker ids as domains.

    `leaders` counts preferred leaders, `leading` the present leaders. `offline`, `not_writable` and `last_replica`
    count partitions in these states after the loss of the domain. `bytes` is None if no size of a replica there, or no
    size at all, is known.
    """

    level: str
    domain: str
    brokers: int
    replicas: int
    leaders: int
    leading: int
    offline: int
    not_writable: int
    last_replica: int
    bytes: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """The findings about a portion's partitions and topics, and the totals of its topics and domains."""

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
    """Examine some partitions. The arguments and errors are those of `examine`."""
    examined = examine(locations, partitions, min_insync, requirements, fewest_replicas)
    return Portion(
        examined.findings,
        _topics(partitions, min_insync, examined),
        tuple(_holdings(locations.tree, partitions, min_insync)),
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


def _holdings(tree: RackTree, partitions: Partitions, min_insync: IntArray) -> Iterator[DomainTotals]:
    """Yield the totals of every domain of every level, then every broker, in the tree's order."""
    first = partitions.replicas[:, 0] if partitions.replicas.shape[1] else partitions.leader
    preferred, leading = tree.positions(first), tree.positions(partitions.leader)
    lost = outages(tree, partitions, min_insync)
    for level in tree.nodes[1:]:
        leaders = np.bincount(level.of_broker[preferred[preferred != NONE]], minlength=len(level)).tolist()
        led = np.bincount(level.of_broker[leading[leading != NONE]], minlength=len(level)).tolist()
        for number, row in zip(range(len(level)), lost, strict=False):
            outage = row.outage
            yield DomainTotals(
                row.level,
                row.domain,
                row.brokers,
                outage.replicas,
                leaders[number],
                led[number],
                outage.offline,
                outage.not_writable,
                outage.last_replica,
                outage.size_bytes,
            )
