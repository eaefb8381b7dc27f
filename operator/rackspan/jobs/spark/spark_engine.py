"""The engine that reads and judges a cluster on Spark's workers, one slice per task. Spark needs no column schema."""

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rackspan.jobs.batches.batch_judging import judge_slice
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.scan.engines import Advance, Engine
from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError, ScannedCluster
from rackspan.reports.document import WORKER_CRASHED

_SPARK_ERRORS: Final = (PySparkException, Py4JError)
_CAUSE = re.compile(r"^(?:Caused by: |: )?(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CRASHED = "Python worker exited unexpectedly"
_LONGEST = 500
_POLL_SECONDS = 0.5
_DEFECTS = frozenset({"PythonException", "SparkException", "Py4JJavaError"})


def on_spark(spark: SparkSession, least: int) -> Engine:
    """Return the engine that uses this session: one task lists the slices, then one task runs for each slice.

    `least` is the least number of slices.
    """

    def judged(cluster: ScannedCluster, known: Collection[str], advance: Advance) -> Iterator[Judged]:
        context, reader = spark.sparkContext, cluster.reader
        # The reader may have secrets. It is sent with the code, which Spark keeps in memory if the code is small.
        with ExitStack() as held:
            held.enter_context(_explaining())
            criteria = context.broadcast(cluster.criteria)
            held.callback(criteria.unpersist)
            count = cluster.slices(least)
            slices = context.parallelize([list(known)], 1).flatMap(lambda names: reader.slices(names, count)).collect()
            every = context.parallelize(slices, max(len(slices), 1)).map(
                lambda part: judge_slice(criteria.value, reader.read(part))
            )
            held.callback(every.persist(StorageLevel.DISK_ONLY).unpersist)
            with _followed(context, len(slices), advance):
                every.count()  # judges all slices in parallel; the driver then fetches one slice at a time
            yield from every.toLocalIterator()

    return judged


@contextmanager
def _followed(context: SparkContext, total: int, advance: Advance) -> Iterator[None]:
    """Report how many tasks of the running stage are completed, until the context exits. No report is below another.

    Spark lists no active stage before a stage starts and after it has ended.
    """
    ended = threading.Event()

    def follow() -> None:
        with suppress(*_SPARK_ERRORS, OSError):  # the driver's JVM ended, which the stage reports, too
            tracker, done = context.statusTracker(), 0
            while not ended.wait(_POLL_SECONDS):
                stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
                done = max(done, sum(stage.numCompletedTasks for stage in stages if stage))
                advance(done, total)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join(_POLL_SECONDS)  # the thread may wait for a JVM that hangs


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except _SPARK_ERRORS as error:
        raise _explained(error) from error


def _explained(error: Exception) -> ClusterError:
    """Return the innermost cause that is not a wrapper of Spark, with its reason for machines, or ScanFailed."""
    text = str(error)
    if _CRASHED in text:
        return ClusterError(
            WORKER_CRASHED,
            "a Python worker of Spark crashed, most likely in Kafka's client on an answer that it cannot read, "
            "or because memory was short",
        )
    causes = _CAUSE.findall(text)
    own = [(kind, said) for kind, said in causes if kind not in _DEFECTS]
    kind, said = (own or causes or [(type(error).__name__, (text.strip() or "no message").splitlines()[0])])[-1]
    return ClusterError(REASONS.get(kind, "ScanFailed"), said[:_LONGEST])
