"""Spark's JVM for tests, which is gone again before a thorough compiler has paid for itself."""

import os
from collections.abc import Mapping

QUICK = "-XX:TieredStopAtLevel=1"


def quick(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process whose Spark starts such a JVM."""
    from rackspan.jobs.spark.spark_session import _JAVA_OPTIONS  # many who import this module need no Spark

    conf = f'--conf "spark.driver.extraJavaOptions={_JAVA_OPTIONS} {QUICK}"'
    return {**environment, "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell"}
