"""`rackspan scan --watch`: let the operator scan, wait for it, and print what its report says."""

import asyncio
from pathlib import Path

import typer

from rackspan.api.codec import timestamp
from rackspan.api.compliancereport import ComplianceReportStatus
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import ScanState
from rackspan.cli.rendering.findings_table import ROWS, FindingLine, print_findings
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.tables import console
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.core.scanning.rules import ALARMING
from rackspan.core.text import plural
from rackspan.kube.topology_edits import request_scan


def watch_scan(topology: ObjectKey, kubeconfig: Path | None, patience: float, output: Format) -> ExitCode:
    """
    Ask the operator for a scan, wait at most `patience` seconds, print the report, and give the exit code.

    Raises CommandError where there is no scan by then, or it failed, and FailureError where it cannot be asked for.
    """
    with step(f"scanning {topology}") as progress:
        followed = asyncio.run(request_scan(topology, progress.describe, patience, kubeconfig))
    scan, report = followed.scan, followed.report
    if scan.state is ScanState.FAILED:
        raise CommandError(f"scan {scan.scan_id} failed: {scan.reason}: {scan.message}")
    if report is None:
        raise CommandError(f"scan {scan.scan_id} ended, and a later one has written the report since", "ask again")
    if output is Format.TABLE:
        _print(topology, report.status)
    else:
        print_document(report.status.to_dict(), output)
    found = report.status.summary.by_severity if report.status.summary else {}
    return ExitCode.OUT_OF_COMPLIANCE if any(found.get(one, 0) for one in ALARMING) else ExitCode.FINE


def _print(topology: ObjectKey, status: ComplianceReportStatus) -> None:
    screen, counted = console(), status.summary
    if counted is None:
        raise typer.Exit(ExitCode.BAD_INPUT)
    screen.print(
        f"{topology}: {plural(counted.topics or 0, 'topic')}, {plural(counted.partitions or 0, 'partition')}, "
        f"{plural(counted.findings or 0, 'finding')}, "
        f"{plural(counted.non_compliant or 0, 'partition')} out of compliance"
    )
    if status.changes is not None and status.changes.since is not None:
        screen.print(f"{status.changes.new:,} new and {status.changes.cleared:,} cleared since {status.changes.since}")
    lines = [
        FindingLine.of(one, timestamp(one.first_seen) if one.first_seen else None) for one in status.findings[:ROWS]
    ]
    print_findings(screen, lines, counted.findings or 0, "kubectl get compliancereport -o yaml has the worst")
