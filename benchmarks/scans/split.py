"""`python -m benchmarks.scans.split PARTITIONS MEMORY`: read, then read and judge, without writing a result."""

import json
import sys
from time import perf_counter

from rackspan.jobs.sources.scanned_cluster import synthetic
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.spark_engine import on_spark
from rackspan.jobs.spark.spark_session import spark_session

_WARM = 2_000


def main(partitions: int, memory: str) -> None:
    spark = spark_session("local[2]", memory)

    def spent(count: int) -> tuple[float, float]:
        cluster = synthetic(SyntheticCluster(count))
        reader, slices = cluster.reader, cluster.reader.slices((), 2)
        started = perf_counter()
        rows = spark.sparkContext.parallelize(slices, len(slices)).flatMap(reader.read).map(len).sum()
        read = perf_counter() - started
        if rows != count:
            raise AssertionError(f"{rows} of {count} partitions were read")
        started = perf_counter()
        for _ in on_spark(spark, 2)(cluster, (), lambda *_: None):
            pass
        return read, perf_counter() - started

    spent(_WARM)
    reading, both = spent(partitions)
    print(json.dumps({"reading": reading, "both": both}))
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
