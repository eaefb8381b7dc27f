"""Findings as a table, from `check`, from a scan document or from a ComplianceReport."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from rich.console import Console
from rich.text import Text

from rackspan.api.compliancereport import ReportFinding
from rackspan.cli.rendering.tables import print_hidden, table
from rackspan.core.scanning.messages import place
from rackspan.core.scanning.rules import Severity
from rackspan.reports.document import FindingRow

ROWS = 20
"""The maximum number of findings that are shown without --all."""
_STYLES = {Severity.CRITICAL: "bold red", Severity.HIGH: "red", Severity.MEDIUM: "yellow"}


class FindingLine(NamedTuple):
    """A row of the table. `since` is RFC 3339, empty if there is no history."""

    severity: str
    what: str
    where: str
    message: str
    fix: str
    since: str = ""

    @classmethod
    def of(cls, finding: FindingRow | ReportFinding, first_seen: str | None) -> Self:
        """Return the row for a finding of a scan document or a ComplianceReport."""
        where = place(finding.topic, finding.partition, finding.broker)
        return cls(finding.severity, finding.rule, where, finding.message, finding.fix or "", first_seen or "")


def print_findings(screen: Console, lines: Sequence[FindingLine], total: int, elsewhere: str) -> None:
    """Print a row per finding, then how many of `total` are not shown. `elsewhere` names what lists {them}."""
    if not lines:
        return
    dated = any(line.since for line in lines)
    rows = table("severity", "what", "where", "what is wrong", "what fixes it", *(["since"] if dated else []))
    for line in lines:
        style = _STYLES.get(Severity(line.severity), "")
        rows.add_row(Text(line.severity, style=style), *line[1 : None if dated else -1])
    screen.print(rows)
    print_hidden(screen, total - len(lines), "more finding", elsewhere)
