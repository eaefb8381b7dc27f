"""The ports of reconciling: Kafka, Kubernetes and the permit to change them. All calls are idempotent."""

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
    """Checked just before each change in Kafka or Kubernetes. Thread-safe."""

    @property
    def change_timeout_seconds(self) -> float:
        """Timeout of a request that changes something, in seconds."""

    def check(self) -> None:
        """Raise FailureError where nothing may be changed now."""


class AlwaysPermitted:
    """The permit of commands that a person runs, which need no Lease."""

    change_timeout_seconds = 60.0

    def check(self) -> None:
        """Never raises."""


# --- Kafka -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as Kafka describes it; `rack` is its `broker.rack`, None where that is not set (KIP-36)."""

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
    """A topic in Kafka: `replicas[p]` are the broker ids of partition p, the preferred leader first."""

    name: str
    topic_id: str
    replicas: tuple[tuple[int, ...], ...]
    internal: bool = False
    """Whether Kafka marks it as internal, such as __consumer_offsets."""
    without_isr: int = 0
    """Partitions that have no leader, of which Kafka keeps who may lead in the ELR (KIP-966): their ISR is empty."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's configuration: `own` has the keys set on the topic, `min_insync` the effective min.insync.replicas."""

    own: Mapping[str, str]
    min_insync: int | None


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Number of replicas and of preferred leaders by broker id."""

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RemainingReplicas:
    """Number of replicas at the time `at`: `replicas[broker id][topic]`, over all topics that the client may see."""

    at: datetime
    replicas: Mapping[int, Mapping[str, int]]

    @property
    def empty(self) -> frozenset[int]:
        """The brokers that hold none."""
        return frozenset(broker for broker, held in self.replicas.items() if not any(held.values()))


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignment[p]` are partition p's broker ids; None where Kafka chooses them."""

    name: str
    partitions: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] | None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to add, so that the topic has `total`; `assignment` has only the new ones, or is None."""

    name: str
    total: int
    assignment: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Configuration keys to set on a topic; others are not changed (KIP-339)."""

    name: str
    set: Mapping[str, str]


Outcomes: TypeAlias = "Mapping[str, Failure | None]"
"""By topic name: None on success, else that topic's failure."""


class KafkaClient(Protocol):
    """What every client of one cluster can be asked. Calls raise FailureError where Kafka does not answer at all."""

    async def cluster(self) -> ClusterDescription:
        """The cluster id and the brokers that are alive (DescribeCluster)."""

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Whether all log directories are cordoned (KIP-1066), of the brokers that report it. Never raises.

        None: the broker's version has no cordons.
        """

    async def close(self) -> None:
        """Close connections and end threads. Calls in progress raise FailureError."""


class KafkaAdmin(KafkaClient, Protocol):
    """One cluster's Admin API. Calls raise FailureError, but only where they failed for all topics."""

    async def replica_counts(self, without: Collection[str] = ()) -> ReplicaCounts:
        """Replicas and preferred leaders per broker, over every topic but these (Metadata)."""

    async def remaining_replicas(self, brokers: Collection[int]) -> RemainingReplicas:
        """The replicas on these brokers, alive or not (Metadata)."""

    async def hosted(self, broker: int) -> Sequence[InSync]:
        """The partitions with a replica on this broker, of all topics that the client may see (Metadata)."""

    async def assignments(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """By topic, the replicas of each partition, of all topics that the client may see (Metadata)."""

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """The brokers' default min.insync.replicas; None where none of them answers. Never raises."""

    async def cordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Cordon all log directories of brokers. One where somebody cordons some directories refuses that."""

    async def uncordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Take off what `cordon` has set; cordons of another kind stay."""

    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """By name: the topic, None where it does not exist, a Failure where only this one could not be read."""

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig]:
        """By name: the topic's configuration. Topics that do not exist are left out."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics in one controller operation, of at most 10,000 metadata records (`batching`)."""

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions in one controller operation, of at most 10,000 metadata records (`batching`)."""

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set configuration keys, and change no others (IncrementalAlterConfigs, KIP-339)."""

    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes:
        """Delete topics; `ids` has the topic id last seen under each name."""


class Administrator(KafkaAdmin, Protocol):
    """The same, which can also be asked what Kafka would refuse (validate_only)."""

    async def validate_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Ask whether topics could be created, and create none."""

    async def validate_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Ask whether configuration keys could be set, and set none."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of a topology's Secrets. Fields are left out of repr, so that they are never logged.

    `username` and `password` are a client's id and secret where it logs in with tokens, or an access key of AWS.
    """

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token_ca_pem: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


class KafkaConnector(Protocol):
    """Creates clients. One whose first request fails is discarded, since librdkafka may not recover."""

    async def connect(self, owner: ObjectKey, kafka: KafkaSpec, credentials: Credentials) -> KafkaAdmin:
        """A client of the RackTopology `owner`, whose first request has succeeded. Raises FailureError."""


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A reference to an object, enough to patch it and to post Events about it."""

    kind: str
    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """A Kubernetes Event about an object; `reason` is CamelCase, the type Normal or Warning."""

    about: ObjectRef
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Terminating:
    """CRDs and namespaces being deleted: objects are then deleted with them, maybe without anybody's intent."""

    definitions: tuple[str, ...] = ()
    """Rackspan's CRDs that are being deleted, or no longer exist."""
    namespaces: Mapping[str, datetime] = field(default_factory=dict)
    """The deletionTimestamp of namespaces being deleted, by name."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Gets the objects of one kind, in the order in which they change.

    `known` are those that it got and that matter to it. `seen` takes an object that is there, reduced to its
    names, labels, annotations, node and phase; `gone` takes one that is not there any more, known or not.
    """

    known: Callable[[], Collection[ObjectKey]]
    seen: Callable[[Mapping[str, Any]], None]
    gone: Callable[[ObjectKey], None]


class Reflector(Protocol):
    """Reports to a listener what objects there are."""

    async def list(self) -> None:
        """Report all objects, and those that are gone. Raises FailureError, and DeniedError for a namespace's."""

    async def watch(self) -> None:
        """Report every change since the list, for ever. Lists again where that is needed; never raises."""


class ObjectVersion(NamedTuple):
    """An object's uid, and the resourceVersion in which it was last seen."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of a kind that there are, by name, but for those of namespaces that may not be read (`denied`)."""

    there: Mapping[ObjectKey, ObjectVersion]
    denied: frozenset[str] = frozenset()

    def lacks(self, key: ObjectKey) -> bool:
        """Whether there is no such object; False where that is not known."""
        return key not in self.there and key.namespace not in self.denied


class KubeApi(Protocol):
    """The Kubernetes API, as far as reconciling needs it. Every call but `record_event` raises FailureError."""

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Replace the whole status; the object as written, None where none of this uid exists."""

    async def set_finalizers(
        self, ref: ObjectRef, finalizers: Sequence[str], version: str, annotations: Mapping[str, str]
    ) -> JsonObject | None:
        """Replace the finalizers at resourceVersion `version`, and add annotations, if any.

        The object as written, None on a conflict or if gone.
        """

    async def remove_annotation(self, ref: ObjectRef, name: str, version: str) -> JsonObject | None:
        """Remove an annotation at resourceVersion `version`; the object as written, None on a conflict or if gone."""

    async def replace_annotation(self, ref: ObjectRef, name: str, value: str, version: str) -> JsonObject | None:
        """Give an annotation another value, like `remove_annotation`."""

    async def terminating(self, namespaces: Collection[str]) -> Terminating:
        """Which of Rackspan's CRDs, and of these namespaces, are being deleted."""

    async def with_finalizer(self, kind: str) -> Collection[Meta]:
        """The metadata of all objects of a kind with Rackspan's finalizer; empty where the kind is not served."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """The data of one Secret, base64 decoded."""

    async def listed(self, kind: str) -> Listed:
        """Which objects of one of Rackspan's kinds there are."""

    def objects(self, kind: str) -> AsyncIterator[JsonObject]:
        """Every object of one of Rackspan's kinds, one after the other; some of them twice where a list expires.

        Raises DeniedError at the end.
        """

    def reflectors(self, kind: str, listener: Listener) -> Sequence[Reflector]:
        """One for each collection of Pods, Nodes or Namespaces that is watched."""

    async def find(self, kind: str, key: ObjectKey) -> JsonObject | None:
        """One object; None where it does not exist."""

    def record_event(self, event: KubernetesEvent) -> None:
        """Queue an Event for posting. Never blocks and never raises."""


# --- racks: the ConfigMaps that publish them, and brokers' pods ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class RackFileMeta:
    """A published ConfigMap as it is now: of which RackTopology, and at which resourceVersion."""

    uid: str
    version: str
    topology: ObjectKey | None
    topology_uid: str | None


@dataclass(frozen=True, slots=True)
class RackFileList:
    """The published ConfigMaps; `failed` has the namespaces that cannot be listed, `*` for all of them."""

    found: Mapping[ObjectKey, RackFileMeta]
    failed: Mapping[str, Failure]


class RackFiles(Protocol):
    """The ConfigMaps that publish racks, by label. Every call raises FailureError."""

    async def published(self) -> RackFileList:
        """All that there are in the namespaces where racks may be published; metadata only."""

    async def create(self, body: JsonObject) -> RackFileMeta | None:
        """Create one; None where there is a ConfigMap of that name already."""

    async def replace(self, known: RackFileMeta, body: JsonObject) -> RackFileMeta | None:
        """Give the ConfigMap as it is in `known` this content; None where it changed or is gone."""

    async def delete(self, key: ObjectKey, known: RackFileMeta) -> None:
        """Delete this very object, by uid. Succeeds where it is gone already."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as it is now."""

    uid: str
    node: str | None
    deleting: bool
    ready: bool
    has_controller: bool
    """Whether something such as a StatefulSet makes it again."""


class Eviction(Enum):
    """What became of an eviction."""

    ACCEPTED = auto()
    REFUSED = auto()
    """The PodDisruptionBudget does not allow it now (429)."""
    GONE = auto()
    """There is no such pod any more."""


class BrokerPods(Protocol):
    """Brokers' pods. Every call raises FailureError."""

    async def annotate(self, key: ObjectKey, rack: str | None) -> None:
        """Write a rack on one pod, for people to see, or take it off. Succeeds where there is no such pod."""

    async def get(self, key: ObjectKey) -> PodFacts | None:
        """One pod; None where there is none of that name."""

    async def evict(self, key: ObjectKey, uid: str, *, rehearse: bool) -> Eviction:
        """Evict this very pod (policy/v1), or with `rehearse` only ask whether that were accepted (dryRun)."""


# --- moving replicas: Kafka's calls for it, a record that survives, and the objects of it ----------------------------


Replicas: TypeAlias = tuple[int, ...]


class ReassignmentAdmin(KafkaClient, Protocol):
    """The calls to one Kafka cluster that move replicas. All raise FailureError where Kafka does not answer at all."""

    async def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions of some topics, and which of them are being reassigned; a topic that is gone is left out."""

    async def topic_names(self) -> Collection[str]:
        """The names of all topics that can be seen, Kafka's own among them."""

    async def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Each topic's effective min.insync.replicas, where it can be read."""

    async def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Room on brokers' disks; brokers that do not report it are left out."""

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


@dataclass(frozen=True, slots=True)
class Record:
    """What Kafka cannot say of a plan that is carried out, written before it is needed.

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
