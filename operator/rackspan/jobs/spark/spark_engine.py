"""A cluster read and judged by Spark's workers, a slice by each task. Spark itself has to know no columns."""

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
    """
    Give the engine that uses this session: a task for each slice, and one that finds out which slices there are.

    `least` is the least number of slices.
    """

    def judged(cluster: ScannedCluster, known: Collection[str], advance: Advance) -> Iterator[Judged]:
        context, reader = spark.sparkContext, cluster.reader
        # The reader may have secrets. It travels with the code, which Spark keeps in memory while that is small.
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
                every.count()  # all slices at once; the driver takes one after the other
            yield from every.toLocalIterator()

    return judged


@contextmanager
def _followed(context: SparkContext, total: int, advance: Advance) -> Iterator[None]:
    """Show how many tasks of the one stage that runs are done."""
    ended = threading.Event()

    def follow() -> None:
        with suppress(*_SPARK_ERRORS, OSError):  # the driver's JVM ended, which the stage says as well
            tracker = context.statusTracker()
            while not ended.wait(_POLL_SECONDS):
                stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
                advance(sum(stage.numCompletedTasks for stage in stages if stage), total)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join(_POLL_SECONDS)  # a JVM that hangs may not answer it


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except _SPARK_ERRORS as error:
        raise _explained(error) from error


def _explained(error: Exception) -> ClusterError:
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
    kind, said = (own or causes or [(type(error).__name__, (text.strip() or "no message").splitlines()[0])])[-1]
    return ClusterError(REASONS.get(kind, "ScanFailed"), said[:_LONGEST])
