"""Sizes of the partitions that a plan copies, as brokers tell them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rackspan.cli.shared.connection import Connection
from rackspan.core.planning import Change
from rackspan.core.reassignment import of_change


def measured(connection: Connection, changes: Sequence[Change]) -> list[Change]:
    """Changes with the sizes of their partitions, where brokers tell them. Raises CommandError."""
    if not any(change.copied for change in changes):
        return list(changes)
    first = {of_change(change): change.before[:1] for change in changes if change.copied}
    sizes: Mapping[object, int] = {
        at: bytes_ for (at, _), bytes_ in connection.ask(lambda admin: admin.sizes(first)).items()
    }
    return [replace(change, size_bytes=sizes.get(of_change(change), change.size_bytes)) for change in changes]
