"""Spark for tests, whose clusters are small and whose JVMs are soon gone again."""

import os
from collections.abc import Mapping

QUICK = "-XX:TieredStopAtLevel=1"
"""For every JVM: a thorough compiler would not pay for itself."""
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What Spark does for large clusters only takes time."""


def quick(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process that starts such a Spark."""
    from rackspan.jobs.spark.spark_session import _JAVA_OPTIONS  # many who import this module need no Spark

    settings = {**SMALL, "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {QUICK}"}
    given = " ".join(f'--conf "{key}={value}"' for key, value in settings.items())
    return {**environment, "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}
