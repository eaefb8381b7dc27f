"""
The scan of a cluster: read it, judge it, compare it with the previous scan, write the history and the document.

What it writes becomes visible with the commit, all at once: a scan that ends before leaves the history as it was.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.api.times import timestamp
from rackspan.core.scanning import examine_brokers
from rackspan.jobs.history import history_rows, trends
from rackspan.jobs.history.history_writer import HistoryTrend, HistoryWriter
from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.jobs.history.scan_history import History, HistoryError
from rackspan.jobs.scan import document_rows
from rackspan.jobs.sources.data_sources import KNOWN
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.jobs.spark import transforms
from rackspan.jobs.spark.arrow_batches import finding_batches
from rackspan.jobs.spark.batch_judging import judge_batches
from rackspan.jobs.spark.data_frames import rows_of
from rackspan.jobs.spark.schemas import JUDGED, spark_schema
from rackspan.jobs.spark.spark_errors import SPARK_ERRORS, explained
from rackspan.reports.document import MAX_FINDINGS, Changes, ScanDocument, State, Summary, decode

Tell = Callable[[str], None]
"""Called with the name of each step as it begins, and with warnings, which begin with `warning: `."""
_SAMPLES: Final = 100
"""New findings that a document lists at most, and cleared ones."""


@dataclass(frozen=True, slots=True)
class ScanRun:
    """One run of the job: its id, its time (UTC), and the history; without one, nothing is compared or kept."""

    scan_id: str
    observed_at: datetime
    history: History | None = None
    retention_days: int | None = None


def scan_cluster(spark: SparkSession, cluster: ScannedCluster, run: ScanRun, tell: Tell) -> ScanDocument:
    """
    Scan one cluster, and give the document. A scan id that the history has already is not run again.

    Raises ClusterError where the cluster or its data cannot be read, HistoryError where the history cannot.
    """
    history = run.history
    if history is not None and (entry := history.entry(cluster.name, run.scan_id)) is not None:
        return decode(history.document(entry))
    try:
        with _Scan(spark, cluster, run, tell) as scan:
            return scan.run()
    except SPARK_ERRORS as error:
        failure = explained(error)
        if history is not None and history.root in str(error):
            raise HistoryError(f"history {history.location}: {failure}") from error
        raise failure from error


def failed(cluster: str, run: ScanRun, reason: str, message: str) -> ScanDocument:
    """Give the document of a scan that could not be run; `reason` is one word for machines."""
    return ScanDocument(
        scan_id=run.scan_id,
        cluster=cluster,
        started_at=timestamp(run.observed_at),
        finished_at=timestamp(datetime.now(UTC)),
        state=State.FAILED,
        reason=reason,
        message=message,
        history=run.history.location if run.history else None,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one scan found in a cluster; `unread` is why topics could not be read, by topic."""

    findings: DataFrame
    topics: pa.Table
    holdings: list[Mapping[str, Any]]
    summary: Summary
    changes: Changes
    unread: Mapping[str, str]


class _Scan:
    """A scan under way. DataFrames that Spark keeps for it are released when the context ends."""

    def __init__(self, spark: SparkSession, cluster: ScannedCluster, run: ScanRun, tell: Tell) -> None:
        self._spark = spark
        self._cluster = cluster
        self._run = run
        self._tell = tell
        self._locations = cluster.criteria.locations
        self._previous = PreviousScan(spark, run.history, cluster.name)
        self._held: list[DataFrame] = []
        self._seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._held:
            frame.unpersist()

    def run(self) -> ScanDocument:
        seen = self._look()
        if self._run.history is None:
            return self._document(seen, HistoryTrend())
        writer = HistoryWriter(
            self._spark, self._run.history, self._cluster.name, self._run.scan_id, self._run.observed_at
        )
        with self._step("writing the history"):
            writer.write(seen.findings, self._records(seen))
        with self._step("looking at the trend"):
            trend = writer.trend()
        committed = writer.commit(self._document(seen, trend))
        writer.tidy(self._previous.observed_at, self._run.retention_days, self._tell)
        return committed

    # --- looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> _Seen:
        with self._step("reading and judging partitions"):
            judged = self._hold(self._judged())
            judged.count()
        with self._step("counting findings"):
            before = self._hold(self._previous.findings())
            unread = {row["topic"]: row["reason"] for row in rows_of(transforms.unread(judged))}
            found = self._hold(self._found(judged, before))
            counted = rows_of(transforms.counts(found))
            topics = transforms.topics(judged, found).toArrow()
            if unread and not len(topics):
                raise ClusterError("TopicsUnreadable", f"no topic could be read: {next(iter(unread.values()))}")
            topics = history_rows.with_unread(topics, self._previous.topics(unread))
            holdings = rows_of(transforms.holdings(judged))
            summary = document_rows.summary(
                topics, counted, rows_of(transforms.unfair(judged)), self._locations, len(unread)
            )
        with self._step("comparing with the scan before"):
            changes = self._changes(found, before)
            topics = history_rows.with_minutes(topics, self._previous.non_compliant_topics, self._minutes)
        return _Seen(found, topics, holdings, summary, changes, unread)

    def _judged(self) -> DataFrame:
        cluster = self._cluster
        options = {**cluster.options, KNOWN: json.dumps(sorted(self._previous.known_topics))}
        read = self._spark.read.format(cluster.format).options(**options).load()
        return read.mapInArrow(judge_batches(cluster.criteria), spark_schema(JUDGED))

    def _found(self, judged: DataFrame, before: DataFrame) -> DataFrame:
        about_brokers = finding_batches(
            self._cluster.criteria.cluster_id, self._locations, (), examine_brokers(self._locations)
        )
        rows = pa.Table.from_batches(about_brokers, schema=JUDGED)
        every = transforms.findings(judged)
        if len(rows):
            every = every.unionByName(self._spark.createDataFrame(rows).select(every.columns))
        # Topics that could not be read keep their previous findings, which are neither cleared nor new.
        kept = transforms.of_topics(before, transforms.unread(judged))
        every = every.unionByName(kept.select(every.columns))
        return transforms.with_first_seen(every, before, F.lit(self._run.observed_at).cast("timestamp"))

    def _changes(self, found: DataFrame, before: DataFrame) -> Changes:
        if self._previous.observed_at is None:
            return Changes()
        new = self._hold(found.where("new"))
        cleared = self._hold(before.join(found.select("id"), "id", "left_anti"))
        return Changes(
            since=document_rows.timestamp(self._previous.observed_at),
            new=new.count(),
            cleared=cleared.count(),
            new_findings=document_rows.finding_rows(rows_of(transforms.worst(new, _SAMPLES))),
            cleared_findings=document_rows.finding_rows(rows_of(transforms.worst(cleared, _SAMPLES))),
        )

    @property
    def _minutes(self) -> float:
        return self._previous.minutes_until(self._run.observed_at)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _records(self, seen: _Seen) -> dict[str, pa.Table]:
        scan_id = self._run.scan_id
        return {
            "topics": history_rows.topics(scan_id, seen.topics),
            "holdings": history_rows.holdings(scan_id, seen.holdings),
            "brokers": history_rows.brokers(scan_id, self._locations, self._previous.broker_online),
            "groups": history_rows.groups(scan_id, self._cluster.groups),
            "scans": history_rows.scan(
                scan_id, self._previous.sequence + 1, self._run.observed_at, self._minutes, seen.summary, seen.topics
            ),
        }

    def _document(self, seen: _Seen, trend: HistoryTrend) -> ScanDocument:
        found, holdings = seen.findings, seen.holdings
        since = {row["topic"]: row["first_seen"] for row in rows_of(trends.first_seen(found))}
        wrong_domains, wrong_brokers = rows_of(transforms.by_domain(found)), rows_of(transforms.by_broker(found))
        managed = self._cluster.criteria.requirements.of_topic
        history = self._run.history
        return ScanDocument(
            scan_id=self._run.scan_id,
            cluster=self._cluster.name,
            started_at=timestamp(self._run.observed_at),
            finished_at=timestamp(datetime.now(UTC)),
            cluster_id=self._cluster.cluster_id,
            levels=list(self._locations.tree.levels),
            summary=seen.summary,
            changes=seen.changes,
            domains=document_rows.domain_rows(holdings, self._locations, wrong_domains),
            brokers=document_rows.broker_rows(holdings, self._locations, wrong_brokers, trend.broker_flaps),
            findings=document_rows.finding_rows(rows_of(transforms.worst(found, MAX_FINDINGS))),
            topics=document_rows.topic_rows(seen.topics, managed, trend.violation_minutes, since),
            groups=list(self._cluster.groups),
            trend=document_rows.trend(trend.days),
            history=history.location if history else None,
            warnings=[*self._cluster.warnings, *document_rows.unread_warnings(seen.unread)],
            seconds={name: round(seconds, 3) for name, seconds in self._seconds.items()},
        )

    # --- Spark -------------------------------------------------------------------------------------------------------

    def _hold(self, frame: DataFrame) -> DataFrame:
        held = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._held.append(held)
        return held

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._tell(name)
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = perf_counter() - started
