"""A scan on a terminal: the summary, the worst findings, and the worst losses in its document."""

from rich.console import Console

from rackspan.api.codec import timestamp
from rackspan.api.compliancereport import ComplianceReportStatus, ReportSummary
from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering.findings_table import ROWS, FindingLine, print_findings
from rackspan.cli.rendering.losses_table import loss_order, losses_table
from rackspan.core.copy_costs import ending
from rackspan.core.outage import DomainOutage, Outage
from rackspan.core.scanning.messages import moves_that_fix, not_judged
from rackspan.core.text import plural, size
from rackspan.reports.document import DomainRow, ScanDocument, ScanOutcome

_LOSSES = 5


def print_scan(screen: Console, document: ScanDocument) -> None:
    """Print one scan."""
    screen.print(f"{document.cluster}  ({document.scan_id})", style="bold")
    if document.state is ScanOutcome.FAILED:
        screen.print(f"failed: {document.reason}: {document.message}", style="bold red")
        return
    counted = document.summary
    screen.print(
        f"{plural(counted.topics, 'topic')}, {plural(counted.partitions, 'partition')} on "
        f"{plural(counted.brokers, 'broker')}, {size(counted.bytes, '?')}"
    )
    if counted.findings:
        by_severity = ", ".join(f"{number:,} {severity}" for severity, number in counted.by_severity.items())
        screen.print(
            f"{plural(counted.findings, 'finding')} ({by_severity}); "
            f"{plural(counted.non_compliant, 'partition')} out of compliance, "
            f"{moves_that_fix(counted.moves, counted.non_compliant, counted.by_rule)}"
            f"{ending(counted.moves, counted.move_bytes, document.throttle)}",
            style="bold red" if counted.non_compliant or counted.offline else "yellow",
        )
    elif not counted.unread_topics:
        screen.print("nothing is wrong", style="green")
    if unknown := not_judged(counted.unread_topics, counted.by_rule):
        others = "" if counted.findings else "; the others are fine"
        screen.print(f"{unknown}{others}", style="yellow")
    if document.changes.since is not None:
        screen.print(
            f"since {document.changes.since}: {document.changes.new:,} new, {document.changes.cleared:,} cleared"
        )
    if document.writes is not None:
        deepest = document.levels[-1] if document.levels else "domain"
        near, by_rack, could = document.writes.near, document.writes.near_by_rack, document.writes.could_be_near
        screen.print(
            f"producers: {near:.0%} of records to leaders in their own {deepest}, with "
            f"partitioner.rack.aware {by_rack:.0%} of those without a key, with other leaders {could:.0%}"
        )
    lines = [FindingLine.of(finding, finding.first_seen) for finding in document.findings[:ROWS]]
    print_findings(screen, lines, counted.findings, "--report FILE and --page FILE list {them}")
    worst = sorted(map(_loss, document.domains), key=lambda row: (loss_order(row.outage), row.domain))
    if worst:
        screen.print(losses_table(worst[:_LOSSES]))


def print_report(screen: Console, topology: ObjectKey, counted: ReportSummary, status: ComplianceReportStatus) -> None:
    """Print the ComplianceReport of a topology. `counted` is its summary."""
    screen.print(
        f"{topology}: {plural(counted.topics or 0, 'topic')}, {plural(counted.partitions or 0, 'partition')}, "
        f"{plural(counted.findings or 0, 'finding')}, "
        f"{plural(counted.non_compliant or 0, 'partition')} out of compliance"
    )
    if unknown := not_judged(counted.unread_topics or 0, counted.by_rule):
        screen.print(unknown, style="yellow")
    if status.changes is not None and status.changes.since is not None:
        screen.print(f"{status.changes.new:,} new and {status.changes.cleared:,} cleared since {status.changes.since}")
    lines = [
        FindingLine.of(one, timestamp(one.first_seen) if one.first_seen else None) for one in status.findings[:ROWS]
    ]
    print_findings(screen, lines, counted.findings or 0, "kubectl get compliancereport -o yaml has the worst")


def _loss(row: DomainRow) -> DomainOutage:
    counted = row.what_if
    return DomainOutage(
        row.level,
        row.domain,
        row.brokers,
        Outage(counted.offline, counted.not_writable, counted.last_replica, counted.replicas, counted.bytes),
    )
