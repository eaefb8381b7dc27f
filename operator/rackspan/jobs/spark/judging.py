"""The pure core over Arrow batches: the function that `mapInArrow` runs in every Python worker."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rackspan.core.scanning import Expectations, Truth, portion_of
from rackspan.jobs.spark.arrow_batches import judged_batches, partitions_of, unread_topics

_ROWS = 200_000
"""Partitions that are judged at once: enough for numpy to shine, few enough for a worker's memory."""


@dataclass(frozen=True, slots=True)
class Question:
    """
    What a cluster's partitions are judged against; travels to every worker once.

    `cluster` is Kafka's own id of it, empty where nobody knows it: findings have the same ids whatever people call it.
    """

    cluster: str
    truth: Truth
    expectations: Expectations


def judge_batches(question: Question) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function from batches of PARTITIONS to batches of JUDGED."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for every in _portions(batches):
            is_read = pa.compute.is_null(every.column("unread"))
            table = every.filter(is_read)
            if len(table) < len(every):
                yield from unread_topics(every.filter(pa.compute.invert(is_read)))
            if not len(table):
                continue
            partitions, min_insync = partitions_of(table)
            portion = portion_of(question.truth, partitions, min_insync, question.expectations)
            yield from judged_batches(question.cluster, question.truth, partitions.names, portion)

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
