"""The Spark session of a scan."""

import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from rackspan.jobs.sources.data_sources import SOURCES

_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit sets for the Python program that it starts; Spark's settings are chosen by then."""
_QUIET = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -XX:+UseParallelGC"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Results are small, so planning again after each stage costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Files are given one by one: listing a year of them here takes less time than a Spark job with a task for each.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1024",
}


def spark_session(master: str | None, memory: str = "2g") -> SparkSession:
    """
    Start a session, or take the running one, with the sources registered.

    Without a `master` the one of spark-submit counts, else all cores of this machine. `memory` is the driver's heap, in
    Java's notation, which in local mode is all of Spark's. Settings in `PYSPARK_SUBMIT_ARGS` win.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("rackspan scan")
    submitted = _GATEWAY in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    local = not submitted and (master or "local").startswith("local")
    settings = _SETTINGS | (_LOOPBACK if local else {})
    if not submitted:
        settings |= {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": _JAVA_OPTIONS}
    for key in settings.keys() - _given():
        builder = builder.config(key, settings[key])
    session: SparkSession = builder.getOrCreate()
    for source in SOURCES:
        session.dataSource.register(source)
    return session


def _given() -> frozenset[str]:
    """Names of the settings in `PYSPARK_SUBMIT_ARGS`."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return frozenset(value.partition("=")[0] for flag, value in pairwise(words) if flag == "--conf")
