"""Sizes of partitions, as brokers report them."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.connection import Connection
from rackspan.core.partitions import TopicPartition, largest
from rackspan.core.planning import Plan
from rackspan.core.reassignment import of_change
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import IntArray


def measured(connection: Connection, plan: Plan) -> Plan:
    """Return the plan with the sizes of its partitions, as far as brokers report them. Raises CommandError."""
    changes = plan.changes
    holders = {of_change(change): change.before for change in changes if change.copied or change.removed}
    if not holders:
        return plan
    sizes = _asked(connection, holders)
    known = [sizes.get(of_change(change), change.size_bytes) for change in changes]
    return replace(plan, changes=changes.with_sizes(known))


def sized(connection: Connection, partitions: Partitions, rows: IntArray) -> Partitions:
    """Return the partitions with the sizes of `rows`, as far as brokers report them. Warn if the request fails."""
    holders = partitions.holders(rows)
    if not holders:
        return partitions
    try:
        return partitions.with_sizes(_asked(connection, holders))
    except CommandError as error:
        warn(f"brokers do not report how many bytes that is: {error}")
        return partitions


def _asked(connection: Connection, holders: Mapping[TopicPartition, Collection[int]]) -> Mapping[TopicPartition, int]:
    """Return the bytes of partitions, as far as the brokers that hold them report them. Raises CommandError."""
    with step("asking brokers for sizes"):
        return largest(connection.ask(lambda admin: admin.sizes(holders)))
