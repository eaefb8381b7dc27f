"""
How clusters are read: a live one, a snapshot file, a made-up one.

Each reader cuts its cluster into slices of whole topics, `least` of them where it can, and reads a slice as Arrow
batches with the columns PARTITIONS. Readers and slices are sent to Spark's workers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rackspan.core.outage import min_insync_replicas
from rackspan.jobs.batches.arrow_batches import partition_batches, unread_batches
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.snapshots import read_snapshot

_TOPICS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class LiveReader:
    """
    A live cluster: slices are names of topics, each read with a client of its own.

    A topic that is deleted meanwhile is left out; one that cannot be read becomes a row with the reason in `unread`.
    """

    properties: Mapping[str, str | int | bool] = field(repr=False)

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:
        """Names of topics. Kafka does not list those that the client may not describe: these have to be `known`."""
        from rackspan.kafka.cluster_snapshot import take_outline  # noqa: PLC0415 - only this reader needs a Kafka client

        names = sorted({*take_outline(self.properties).topics, *known})
        count = min(max(least, -(-len(names) // _TOPICS_AT_ONCE)), max(len(names), 1))
        return [names[at::count] for at in range(count)]

    def read(self, part: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Topics with these names."""
        from rackspan.kafka.cluster_snapshot import take_portion, take_sizes  # noqa: PLC0415

        found = take_portion(self.properties, part)
        seen = found.snapshot
        holders = seen.partitions.holders(np.arange(len(seen.partitions)))
        partitions = seen.partitions.with_sizes(take_sizes(self.properties, holders))
        yield from unread_batches(found.unread)
        yield from partition_batches(partitions, min_insync_replicas(seen.configs))


@dataclass(frozen=True, slots=True)
class FileReader:
    """A snapshot file, which is one slice."""

    path: Path

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:  # noqa: ARG002 - a file lists all topics
        """One."""
        return [None]

    def read(self, part: None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """All of it."""
        found = read_snapshot(self.path)
        yield from partition_batches(found.partitions, min_insync_replicas(found.configs))


@dataclass(frozen=True, slots=True)
class SyntheticReader:
    """A made-up cluster; slices are numbers of topics, first and last."""

    cluster: SyntheticCluster

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:  # noqa: ARG002
        """Ranges of topics."""
        bounds = np.linspace(0, self.cluster.topics, least + 1).astype(int).tolist()
        return [(start, stop) for start, stop in pairwise(bounds) if stop > start]

    def read(self, part: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """Topics of a range."""
        first, last = part
        for start in range(first, last, self.cluster.topics_at_once):
            stop = min(start + self.cluster.topics_at_once, last)
            found = self.cluster.portion(start, stop)
            yield from partition_batches(found, np.full(len(found.names), self.cluster.min_insync, dtype=np.int64))


Reader = LiveReader | FileReader | SyntheticReader
"""Both methods of each raise what reading raises: FailureError, SnapshotError."""
