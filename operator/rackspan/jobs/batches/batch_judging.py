"""The pure core over Arrow batches: what runs in this process, or in every Python worker of Spark."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, portion_of
from rackspan.jobs.batches.arrow_batches import judged_batches, partitions_of, unread_topics

_ROWS = 200_000
"""Partitions that are judged at once: enough for numpy to be fast, few enough for a worker's memory."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """
    What a cluster's partitions are judged against; Spark sends it to every worker once.

    `cluster_id` is Kafka's own id, empty where it is not known. Ids of findings are made with it, so they stay the same
    when people call the cluster otherwise.
    """

    cluster_id: str
    locations: BrokerLocations
    requirements: ClusterRequirements


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
