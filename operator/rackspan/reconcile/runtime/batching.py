"""Many topics in few calls, below what Kafka's controller takes at once. Pure.

KRaft caps one controller operation at 10,000 metadata records (QuorumController.MAX_RECORDS_PER_USER_OP): a creation
above it fails whole. A topic costs one record, one per partition and one per configuration key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

T = TypeVar("T")

MAX_RECORDS = 3_000
"""Per call. Well below the cap, and small enough that a call's answer is not waited for long."""

MAX_PARTITIONS_AT_ONCE = 9_000
"""A larger topic is created with this many partitions and then grown, as the level-triggered loop would anyway."""


def topic_records(topic: NewTopic) -> int:
    """Records of one creation."""
    return 1 + topic.partitions + len(topic.config)


def partition_records(topic: NewPartitions) -> int:
    """Records of one growth; without an explicit assignment as many as Kafka may have to make."""
    return topic.total if topic.assignment is None else len(topic.assignment)


def config_records(change: ConfigChange) -> int:
    """Records of one configuration change."""
    return len(change.set)


def batches(items: Iterable[T], records: Callable[[T], int], limit: int = MAX_RECORDS) -> Iterator[list[T]]:
    """The items in order, cut so that no batch has more than `limit` records unless one item alone has."""
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
