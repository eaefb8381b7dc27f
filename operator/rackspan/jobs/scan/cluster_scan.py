"""
The scan of a cluster: read it, judge it, compare it with the previous scan, write the history and the document.

What it writes becomes visible with the commit, all at once: a scan that ends before leaves the history as it was.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from rackspan.api.codec import timestamp
from rackspan.core.scanning import examine_brokers
from rackspan.core.scanning.rules import Rule
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.arrow_batches import finding_batches
from rackspan.jobs.batches.schemas import FINDING, HOLDING, JUDGED, TOPIC, UNFAIR, UNREAD, WRITES
from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.jobs.history.scan_history import History, HistoryError, ScanEntry
from rackspan.jobs.history.trend import HistoryTrend, trend_of
from rackspan.jobs.scan import document_rows, history_rows
from rackspan.jobs.scan.engines import Engine
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.reports.document import (
    MAX_FINDINGS,
    FindingRow,
    ScanChanges,
    ScanDocument,
    ScanOutcome,
    Summary,
    Writes,
    encode,
)

Announce = Callable[[str], None]
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


def scan_cluster(engine: Engine, cluster: ScannedCluster, run: ScanRun, announce: Announce) -> ScanDocument:
    """
    Scan one cluster, and give the document. A scan id that the history has already is not run again.

    Raises ClusterError where the cluster or its data cannot be read, HistoryError where the history cannot.
    """
    previous = PreviousScan(run.history, cluster.name)
    return previous.committed(run.scan_id) or _Scan(engine, cluster, run, previous, announce).run()


def failed(cluster: str, run: ScanRun, reason: str, message: str) -> ScanDocument:
    """Give the document of a scan that could not be run; `reason` is one word for machines."""
    return ScanDocument(
        scan_id=run.scan_id,
        cluster=cluster,
        started_at=timestamp(run.observed_at),
        finished_at=timestamp(datetime.now(UTC)),
        state=ScanOutcome.FAILED,
        reason=reason,
        message=message,
        history=run.history.location if run.history else None,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one scan found in a cluster; `unread` is why topics could not be read, by topic."""

    findings: pa.Table
    topics: pa.Table
    holdings: list[Mapping[str, Any]]
    summary: Summary
    changes: ScanChanges
    writes: Writes | None
    unread: Mapping[str, str]


class _Scan:
    """A scan under way."""

    def __init__(
        self, engine: Engine, cluster: ScannedCluster, run: ScanRun, previous: PreviousScan, announce: Announce
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._run = run
        self._announce = announce
        self._locations = cluster.criteria.locations
        self._previous = previous
        self._seconds: dict[str, float] = {}

    def run(self) -> ScanDocument:
        seen, run, history = self._look(), self._run, self._run.history
        if history is None:
            return self._document(seen, HistoryTrend())
        sequence, attempt = self._previous.sequence + 1, uuid.uuid4().hex
        entry = ScanEntry(self._cluster.name, run.scan_id, sequence, run.observed_at, attempt)
        with self._step("writing the history"):
            tables = self._records(entry, seen)
            history.write(entry, tables)
        with self._step("looking at the trend"):
            trend = trend_of(history, entry, tables)
        document = self._document(seen, trend)
        if not history.commit(entry, tables["scans"], [encode(document)]):  # another run of this scan was first
            document = PreviousScan(history, entry.cluster).committed(run.scan_id) or document
        self._tidy(history, entry)
        return document

    def _tidy(self, history: History, entry: ScanEntry) -> None:
        """
        Compact and forget, with the first scan of a day.

        The scan has been committed by now, so an error here is only a warning; the next day's first scan tries again.
        """
        before, kept_days = self._previous.entry, self._run.retention_days
        if before is None or before.day == entry.day:
            return
        try:
            history.compact(before)
            if kept_days is not None:
                # Days are deleted by the earlier of two scans' clocks: one clock that jumps ahead deletes nothing.
                history.expire(before.cluster, min(entry.day, before.day) - timedelta(days=kept_days))
            history.vacuum()
        except HistoryError as error:
            self._announce(f"warning: {error}")

    # --- looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> _Seen:
        with self._step("reading and judging partitions"):
            judged = self._judged()
        with self._step("counting findings"):
            unread = {row["topic"]: row["reason"] for row in judged[UNREAD].sort_by("topic").to_pylist()}
            found = self._found(judged[FINDING], unread)
            topics = aggregates.topics(judged[TOPIC], found)
            if unread and not len(topics):
                raise ClusterError("TopicsUnreadable", f"no topic could be read: {next(iter(unread.values()))}")
            topics = history_rows.with_unread(topics, self._previous.topics(unread))
            holdings = aggregates.holdings(judged[HOLDING]).to_pylist()
            counted, unfair = aggregates.counts(found).to_pylist(), aggregates.unfair(judged[UNFAIR]).to_pylist()
            summary = document_rows.summary(topics, counted, unfair, self._locations, len(unread))
        with self._step("comparing with the scan before"):
            changes = self._changes(found)
            topics = history_rows.with_minutes(topics, self._previous.non_compliant_topics, self._minutes)
        criteria = self._cluster.criteria
        writes = document_rows.writes(aggregates.writes(judged[WRITES]), criteria.producers, criteria.locations)
        return _Seen(found, topics, holdings, summary, changes, writes, unread)

    def _judged(self) -> Mapping[str, pa.Table]:
        """What judging gives, by kind."""
        of_kind: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for batch in self._engine(self._cluster, self._previous.known_topics):
            if batch.num_rows:
                of_kind[batch.column("kind")[0].as_py()].append(batch)
        kinds = (FINDING, TOPIC, HOLDING, UNFAIR, WRITES, UNREAD)
        return {kind: pa.Table.from_batches(of_kind[kind], schema=JUDGED) for kind in kinds}

    def _found(self, judged: pa.Table, unread: Mapping[str, str]) -> pa.Table:
        about_brokers = finding_batches(
            self._cluster.criteria.cluster_id, self._locations, (), examine_brokers(self._locations)
        )
        every = aggregates.findings(pa.concat_tables([judged, pa.Table.from_batches(about_brokers, schema=JUDGED)]))
        before = self._previous.findings
        # Topics that could not be read keep their previous findings, which are neither cleared nor new.
        kept = before.filter(pa.compute.is_in(before["topic"], pa.array(list(unread), pa.string())))
        every = pa.concat_tables([every, kept.select(every.column_names)])
        return aggregates.with_first_seen(every, before, self._run.observed_at)

    def _changes(self, found: pa.Table) -> ScanChanges:
        if self._previous.observed_at is None:
            return ScanChanges()
        new, cleared = found.filter(found["new"]), aggregates.cleared(self._previous.findings, found)
        return ScanChanges(
            since=document_rows.timestamp(self._previous.observed_at),
            new=len(new),
            cleared=len(cleared),
            new_findings=self._worst(new, _SAMPLES, found),
            cleared_findings=self._worst(cleared, _SAMPLES, found),
        )

    def _worst(self, some: pa.Table, most: int, found: pa.Table) -> list[FindingRow]:
        """At most so many rows of `some` findings; `found` are all of this scan."""
        away = found.filter(pa.compute.equal(found["rule"], str(Rule.BROKER_OFFLINE)))["broker"].to_pylist()
        return document_rows.finding_rows(aggregates.worst(some, most).to_pylist(), self._cluster.topology, away)

    @property
    def _minutes(self) -> float:
        return self._previous.minutes_until(self._run.observed_at)

    # --- reporting ---------------------------------------------------------------------------------------------------

    def _records(self, entry: ScanEntry, seen: _Seen) -> dict[str, pa.Table]:
        scan_id = entry.scan_id
        return {
            "findings": history_rows.findings(scan_id, seen.findings),
            "topics": history_rows.topics(scan_id, seen.topics),
            "holdings": history_rows.holdings(scan_id, seen.holdings),
            "brokers": history_rows.brokers(scan_id, self._locations, self._previous.broker_online),
            "groups": history_rows.groups(scan_id, self._cluster.groups),
            "scans": history_rows.scan(
                scan_id, entry.sequence, entry.observed_at, self._minutes, seen.summary, seen.topics
            ),
        }

    def _document(self, seen: _Seen, trend: HistoryTrend) -> ScanDocument:
        found, holdings = seen.findings, seen.holdings
        since = {row["topic"]: row["first_seen"] for row in aggregates.first_seen(found).to_pylist()}
        wrong_domains = aggregates.counted(found, "level", "domain").to_pylist()
        wrong_brokers = aggregates.counted(found, "broker").to_pylist()
        managed = self._cluster.criteria.requirements.of_topic
        history = self._run.history
        return ScanDocument(
            scan_id=self._run.scan_id,
            cluster=self._cluster.name,
            started_at=timestamp(self._run.observed_at),
            finished_at=timestamp(datetime.now(UTC)),
            cluster_id=self._cluster.cluster_id,
            levels=list(self._locations.tree.levels),
            throttle=self._cluster.throttle,
            summary=seen.summary,
            changes=seen.changes,
            domains=document_rows.domain_rows(holdings, self._locations, wrong_domains),
            brokers=document_rows.broker_rows(holdings, self._locations, wrong_brokers, trend.broker_flaps),
            findings=self._worst(found, MAX_FINDINGS, found),
            topics=document_rows.topic_rows(seen.topics, managed, trend.violation_minutes, since),
            groups=list(self._cluster.groups),
            writes=seen.writes,
            trend=document_rows.trend(trend.days),
            hours=document_rows.trend(trend.hours),
            history=history.location if history else None,
            warnings=[*self._cluster.warnings, *document_rows.unread_warnings(seen.unread)],
            seconds={name: round(seconds, 3) for name, seconds in self._seconds.items()},
        )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._announce(name)
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = perf_counter() - started
