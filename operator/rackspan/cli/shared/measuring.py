"""Sizes of the partitions that a plan copies, as brokers tell them."""

from rackspan.cli.rendering.progress import step
from rackspan.cli.shared.connection import Connection
from rackspan.core.partitions import largest
from rackspan.core.planning import Changes
from rackspan.core.reassignment import of_change


def measured(connection: Connection, changes: Changes) -> Changes:
    """Changes with the sizes of their partitions, where brokers tell them. Raises CommandError."""
    holders = {of_change(change): change.before for change in changes if change.copied}
    if not holders:
        return changes
    with step("asking brokers for sizes"):
        sizes = largest(connection.ask(lambda admin: admin.sizes(holders)))
    return changes.with_sizes([sizes.get(of_change(change), change.size_bytes) for change in changes])
