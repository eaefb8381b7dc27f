"""Spark's errors, of many lines each, as one sentence."""

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError
from rackspan.reports.document import WORKER_CRASHED

SPARK_ERRORS: Final = (PySparkException, Py4JError)
_CAUSE = re.compile(r"^(?:Caused by: |: )?(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CRASHED = "Python worker exited unexpectedly"
_LONGEST = 500
_DEFECTS = frozenset({"PythonException", "SparkException", "Py4JJavaError"})


def explained(error: Exception) -> ClusterError:
    """Give the innermost cause that is not Spark's own wrapper, with a reason for machines where there is one."""
    text = str(error)
    if _CRASHED in text:
        return ClusterError(
            WORKER_CRASHED,
            "a Python worker of Spark crashed, most likely in Kafka's client on an answer that it cannot read, "
            "or because memory was short",
        )
    causes = _CAUSE.findall(text)
    own = [(kind, said) for kind, said in causes if kind not in _DEFECTS]
    kind, said = (own or causes or [(type(error).__name__, text.strip().splitlines()[0])])[-1]
    return ClusterError(REASONS.get(kind, "ScanFailed"), said[:_LONGEST])
