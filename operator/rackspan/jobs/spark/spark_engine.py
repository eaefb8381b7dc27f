"""A cluster read and judged by Spark's workers, which pass Arrow batches on as bytes: Spark has to know no columns."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from rackspan.jobs.batches.batch_judging import judge_batches
from rackspan.jobs.batches.schemas import JUDGED
from rackspan.jobs.scan.engines import Engine
from rackspan.jobs.sources.scanned_cluster import ScannedCluster
from rackspan.jobs.spark.spark_errors import SPARK_ERRORS, explained


def on_spark(spark: SparkSession) -> Engine:
    """Give the engine that uses this session: a task for each slice, and one that finds out which slices there are."""

    def judged(cluster: ScannedCluster, known: Collection[str]) -> Iterator[pa.RecordBatch]:
        context, reader = spark.sparkContext, cluster.reader
        # The reader may have secrets. It travels with the code, which Spark keeps in memory while that is small.
        with ExitStack() as held:
            held.enter_context(_explaining())
            criteria = context.broadcast(cluster.criteria)
            held.callback(criteria.unpersist)
            slices = context.parallelize([list(known)], 1).flatMap(reader.slices).collect()
            batches = context.parallelize(slices, max(len(slices), 1)).flatMap(
                lambda part: map(_packed, judge_batches(criteria.value)(reader.read(part)))
            )
            held.callback(batches.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
            batches.count()  # all slices at once; the driver takes one after the other
            yield from map(_unpacked, batches.toLocalIterator())

    return judged


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise explained(error) from error


def _packed(batch: pa.RecordBatch) -> bytes:
    packed: bytes = batch.serialize().to_pybytes()
    return packed


def _unpacked(packed: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(packed), JUDGED)
