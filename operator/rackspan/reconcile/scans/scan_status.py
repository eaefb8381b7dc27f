"""Reports about scans: a topology's `status.lastScan`, its condition Scanned, Events and metrics.

Pure, except for `update_report_metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan import metrics
from rackspan.api.codec import timestamp
from rackspan.api.conditions import SCANNED, Conditions, ConditionStatus, find_condition
from rackspan.api.racktopology import LastScan, ScansStatus, ScanState
from rackspan.api.reasons import Reason
from rackspan.core.scanning.messages import place
from rackspan.core.scanning.rules import Severity
from rackspan.reconcile.ports import KubernetesEvent
from rackspan.reconcile.scans.job_status import DEADLINE_EXCEEDED
from rackspan.reconcile.scans.scan_decision import POD_START_DEADLINE, begun_since

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.compliancereport import ChangedFinding, ComplianceReportStatus
    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import ObjectRef
    from rackspan.reconcile.scans.job_status import JobRun

MAX_MESSAGE_CHARS = 1024
_ENDED_BY_OPERATOR = (Reason.SCAN_TIMED_OUT, Reason.SCAN_NOT_STARTED)
_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class ScanFacts:
    """The known facts about the scans of one topology.

    `scans` and `last` become `status.scans` and `status.lastScan`. `failure` is why no scan can be started.
    `waits_since` is when a scan became due that now waits for scans of other topologies. `unstarted` is why the pod of
    the last scan has not started.
    """

    topology_uid: str
    scans: ScansStatus = field(default_factory=ScansStatus)
    last: LastScan | None = None
    failure: Failure | None = None
    waits_since: datetime | None = None
    unstarted: str | None = None


def last_scan(
    before: LastScan | None,
    runs: Sequence[JobRun],
    overdue: Collection[JobRun],
    report: ComplianceReportStatus | None,
    now: datetime,
    unstarted: Mapping[str, str],
) -> LastScan | None:
    """Return the latest scan, from its object and its report.

    `before` is the recorded scan. `overdue` are scans that the operator deletes now. `unstarted` is, by uid, why pods
    have not started. Scans of an unknown trigger are left out, because the API server may refuse a status with them.
    """
    begun = (run for run in begun_since(before, runs, now) if run.trigger is not None)
    newest = max(begun, key=lambda run: (run.created, run.name), default=None)
    if newest is not None and newest.trigger is not None:
        scan = LastScan(newest.name, newest.trigger, ScanState.RUNNING, newest.created)
        why = unstarted.get(newest.uid)
        if newest in overdue and why is not None:
            message = f"its pod did not start within {POD_START_DEADLINE.total_seconds():.0f} s: {why}"
            return _with_report(_failed(scan, now, Reason.SCAN_NOT_STARTED, message), report)
        return _with_report(_from_run(scan, newest, overdue, now, before), report)
    if before is not None and before.state is ScanState.RUNNING and not any(run.name == before.scan_id for run in runs):
        ended = _failed(before, now, Reason.SCAN_FAILED, "what ran the scan was deleted before it ended")
        return _with_report(ended, report)
    return _with_report(before, report) if before is not None else None


def with_scans(
    topology: RackTopology, status: RackTopologyStatus, facts: ScanFacts | None, now: datetime
) -> RackTopologyStatus:
    """Return `status` with `lastScan`, `scans` and the condition Scanned set. Scans do not affect Ready."""
    if facts is None or facts.topology_uid != topology.meta.uid:
        return status
    scans = facts.scans if facts.scans != ScansStatus() else None
    status = replace(status, last_scan=facts.last, scans=scans)
    found = _condition(topology, status, facts)
    conditions = Conditions(status.conditions, topology.meta.generation, now)
    if found is None:
        conditions.remove(SCANNED)
    else:
        conditions.set(SCANNED, *found)
    return replace(status, conditions=conditions.all)


def _failed(scan: LastScan, at: datetime, reason: Reason, message: str) -> LastScan:
    return replace(
        scan,
        state=ScanState.FAILED,
        finished_at=at.replace(microsecond=0),
        reason=reason,
        message=message[:MAX_MESSAGE_CHARS],
    )


def _from_run(
    scan: LastScan, run: JobRun, overdue: Collection[JobRun], now: datetime, before: LastScan | None
) -> LastScan:
    if run in overdue or (run.finished is not None and run.reason == DEADLINE_EXCEEDED):
        message = run.message or "the scan did not end within activeDeadlineSeconds"
        return _failed(scan, run.finished or now, Reason.SCAN_TIMED_OUT, message)
    if run.finished is None:
        known = before is not None and before.scan_id == run.name and before.state is not ScanState.RUNNING
        return before if known and before is not None else scan  # its result is recorded already: it is being deleted
    if run.succeeded:
        return replace(scan, state=ScanState.COMPLETED, finished_at=run.finished)
    message = ": ".join(part for part in (run.reason, run.message) if part) or "it failed"
    return _failed(scan, run.finished, Reason.SCAN_FAILED, message)


def _with_report(scan: LastScan, report: ComplianceReportStatus | None) -> LastScan:
    """Return `scan` with the results of its report, if the report is of this scan.

    Writing the report is the last step of a scan. So the report counts even if the Job ended otherwise, such as by its
    deadline.
    """
    if report is None or scan.state is ScanState.RUNNING or report.last_scan_id != scan.scan_id:
        return scan
    if report.failure is not None:
        message = f"{report.failure.reason}: {report.failure.message}"[:MAX_MESSAGE_CHARS]
        return replace(scan, state=ScanState.FAILED, reason=Reason.SCAN_FAILED, message=message)
    summary = report.summary
    return replace(
        scan,
        state=ScanState.COMPLETED,
        reason=None,
        message=None,
        findings=summary.findings if summary else None,
        non_compliant=summary.non_compliant if summary else None,
    )


def _condition(
    topology: RackTopology, status: RackTopologyStatus, facts: ScanFacts
) -> tuple[ConditionStatus, Reason, str] | None:
    scans, last, failure = facts.scans, facts.last, facts.failure
    if failure is not None:
        return _FALSE, failure.reason, failure.message
    if facts.waits_since is not None:
        before = find_condition(status.conditions, SCANNED)
        limits = "scan.maxRunning and scan.limits.runningPerNamespace of the chart say how many run at a time"
        waits = f"a scan is due since {timestamp(facts.waits_since)} and waits for others to end; {limits}"
        return before.status if before else _UNKNOWN, Reason.SCAN_WAITING, waits
    next_scan = _next_message(topology, scans)
    if scans.missed:
        what = "1 scheduled scan was" if scans.missed == 1 else f"{scans.missed} scheduled scans were"
        return _FALSE, Reason.SCAN_MISSED, f"{what} not started within startingDeadlineSeconds; {next_scan}"
    if last is None:
        return (_UNKNOWN, Reason.SCAN_WAITING, f"no scan yet; {next_scan}") if topology.spec.compliance else None
    if last.state is ScanState.RUNNING:
        before = find_condition(status.conditions, SCANNED)
        since = f"scan {last.scan_id} runs since {timestamp(last.started_at)}"
        if facts.unstarted is not None:
            since = f"scan {last.scan_id} is there since {timestamp(last.started_at)}, but {facts.unstarted}"
        return before.status if before else _UNKNOWN, Reason.SCAN_RUNNING, since
    if last.state is ScanState.FAILED:
        reason = next((one for one in _ENDED_BY_OPERATOR if one == last.reason), Reason.SCAN_FAILED)
        return _FALSE, reason, f"scan {last.scan_id} failed: {last.message}; {next_scan}"
    found = f"{last.findings} findings" if last.findings is not None else "no report of it yet"
    return _TRUE, Reason.SCAN_COMPLETED, f"scan {last.scan_id}: {found}; {next_scan}"


def _next_message(topology: RackTopology, scans: ScansStatus) -> str:
    if scans.next_at is not None:
        return f"the next one is due at {timestamp(scans.next_at)}"
    if topology.spec.compliance and topology.spec.compliance.suspend:
        return "scans are suspended"
    return "the annotation rackspan.dev/scan-now starts one"


MAX_EVENTS: Final = 10
"""The most new findings with an Event each, and the most cleared ones. If there are more, one Event has the counts."""

_WARNING_SEVERITIES = frozenset({Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM})


def report_events(
    about: ObjectRef, report: ComplianceReportStatus, topics: Callable[[str], Iterable[ObjectRef]]
) -> Iterator[KubernetesEvent]:
    """Yield Events about changed findings, on the topology and on the KafkaTopics that `topics` returns by name."""
    changes = report.changes
    if changes is None:
        return
    for finding in changes.new_findings[:MAX_EVENTS]:
        warning = finding.severity in _WARNING_SEVERITIES
        yield from _finding_events(about, finding, "FindingNew", topics, warning=warning)
    for finding in changes.cleared_findings[:MAX_EVENTS]:
        yield from _finding_events(about, finding, "FindingCleared", topics, warning=False)
    if changes.new > MAX_EVENTS or changes.cleared > MAX_EVENTS:
        since = f" since {timestamp(changes.since)}" if changes.since else ""
        counts = f"{changes.new} findings are new and {changes.cleared} are cleared{since}"
        yield KubernetesEvent(
            about,
            "FindingsChanged",
            f"{counts}; the first {MAX_EVENTS} of each have an Event, the ComplianceReport has more",
            warning=changes.new > 0,
        )


def update_report_metrics(topology: str, report: ComplianceReportStatus) -> None:
    """Set the gauges of one topology's last scan. Gauges without a current value are set to 0 or removed."""
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
    if summary.violation_minutes is None:
        metrics.SCAN_VIOLATION_SECONDS.remove_by_labels({"topology": topology})
    else:
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
    """Return the topic or partition as a prefix of the message, or "" for a broker, which the message itself names."""
    return "" if finding.topic is None else f"{place(finding.topic, finding.partition, finding.broker)}: "
