"""Spark for small clusters, and for JVMs that are soon gone again: those of the tests and of the demo."""

import os
from collections.abc import Mapping

QUICK = "-XX:TieredStopAtLevel=1"
"""For every JVM: a thorough compiler would not pay for itself."""


def quick(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process that starts such a Spark."""
    given = f'--conf "spark.driver.defaultJavaOptions={QUICK}"'
    return {**environment, "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}
