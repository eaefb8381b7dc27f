"""Spark's errors, of many lines each, as one sentence."""

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rackspan.jobs.sources.scanned_cluster import ClusterError

SPARK_ERRORS: Final = (PySparkException, Py4JError)
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_DEFECTS = frozenset({"PythonException", "SparkException", "Py4JJavaError"})
_REASONS: Final = {
    "SnapshotError": "SnapshotUnreadable",
    "FailureError": "KafkaUnavailable",
    "TopologyError": "RacksUnusable",
}


def explained(error: Exception) -> ClusterError:
    """Give the innermost cause that is not Spark's own wrapper, with a reason for machines where there is one."""
    causes = [(kind, text) for kind, text in _CAUSE.findall(str(error)) if kind not in _DEFECTS]
    kind, text = causes[-1] if causes else (type(error).__name__, str(error).strip().splitlines()[0][:500])
    return ClusterError(_REASONS.get(kind, "ScanFailed"), text)
