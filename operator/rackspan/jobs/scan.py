"""
The scan of a cluster: read, judge, compare with the scan before, keep, tell. The only one here that acts.

What it writes becomes visible with the last step, all at once; whatever ends it before leaves the history as it was.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from time import perf_counter
from typing import Any, Final, Self

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.core.scanning import examine_brokers
from rackspan.jobs import documents, transforms, trends
from rackspan.jobs.batches import finding_batches
from rackspan.jobs.clusters import ClusterError, ScannedCluster
from rackspan.jobs.history import Attempt, History, HistoryError, Manifest
from rackspan.jobs.judging import judge_batches
from rackspan.jobs.schemas import JUDGED, TABLES, spark_schema
from rackspan.reports.document import MAX_FINDINGS, Changes, ScanDocument, State, Summary, decode, encode

Tell = Callable[[str], None]
_SAMPLES: Final = 100
"""New and cleared findings that a document lists."""
_FLAP_DAYS: Final = 7
_UNSEEN: Final = timedelta(0)
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_DEFECTS = frozenset({"PythonException", "SparkException", "Py4JJavaError"})


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
    except (PySparkException, Py4JError) as error:
        explained = _explained(error)
        if history is not None and history.root in str(error):
            raise HistoryError(f"history {history.location}: {explained}") from error
        raise explained from error


def failed(cluster: str, order: Order, reason: str, message: str) -> ScanDocument:
    """Tell of a scan that found nothing because it could not look."""
    return ScanDocument(
        scan_id=order.scan_id,
        cluster=cluster,
        started_at=documents.timestamp(order.observed_at) or "",
        finished_at=documents.timestamp(datetime.now(UTC)) or "",
        state=State.FAILED,
        reason=reason,
        message=message,
        history=order.history.location if order.history else None,
    )


class _Scan:
    """One run. What Spark holds for it is let go at the end."""

    def __init__(self, spark: SparkSession, cluster: ScannedCluster, order: Order, tell: Tell) -> None:
        self._spark = spark
        self._cluster = cluster
        self._order = order
        self._tell = tell
        self._truth = cluster.question.truth
        self._held: list[DataFrame] = []
        self._seconds: dict[str, float] = {}
        history = order.history
        self._attempt = history.begin(cluster.name, order.scan_id, order.observed_at) if history else None
        self._before = history.latest(cluster.name) if history else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._held:
            frame.unpersist()

    def run(self) -> ScanDocument:
        with self._step("reading and judging partitions"):
            judged = self._hold(self._judged())
            judged.count()
        with self._step("counting findings"):
            found = self._hold(self._found(judged))
            counted = _rows(transforms.counts(found))
            topics = transforms.topics(judged, found).toArrow()
            holdings = _rows(transforms.holdings(judged))
        with self._step("comparing with the scan before"):
            changes = self._changes(found)
            topics = _with_minutes(topics, self._violated_before, self._minutes)
        summary = documents.summary(topics, counted, _rows(transforms.unfair(judged)), self._truth)
        with self._step("writing the history"):
            self._write(found, topics, holdings, summary)
        with self._step("looking at the trend"):
            document = self._document(found, topics, holdings, summary, changes)
        if self._order.history is None or self._attempt is None:
            return document
        manifest = self._order.history.commit(self._attempt, self._order.observed_at, encode(document))
        self._tidy(self._order.history)
        ours = any(scan.document == self._attempt.document for scan in manifest.scans)
        return document if ours else self._committed_first(manifest)

    # --- what was found ----------------------------------------------------------------------------------------------

    def _judged(self) -> DataFrame:
        cluster = self._cluster
        read = self._spark.read.format(cluster.format).options(**dict(cluster.options)).load()
        return read.mapInArrow(judge_batches(cluster.question), spark_schema(JUDGED))

    def _found(self, judged: DataFrame) -> DataFrame:
        about_brokers = finding_batches(self._cluster.name, self._truth, (), examine_brokers(self._truth))
        rows = pa.Table.from_batches(about_brokers, schema=JUDGED)
        every = transforms.findings(judged)
        if len(rows):
            every = every.unionByName(self._frame(rows).select(every.columns))
        observed = F.lit(self._order.observed_at).cast("timestamp")
        return transforms.with_first_seen(every, self._findings_before, observed)

    @cached_property
    def _findings_before(self) -> DataFrame:
        return self._hold(self._of_scan_before("findings"))

    def _changes(self, found: DataFrame) -> Changes:
        if self._before is None:
            return Changes()
        new = self._hold(found.where("new"))
        cleared = self._hold(self._findings_before.join(found.select("id"), "id", "left_anti"))
        return Changes(
            since=documents.timestamp(self._before.newest.observed_at),
            new=new.count(),
            cleared=cleared.count(),
            new_findings=documents.finding_rows(_rows(transforms.worst(new, _SAMPLES))),
            cleared_findings=documents.finding_rows(_rows(transforms.worst(cleared, _SAMPLES))),
        )

    @cached_property
    def _violated_before(self) -> frozenset[str]:
        if self._before is None or self._order.history is None:
            return frozenset()
        rows = self._order.history.rows("topics", [self._before], self._before.newest.scan_id)
        return frozenset(rows.filter(pa.compute.greater(rows["non_compliant"], 0))["topic"].to_pylist())

    @cached_property
    def _minutes(self) -> float:
        """Since the scan before. A clock that went back is taken to have stood still."""
        if self._before is None:
            return 0.0
        passed = max(self._order.observed_at - self._before.newest.observed_at, _UNSEEN)
        return min(passed.total_seconds() / 60, trends.LONGEST_GAP_MINUTES)

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _write(self, found: DataFrame, topics: pa.Table, holdings: list[Mapping[str, Any]], summary: Summary) -> None:
        history, attempt = self._order.history, self._attempt
        if history is None or attempt is None:
            return
        scan_id = self._order.scan_id
        columns = [F.lit(scan_id).alias("scan_id"), *(name for name in TABLES["findings"].names if name != "scan_id")]
        try:
            found.select(columns).write.parquet(history.spark_path(attempt, "findings"))
        except (PySparkException, Py4JError) as error:
            raise HistoryError(f"history {history.location}: {_explained(error)}") from error
        keep = pa.compute.or_(
            pa.compute.greater(topics["findings"], 0), pa.compute.greater(topics["violation_minutes"], 0)
        )
        history.write(attempt, "topics", _as("topics", scan_id, topics.filter(keep)))
        history.write(attempt, "holdings", _of_rows("holdings", scan_id, holdings))
        history.write(attempt, "brokers", self._brokers())
        groups = [{field: getattr(group, field) for field in group.__struct_fields__} for group in self._cluster.groups]
        history.write(attempt, "groups", _of_rows("groups", scan_id, groups))
        history.write(attempt, "scans", self._scan_row(attempt, topics, summary))

    def _scan_row(self, attempt: Attempt, topics: pa.Table, summary: Summary) -> pa.Table:
        row = {
            "sequence": self._before.newest.sequence + 1 if self._before else 1,
            "finished_at": self._order.observed_at,
            "minutes": self._minutes,
            "topics": summary.topics,
            "partitions": summary.partitions,
            "non_compliant": summary.non_compliant,
            "findings": summary.findings,
            "critical": summary.by_severity.get("critical", 0),
            "moves": summary.moves,
            "violation_minutes": pa.compute.sum(topics["violation_minutes"]).as_py() or 0.0,
        }
        return _of_rows("scans", attempt.scan_id, [row])

    def _brokers(self) -> pa.Table:
        online = {}
        if self._before is not None and self._order.history is not None:
            rows = self._order.history.rows("brokers", [self._before], self._before.newest.scan_id).to_pylist()
            online = {row["broker"]: row["online"] for row in rows}
        found = [
            {
                "broker": broker.id,
                "rack": documents.rack_name(broker),
                "reported_rack": broker.reported,
                "online": broker.online,
                "changed": online.get(broker.id, broker.online) != broker.online,
            }
            for broker in self._truth.brokers
        ]
        return _of_rows("brokers", self._order.scan_id, found)

    def _tidy(self, history: History) -> None:
        """Compact and forget. The scan is done by now: what goes wrong here is for the next one to try again."""
        try:
            history.compact(self._cluster.name, self._order.observed_at.date())
            if self._order.retention_days is not None:
                history.expire(self._cluster.name, self._today - timedelta(days=self._order.retention_days))
            history.sweep(self._cluster.name, datetime.now(UTC))
        except HistoryError as error:
            self._tell(f"warning: {error}")

    @property
    def _today(self) -> date:
        """The day by which days are old. One clock that jumps ahead is not believed before the next scan agrees."""
        times = [self._order.observed_at, *([self._before.newest.observed_at] if self._before else [])]
        return min(times).astimezone(UTC).date()

    # --- what is told ------------------------------------------------------------------------------------------------

    def _document(
        self,
        found: DataFrame,
        topics: pa.Table,
        holdings: list[Mapping[str, Any]],
        summary: Summary,
        changes: Changes,
    ) -> ScanDocument:
        minutes, flaps, days = self._over_time()
        since = {row["topic"]: row["first_seen"] for row in _rows(trends.first_seen(found))}
        history = self._order.history
        return ScanDocument(
            scan_id=self._order.scan_id,
            cluster=self._cluster.name,
            started_at=documents.timestamp(self._order.observed_at) or "",
            finished_at=documents.timestamp(datetime.now(UTC)) or "",
            cluster_id=self._cluster.cluster_id,
            levels=list(self._truth.tree.levels),
            summary=summary,
            changes=changes,
            domains=documents.domain_rows(holdings, self._truth, _rows(transforms.by_domain(found))),
            brokers=documents.broker_rows(holdings, self._truth, _rows(transforms.by_broker(found)), flaps),
            findings=documents.finding_rows(_rows(transforms.worst(found, MAX_FINDINGS))),
            topics=documents.topic_rows(topics, self._cluster.question.expectations.of_topic, minutes, since),
            groups=list(self._cluster.groups),
            trend=documents.trend(days),
            history=history.location if history else None,
            warnings=list(self._cluster.warnings),
            seconds={name: round(seconds, 3) for name, seconds in self._seconds.items()},
        )

    def _over_time(self) -> tuple[dict[str, float], dict[int, int], list[Mapping[str, Any]]]:
        """Violation-minutes by topic, flaps by broker, and days; this scan included."""
        history, attempt = self._order.history, self._attempt
        if history is None or attempt is None:
            return {}, {}, []
        manifests = history.manifests(self._cluster.name)
        week = self._order.observed_at.date() - timedelta(days=_FLAP_DAYS)
        lately = [manifest for manifest in manifests if manifest.day >= week]
        minutes = trends.topic_minutes(self._kept("topics", manifests))
        flaps = trends.flaps(self._kept("brokers", lately))
        days = _rows(trends.days(self._kept("scans", manifests)))
        return (
            {row["topic"]: row["violation_minutes"] for row in _rows(minutes)},
            {row["broker"]: row["flaps"] for row in _rows(flaps) if row["flaps"]},
            days,
        )

    def _committed_first(self, manifest: Manifest) -> ScanDocument:
        """Another run of this very scan was quicker: its document counts."""
        history = self._order.history
        entry = next(scan for scan in manifest.scans if scan.scan_id == self._order.scan_id)
        return decode(history.document(entry)) if history else failed(self._cluster.name, self._order, "", "")

    # --- Spark -------------------------------------------------------------------------------------------------------

    def _kept(self, table: str, manifests: list[Manifest]) -> DataFrame:
        """Rows of a table that manifests name, and those that this run has written."""
        history, attempt = self._order.history, self._attempt
        paths = history.paths(table, manifests) if history else []
        if history and attempt:
            paths.append(history.spark_path(attempt, table))
        return self._read(table, paths)

    def _of_scan_before(self, table: str) -> DataFrame:
        history, before = self._order.history, self._before
        paths = history.paths(table, [before]) if history and before else []
        rows = self._read(table, paths)
        return rows.where(F.col("scan_id") == before.newest.scan_id) if before else rows

    def _read(self, table: str, paths: list[str]) -> DataFrame:
        schema = spark_schema(TABLES[table])
        if not paths:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*paths).select(TABLES[table].names)

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows)

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


def _rows(frame: DataFrame) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _with_minutes(topics: pa.Table, violated: frozenset[str], minutes: float) -> pa.Table:
    """Topics with the minutes since the scan before, where they were out of compliance then."""
    names = topics["topic"].to_pylist()
    spent = pa.array([minutes if name in violated else 0.0 for name in names], pa.float64())
    return topics.append_column("violation_minutes", spent)


def _as(table: str, scan_id: str, rows: pa.Table) -> pa.Table:
    schema = TABLES[table]
    filled = rows.append_column("scan_id", pa.array([scan_id] * len(rows), pa.string()))
    return filled.select(schema.names).cast(schema)


def _of_rows(table: str, scan_id: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "scan_id": scan_id} for row in rows], schema=TABLES[table])


def _explained(error: Exception) -> ClusterError:
    """What went wrong, out of the many lines that Spark makes of it."""
    causes = [(kind, text) for kind, text in _CAUSE.findall(str(error)) if kind not in _DEFECTS]
    kind, text = causes[-1] if causes else (type(error).__name__, str(error).strip().splitlines()[0][:500])
    known = {
        "SnapshotError": "SnapshotUnreadable",
        "FailureError": "KafkaUnavailable",
        "TopologyError": "RacksUnusable",
    }
    return ClusterError(known.get(kind, "ScanFailed"), text)
