"""The scan of a cluster: read it, judge it, compare it with the previous scan, write the history and the document.

The commit makes everything that a scan has written visible at once. A scan that ends earlier does not change the
history.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Final, Protocol

import pyarrow as pa

from rackspan.api.codec import timestamp
from rackspan.core.scanning import examine_brokers
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.arrow_batches import finding_table
from rackspan.jobs.batches.digests import Digest, digest, merged
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import JUDGED, TABLES
from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.jobs.history.scan_history import History, HistoryError, ScanEntry
from rackspan.jobs.history.trend import HistoryTrend, trend_of
from rackspan.jobs.scan import document_rows, history_rows
from rackspan.jobs.scan.comparison import Comparison
from rackspan.jobs.scan.engines import Engine
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.reports.document import (
    FindingRow,
    ScanChanges,
    ScanDocument,
    ScanOutcome,
    Summary,
    encode,
)

_WRITING: Final = "writing the history"
_PART: Final = 1_000_000
"""The number of findings plus topics that are counted, compared and written at once."""


class StepProgress(Protocol):
    """The progress of a running step."""

    def describe(self, description: str) -> None:
        """Show what the step does now."""

    def advance(self, done: int, total: int) -> None:
        """Show how much of the step is done."""


@dataclass(frozen=True, slots=True)
class ScanRun:
    """One run of the job: its id, its time (UTC), and the history. Without a history, nothing is compared or kept."""

    scan_id: str
    observed_at: datetime
    history: History | None = None
    retention_days: int | None = None


def scan_cluster(
    engine: Engine, cluster: ScannedCluster, run: ScanRun, progress: StepProgress, warn: Callable[[str], None]
) -> ScanDocument:
    """Scan one cluster and return the document. If the history has the scan id already, return its document instead.

    Raises ClusterError if the cluster or its data cannot be read, HistoryError if the history cannot.
    """
    previous = PreviousScan(run.history, cluster.name)
    return previous.committed(run.scan_id) or _Scan(engine, cluster, run, previous, progress, warn).run()


def failed(cluster: str, run: ScanRun, reason: str, message: str) -> ScanDocument:
    """Return the document of a failed scan. `reason` is one word for machines."""
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


class _Scan:
    """A running scan.

    The engine returns results part by part. Each part is written to the history, and only its digest stays in memory.
    """

    def __init__(
        self,
        engine: Engine,
        cluster: ScannedCluster,
        run: ScanRun,
        previous: PreviousScan,
        progress: StepProgress,
        warn: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._run = run
        self._progress = progress
        self._warn = warn
        self._locations = cluster.criteria.locations
        self._previous = previous
        self._compared = Comparison(previous, run.observed_at)
        self._unread: dict[str, str] = {}
        """The reasons why topics could not be read, by topic."""
        self._seconds: dict[str, float] = {}
        sequence, attempt = previous.sequence + 1, uuid.uuid4().hex
        self._entry = ScanEntry(cluster.name, run.scan_id, sequence, run.observed_at, attempt)
        self._writer = None if run.history is None else run.history.writer(self._entry)

    def run(self) -> ScanDocument:
        run, entry, history, writer = self._run, self._entry, self._run.history, self._writer
        self._look()
        if history is None or writer is None:
            return self._document(HistoryTrend())
        brokers = history_rows.brokers(run.scan_id, self._locations, self._previous.broker_online)
        self._write(brokers=brokers)
        with self._step(_WRITING):
            writer.append()
        seen, minutes = self._seen, self._compared.minutes
        spent = seen.totals["violation_minutes"][0].as_py() + minutes * len(self._compared.gone)
        scans = history_rows.scan(run.scan_id, entry.sequence, run.observed_at, minutes, self._summary(), spent)
        with self._step("looking at the trend"):
            trend = trend_of(history, entry, {"scans": scans, "brokers": brokers, "topics": seen.topics})
        document = self._document(trend)
        if not writer.commit(scans, [encode(document)]):  # another run of this scan committed first
            document = PreviousScan(history, entry.cluster).committed(run.scan_id) or document
        self._tidy(history, entry)
        return document

    def _tidy(self, history: History, entry: ScanEntry) -> None:
        """Compact and expire the history, if this is the first scan of a day.

        The scan is committed already, so an error here is only a warning. The next day's first scan tries again.
        """
        before, kept_days = self._previous.entry, self._run.retention_days
        if before is None or before.day == entry.day:
            return
        # The earlier day of two scans counts, so that one clock that jumps ahead deletes nothing.
        earlier = min(before, entry, key=lambda one: one.day)
        try:
            history.compact(earlier)
            if kept_days is not None:
                history.expire(earlier.cluster, earlier.day - timedelta(days=kept_days))
            history.vacuum()
        except HistoryError as error:
            self._warn(str(error))

    # --- looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Judge, compare and write the cluster part by part."""
        scan_id, criteria, digests = self._run.scan_id, self._cluster.criteria, list[Digest]()
        for judged in self._parts():
            with self._step("counting and comparing findings"):
                found = self._compared.findings(judged.findings)
                topics = self._compared.topics(aggregates.with_findings(judged.topics, found))
                digests.append(digest(judged, found, topics, criteria.producers))
            self._write(findings=history_rows.findings(scan_id, found), topics=history_rows.topics(scan_id, topics))
        self._seen = seen = merged(digests)
        self._write(
            topics=history_rows.gone_topics(scan_id, self._compared.gone, self._compared.minutes),
            holdings=history_rows.holdings(scan_id, seen.holdings),
            groups=history_rows.groups(scan_id, self._cluster.groups),
        )

    def _parts(self) -> Iterator[Judged]:
        """Yield the results of judging in parts. Everything about a topic, or about a broker, is in one part."""
        counting, waiting, topics = [self._about_brokers()], list[Judged](), 0
        for judged in self._slices():
            self._unread |= dict(
                zip(judged.unread["topic"].to_pylist(), judged.unread["reason"].to_pylist(), strict=True)
            )
            topics += len(judged.topics)
            about_brokers, findings = aggregates.counting_partitions(judged.findings)
            counting.append(about_brokers)
            waiting.append(replace(judged, findings=findings))
            if sum(len(one.findings) + len(one.topics) for one in waiting) >= _PART:
                yield Judged.together(waiting)
                waiting = []
        if self._unread and not topics:
            raise ClusterError("TopicsUnreadable", f"no topic could be read: {min(self._unread.items())[1]}")
        # Topics that could not be read keep the findings of the previous scan, which are neither cleared nor new.
        unread = pa.array(self._unread, pa.string())
        kept = {"findings": self._previous.findings_of(unread), "topics": self._previous.topics(unread)}
        waiting.append(Judged.of(**{name: rows.select(JUDGED[name].names) for name, rows in kept.items()}))
        counted = aggregates.findings(pa.concat_tables(counting))
        waiting += [Judged.of(findings=counted), Judged.of(findings=self._uncounted(counted))]
        yield Judged.together(waiting)

    def _uncounted(self, counted: pa.Table) -> pa.Table:
        """Return the previous findings of brokers that are still offline, if unread topics may be on these brokers."""
        found = TABLES["findings"].empty_table()
        if self._unread:
            before = (aggregates.counting_partitions(part)[0] for part in self._previous.findings())
            found = pa.concat_tables([found, *before])
        again = pa.compute.is_in(found["id"], counted["id"].combine_chunks())
        back = pa.compute.is_in(found["broker"], pa.array(self._locations.online, found["broker"].type))
        kept = pa.compute.invert(pa.compute.or_(again, back))
        return found.filter(kept).select(JUDGED["findings"].names)

    def _slices(self) -> Iterator[Judged]:
        slices = self._engine(self._cluster, self._previous.known_topics, self._progress.advance)
        while True:
            with self._step("reading and judging partitions"):
                judged = next(slices, None)
            if judged is None:
                return
            yield judged

    def _about_brokers(self) -> pa.Table:
        cluster, found = self._cluster.criteria.cluster_id, examine_brokers(self._locations)
        return finding_table(cluster, self._locations, (), found)

    def _write(self, **tables: pa.Table) -> None:
        if self._writer is not None:
            with self._step(_WRITING):
                for name, rows in tables.items():
                    self._writer.write(name, rows)

    # --- reporting ---------------------------------------------------------------------------------------------------

    def _summary(self) -> Summary:
        seen = self._seen
        (totals,) = seen.totals.to_pylist()
        counts, unfair = seen.counts.to_pylist(), seen.unfair.to_pylist()
        return document_rows.summary(totals, counts, unfair, self._locations, len(self._unread))

    def _changes(self) -> ScanChanges:
        if self._previous.observed_at is None:
            return ScanChanges()
        return ScanChanges(
            since=document_rows.timestamp(self._previous.observed_at),
            new=sum(self._seen.counts["new"].to_pylist()),
            cleared=self._compared.cleared,
            new_findings=self._finding_rows(self._seen.new),
            cleared_findings=self._finding_rows(self._compared.worst_cleared()),
        )

    def _finding_rows(self, some: pa.Table) -> list[FindingRow]:
        away = self._seen.away["broker"].to_pylist()
        return document_rows.finding_rows(some.to_pylist(), self._cluster.topology, away)

    def _document(self, trend: HistoryTrend) -> ScanDocument:
        seen, criteria = self._seen, self._cluster.criteria
        holdings = seen.holdings.to_pylist()
        writes = document_rows.writes(
            seen.writes_by_rack.to_pylist(), seen.writes.to_pylist(), criteria.producers, self._locations
        )
        history = self._run.history
        return ScanDocument(
            scan_id=self._run.scan_id,
            cluster=self._cluster.name,
            started_at=timestamp(self._run.observed_at),
            finished_at=timestamp(datetime.now(UTC)),
            cluster_id=self._cluster.cluster_id,
            levels=list(self._locations.tree.levels),
            throttle=self._cluster.throttle,
            summary=self._summary(),
            changes=self._changes(),
            domains=document_rows.domain_rows(holdings, self._locations, seen.by_domain.to_pylist()),
            brokers=document_rows.broker_rows(
                holdings, self._locations, seen.by_broker.to_pylist(), trend.broker_flaps
            ),
            findings=self._finding_rows(seen.findings),
            topics=document_rows.topic_rows(
                seen.topics.to_pylist(), criteria.requirements.of_topic, trend.violation_minutes
            ),
            groups=list(self._cluster.groups),
            writes=writes,
            trend=document_rows.trend(trend.days),
            hours=document_rows.trend(trend.hours),
            history=history.location if history else None,
            warnings=[
                *self._cluster.warnings,
                *document_rows.loss_warnings(self._locations),
                *document_rows.unread_warnings(self._unread),
            ],
            seconds={name: round(seconds, 3) for name, seconds in self._seconds.items()},
        )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Show a step and measure its time. The times of a step, which repeats with each part, add up."""
        self._progress.describe(f"{self._cluster.name}: {name}")
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + perf_counter() - started
