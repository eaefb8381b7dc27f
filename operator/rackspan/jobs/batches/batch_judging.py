"""Judges Arrow batches with the pure core. Runs in this process, or in every Python worker of Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, portion_of
from rackspan.core.write_locality import write_counts
from rackspan.jobs.batches.aggregates import gathered
from rackspan.jobs.batches.arrow_batches import judged_portion, partitions_of, unread_topics, write_table
from rackspan.jobs.batches.judged import Judged

_ROWS = 200_000
"""The number of partitions that are judged at once: enough for numpy to be fast, few enough for a worker's memory."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """The criteria by which a cluster's partitions are judged. Spark sends them to every worker once.

    `cluster_id` is Kafka's id, or empty if it is not known. The ids of findings include it, so they do not change when
    users rename the cluster. `producers` is the number of producers by `client.rack`. Without producers, writes are not
    counted.
    """

    cluster_id: str
    locations: BrokerLocations
    requirements: ClusterRequirements
    producers: Mapping[str, int] = field(default_factory=dict)


def judge_slice(criteria: Criteria, batches: Iterable[pa.RecordBatch]) -> Judged:
    """Judge batches with the columns PARTITIONS. The batches must have all partitions of their topics."""
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    return Judged.merged([_judged(criteria, portion) for portion in gathered(tables, _ROWS)])


def _judged(criteria: Criteria, every: pa.Table) -> Judged:
    is_read = pa.compute.is_null(every.column("unread"))
    unread = unread_topics(every.filter(pa.compute.invert(is_read)))
    table = every.filter(is_read)
    if not len(table):
        return Judged.of(unread=unread)
    partitions, min_insync, fewest = partitions_of(table)
    locations, producers = criteria.locations, criteria.producers
    portion = portion_of(locations, partitions, min_insync, criteria.requirements, fewest)
    judged = replace(judged_portion(criteria.cluster_id, locations, partitions.names, portion), unread=unread)
    if not producers:
        return judged
    counts = write_counts(ReplicaPlaces(locations.tree, locations.brokers, partitions), producers)
    return replace(judged, writes=write_table(partitions.names, tuple(producers), counts))
