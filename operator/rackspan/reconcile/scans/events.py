"""Metrics and Kubernetes Events from a ComplianceReport. The Events are a pure function of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rackspan import metrics
from rackspan.api.times import timestamp
from rackspan.core.scanning.messages import place
from rackspan.core.scanning.rules import Severity
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rackspan.api.compliancereport import ChangedFinding, ComplianceReportStatus
    from rackspan.reconcile.ports import ObjectRef

FINDING_NEW: Final = "FindingNew"
FINDING_CLEARED: Final = "FindingCleared"
FINDINGS_CHANGED: Final = "FindingsChanged"
MAX_EVENTS: Final = 10
"""New findings with an Event each, and as many cleared ones; if there are more, one Event has the counts."""

_WARNING_SEVERITIES = frozenset({Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM})


def report_events(
    about: ObjectRef, report: ComplianceReportStatus, topics: Callable[[str], Iterable[ObjectRef]]
) -> Iterator[KubernetesEvent]:
    """Events about changed findings, on the topology and on the KafkaTopics that `topics` gives by topic name."""
    changes = report.changes
    if changes is None:
        return
    for finding in changes.new_findings[:MAX_EVENTS]:
        yield from _finding_events(about, finding, FINDING_NEW, topics, warning=finding.severity in _WARNING_SEVERITIES)
    for finding in changes.cleared_findings[:MAX_EVENTS]:
        yield from _finding_events(about, finding, FINDING_CLEARED, topics, warning=False)
    if changes.new > MAX_EVENTS or changes.cleared > MAX_EVENTS:
        since = f" since {timestamp(changes.since)}" if changes.since else ""
        counts = f"{changes.new} findings are new and {changes.cleared} are cleared{since}"
        yield KubernetesEvent(
            about,
            FINDINGS_CHANGED,
            f"{counts}; the first {MAX_EVENTS} of each are told one by one, the ComplianceReport has more",
            warning=changes.new > 0,
        )


def update_report_metrics(topology: str, report: ComplianceReportStatus) -> None:
    """Set the gauges of one topology's last scan; what it no longer finds is set to 0 or removed."""
    summary, changes = report.summary, report.changes
    if summary is None:
        return
    for severity in Severity:
        metrics.SCAN_FINDINGS.labels(topology, severity).set(summary.by_severity.get(severity, 0))
    metrics.SCAN_FINDINGS_BY_RULE.remove_by_labels({"topology": topology})
    for rule, number in summary.by_rule.items():
        metrics.SCAN_FINDINGS_BY_RULE.labels(topology, rule).set(number)
    metrics.SCAN_PARTITIONS.labels(topology).set(summary.partitions or 0)
    for fault, count in (
        ("non_compliant", summary.non_compliant),
        ("offline", summary.offline),
        ("under_replicated", summary.under_replicated),
    ):
        metrics.SCAN_FAULTY_PARTITIONS.labels(topology, fault).set(count or 0)
    metrics.SCAN_TOPICS.labels(topology).set(summary.topics or 0)
    metrics.SCAN_FAULTY_TOPICS.labels(topology, "non_compliant").set(summary.non_compliant_topics or 0)
    metrics.SCAN_FAULTY_TOPICS.labels(topology, "unread").set(summary.unread_topics or 0)
    metrics.SCAN_MOVES.labels(topology).set(summary.moves or 0)
    if summary.violation_minutes is not None:
        metrics.SCAN_VIOLATION_SECONDS.labels(topology).set(60 * summary.violation_minutes)
    metrics.SCAN_CHANGES.labels(topology, "new").set(changes.new if changes else 0)
    metrics.SCAN_CHANGES.labels(topology, "cleared").set(changes.cleared if changes else 0)
    if report.finished_at is not None:
        metrics.SCAN_LAST.labels(topology).set(report.finished_at.timestamp())
        if report.started_at is not None:
            metrics.SCAN_SECONDS.labels(topology).set((report.finished_at - report.started_at).total_seconds())


def _finding_events(
    about: ObjectRef,
    finding: ChangedFinding,
    reason: str,
    topics: Callable[[str], Iterable[ObjectRef]],
    *,
    warning: bool,
) -> Iterator[KubernetesEvent]:
    message = f"{finding.rule} ({finding.severity}): {_location(finding)}{finding.message}"
    yield KubernetesEvent(about, reason, message, warning=warning)
    if finding.topic is not None:
        for ref in topics(finding.topic):
            yield KubernetesEvent(ref, reason, message, warning=warning)


def _location(finding: ChangedFinding) -> str:
    """The topic or partition, as a prefix of the message; empty for a broker, which its message names."""
    return "" if finding.topic is None else f"{place(finding.topic, finding.partition, finding.broker)}: "
