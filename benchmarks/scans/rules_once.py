"""`python -m benchmarks.scans.rules_once WAY TABLE PARTITIONS`: apply rules to a table once, in this process."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks.scans import plain_sql
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning.rules import Rule
from rackspan.jobs.batches.batch_judging import Criteria, judge_slice
from rackspan.jobs.batches.schemas import PARTITIONS
from rackspan.jobs.sources.scanned_cluster import synthetic
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.spark_session import spark_session

WRITE, READ, CORE, ARRAYS, ROWS = "write", "read", "core", "arrays", "rows"
_MEMORY = "3g"
_SIZE = 3
_LED_BY_ANOTHER = 200
"""One of this many partitions is led by its second replica."""


def main(way: str, table: str, partitions: str) -> None:
    cluster = SyntheticCluster(int(partitions))
    if way == WRITE:
        _write(cluster, table)
        return
    spark = spark_session("local[2]", _MEMORY)
    every = spark.read.schema(from_arrow_schema(PARTITIONS)).parquet(table)
    _counted(spark, way, every.limit(1_000), cluster)  # warm-up: compilation does not count
    started = perf_counter()
    found = _counted(spark, way, every, cluster)
    print(json.dumps({"seconds": perf_counter() - started, "found": found}))
    spark.stop()


def _write(cluster: SyntheticCluster, table: str) -> None:
    reader = synthetic(cluster).reader
    Path(table).mkdir(parents=True)
    for number, part in enumerate(reader.slices((), 4)):
        rows = pa.Table.from_batches(reader.read(part), schema=PARTITIONS)
        other = np.arange(len(rows)) % _LED_BY_ANOTHER == 0
        second = pa.compute.list_element(rows["replicas"], 1)
        leader = pa.compute.if_else(pa.array(other), second, rows["leader"])
        at = rows.schema.get_field_index("leader")
        pq.write_table(rows.set_column(at, "leader", leader), f"{table}/part-{number}.parquet")


def _counted(spark: SparkSession, way: str, every: DataFrame, cluster: SyntheticCluster) -> Mapping[str, int]:
    if way == READ:
        every.write.format("noop").mode("overwrite").save()
        return {}
    if way == CORE:
        return _by_core(every, cluster)
    levels = plain_sql.windows(cluster.locations.tree, _SIZE)
    found = plain_sql.by_arrays(every, levels) if way == ARRAYS else plain_sql.by_rows(spark, every, levels)
    return plain_sql.counts(found)


def _by_core(every: DataFrame, cluster: SyntheticCluster) -> Mapping[str, int]:
    criteria = Criteria("benchmark", cluster.locations, ClusterRequirements())
    schema = pa.schema([(name, pa.int64()) for name in ("non_compliant", "under_replicated", "leader_not_preferred")])

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judged = judge_slice(criteria, batches)
        row = {name: pa.compute.sum(judged.topics[name], min_count=0).as_py() for name in schema.names[:2]}
        other = pa.compute.equal(judged.findings["rule"], str(Rule.LEADER_NOT_PREFERRED))
        row["leader_not_preferred"] = pa.compute.sum(other, min_count=0).as_py()
        yield pa.RecordBatch.from_pylist([row], schema=schema)

    judged = every.mapInArrow(counted, from_arrow_schema(schema))
    return plain_sql.counts(judged.agg(*(F.sum(name).alias(name) for name in schema.names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
