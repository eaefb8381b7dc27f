"""Scan documents for tests."""

from datetime import UTC, datetime

from rackspan.reports.document import FindingRow, ScanDocument, ScanOutcome

NOW = datetime(2026, 1, 31, 3, 2, tzinfo=UTC)


def finding(identity, *, rule="NotCompliant", severity="high", message="it is uneven", fix="", **fields):
    return FindingRow(id=identity, rule=rule, severity=severity, message=message, fix=fix, **fields)


def document(scan_id="prod-1", *, started_at="2026-01-31T03:00:00Z", finished_at="2026-01-31T03:01:30Z", **fields):
    return ScanDocument(scan_id=scan_id, cluster="kafka/prod", started_at=started_at, finished_at=finished_at, **fields)


def failed_document(scan_id, reason, message):
    return document(
        scan_id,
        started_at="2026-01-31T04:00:00Z",
        finished_at="2026-01-31T04:00:10Z",
        state=ScanOutcome.FAILED,
        reason=reason,
        message=message,
    )
