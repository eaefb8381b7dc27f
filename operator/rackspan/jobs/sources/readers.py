"""Readers of clusters: of a live cluster, a snapshot file and a synthetic cluster.

Each reader splits its cluster into slices of whole topics, at least `least` slices if possible, and reads a slice as
Arrow batches with the columns PARTITIONS. Readers and slices are sent to Spark's workers.
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
from rackspan.snapshots import SnapshotError, read_snapshot
from rackspan.snapshots.reader import FileOutline, shown_name

_TOPICS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class LiveReader:
    """The reader of a live cluster. A slice is a list of topic names and is read with its own Kafka clients.

    Topics that are deleted meanwhile are left out. A topic that cannot be read has a row with the reason in `unread`.
    """

    properties: Mapping[str, str | int | bool] = field(repr=False)

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:
        """Return lists of topic names: `known`, and all that Kafka lists: those that the client may describe."""
        from rackspan.kafka.cluster_snapshot import take_outline  # noqa: PLC0415 - only this reader needs a Kafka client

        names = sorted({*take_outline(self.properties).topics, *known})
        count = min(max(least, -(-len(names) // _TOPICS_AT_ONCE)), max(len(names), 1))
        return [names[at::count] for at in range(count)]

    def read(self, part: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the partitions of the topics with these names."""
        from rackspan.kafka.cluster_snapshot import take_portion, take_sizes  # noqa: PLC0415

        found = take_portion(self.properties, part)
        seen = found.snapshot
        holders = seen.partitions.holders(np.arange(len(seen.partitions)))
        partitions = seen.partitions.with_sizes(take_sizes(self.properties, holders))
        yield from unread_batches(found.unread)
        yield from partition_batches(partitions, min_insync_replicas(seen.configs))


@dataclass(frozen=True, slots=True)
class FileReader:
    """The reader of a snapshot file, which is one slice."""

    path: Path
    outline: FileOutline
    """The file as it was when the criteria of the scan were made."""

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:  # noqa: ARG002 - a file lists all topics
        """Return one slice."""
        return [None]

    def read(self, part: None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield all partitions of the file. Raises SnapshotError if the file is of other brokers now."""
        found = read_snapshot(self.path)
        if (found.cluster_id, found.brokers) != (self.outline.cluster_id, self.outline.brokers):
            raise SnapshotError(f"{shown_name(self.path)}: was replaced during the scan: scan again")
        yield from partition_batches(found.partitions, min_insync_replicas(found.configs))


@dataclass(frozen=True, slots=True)
class SyntheticReader:
    """The reader of a synthetic cluster. A slice is a range of topic numbers: its start, and its end (exclusive)."""

    cluster: SyntheticCluster

    def slices(self, known: Collection[str], least: int) -> Sequence[Any]:  # noqa: ARG002
        """Return ranges of topic numbers."""
        bounds = np.linspace(0, self.cluster.topics, least + 1).astype(int).tolist()
        return [(start, stop) for start, stop in pairwise(bounds) if stop > start]

    def read(self, part: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """Yield the partitions of the topics of a range."""
        first, last = part
        for start in range(first, last, self.cluster.topics_at_once):
            stop = min(start + self.cluster.topics_at_once, last)
            found = self.cluster.portion(start, stop)
            yield from partition_batches(found, np.full(len(found.names), self.cluster.min_insync, dtype=np.int64))


Reader = LiveReader | FileReader | SyntheticReader
"""Any reader. Both methods raise FailureError or SnapshotError if the cluster cannot be read."""
