"""The connection to a live cluster, from options or from a RackTopology."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.shared.command_errors import CommandError, failures_reported
from rackspan.core.snapshot import Snapshot
from rackspan.reconcile.failures import KafkaSetting

if TYPE_CHECKING:
    from rackspan.kafka.kafka_reassignments import KafkaReassignments
    from rackspan.reconcile.ports import ClusterDescription

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster's servers and librdkafka's properties for them."""

    servers: str
    properties: Mapping[str, str | int | bool]
    settings: Mapping[KafkaSetting, str] = field(default_factory=dict)
    """Names for the subjects of failures; by default those of a RackTopology."""

    @classmethod
    def by_options(cls, servers: str | None, command_config: Path | None) -> Self:
        """Return the connection from `--bootstrap-server` and `--command-config`. Raises CommandError."""
        # Imported here because most commands run for less time than the import of the clients takes.
        from rackspan.kafka.command_config import SETTINGS, CommandConfigError, command_properties  # noqa: PLC0415

        if servers is None:
            raise CommandError(
                "the cluster is missing", "pass --bootstrap-server HOST:PORT, or --topology NAMESPACE/NAME"
            )
        try:
            return cls(servers, command_properties(servers, command_config), SETTINGS)
        except CommandConfigError as error:
            raise CommandError(str(error)) from error

    def ask(self, question: "Callable[[KafkaReassignments], Awaitable[T]]") -> T:
        """Connect, ask and close. Raises CommandError if Kafka does not respond or refuses."""
        from rackspan.kafka.kafka_reassignments import KafkaReassignments  # noqa: PLC0415

        with failures_reported(self.settings):
            return asyncio.run(KafkaReassignments.ask_new_client(self.properties, question))

    def snapshot(self, advance: Callable[[int, int], None] | None = None) -> Snapshot:
        """Return all topics and partitions that are in Kafka now. Warn about unreadable ones. Raises CommandError.

        `advance` is called with the number of topics that are read, and the number of all.
        """
        from rackspan.kafka.cluster_snapshot import take_snapshot  # noqa: PLC0415

        with failures_reported(self.settings):
            found = take_snapshot(self.properties, advance)
        for sentence in found.warnings:
            warn(sentence)
        return found.snapshot

    def cluster(self) -> "ClusterDescription":
        """Return the cluster's id and brokers. Raises CommandError."""
        with step(f"connecting to {self.servers}"):
            return self.ask(lambda admin: admin.cluster())
