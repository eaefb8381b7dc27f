"""The scan document as the status of a ComplianceReport. Pure: the clock is an argument."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from rackspan.api.compliancereport import (
    MAX_CHANGES,
    MAX_FAILURE_TEXT,
    MAX_FINDING_TEXT,
    MAX_FINDINGS,
    ChangedFinding,
    ComplianceReportStatus,
    ReportChanges,
    ReportFinding,
    ReportSummary,
    ScanFailure,
)
from rackspan.api.conditions import COMPLIANT, READY, Conditions, ConditionStatus
from rackspan.api.reasons import Reason
from rackspan.core.copy_costs import ending
from rackspan.core.scanning.messages import moves_that_fix, not_judged
from rackspan.core.scanning.rules import Severity
from rackspan.core.text import be, every, plural
from rackspan.reports.document import ScanOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rackspan.api.racktopology import ScanEngine
    from rackspan.reports.document import FindingRow, ScanDocument

T = TypeVar("T")
MAX_FINDINGS_BYTES: Final = 150 * 1024
"""Maximum bytes of the listed findings, because each watcher of reports receives the whole object at every scan."""
MAX_CHANGE_TEXT: Final = 512
"""Maximum characters of the message of a new or a cleared finding."""

_CLOCK_TOLERANCE: Final = timedelta(minutes=1)
"""How far the clocks of two nodes may differ."""
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def compliance_status(
    document: ScanDocument,
    before: ComplianceReportStatus,
    *,
    generation: int,
    now: datetime,
    engine: ScanEngine | None = None,
) -> ComplianceReportStatus:
    """Return the next status of a topology's report, at the time `now`.

    A failed scan keeps the results of the previous scan. The condition Ready then says why it failed.
    """
    conditions = Conditions(before.conditions, generation, now)
    if document.state is ScanOutcome.FAILED:
        failure = ScanFailure(
            document.scan_id,
            document.reason if _REASON.fullmatch(document.reason) else Reason.SCAN_FAILED,
            cut(document.message or "the scan failed", MAX_FAILURE_TEXT),
            _time(document.started_at),
            _time(document.finished_at),
        )
        conditions.set(READY, ConditionStatus.FALSE, failure.reason, failure.message)
        return replace(before, observed_generation=generation, failure=failure, conditions=conditions.all)
    summary = _summary(document)
    conditions.set(READY, ConditionStatus.TRUE, Reason.SCAN_COMPLETED, _sentence(document))
    broken = summary.non_compliant or 0
    if broken:
        moves = summary.moves or 0
        cost = ending(moves, document.summary.move_bytes, document.throttle)
        share = f"{broken:,} of {plural(summary.partitions or 0, 'partition')} {be(broken)} not spread as asked"
        conditions.set(
            COMPLIANT,
            ConditionStatus.FALSE,
            Reason.NOT_COMPLIANT,
            f"{share}; {moves_that_fix(moves, broken, summary.by_rule)}{cost}",
        )
    elif unknown := not_judged(document.summary.unread_topics, summary.by_rule):
        message = f"{unknown}; nothing else is spread otherwise than asked"
        conditions.set(COMPLIANT, ConditionStatus.UNKNOWN, Reason.SCAN_INCOMPLETE, message)
    else:
        spread = f"{every(summary.partitions or 0, 'partition')} spread as asked"
        conditions.set(COMPLIANT, ConditionStatus.TRUE, Reason.COMPLIANT, spread)
    return ComplianceReportStatus(
        observed_generation=generation,
        scan_time=_time(document.started_at),
        scan_id=document.scan_id,
        started_at=_time(document.started_at),
        finished_at=_time(document.finished_at),
        engine=engine,
        cluster_id=document.cluster_id,
        summary=summary,
        changes=ReportChanges(
            new=document.changes.new,
            cleared=document.changes.cleared,
            since=_time(document.changes.since),
            new_findings=tuple(_changed(row) for row in document.changes.new_findings[:MAX_CHANGES]),
            cleared_findings=tuple(_changed(row) for row in document.changes.cleared_findings[:MAX_CHANGES]),
        ),
        findings=tuple(
            first_that_fit(map(_finding, worst_first(document.findings)), MAX_FINDINGS, MAX_FINDINGS_BYTES, _bytes)
        ),
        history=document.history,
        conditions=conditions.all,
    )


def worst_first(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Return the findings sorted by severity. Findings of one severity keep their order."""
    return sorted(findings, key=lambda row: _severity(row).rank)


def is_older(document: ScanDocument, before: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the status `before` is of a scan that began later, because a slow scan must not overwrite it.

    The clocks of two nodes may differ. So a start after `now` (plus a tolerance) does not count, nor does that of the
    scan with which this one was compared: the history has put it first.
    """
    status = ComplianceReportStatus.from_dict(before)
    started = _time(document.started_at)
    reported = None if status.started_at == _time(document.changes.since) else status.started_at
    failed = status.failure.started_at if status.failure else None
    latest = now + _CLOCK_TOLERANCE
    return started is not None and any(at is not None and started < at <= latest for at in (reported, failed))


def _summary(document: ScanDocument) -> ReportSummary:
    # The last day of the trend may be another: of a scan on a node whose clock was ahead.
    today = next((day for day in document.trend if day.date == document.started_at[:10]), None)
    summary = document.summary
    return ReportSummary(
        topics=summary.topics,
        partitions=summary.partitions,
        brokers=summary.brokers,
        non_compliant=summary.non_compliant,
        non_compliant_topics=summary.non_compliant_topics,
        offline=summary.offline,
        under_replicated=summary.under_replicated,
        moves=summary.moves,
        findings=summary.findings,
        violation_minutes=round(today.violation_minutes) if today else None,
        by_severity={severity: summary.by_severity.get(severity, 0) for severity in Severity},
        by_rule=dict(summary.by_rule),
        unread_topics=summary.unread_topics or None,
    )


def _sentence(document: ScanDocument) -> str:
    summary = document.summary
    found = (
        f"{plural(summary.partitions, 'partition')} of {plural(summary.topics, 'topic')} judged, "
        f"{plural(summary.findings, 'finding')}"
    )
    if summary.unread_topics:
        found += f", {plural(summary.unread_topics, 'topic')} not read"
    listed = [f"{summary.by_severity[one]} {one}" for one in Severity if summary.by_severity.get(one)]
    return f"{found} ({', '.join(listed)})" if listed else found


def _finding(row: FindingRow) -> ReportFinding:
    return ReportFinding(
        id=row.id,
        rule=row.rule,
        severity=_severity(row),
        message=cut(row.message),
        fix=cut(row.fix) if row.fix else None,
        topic=row.topic,
        partition=row.partition,
        broker=row.broker,
        level=row.level,
        domain=row.domain,
        excess=row.excess or None,
        moves=row.moves or None,
        first_seen=_time(row.first_seen),
    )


def _changed(row: FindingRow) -> ChangedFinding:
    message = cut(row.message, MAX_CHANGE_TEXT)
    return ChangedFinding(row.id, row.rule, _severity(row), message, row.topic, row.partition, row.broker)


def _severity(row: FindingRow) -> Severity:
    try:
        return Severity(row.severity)
    except ValueError:
        return Severity.INFO


def _bytes(finding: ReportFinding) -> int:
    texts = (finding.id, finding.rule, finding.message, finding.fix, finding.topic, finding.domain, finding.level)
    return sum(len(text.encode()) for text in texts if text) + 250  # the keys and the numbers


def first_that_fit(items: Iterable[T], most: int, room: int, bytes_of: Callable[[T], int]) -> list[T]:
    """Return the first items, at most `most` of them and at most `room` bytes."""
    kept: list[T] = []
    for item in islice(items, most):
        room -= bytes_of(item)
        if room < 0:
            break
        kept.append(item)
    return kept


def cut(text: str, most: int = MAX_FINDING_TEXT) -> str:
    """Return the text, cut to `most` characters. The last three characters of a cut text are dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
