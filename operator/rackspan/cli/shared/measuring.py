"""Sizes of the partitions that a plan copies, as brokers tell them."""

from collections.abc import Mapping

from rackspan.cli.rendering.progress import step
from rackspan.cli.shared.connection import Connection
from rackspan.core.planning import Changes
from rackspan.core.reassignment import of_change


def measured(connection: Connection, changes: Changes) -> Changes:
    """Changes with the sizes of their partitions, where brokers tell them. Raises CommandError."""
    first = {of_change(change): change.before[:1] for change in changes if change.copied}
    if not first:
        return changes
    with step("asking brokers for sizes"):
        found = connection.ask(lambda admin: admin.sizes(first))
    sizes: Mapping[object, int] = {at: bytes_ for (at, _), bytes_ in found.items()}
    return changes.with_sizes([sizes.get(of_change(change), change.size_bytes) for change in changes])
