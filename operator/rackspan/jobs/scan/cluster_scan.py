"""
The scan of a cluster: read, judge, compare with the scan before, keep, tell. The only one here that acts.

What it writes becomes visible with the last step, all at once; whatever ends it before leaves the history as it was.
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
from rackspan.jobs.history.history_writer import Ledger, OverTime
from rackspan.jobs.history.previous_scan import Past
from rackspan.jobs.history.scan_history import History, HistoryError
from rackspan.jobs.scan import document_rows
from rackspan.jobs.sources.data_sources import KNOWN
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.jobs.spark import transforms
from rackspan.jobs.spark.arrow_batches import finding_batches
from rackspan.jobs.spark.data_frames import rows_of
from rackspan.jobs.spark.judging import judge_batches
from rackspan.jobs.spark.schemas import JUDGED, spark_schema
from rackspan.jobs.spark.spark_errors import SPARK_ERRORS, explained
from rackspan.reports.document import MAX_FINDINGS, Changes, ScanDocument, State, Summary, decode

Tell = Callable[[str], None]
_SAMPLES: Final = 100
"""New and cleared findings that a document lists."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which scan it is, when it looked, and where the history is; without one there is no comparing."""

    scan_id: str
    observed_at: datetime
    history: History | None = None
    retention_days: int | None = None


def scan_cluster(spark: SparkSession, cluster: ScannedCluster, order: Order, tell: Tell) -> ScanDocument:
    """
    Scan one cluster. A scan id that the history has already is not run again: its document is given.

    Raises ClusterError where the cluster or its data cannot be read, HistoryError where the history cannot.
    """
    history = order.history
    if history is not None and (entry := history.entry(cluster.name, order.scan_id)) is not None:
        return decode(history.document(entry))
    try:
        with _Scan(spark, cluster, order, tell) as scan:
            return scan.run()
    except SPARK_ERRORS as error:
        failure = explained(error)
        if history is not None and history.root in str(error):
            raise HistoryError(f"history {history.location}: {failure}") from error
        raise failure from error


def failed(cluster: str, order: Order, reason: str, message: str) -> ScanDocument:
    """Tell of a scan that found nothing because it could not look."""
    return ScanDocument(
        scan_id=order.scan_id,
        cluster=cluster,
        started_at=timestamp(order.observed_at),
        finished_at=timestamp(datetime.now(UTC)),
        state=State.FAILED,
        reason=reason,
        message=message,
        history=order.history.location if order.history else None,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look at a cluster has shown."""

    findings: DataFrame
    topics: pa.Table
    holdings: list[Mapping[str, Any]]
    summary: Summary
    changes: Changes
    unread: Mapping[str, str]


class _Scan:
    """One run. What Spark holds for it is let go at the end."""

    def __init__(self, spark: SparkSession, cluster: ScannedCluster, order: Order, tell: Tell) -> None:
        self._spark = spark
        self._cluster = cluster
        self._order = order
        self._tell = tell
        self._truth = cluster.question.truth
        self._past = Past(spark, order.history, cluster.name)
        self._held: list[DataFrame] = []
        self._seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._held:
            frame.unpersist()

    def run(self) -> ScanDocument:
        seen = self._look()
        if self._order.history is None:
            return self._document(seen, OverTime())
        ledger = Ledger(
            self._spark, self._order.history, self._cluster.name, self._order.scan_id, self._order.observed_at
        )
        with self._step("writing the history"):
            ledger.write(seen.findings, self._records(seen))
        with self._step("looking at the trend"):
            document = self._document(seen, ledger.over_time())
        committed = ledger.commit(document)
        ledger.tidy(self._past.observed_at, self._order.retention_days, self._tell)
        return committed

    # --- looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> _Seen:
        with self._step("reading and judging partitions"):
            judged = self._hold(self._judged())
            judged.count()
        with self._step("counting findings"):
            before = self._hold(self._past.findings())
            unread = {row["topic"]: row["reason"] for row in rows_of(transforms.unread(judged))}
            found = self._hold(self._found(judged, before))
            counted = rows_of(transforms.counts(found))
            topics = transforms.topics(judged, found).toArrow()
            if unread and not len(topics):
                raise ClusterError("TopicsUnreadable", f"no topic could be read: {next(iter(unread.values()))}")
            topics = history_rows.with_unread(topics, self._past.topics(unread))
            holdings = rows_of(transforms.holdings(judged))
            summary = document_rows.summary(
                topics, counted, rows_of(transforms.unfair(judged)), self._truth, len(unread)
            )
        with self._step("comparing with the scan before"):
            changes = self._changes(found, before)
            topics = history_rows.with_minutes(topics, self._past.violated, self._minutes)
        return _Seen(found, topics, holdings, summary, changes, unread)

    def _judged(self) -> DataFrame:
        cluster = self._cluster
        options = {**cluster.options, KNOWN: json.dumps(sorted(self._past.told))}
        read = self._spark.read.format(cluster.format).options(**options).load()
        return read.mapInArrow(judge_batches(cluster.question), spark_schema(JUDGED))

    def _found(self, judged: DataFrame, before: DataFrame) -> DataFrame:
        about_brokers = finding_batches(self._cluster.question.cluster, self._truth, (), examine_brokers(self._truth))
        rows = pa.Table.from_batches(about_brokers, schema=JUDGED)
        every = transforms.findings(judged)
        if len(rows):
            every = every.unionByName(self._spark.createDataFrame(rows).select(every.columns))
        # Nobody looked: what was found of these topics before is neither cleared nor new.
        kept = transforms.of_topics(before, transforms.unread(judged))
        every = every.unionByName(kept.select(every.columns))
        return transforms.with_first_seen(every, before, F.lit(self._order.observed_at).cast("timestamp"))

    def _changes(self, found: DataFrame, before: DataFrame) -> Changes:
        if self._past.observed_at is None:
            return Changes()
        new = self._hold(found.where("new"))
        cleared = self._hold(before.join(found.select("id"), "id", "left_anti"))
        return Changes(
            since=document_rows.timestamp(self._past.observed_at),
            new=new.count(),
            cleared=cleared.count(),
            new_findings=document_rows.finding_rows(rows_of(transforms.worst(new, _SAMPLES))),
            cleared_findings=document_rows.finding_rows(rows_of(transforms.worst(cleared, _SAMPLES))),
        )

    @property
    def _minutes(self) -> float:
        return self._past.minutes_until(self._order.observed_at)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _records(self, seen: _Seen) -> dict[str, pa.Table]:
        scan_id = self._order.scan_id
        return {
            "topics": history_rows.topics(scan_id, seen.topics),
            "holdings": history_rows.holdings(scan_id, seen.holdings),
            "brokers": history_rows.brokers(scan_id, self._truth, self._past.online),
            "groups": history_rows.groups(scan_id, self._cluster.groups),
            "scans": history_rows.scan(
                scan_id, self._past.sequence + 1, self._order.observed_at, self._minutes, seen.summary, seen.topics
            ),
        }

    def _document(self, seen: _Seen, over_time: OverTime) -> ScanDocument:
        found, holdings = seen.findings, seen.holdings
        since = {row["topic"]: row["first_seen"] for row in rows_of(trends.first_seen(found))}
        wrong_domains, wrong_brokers = rows_of(transforms.by_domain(found)), rows_of(transforms.by_broker(found))
        managed = self._cluster.question.expectations.of_topic
        history = self._order.history
        return ScanDocument(
            scan_id=self._order.scan_id,
            cluster=self._cluster.name,
            started_at=timestamp(self._order.observed_at),
            finished_at=timestamp(datetime.now(UTC)),
            cluster_id=self._cluster.cluster_id,
            levels=list(self._truth.tree.levels),
            summary=seen.summary,
            changes=seen.changes,
            domains=document_rows.domain_rows(holdings, self._truth, wrong_domains),
            brokers=document_rows.broker_rows(holdings, self._truth, wrong_brokers, over_time.flaps),
            findings=document_rows.finding_rows(rows_of(transforms.worst(found, MAX_FINDINGS))),
            topics=document_rows.topic_rows(seen.topics, managed, over_time.minutes, since),
            groups=list(self._cluster.groups),
            trend=document_rows.trend(over_time.days),
            history=history.location if history else None,
            warnings=[*self._cluster.warnings, *document_rows.unread_words(seen.unread)],
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
