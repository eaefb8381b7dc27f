"""A fleet on a terminal: a row per cluster, the worst first."""

from collections.abc import Iterable

from rich.console import Console

from rackspan.cli.rendering.tables import count, size, table
from rackspan.reports.page.fleet import FleetRow
from rackspan.reports.page.formats import moment


def print_fleet(screen: Console, rows: Iterable[FleetRow]) -> None:
    """Print the clusters: what is wrong, since when, and what a fix copies."""
    shown = table("cluster", "worst", "#offline", "#behind", "#unfair", "#moves", "#bytes to copy", "scanned", "note")
    for row in rows:
        counted = row.scan.summary
        numbers = (
            count(counted.offline, "bold red"),
            count(counted.under_replicated, "red"),
            count(counted.non_compliant, "red"),
            count(counted.moves),
            size(counted.move_bytes) if counted.moves else "",
        )
        cells = ("?",) * len(numbers) if row.failed else numbers
        since = row.assessment.details[0] if row.scan.summary.findings else ""
        note = row.scan.message if row.failed else since
        shown.add_row(row.scan.cluster, row.assessment.tone, *cells, moment(row.scan.finished_at), note)
    screen.print(shown)
