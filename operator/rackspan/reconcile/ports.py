"""What reconciling needs from the outside. Every call can be repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.reconcile.failures import Failure

JsonObject: TypeAlias = dict[str, Any]


# --- the right to act ------------------------------------------------------------------------------------------------


class Permit(Protocol):
    """Asked just before each change, in Kafka or in Kubernetes. Threads may ask."""

    @property
    def change_timeout_seconds(self) -> float:
        """How long a change may be under way."""

    def check(self) -> None:
        """Raise FailureError where nothing may be changed."""


class AlwaysPermitted:
    """The permit of who needs none: a command that a person gives."""

    change_timeout_seconds = 60.0

    def check(self) -> None:
        """Never refuse."""


# --- Kafka -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as Kafka describes it: `rack` is the `broker.rack` it was started with."""

    id: int
    host: str
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """One answer to DescribeCluster: the brokers that are alive and unfenced."""

    cluster_id: str
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as Kafka holds it: `replicas[p]` is partition p's ordered replica list."""

    name: str
    topic_id: str
    replicas: tuple[tuple[int, ...], ...]
    internal: bool = False
    """Whether Kafka says that it is one of its own, such as __consumer_offsets."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's configuration: the keys set on the topic itself, and min.insync.replicas wherever it comes from."""

    own: Mapping[str, str]
    min_insync: int | None


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Replicas and preferred leaders per broker id, over all topics of the cluster."""

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]
    topics: int


@dataclass(frozen=True, slots=True)
class RemainingReplicas:
    """What brokers held at a moment: replicas by topic, of every topic that Kafka shows, for each broker asked for."""

    at: datetime
    replicas: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignment` is None where the placer leaves the choice to Kafka."""

    name: str
    partitions: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] | None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to add, so that the topic has `total`; `assignment` lists only the new ones."""

    name: str
    total: int
    assignment: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Keys to set on a topic. Keys that are not named are not touched (KIP-339)."""

    name: str
    set: Mapping[str, str]


Outcomes: TypeAlias = "Mapping[str, Failure | None]"
"""Per topic name: None where it worked. One topic's failure says nothing about the others."""


class KafkaAdmin(Protocol):
    """One cluster's Admin API. A call raises FailureError only where it failed for all topics."""

    async def cluster(self) -> ClusterDescription:
        """The cluster id and the brokers that are alive (DescribeCluster)."""

    async def replica_counts(self) -> ReplicaCounts:
        """Replicas and preferred leaders per broker, over every topic (Metadata)."""

    async def remaining_replicas(self, brokers: Collection[int]) -> RemainingReplicas:
        """What lies on these brokers, whether they are alive or not (Metadata)."""

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """The brokers' own min.insync.replicas; None where none of them tells. Never raises."""

    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """By name: the topic, None where there is none, a Failure where just this one could not be read."""

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig]:
        """By name: the topic's configuration. Topics that are gone are left out."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics in one controller operation, of at most 10,000 metadata records."""

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Grow topics in one controller operation, of at most 10,000 metadata records."""

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set the keys that are named, and touch no other (IncrementalAlterConfigs, KIP-339)."""

    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes:
        """Delete topics by name; `ids` are the topic ids that the caller has just seen under these names."""

    async def close(self) -> None:
        """Let go of connections and threads. Calls under way end with a failure."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the Secrets hold. Never printed: its repr is empty on purpose."""

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


class KafkaConnector(Protocol):
    """Makes clients. One that failed its first answer is thrown away: librdkafka may stay broken."""

    async def connect(self, kafka: KafkaSpec, credentials: Credentials) -> KafkaAdmin:
        """A client that has answered once. Raises FailureError."""


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Enough to patch an object and to attach Events to it."""

    kind: str
    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """One Kubernetes Event: CamelCase reason, a sentence, Normal or Warning."""

    about: ObjectRef
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Terminating:
    """What is being deleted around the objects, so that their own deletion need not be anybody's wish."""

    definitions: tuple[str, ...] = ()
    """Our CustomResourceDefinitions that are being deleted, or gone."""
    namespaces: Mapping[str, datetime] = field(default_factory=dict)
    """Since when, by name."""


class Cluster(Protocol):
    """The Kubernetes API, as far as reconciling needs it. Every call raises FailureError, but for `record_event`."""

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Make this the whole status. The object as it is then; None where the object of this uid is gone."""

    async def set_finalizers(self, ref: ObjectRef, finalizers: Sequence[str], version: str) -> JsonObject | None:
        """Replace the finalizers. The object as it is then; None where it is gone or not at `version` any more."""

    async def remove_annotation(self, ref: ObjectRef, name: str, version: str) -> JsonObject | None:
        """Remove an annotation. The object as it is then; None where it is gone or not at `version` any more."""

    async def terminating(self, namespaces: Collection[str]) -> Terminating:
        """Which of our CustomResourceDefinitions, and which of these namespaces, are being deleted."""

    async def with_finalizer(self, kind: str) -> Collection[Meta]:
        """The metadata of all objects of a kind that carry our finalizer; none where the kind is not served."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """The decoded data of one Secret."""

    async def uids(self, kind: str) -> Mapping[ObjectKey, str]:
        """The uid of every object of a kind that is watched."""

    async def find(self, kind: str, key: ObjectKey) -> JsonObject | None:
        """One object as it is now; None where it is gone."""

    def record_event(self, event: KubernetesEvent) -> None:
        """Queue an Event for posting. Never waits and never fails."""
