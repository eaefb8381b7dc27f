"""Reading alone, then reading and judging, to nowhere: `python -m benchmarks.scans.split PARTITIONS MEMORY`."""

import json
import sys
from time import perf_counter

from pyspark.sql import DataFrame

from rackspan.jobs.sources.scanned_cluster import synthetic
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.batch_judging import judge_batches
from rackspan.jobs.spark.schemas import JUDGED, spark_schema
from rackspan.jobs.spark.spark_session import spark_session

_WARM = 2_000


def main(partitions: int, memory: str) -> None:
    spark = spark_session("local[2]", memory)

    def frames(count: int) -> tuple[DataFrame, DataFrame]:
        cluster = synthetic(SyntheticCluster(count), 2)
        read = spark.read.format(cluster.format).options(**dict(cluster.options)).load()
        return read, read.mapInArrow(judge_batches(cluster.criteria), spark_schema(JUDGED))

    for frame in frames(_WARM):
        _spent(frame)
    reading, both = map(_spent, frames(partitions))
    print(json.dumps({"reading": reading, "both": both}))
    spark.stop()


def _spent(frame: DataFrame) -> float:
    started = perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return perf_counter() - started


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
