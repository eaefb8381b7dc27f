"""Limits on the size of one topic that is placed and judged. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.text import plural
from rackspan.reconcile.cluster.batching import MAX_PARTITIONS_AT_ONCE
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription

MAX_REPLICAS = 500_000
"""Of one topic: for example 100,000 partitions with five replicas each."""
MAX_CELLS = 100_000_000
"""Partitions times brokers: some arrays have a row per partition and a column per broker."""
MAX_WIDTH = 500
"""Replicas of one partition: a thousand of them on a thousand brokers would take 11 seconds to place."""
PORTION = 50_000
"""The most `cost` in one uninterrupted computation: about half a second, so that topologies take turns."""


def size(topic: KafkaTopic, seen: TopicDescription | None) -> tuple[int, int]:
    """The numbers of partitions and replicas to compute with.

    Those in Kafka, plus those that the spec adds, up to what is created in one pass.
    """
    spec, have = topic.spec, len(seen.replicas) if seen is not None else 0
    held = sum(map(len, seen.replicas)) if seen is not None else 0
    new = min(max(0, spec.partitions - have), MAX_PARTITIONS_AT_ONCE)
    partitions = have + new
    return partitions, max(held + new * spec.replication_factor, partitions)


def too_large(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> Failure | None:
    """Why the topic is neither placed nor judged; None where it is within the limits."""
    partitions, replicas = size(topic, seen)
    brokers = len(state.racks.rows)
    width = max(topic.spec.replication_factor, *map(len, seen.replicas if seen is not None else ()), 0)
    if width > MAX_WIDTH:
        found, limit = f"{plural(width, 'replica')} of one partition", f"{MAX_WIDTH:,}"
    elif replicas > MAX_REPLICAS:
        found, limit = plural(replicas, "replica"), f"{MAX_REPLICAS:,}"
    elif partitions * brokers > MAX_CELLS:
        found, limit = f"{partitions * brokers:,} pairs of a partition and a broker", f"{MAX_CELLS:,}"
    else:
        return None
    return Failure(
        Reason.TOO_LARGE,
        f"topic {topic.topic_name} has {found} ({plural(partitions, 'partition')}, {plural(brokers, 'broker')}), more "
        f"than the {limit} that are computed with: it is neither placed nor judged",
        Remedy.SPEC,
    )


def cost(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> int:
    """The relative computing time: replicas + partitions x brokers / 100."""
    partitions, replicas = size(topic, seen)
    return replicas + partitions * len(state.racks.rows) // 100
