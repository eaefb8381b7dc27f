"""The Spark session of a scan."""

import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rackspan.jobs.scan.scan_request import SUBMITTED

CLASS_ARCHIVE: Final = Path(pyspark.__file__).with_name("classes.jsa")
"""Of the JVM's class data sharing (CDS). Java does not use one of another Java, or of other jars."""
_QUIET = Path(__file__).with_name("log4j2.properties")
# Only bytes pass through Java here: a thorough compiler would take more time than it saves.
_JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -XX:+UseParallelGC -XX:TieredStopAtLevel=1"
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
    settings = dict(_SETTINGS)
    if local:
        settings |= _LOOPBACK
        # Else Spark does not start where the machine's name cannot be resolved.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not submitted:
        settings |= {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": _java_options()}
    for key in settings.keys() - _given():
        builder = builder.config(key, settings[key])
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkStartError((str(error).strip() or type(error).__name__).splitlines()[0]) from error
    return session


def _java_options() -> str:
    if not CLASS_ARCHIVE.exists():
        return _JAVA_OPTIONS
    # Java would print to the standard output that it does not use an archive.
    return f'{_JAVA_OPTIONS} "-XX:SharedArchiveFile={CLASS_ARCHIVE}" -Xlog:disable'


def _given() -> frozenset[str]:
    """Names of the settings in `PYSPARK_SUBMIT_ARGS`."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return frozenset(value.partition("=")[0] for flag, value in pairwise(words) if flag == "--conf")
