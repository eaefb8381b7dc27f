"""Spark for small clusters, and for JVMs that are soon gone again: those of the tests and of the demo."""

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
    settings = {**SMALL, "spark.driver.defaultJavaOptions": QUICK}
    given = " ".join(f'--conf "{key}={value}"' for key, value in settings.items())
    return {**environment, "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}
