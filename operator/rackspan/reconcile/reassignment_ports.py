"""What carrying out a plan needs from outside: Kafka's calls for it, a record that survives, and the objects of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.planning import Change
    from rackspan.core.rack_path import RackPath
    from rackspan.core.reassignment import (
        Disk,
        PartitionState,
        SetThrottle,
        Setting,
        SettingChange,
        TopicPartition,
    )
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import ClusterDescription, Credentials, JsonObject

Replicas: TypeAlias = tuple[int, ...]


class ReassignmentAdmin(Protocol):
    """The calls to one Kafka cluster that move replicas. All raise FailureError where Kafka does not answer at all."""

    async def cluster(self) -> ClusterDescription:
        """The cluster id and the brokers that are alive."""

    async def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions of some topics, and which of them are being reassigned; a topic that is gone is left out."""

    async def topic_names(self) -> Collection[str]:
        """The names of all topics that can be seen, Kafka's own among them."""

    async def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Each topic's effective min.insync.replicas, where it can be read."""

    async def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Room on brokers' disks; brokers that do not report it are left out."""

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Whether brokers take nothing new (KIP-1066); those that do not report it are left out. Never raises."""

    async def sizes(
        self, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        """Bytes of replicas on the given brokers, those that are being copied as well; unknown ones are left out."""

    async def alter(
        self, targets: Mapping[TopicPartition, Replicas | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """Ask for new replica lists, or cancel what is under way where there is None (KIP-455).

        Kafka refuses those of `same_size` if the number of replicas has changed meanwhile (KIP-860).
        """

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Let preferred leaders lead (KIP-460)."""

    async def settings(self, wanted: Collection[Setting]) -> Mapping[Setting, str | Failure | None]:
        """What is set on brokers and topics themselves, None where nothing is."""

    async def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Set, change or delete dynamic configs. A broker that is away fails alone."""

    async def close(self) -> None:
        """Close connections and end threads. Calls in progress raise FailureError."""


@dataclass(frozen=True, slots=True)
class Record:
    """
    What Kafka cannot say of a plan that is carried out, written before it is needed.

    `racks` are those that the plan was made for, `reported_racks` what Kafka had as `broker.rack` then. `started` are
    the replica lists last asked for, of partitions that are not settled or were settled lately, and `cordoned` the
    brokers that were cordoned when lists were asked for. What somebody else has cancelled is `left` alone. `topic_ids`
    are those of the topics that the plan was made for; a topic without one is known by its name alone.
    """

    cluster_id: str
    plan_hash: str
    changes: Sequence[Change]
    racks: Mapping[int, RackPath | None]
    reported_racks: Mapping[int, str | None]
    started: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    throttles: Mapping[Setting, SetThrottle] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cordoned: frozenset[int] = frozenset()
    left: frozenset[TopicPartition] = frozenset()


class Journal(Protocol):
    """Where a record survives."""

    async def write(self, record: Record) -> None:
        """Return once it is safe. Raises OSError where it cannot be written."""


class ReassignmentConnector(Protocol):
    """Creates clients that move replicas."""

    async def connect(self, owner: ObjectKey, kafka: KafkaSpec, credentials: Credentials) -> ReassignmentAdmin:
        """A client of the RackTopology `owner`, whose first request has succeeded. Raises FailureError."""


class ReassignmentObjects(Protocol):
    """The Reassignments of the API server. All calls raise FailureError where it does not answer or refuses."""

    async def create(self, body: JsonObject) -> JsonObject | None:
        """The object as written; None where one of that name is there already."""

    async def plan(self, known: Reassignment) -> str | None:
        """The text of `spec.plan` of this very object; None where it is gone."""

    async def write_status(self, known: Reassignment, status: JsonObject) -> JsonObject | None:
        """Replace the status of an object that is as it is known; as written, None where it changed or is gone."""

    async def delete(self, known: Reassignment) -> None:
        """Delete this very object. Succeeds where it is gone already."""
