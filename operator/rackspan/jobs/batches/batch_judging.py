"""The pure core over Arrow batches: what runs in this process, or in every Python worker of Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, portion_of
from rackspan.core.write_locality import write_counts
from rackspan.jobs.batches.arrow_batches import judged_batches, partitions_of, unread_topics, write_batch

_ROWS = 200_000
"""Partitions that are judged at once: enough for numpy to be fast, few enough for a worker's memory."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """
    What a cluster's partitions are judged against; Spark sends it to every worker once.

    `cluster_id` is Kafka's own id, empty where it is not known. Ids of findings are made with it, so they stay the same
    when people call the cluster otherwise. `producers` are how many have each `client.rack`; without any, nothing is
    counted about writes.
    """

    cluster_id: str
    locations: BrokerLocations
    requirements: ClusterRequirements
    producers: Mapping[str, int] = field(default_factory=dict)


def judge_batches(criteria: Criteria) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that turns batches with the columns PARTITIONS into batches of JUDGED."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for every in _portions(batches):
            is_read = pa.compute.is_null(every.column("unread"))
            table = every.filter(is_read)
            if len(table) < len(every):
                yield from unread_topics(every.filter(pa.compute.invert(is_read)))
            if not len(table):
                continue
            partitions, min_insync, fewest = partitions_of(table)
            portion = portion_of(criteria.locations, partitions, min_insync, criteria.requirements, fewest)
            yield from judged_batches(criteria.cluster_id, criteria.locations, partitions.names, portion)
            if criteria.producers:
                replicas = ReplicaPlaces(criteria.locations.tree, criteria.locations.brokers, partitions)
                counts = write_counts(replicas, criteria.producers)
                yield write_batch(partitions.names, tuple(criteria.producers), counts)

    return judge


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
