"""The ports of the reconcilers: Kafka, Kubernetes and the permit to change them. All calls are idempotent."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - these types are decoded
from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.partitions import InSync
    from rackspan.core.planning import Change
    from rackspan.core.rack_path import RackPath
    from rackspan.core.reassignment import Disk, PartitionState, SetThrottle, Setting, SettingChange, TopicPartition
    from rackspan.reconcile.failures import Failure


JsonObject: TypeAlias = dict[str, Any]


# --- permission to make changes --------------------------------------------------------------------------------------


class Permit(Protocol):
    """The permission to make changes, checked just before each change in Kafka or Kubernetes. Thread-safe."""

    @property
    def change_timeout_seconds(self) -> float:
        """The timeout of a request that changes something, in seconds."""

    def check(self) -> None:
        """Raise FailureError if changes are not permitted now."""


class AlwaysPermitted:
    """The permit of commands that a user runs, which need no Lease."""

    change_timeout_seconds = 60.0

    def check(self) -> None:
        """Never raise: changes are always permitted."""


# --- Kafka -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as Kafka describes it. `rack` is its `broker.rack`, None if that is not set (KIP-36)."""

    id: int
    host: str
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A DescribeCluster response: the brokers that are alive and not fenced."""

    cluster_id: str
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic in Kafka. `replicas[p]` has the broker ids of partition p, the preferred leader first."""

    name: str
    topic_id: str
    replicas: tuple[tuple[int, ...], ...]
    internal: bool = False
    """Whether Kafka marks the topic as internal, such as __consumer_offsets."""
    without_isr: int = 0
    """The number of partitions without ISR and leader whose eligible leaders Kafka keeps in the ELR (KIP-966)."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's configuration. `own`: the keys set on the topic. `min_insync`: the effective min.insync.replicas."""

    own: Mapping[str, str]
    min_insync: int | None


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The numbers of replicas and of preferred leaders by broker id."""

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RemainingReplicas:
    """The numbers of replicas at the time `at`: `replicas[broker id][topic]`, of all topics that the client sees."""

    at: datetime
    replicas: Mapping[int, Mapping[str, int]]

    @property
    def empty(self) -> frozenset[int]:
        """The brokers that hold no replicas."""
        return frozenset(broker for broker, held in self.replicas.items() if not any(held.values()))


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignment[p]` has partition p's broker ids. If it is None, Kafka chooses the brokers."""

    name: str
    partitions: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] | None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to add, so that the topic has `total`. `assignment` covers only the new partitions, or is None."""

    name: str
    total: int
    assignment: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Configuration keys to set on a topic. Other keys are not changed (KIP-339)."""

    name: str
    set: Mapping[str, str]


Outcomes: TypeAlias = "Mapping[str, Failure | None]"
"""By topic name: None on success, else the failure of the topic."""


class KafkaClient(Protocol):
    """The calls that every client of one Kafka cluster supports. They raise FailureError if Kafka does not respond."""

    async def cluster(self) -> ClusterDescription:
        """Return the cluster id and the brokers that are alive (DescribeCluster)."""

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Return whether all log directories of each broker that reports it are cordoned (KIP-1066). Never raises.

        None means that the broker's version does not support cordons.
        """

    async def close(self) -> None:
        """Close the connections and end the threads. Calls in progress raise FailureError."""


class KafkaAdmin(KafkaClient, Protocol):
    """The Admin API of one cluster. A call raises FailureError only if it fails for all topics."""

    async def replica_counts(self, without: Collection[str] = ()) -> ReplicaCounts:
        """Return the replicas and preferred leaders per broker, counted over all topics except `without` (Metadata)."""

    async def remaining_replicas(self, brokers: Collection[int]) -> RemainingReplicas:
        """Return the replicas on these brokers, whether the brokers are alive or not (Metadata)."""

    async def hosted(self, broker: int) -> Sequence[InSync]:
        """Return the partitions with a replica on this broker, from all topics that the client can see (Metadata)."""

    async def assignments(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """Return the replicas of each partition, by topic, for all topics that the client can see (Metadata)."""

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """Return the brokers' default min.insync.replicas, or None if no broker responds. Never raises."""

    async def cordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Cordon all log directories. Fails for a broker where another client has cordoned some directories."""

    async def uncordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Remove the cordons that `cordon` has set. Other cordons stay."""

    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """Return by name: the topic, None if it does not exist, or a Failure if only this topic cannot be read."""

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        """Return by name: the topic's configuration, or why it cannot be read. Missing topics are left out."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics in one controller operation, of at most 10,000 metadata records (see `batching`)."""

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions in one controller operation, of at most 10,000 metadata records (see `batching`)."""

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set configuration keys and leave other keys unchanged (IncrementalAlterConfigs, KIP-339)."""

    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes:
        """Delete topics. `ids` has the topic id last seen under each name."""


class Administrator(KafkaAdmin, Protocol):
    """An Admin API that can also validate changes without making them (validate_only)."""

    async def validate_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Check whether topics could be created, without creating them."""

    async def validate_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Check whether configuration keys could be set, without setting them."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of a topology's Secrets. Fields are excluded from repr, so that they are never logged.

    `username` and `password` are the client id and the client secret if the client logs in with tokens, or an AWS
    access key.
    """

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token_ca_pem: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


class KafkaConnector(Protocol):
    """Creates clients. A client whose first request fails is discarded, since librdkafka may not recover."""

    async def connect(self, owner: ObjectKey, kafka: KafkaSpec, credentials: Credentials) -> KafkaAdmin:
        """Return a client of the RackTopology `owner`, after its first request succeeded. Raises FailureError."""


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A reference to an object, sufficient to patch the object and to post Events about it."""

    kind: str
    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """A Kubernetes Event about an object. `reason` is in CamelCase, and the type is Normal or Warning."""

    about: ObjectRef
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Terminating:
    """CRDs and namespaces being deleted. Objects are deleted with them, perhaps unintentionally."""

    definitions: tuple[str, ...] = ()
    """The KafkaTopic and RackTopology CRDs that are being deleted or no longer exist."""
    namespaces: Mapping[str, datetime] = field(default_factory=dict)
    """The deletionTimestamp of each namespace that is being deleted, by name."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The callbacks that receive the objects of one kind, in the order in which the objects change.

    `known` returns the keys of the objects that the listener has kept. `seen` receives an existing object, reduced to
    its names, labels, annotations, node and phase. `gone` receives the key of a deleted object, known or not.
    """

    known: Callable[[], Collection[ObjectKey]]
    seen: Callable[[Mapping[str, Any]], None]
    gone: Callable[[ObjectKey], None]


class Reflector(Protocol):
    """Reports the existing objects of one collection to a listener."""

    async def list(self) -> None:
        """Report all existing objects, and deleted known ones. Raises FailureError, DeniedError for a namespace."""

    async def watch(self) -> None:
        """Report every change since the list, for ever. Lists again if necessary. Never raises."""


class ObjectVersion(NamedTuple):
    """An object's uid and the resourceVersion that was last seen."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The existing objects of a kind by name, except those in namespaces that may not be read (`denied`)."""

    there: Mapping[ObjectKey, ObjectVersion]
    denied: frozenset[str] = frozenset()

    def lacks(self, key: ObjectKey) -> bool:
        """Return whether the object does not exist. Return False if that is unknown."""
        return key not in self.there and key.namespace not in self.denied


class KubeApi(Protocol):
    """The calls to the Kubernetes API that the reconcilers need. All except `record_event` raise FailureError."""

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Replace the whole status. Return the object as written, or None if no object with this uid exists."""

    async def set_finalizers(
        self, ref: ObjectRef, finalizers: Sequence[str], version: str, annotations: Mapping[str, str]
    ) -> JsonObject | None:
        """Replace the finalizers at resourceVersion `version`, and add annotations, if any.

        Return the object as written, or None after a conflict or if the object is deleted.
        """

    async def set_annotation(self, ref: ObjectRef, name: str, value: str | None, version: str) -> JsonObject | None:
        """Set an annotation at resourceVersion `version`; None removes it. Return the same as `set_finalizers`."""

    async def terminating(self, namespaces: Collection[str]) -> Terminating:
        """Return which of the KafkaTopic and RackTopology CRDs, and of these namespaces, are being deleted."""

    async def with_finalizer(self, kind: str) -> Collection[Meta]:
        """Return the metadata of all objects of a kind with Rackspan's finalizer; nothing if the kind is not served."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the data of one Secret, base64 decoded."""

    async def listed(self, kind: str) -> Listed:
        """Return which objects of one of Rackspan's kinds exist."""

    def objects(self, kind: str) -> AsyncIterator[JsonObject]:
        """Yield every object of one of Rackspan's kinds. If a list expires, some objects are yielded twice.

        Raises DeniedError at the end if namespaces may not be read.
        """

    def reflectors(self, kind: str, listener: Listener) -> Sequence[Reflector]:
        """Return one reflector for each watched collection of Pods, Nodes or Namespaces."""

    async def find(self, kind: str, key: ObjectKey) -> JsonObject | None:
        """Return one object, or None if it does not exist."""

    def record_event(self, event: KubernetesEvent) -> None:
        """Queue an Event for posting. Never blocks and never raises."""


# --- racks: the ConfigMaps that publish them, and brokers' pods ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class RackFileMeta:
    """The current state of a published ConfigMap: its RackTopology and its resourceVersion."""

    uid: str
    version: str
    topology: ObjectKey | None
    topology_uid: str | None


@dataclass(frozen=True, slots=True)
class RackFileList:
    """The published ConfigMaps. `failed` has the namespaces that cannot be listed, or `*` for all namespaces."""

    found: Mapping[ObjectKey, RackFileMeta]
    failed: Mapping[str, Failure]


class RackFiles(Protocol):
    """The ConfigMaps that publish racks, selected by label. Every call raises FailureError."""

    async def published(self) -> RackFileList:
        """Return the metadata of all such ConfigMaps in the namespaces where racks may be published."""

    async def create(self, body: JsonObject) -> RackFileMeta | None:
        """Create a ConfigMap. Return None if a ConfigMap of that name already exists."""

    async def replace(self, known: RackFileMeta, body: JsonObject) -> RackFileMeta | None:
        """Replace the content of the ConfigMap `known`. Return None if it has changed or is deleted."""

    async def delete(self, key: ObjectKey, known: RackFileMeta) -> None:
        """Delete the object with this uid. Succeed if the object is already deleted."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The current state of a pod."""

    uid: str
    node: str | None
    deleting: bool
    ready: bool
    has_controller: bool
    """Whether a controller such as a StatefulSet recreates the pod."""


class Eviction(Enum):
    """The result of an eviction."""

    ACCEPTED = auto()
    REFUSED = auto()
    """The PodDisruptionBudget does not allow the eviction now (429)."""
    GONE = auto()
    """The pod does not exist any more."""


class BrokerPods(Protocol):
    """The pods of brokers. Every call raises FailureError."""

    async def annotate(self, key: ObjectKey, rack: str | None) -> None:
        """Annotate a pod with its rack for users, or remove the annotation. Succeed if the pod does not exist."""

    async def get(self, key: ObjectKey) -> PodFacts | None:
        """Return one pod, or None if no pod of that name exists."""

    async def evict(self, key: ObjectKey, uid: str, *, rehearse: bool) -> Eviction:
        """Evict the pod with this uid (policy/v1). With `rehearse`, only check whether that is allowed (dryRun)."""


# --- moving replicas: Kafka's calls for it, a record that survives, and the objects of it ----------------------------


Replicas: TypeAlias = tuple[int, ...]


class ReassignmentAdmin(KafkaClient, Protocol):
    """The calls to one Kafka cluster that move replicas. All raise FailureError if Kafka does not respond."""

    async def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Return the partitions of some topics and their ongoing reassignments, without topics that do not exist."""

    async def topic_names(self) -> Collection[str]:
        """Return the names of all topics that the client can see, including Kafka's internal topics."""

    async def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the effective min.insync.replicas of each topic, if it can be read."""

    async def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Return the space on the disks of brokers. Brokers that do not report it are left out."""

    async def sizes(
        self, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        """Return the bytes of replicas on these brokers, also of replicas being copied. Unknown sizes are left out."""

    async def alter(
        self, targets: Mapping[TopicPartition, Replicas | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """Request new replica lists, or cancel the ongoing reassignment if the list is None (KIP-455).

        For partitions in `same_size`, Kafka refuses a list if the number of replicas has changed meanwhile (KIP-860).
        """

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Elect the preferred leaders (KIP-460)."""

    async def settings(self, wanted: Collection[Setting]) -> Mapping[Setting, str | Failure | None]:
        """Return the dynamic configs set directly on brokers and topics, None if a config is not set."""

    async def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Set, change or delete dynamic configs. An offline broker fails without failing the others."""


@dataclass(frozen=True, slots=True)
class Record:
    """The state of a running plan that Kafka does not keep, written before the state is needed.

    `racks` are the racks that the plan was made for, `reported_racks` the `broker.rack` values that Kafka reported
    then. `started` are the last requested replica lists of partitions that are not settled or were settled lately.
    `cordoned` are the brokers that were cordoned when lists were requested. `left` are partitions left alone because
    another client cancelled their reassignment. `topic_ids` are the ids of the topics that the plan was made for. A
    topic without an id is identified by its name alone.
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
    """The storage of a record, which survives restarts."""

    async def write(self, record: Record) -> None:
        """Write the record and return when it is stored safely. Raises OSError if it cannot be written."""


class ReassignmentConnector(Protocol):
    """Creates clients that move replicas."""

    async def connect(self, owner: ObjectKey, kafka: KafkaSpec, credentials: Credentials) -> ReassignmentAdmin:
        """Return a client of the RackTopology `owner`, after its first request succeeded. Raises FailureError."""


class ReassignmentObjects(Protocol):
    """The Reassignments in the API server. All calls raise FailureError if it does not respond or refuses a request."""

    async def create(self, body: JsonObject) -> JsonObject | None:
        """Create a Reassignment. Return the object as written, or None if one of that name already exists."""

    async def plan(self, known: Reassignment) -> str | None:
        """Return the text of `spec.plan` of the object with this uid, or None if the object is deleted."""

    async def write_status(self, known: Reassignment, status: JsonObject) -> JsonObject | None:
        """Replace the status of `known`. Return the object as written, or None if it has changed or is deleted."""

    async def delete(self, known: Reassignment) -> None:
        """Delete the object with this uid. Succeed if the object is already deleted."""
