"""Writes the archive of the classes that Spark's JVM loads. With the archive, a JVM starts in half the time.

Run as `python -m rackspan.jobs.spark.class_archive`. The scan's image includes the archive, which has about 120 MB.
"""

import os
from collections import deque
from typing import Any

from pyspark import SparkContext

from rackspan.jobs.sources import scanned_cluster
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.spark_engine import on_spark
from rackspan.jobs.spark.spark_session import CLASS_ARCHIVE, spark_session


def main() -> None:
    """Scan a small synthetic cluster and wait for the JVM, which writes the archive when it exits."""
    CLASS_ARCHIVE.unlink(missing_ok=True)
    options = f'"-XX:ArchiveClassesAtExit={CLASS_ARCHIVE}" -Xlog:disable'
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf 'spark.driver.defaultJavaOptions={options}' pyspark-shell"
    session = spark_session("local[2]")
    cluster = scanned_cluster.synthetic(SyntheticCluster(1_000))
    deque(on_spark(session, 2)(cluster, (), lambda *_: None), maxlen=0)
    session.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - pyspark does not wait for its JVM
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
