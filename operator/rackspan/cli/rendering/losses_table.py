"""The effects of the loss of domains, as a table."""

from collections.abc import Iterable

from rich.table import Table

from rackspan.cli.rendering.tables import count, table
from rackspan.core.outage import DomainOutage, Outage
from rackspan.core.text import size


def loss_order(outage: Outage) -> tuple[int, ...]:
    """Return a sort key, the worst loss first: partitions offline, not writable, on their last replica, then size."""
    return (-outage.offline, -outage.not_writable, -outage.last_replica, -(outage.size_bytes or 0), -outage.replicas)


def losses_table(rows: Iterable[DomainOutage]) -> Table:
    """Return a table with a row per lost domain."""
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
            size(outage.size_bytes, "?"),
        )
    return shown
