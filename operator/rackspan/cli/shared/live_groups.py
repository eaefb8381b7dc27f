"""Consumer groups of a live cluster, with the data for how near they read."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from rackspan.cli.rendering.progress import ProgressStep, step
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.shared.command_errors import CommandError, failures_reported
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.live_topology import LiveTopology
from rackspan.cli.shared.selection import TopologyOptions, nearest
from rackspan.core.consumers.group_locality import GroupSeen, ReplicaPlaces, Selector
from rackspan.core.consumers.rates import RatesOf, unknown_rates
from rackspan.core.rack_path import RackPath
from rackspan.core.topology import FloatArray, TopologyError
from rackspan.reports.group_rows import racks_of_hosts


@dataclass(frozen=True, slots=True, eq=False)
class LiveGroups:
    """Consumer groups, the replicas that they read, and the racks of their members' hosts, by address.

    `rates_of` and `written` are from `core.consumers.rates`. Before they are sampled, none is known.
    """

    connection: Connection
    groups: tuple[GroupSeen, ...]
    selector: Selector
    replicas: ReplicaPlaces
    host_racks: Mapping[str, RackPath] = field(default_factory=dict)
    rates_of: RatesOf = unknown_rates
    written: FloatArray | None = None

    @classmethod
    def read(
        cls,
        connection: Connection,
        live: LiveTopology | None,
        topology: TopologyOptions,
        level: str | None,
        *,
        all_topics: bool,
    ) -> Self:
        """Read the groups from Kafka; with `all_topics`, also topics that no group reads. Raises CommandError.

        With `live`, the rack of a member is that of its pod's node, and the rack of a broker is the one that the
        operator sees. Without `live`, client.rack of the member and broker.rack of the broker count.
        """
        # Imported here because most commands run for less time than the import of the clients takes.
        from rackspan.kafka.cluster_snapshot import take_outline, take_portion  # noqa: PLC0415
        from rackspan.kafka.consumer_groups import read_consumer_groups  # noqa: PLC0415

        reading = step(f"reading consumer groups of {connection.servers}")
        with failures_reported(connection.settings), reading as progress:
            outline = take_outline(connection.properties)
            found = read_consumer_groups(connection.properties, progress.advance)
            wanted = outline.topics if all_topics else found.topics
            portion = take_portion(connection.properties, wanted)
        for sentence in (*found.warnings, *(f"topic {name}: {reason}" for name, reason in portion.unread.items())):
            warn(sentence)
        snapshot = replace(portion.snapshot, brokers=outline.brokers)
        tree = topology.tree(snapshot) if live is None else live.tree
        try:
            replicas = ReplicaPlaces(tree, snapshot.brokers, snapshot.partitions, level)
        except TopologyError as error:
            raise CommandError(f"--level: {error}") from error
        seen = None if live is None else live.inputs.scan
        racks = {} if seen is None else racks_of_hosts(seen.hosts, seen.nodes, seen.topology.spec)
        return cls(connection, found.groups, found.selector, replicas, racks)

    def named(self, names: Sequence[str]) -> "LiveGroups":
        """Return the named groups, or all if there are no names. Raises CommandError for an unknown name."""
        known = {group.name for group in self.groups}
        for name in names:
            if name not in known:
                raise CommandError(f"--group {name}: the cluster has no such consumer group", nearest(name, known))
        return replace(self, groups=tuple(one for one in self.groups if not names or one.name in names))

    def sampled(self, seconds: float) -> "LiveGroups":
        """Return the same with rates, from two looks with this many seconds between them. Raises CommandError."""
        from rackspan.kafka.consumption import sample_rates  # noqa: PLC0415

        with failures_reported(self.connection.settings), step(f"sampling offsets for {seconds:g} s") as progress:
            found = sample_rates(
                self.connection.properties, self.groups, self.replicas, lambda: _waited(seconds, progress)
            )
        for sentence in found.warnings:
            warn(sentence)
        return replace(self, rates_of=found.rates_of, written=found.written)


async def _waited(seconds: float, progress: ProgressStep) -> None:
    clock = asyncio.get_running_loop().time
    started = clock()
    while (passed := clock() - started) < seconds:
        progress.advance(int(passed * 1000), int(seconds * 1000))
        await asyncio.sleep(min(0.2, seconds - passed))
