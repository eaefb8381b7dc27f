"""
Data sources of Spark in Python: a live cluster, a snapshot file, a made-up cluster.

Each gives Arrow batches with the columns PARTITIONS. Options are text, and the one that may hold a password is named so
that Spark redacts it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rackspan.core.outage import min_insync_replicas
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.arrow_batches import partition_batches, unread_batches
from rackspan.jobs.spark.schemas import PARTITIONS, spark_schema
from rackspan.snapshots import read_snapshot

SECRETS: Final = "clientSecrets"
"""The option with the client's properties (JSON): Spark redacts options with `secret` in their names."""
KNOWN: Final = "knownTopics"
"""The option with topics to ask for by name (JSON): Kafka does not list those that the client may not describe."""
_TOPICS_AT_ONCE = 2_000


class Slice(InputPartition):
    """A part of a source, read by one task: names of topics, or first and last topic."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)


class _Source(DataSource):
    def schema(self) -> StructType:
        """The columns PARTITIONS."""
        return spark_schema(PARTITIONS)


class LiveSource(_Source):
    """
    A live cluster: one Spark partition per slice of topics, each read with a client of its own.

    Options: `servers`, `clientSecrets` (JSON of librdkafka's properties), `slices`, `knownTopics`. A topic that is
    deleted meanwhile is left out; one that cannot be read becomes a row with the reason in `unread`.
    """

    @classmethod
    def name(cls) -> str:
        """How the source is called in `spark.read.format`."""
        return "rackspan-live"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Read."""
        return _LiveReader(self.options)


class _LiveReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._servers = options["servers"]
        self._properties = json.loads(options[SECRETS])
        self._slices = int(options["slices"])
        self._known = json.loads(options.get(KNOWN, "[]"))

    def partitions(self) -> Sequence[InputPartition]:
        from rackspan.kafka.snapshot import take_outline  # noqa: PLC0415 - only this source needs a Kafka client

        names = sorted({*take_outline(self._servers, self._properties).topics, *self._known})
        slices = min(max(self._slices, -(-len(names) // _TOPICS_AT_ONCE)), max(len(names), 1))
        return [Slice(names[at::slices]) for at in range(slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from rackspan.kafka.snapshot import take_portion  # noqa: PLC0415

        found = take_portion(self._servers, self._properties, partition.value)
        seen = found.snapshot
        yield from unread_batches(found.unread)
        yield from partition_batches(seen.partitions, min_insync_replicas(seen.configs))


class FileSource(_Source):
    """A snapshot file. Option: `path`."""

    @classmethod
    def name(cls) -> str:
        """How the source is called in `spark.read.format`."""
        return "rackspan-snapshot"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Read."""
        return _FileReader(self.options["path"])


class _FileReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        return [Slice(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        found = read_snapshot(Path(self._path))
        yield from partition_batches(found.partitions, min_insync_replicas(found.configs))


class SyntheticSource(_Source):
    """A made-up cluster, for load tests. Options: `cluster` (JSON of a SyntheticCluster), `slices`."""

    @classmethod
    def name(cls) -> str:
        """How the source is called in `spark.read.format`."""
        return "rackspan-synthetic"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Read."""
        return _SyntheticReader(self.options)


class _SyntheticReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._cluster = msgspec.json.decode(options["cluster"], type=SyntheticCluster)
        self._slices = int(options["slices"])

    def partitions(self) -> Sequence[InputPartition]:
        bounds = np.linspace(0, self._cluster.topics, self._slices + 1).astype(int).tolist()
        return [Slice((start, stop)) for start, stop in pairwise(bounds) if stop > start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, last = partition.value
        for start in range(first, last, self._cluster.topics_at_once):
            stop = min(start + self._cluster.topics_at_once, last)
            found = self._cluster.portion(start, stop)
            yield from partition_batches(found, np.full(len(found.names), self._cluster.min_insync, dtype=np.int64))


SOURCES: Final = (LiveSource, FileSource, SyntheticSource)
