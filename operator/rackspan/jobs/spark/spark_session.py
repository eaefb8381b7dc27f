"""The Spark session of a scan."""

import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rackspan.jobs.scan.scan_request import SUBMITTED

_QUIET = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -XX:+UseParallelGC"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkStartError(Exception):
    """A Spark that does not start; the message says why."""


def spark_session(master: str | None, memory: str = "2g") -> SparkSession:
    """
    Start a session, or take the running one.

    Without a `master` the one of spark-submit counts, else all cores of this machine. `memory` is the driver's heap, in
    Java's notation, which in local mode is all of Spark's. Settings in `PYSPARK_SUBMIT_ARGS` win.

    Raises SparkStartError.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("rackspan scan")
    submitted = SUBMITTED in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    local = not submitted and (master or "local").startswith("local")
    settings = _SETTINGS | (_LOOPBACK if local else {})
    if not submitted:
        settings |= {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": _JAVA_OPTIONS}
    for key in settings.keys() - _given():
        builder = builder.config(key, settings[key])
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkStartError(str(error).strip().splitlines()[0]) from error
    return session


def _given() -> frozenset[str]:
    """Names of the settings in `PYSPARK_SUBMIT_ARGS`."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return frozenset(value.partition("=")[0] for flag, value in pairwise(words) if flag == "--conf")
