"""Splits Admin API calls into batches below the limit of Kafka's controller. Pure.

KRaft caps one controller operation at 10,000 metadata records (QuorumController.MAX_RECORDS_PER_USER_OP): a request
above it fails for all its topics. A topic costs one record, one per partition and one per configuration key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

T = TypeVar("T")

MAX_RECORDS = 3_000
"""Metadata records per call: well below the cap, so that each call is answered soon."""

MAX_PARTITIONS_AT_ONCE = 9_000
"""A larger topic is created with this many partitions; the next reconciliations add the others."""


def topic_records(topic: NewTopic) -> int:
    """Metadata records of a CreateTopics entry: the topic, its partitions and its configuration keys."""
    return 1 + topic.partitions + len(topic.config)


def partition_records(topic: NewPartitions) -> int:
    """Metadata records of a CreatePartitions entry; the upper bound `total` where Kafka chooses the assignment."""
    return topic.total if topic.assignment is None else len(topic.assignment)


def config_records(change: ConfigChange) -> int:
    """Metadata records of an IncrementalAlterConfigs entry."""
    return len(change.set)


def batches(items: Iterable[T], records: Callable[[T], int], limit: int = MAX_RECORDS) -> Iterator[list[T]]:
    """Split items, in order, into batches of at most `limit` records; a larger item is a batch of its own."""
    batch: list[T] = []
    total = 0
    for item in items:
        cost = records(item)
        if batch and total + cost > limit:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += cost
    if batch:
        yield batch
