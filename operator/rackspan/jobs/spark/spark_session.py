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
"""The archive of the JVM's class data sharing (CDS). Java ignores an archive of another Java or of other jars."""
_QUIET = Path(__file__).with_name("log4j2.properties")
# Java only passes bytes through, so an optimizing compiler would take more time than it saves.
_JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -XX:+UseParallelGC -XX:TieredStopAtLevel=1"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkStartError(Exception):
    """Spark did not start. The message says why."""


def spark_session(master: str | None, memory: str = "2g") -> SparkSession:
    """Start a session, or return the running one.

    If `master` is None, the master of spark-submit is used, or else all cores of this machine. `memory` is the driver's
    heap in Java's notation, and in local mode the whole heap of Spark. Settings in `PYSPARK_SUBMIT_ARGS` win.

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
        # Without this, Spark does not start if the machine's name cannot be resolved.
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
    # Without -Xlog:disable, Java prints a message to the standard output if it does not use the archive.
    return f'{_JAVA_OPTIONS} "-XX:SharedArchiveFile={CLASS_ARCHIVE}" -Xlog:disable'


def _given() -> frozenset[str]:
    """Return the names of the settings in `PYSPARK_SUBMIT_ARGS`."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return frozenset(value.partition("=")[0] for flag, value in pairwise(words) if flag == "--conf")
