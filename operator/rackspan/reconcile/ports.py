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
    from rackspan.reconcile.runtime.lease import LeaseRecord
    from rackspan.reconcile.scans.job_status import Run, RunKind

JsonObject: TypeAlias = dict[str, Any]


# --- the right to act ------------------------------------------------------------------------------------------------


class Permit(Protocol):
    """Asked just before each change, in Kafka or in Kubernetes. Threads may ask."""

    @property
    def change_seconds(self) -> float:
        """How long a change may be under way."""

    def check(self) -> None:
        """Raise FailureError where nothing may be changed."""


class AlwaysPermitted:
    """The permit of who needs none: a command that a person gives."""

    change_seconds = 60.0

    def check(self) -> None:
        """Never refuse."""


class LeaseStore(Protocol):
    """The one Lease that operators share. Raises FailureError."""

    async def read(self) -> LeaseRecord | None: ...
    async def write(self, record: LeaseRecord, *, taken: bool) -> LeaseRecord | None: ...
    async def release(self, identity: str) -> None: ...


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

    async def cluster(self) -> ClusterDescription: ...
    async def load(self) -> ReplicaCounts: ...
    async def held(self, brokers: Collection[int]) -> RemainingReplicas: ...
    async def default_min_insync(self, brokers: Sequence[int]) -> int | None: ...
    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]: ...
    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig]: ...
    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes: ...
    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes: ...
    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes: ...
    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the Secrets hold. Never printed: its repr is empty on purpose."""

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


class KafkaConnector(Protocol):
    """Makes a client. A client is thrown away after a failed first answer (librdkafka may stay broken)."""

    async def connect(self, kafka: KafkaSpec, credentials: Credentials) -> KafkaAdmin: ...


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


class ScanRuns(Protocol):
    """The namespace where scans run. Raises FailureError."""

    async def runs(self, kind: RunKind) -> Sequence[Run]: ...
    async def unstarted(self, runs: Sequence[Run]) -> Mapping[str, str]: ...
    async def start(self, body: JsonObject) -> bool: ...
    async def delete(self, run: Run) -> None: ...


@dataclass(frozen=True, slots=True)
class Terminating:
    """What is being deleted around the objects, so that their own deletion need not be anybody's wish."""

    definitions: tuple[str, ...] = ()
    """Our CustomResourceDefinitions that are being deleted, or gone."""
    namespaces: Mapping[str, datetime] = field(default_factory=dict)
    """Since when, by name."""


class Cluster(Protocol):
    """The Kubernetes API, as far as reconciling needs it. Raises FailureError; `None` where the object is gone."""

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None: ...
    async def set_finalizers(self, ref: ObjectRef, finalizers: Sequence[str], version: str) -> JsonObject | None: ...
    async def remove_annotation(self, ref: ObjectRef, name: str, version: str) -> JsonObject | None: ...
    async def terminating(self, namespaces: Collection[str]) -> Terminating: ...
    async def guarded(self, kind: str) -> Collection[Meta]: ...
    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]: ...
    async def uids(self, kind: str) -> Mapping[ObjectKey, str]: ...
    async def find(self, kind: str, key: ObjectKey) -> JsonObject | None: ...
    def announce(self, event: KubernetesEvent) -> None: ...
