"""A scan document on a terminal: the verdict, the worst findings, the worst losses."""

from rich.console import Console
from rich.text import Text

from rackspan.cli.output import count, plural, size, table
from rackspan.core.scanning.rules import Severity
from rackspan.core.scanning.words import place
from rackspan.reports.document import ScanDocument, State

_ROWS = 20
_LOSSES = 5
_STYLES = {Severity.CRITICAL: "bold red", Severity.HIGH: "red", Severity.MEDIUM: "yellow"}


def print_scan(screen: Console, document: ScanDocument) -> None:
    """Print one scan."""
    screen.print(f"{document.cluster}  ({document.scan_id})", style="bold")
    if document.state is State.FAILED:
        screen.print(f"failed: {document.reason}: {document.message}", style="bold red")
        return
    counted = document.summary
    screen.print(
        f"{plural(counted.topics, 'topic')}, {plural(counted.partitions, 'partition')} on "
        f"{plural(counted.brokers, 'broker')}, {size(counted.bytes)}"
    )
    if counted.findings:
        by_severity = ", ".join(f"{number:,} {severity}" for severity, number in counted.by_severity.items())
        screen.print(
            f"{plural(counted.findings, 'finding')} ({by_severity}); {counted.non_compliant:,} partitions out of "
            f"compliance, {plural(counted.moves, 'move')} would mend them",
            style="bold red" if counted.non_compliant or counted.offline else "yellow",
        )
    else:
        screen.print("nothing is wrong", style="green")
    if document.changes.since is not None:
        screen.print(
            f"since {document.changes.since}: {document.changes.new:,} new, {document.changes.cleared:,} cleared"
        )
    _print_findings(screen, document)
    _print_losses(screen, document)


def _print_findings(screen: Console, document: ScanDocument) -> None:
    if not document.findings:
        return
    rows = table("severity", "what", "where", "what is wrong", "what mends it", "since")
    for finding in document.findings[:_ROWS]:
        style = _STYLES.get(Severity(finding.severity), "")
        rows.add_row(
            Text(finding.severity, style=style),
            finding.rule,
            place(finding.topic, finding.partition, finding.broker),
            finding.message,
            finding.fix,
            finding.first_seen or "",
        )
    screen.print(rows)
    hidden = document.summary.findings - min(_ROWS, len(document.findings))
    if hidden > 0:
        screen.print(f"… and {plural(hidden, 'more finding')} (--report FILE and --page FILE list them)")


def _print_losses(screen: Console, document: ScanDocument) -> None:
    worst = sorted(
        document.domains,
        key=lambda row: (-row.what_if.offline, -row.what_if.not_writable, -row.what_if.last_replica, row.domain),
    )[:_LOSSES]
    if not worst:
        return
    rows = table("level", "domain lost", "#brokers", "#offline", "#not writable", "#last replica", "#bytes to copy")
    for row in worst:
        loss = row.what_if
        rows.add_row(
            row.level,
            row.domain,
            f"{row.brokers:,}",
            count(loss.offline, "bold red"),
            count(loss.not_writable, "red"),
            count(loss.last_replica, "yellow"),
            size(loss.bytes),
        )
    screen.print(rows)
