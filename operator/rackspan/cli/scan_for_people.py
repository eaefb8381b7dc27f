"""A scan document on a terminal: the verdict, the worst findings, the worst losses."""

from rich.console import Console

from rackspan.cli.findings import ROWS, FindingLine, print_findings
from rackspan.cli.output import count, plural, size, table
from rackspan.reports.document import ScanDocument, State

_LOSSES = 5


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
    lines = [FindingLine.of(finding, finding.first_seen) for finding in document.findings[:ROWS]]
    print_findings(screen, lines, counted.findings, "--report FILE and --page FILE list them")
    _print_losses(screen, document)


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
