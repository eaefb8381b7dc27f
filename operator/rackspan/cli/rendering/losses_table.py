"""What the loss of domains would do, on a terminal, whoever counted it."""

from collections.abc import Iterable

from rich.table import Table

from rackspan.cli.rendering.output import count, size, table
from rackspan.core.outage import DomainOutage, Outage


def mildness(outage: Outage) -> tuple[int, ...]:
    """Sorts losses, the worst first."""
    return (-outage.offline, -outage.not_writable, -outage.last_replica, -(outage.size_bytes or 0), -outage.replicas)


def losses(rows: Iterable[DomainOutage]) -> Table:
    """Make the table."""
    shown = table("level", "domain lost", "#brokers", "#offline", "#not writable", "#last replica", "#bytes to copy")
    for row in rows:
        outage = row.outage
        shown.add_row(
            row.level,
            row.domain,
            f"{row.brokers:,}",
            count(outage.offline, "bold red"),
            count(outage.not_writable, "red"),
            count(outage.last_replica, "yellow"),
            size(outage.size_bytes),
        )
    return shown
