"""RackTopology: one Kafka cluster, and the tree of regions, zones and racks of its brokers."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Final, Self

from msgspec import field

from rackspan.api.codec import ApiStruct, StatusStruct, Time, encode
from rackspan.api.conditions import Condition
from rackspan.api.labels import APPROVE_PLAN, CONFIRM_DELETIONS
from rackspan.api.meta import ApiObject
from rackspan.api.plans import TopologyPlanStatus
from rackspan.api.policies import DurabilitySpec, Granted, ReassignmentDefaults, TopologyReassignment
from rackspan.api.references import LabelSelector
from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.rack_path import RackPath, split_rack
from rackspan.core.text import plural

KIND: Final = "RackTopology"
PLURAL: Final = "racktopologies"

MAX_DRAINS: Final = 100
"""Drains that fit into a status."""
MAX_DRAIN_SAMPLES: Final = 5
"""Topics that are named for each reason why replicas remain."""
MAX_DRIFT_SAMPLES: Final = 10
"""Topics that are named as not compliant because of drift."""
MAX_BROKER_SAMPLES: Final = 100
"""Broker ids that fit into one list of a status, such as those of drift and of missing racks."""
MAX_HELD: Final = 100
"""Namespaces whose waiting deletions fit into a status."""
MAX_RECENT: Final = 1_000
"""Namespaces whose latest deletions fit into a status."""
NAMESPACE_VARIABLE: Final = "$(namespace)"
"""The placeholder for a KafkaTopic's namespace in `topicPrefixes`."""
INTERNAL_PREFIX: Final = "__"
"""The prefix of the names of Kafka's internal topics, and by convention of those of other tools."""
DEFAULT_HISTORY_PATH: Final = "/var/lib/rackspan"
"""The mount path of a scan's history volume, unless the spec has another location."""


class SaslMechanism(StrEnum):
    """How to log in: with a user name and a password, or with tokens by client credentials or by an AWS access key."""

    AWS_MSK_IAM = "AWS_MSK_IAM"
    OAUTHBEARER = "OAUTHBEARER"
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class RackSource(StrEnum):
    """The source of a broker's rack: the labels of its pod's node, or Kafka's own `broker.rack`."""

    NODES = "Nodes"
    BROKER = "Broker"


class MissingRackPolicy(StrEnum):
    """What to do while some brokers have a rack and others do not."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class BrokerIdFrom(StrEnum):
    """The source of a pod's broker id."""

    NAME_SUFFIX = "NameSuffix"
    LABEL = "Label"
    ANNOTATION = "Annotation"


class RestartPolicy(StrEnum):
    """Whether the operator restarts brokers that report another rack than their node's."""

    NEVER = "Never"
    ON_DRIFT = "OnDrift"


class TopicsWithoutSpareReplica(StrEnum):
    """How a restart treats topics that have no more replicas than min.insync.replicas."""

    REPORT = "Report"
    HOLD = "Hold"


class NamespacesFrom(StrEnum):
    """Which namespaces' KafkaTopics may use a topology."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class UnmanagedTopics(StrEnum):
    """What the operator does about topics without a KafkaTopic that are not spread fairly."""

    REPORT = "Report"
    REPAIR = "Repair"


class Rebalance(StrEnum):
    """When to move correctly placed replicas, too, so that brokers hold equal numbers."""

    NEVER = "Never"
    ON_NEW_BROKERS = "OnNewBrokers"


class ScanEngine(StrEnum):
    """What runs a compliance scan. All engines but the last use a Job."""

    AUTO = "Auto"
    JOB = "Job"
    SPARK_ON_KUBERNETES = "SparkOnKubernetes"
    SPARK_APPLICATION = "SparkApplication"


class ConcurrencyPolicy(StrEnum):
    """What happens to a scan that is due while another scan of the same cluster runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class ScanTrigger(StrEnum):
    """What started a scan."""

    SCHEDULE = "Schedule"
    REQUEST = "Request"
    TOPOLOGY_CHANGE = "TopologyChange"


class ScanState(StrEnum):
    """The state of a scan."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class CaSecretRef(ApiStruct, frozen=True):
    """Certificate authorities in a Secret of the topology's namespace."""

    name: str
    key: str = "ca.crt"


class ClientCertSecretRef(ApiStruct, frozen=True):
    """A client certificate and its private key in a Secret of the topology's namespace."""

    name: str
    cert_key: str = "tls.crt"
    key_key: str = "tls.key"


class SaslSecretRef(ApiStruct, frozen=True):
    """A user name and a password in a Secret of the topology's namespace."""

    name: str
    username_key: str = "username"
    password_key: str = "password"  # noqa: S105  # the name of a key


class TlsSpec(ApiStruct, frozen=True):
    """How to encrypt the connection. Without `ca_secret_ref` the system's certificate authorities are trusted."""

    ca_secret_ref: CaSecretRef | None = None
    client_cert_secret_ref: ClientCertSecretRef | None = None
    verify_hostname: bool = True


class OauthSpec(ApiStruct, frozen=True):
    """How to get tokens (client credentials, KIP-768). Without `ca_secret_ref` the system's authorities are trusted.

    The keys are those in the Secret that `SaslSpec.secret_ref` names.
    """

    token_endpoint: str
    scope: str | None = None
    ca_secret_ref: CaSecretRef | None = None
    client_id_key: str = "clientId"
    client_secret_key: str = "clientSecret"  # noqa: S105  # the name of a key


class MskIamSpec(ApiStruct, frozen=True):
    """The region of an Amazon MSK cluster, for which tokens are signed."""

    region: str


class SaslSpec(ApiStruct, frozen=True):
    """How to log in. `oauth` is set only for OAUTHBEARER, and `msk_iam` only for AWS_MSK_IAM."""

    mechanism: SaslMechanism
    secret_ref: SaslSecretRef
    oauth: OauthSpec | None = None
    msk_iam: MskIamSpec | None = None

    @property
    def keys(self) -> tuple[str, str]:
        """The Secret's keys of the user name and password, of the client id and secret, or of the access key."""
        if self.oauth is not None:
            return self.oauth.client_id_key, self.oauth.client_secret_key
        if self.msk_iam is not None:
            return "accessKeyId", "secretAccessKey"
        return self.secret_ref.username_key, self.secret_ref.password_key


class KafkaSpec(ApiStruct, frozen=True):
    """How to reach the Kafka cluster. `cluster_id` is the expected id, None to accept any cluster."""

    bootstrap_servers: str
    cluster_id: str | None = None
    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> tuple[str, ...]:
        """The bootstrap servers, one `host:port` each."""
        return tuple(server.strip() for server in self.bootstrap_servers.split(","))

    @property
    def secret_names(self) -> frozenset[str]:
        """The names of the Secrets that a connection needs. When one changes, the operator has to reconnect."""
        names = set()
        if self.tls and self.tls.ca_secret_ref:
            names.add(self.tls.ca_secret_ref.name)
        if self.tls and self.tls.client_cert_secret_ref:
            names.add(self.tls.client_cert_secret_ref.name)
        if self.sasl:
            names.add(self.sasl.secret_ref.name)
        if self.sasl and self.sasl.oauth and self.sasl.oauth.ca_secret_ref:
            names.add(self.sasl.oauth.ca_secret_ref.name)
        return frozenset(names)


class LevelSpec(ApiStruct, frozen=True):
    """One level of the rack tree, and the node label from which its domains are read."""

    name: str
    node_label: str | None = None


class BrokerIdSpec(ApiStruct, frozen=True):
    """The source of a pod's broker id. `key` names the label or annotation, `offset` is added to the number."""

    from_: BrokerIdFrom = BrokerIdFrom.NAME_SUFFIX
    key: str | None = None
    offset: int = 0


class BrokerPodsSpec(ApiStruct, frozen=True):
    """Which pods are the brokers. `namespace` is None for the topology's own namespace."""

    pod_selector: LabelSelector
    namespace: str | None = None
    broker_id: BrokerIdSpec = BrokerIdSpec()
    restart: RestartPolicy = RestartPolicy.NEVER
    topics_without_spare_replica: TopicsWithoutSpareReplica = TopicsWithoutSpareReplica.REPORT


class TopicQuota(ApiStruct, frozen=True):
    """The limits for all KafkaTopics of one namespace together."""

    topics: int = 500
    partitions: int = 2_000
    replicas: int = 6_000


class AllowedNamespaces(ApiStruct, frozen=True):
    """Which namespaces' KafkaTopics may use a topology, and the limits for namespaces other than its own.

    A topic's name has to begin with one of `topic_prefixes`, in which `$(namespace)` is replaced by the namespace of
    its object. None allows any name. `quota` applies to each namespace.
    """

    from_: NamespacesFrom = NamespacesFrom.SAME
    selector: LabelSelector | None = None
    topic_prefixes: tuple[str, ...] | None = None
    quota: TopicQuota = TopicQuota()

    def admits(self, namespace: str, labels: Mapping[str, str], *, own: str) -> bool:
        """Return whether topics of a namespace with these labels may use a topology in the namespace `own`."""
        if namespace == own:
            return True
        match self.from_:
            case NamespacesFrom.ALL:
                return True
            case NamespacesFrom.SELECTOR:
                return self.selector is not None and self.selector.matches(labels)
            case NamespacesFrom.SAME:
                return False

    def prefixes(self, namespace: str) -> tuple[str, ...] | None:
        """Return the prefixes for topics of a namespace other than the topology's; None if any name is allowed."""
        if self.topic_prefixes is None:
            return None
        return tuple(prefix.replace(NAMESPACE_VARIABLE, namespace) for prefix in self.topic_prefixes)


class TopicDefaults(ApiStruct, frozen=True):
    """The settings of topics that do not have their own."""

    placer: str = "MultiLevel"
    durability: DurabilitySpec = field(default_factory=DurabilitySpec)
    reassignment: ReassignmentDefaults = ReassignmentDefaults()


class PodResources(ApiStruct, frozen=True):
    """The requests and limits of a pod: quantities by resource, in the notation of Kubernetes."""

    requests: Mapping[str, int | str] = field(default_factory=dict)
    limits: Mapping[str, int | str] = field(default_factory=dict)


class ExecutorsSpec(ApiStruct, frozen=True):
    """The pods to which Spark distributes a scan. `memory` is the heap of each pod, in Spark's notation."""

    instances: int = 2
    cores: int = 1
    memory: str = "1g"


class HistoryVolume(ApiStruct, frozen=True):
    """A volume that keeps the history: a PersistentVolumeClaim in the namespace of the scans' pods."""

    claim_name: str
    sub_path: str | None = None


class ProducersSpec(ApiStruct, frozen=True):
    """The number of producers with one `client.rack`."""

    rack: str
    count: int = 1


class ComplianceScanSpec(ApiStruct, frozen=True):
    """How and when to scan the whole cluster. Without a schedule, only on demand or after a change of the topology.

    `sample_seconds` is the time between two reads of the offsets of consumer groups. If None, rates are unknown.
    """

    schedule: str | None = None
    time_zone: str | None = None
    suspend: bool = False
    after_topology_change: bool = False
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    starting_deadline_seconds: int | None = None
    active_deadline_seconds: int = 3600
    backoff_limit: int = 2
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    engine: ScanEngine = ScanEngine.AUTO
    image: str | None = None
    resources: PodResources | None = None
    executors: ExecutorsSpec | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    history_location: str | None = None
    history_volume: HistoryVolume | None = None
    retention_days: int | None = None
    producers: tuple[ProducersSpec, ...] = ()
    sample_seconds: int | None = None

    @property
    def history(self) -> str | None:
        """The location of the history in the scan's pod; None if no history is kept."""
        return self.history_location or (DEFAULT_HISTORY_PATH if self.history_volume else None)


class DrainSpec(ApiStruct, frozen=True):
    """How drains are carried out. `cordon`: whether the operator cordons drained brokers in Kafka (KIP-1066)."""

    cordon: bool = True


class RackTopologySpec(ApiStruct, frozen=True):
    """How to reach the Kafka cluster, the source of its brokers' racks, and the policies for its topics.

    `levels` are top first. `rack_aliases` maps the flat ids that Kafka reports to rack paths. `drain_racks` are rack
    paths. `internal_topics` are the internal topics that KafkaTopics may declare, and that plans repair without a
    KafkaTopic, too. `shared_with` are namespaces that have RackTopologies for the same Kafka cluster.
    """

    kafka: KafkaSpec
    levels: tuple[LevelSpec, ...]
    rack_source: RackSource = RackSource.NODES
    brokers: BrokerPodsSpec | None = None
    missing_rack_policy: MissingRackPolicy = MissingRackPolicy.FAIL
    rack_aliases: Mapping[str, str] = field(default_factory=dict)
    drain_brokers: tuple[int, ...] = ()
    drain_racks: tuple[str, ...] = ()
    drain: DrainSpec = DrainSpec()
    allowed_namespaces: AllowedNamespaces = AllowedNamespaces()
    adoption: Granted = Granted.OWN
    internal_topics: tuple[str, ...] = ()
    unmanaged_topics: UnmanagedTopics = UnmanagedTopics.REPORT
    rebalance: Rebalance = Rebalance.NEVER
    shared_with: tuple[str, ...] = ()
    defaults: TopicDefaults = TopicDefaults()
    reassignment: TopologyReassignment = TopologyReassignment()
    max_deletions_per_minute: int = 10
    compliance: ComplianceScanSpec | None = None

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, top first."""
        return tuple(level.name for level in self.levels)

    @property
    def invalid_level(self) -> str | None:
        """Return why a name of a level is not valid, or None. Objects stored by earlier definitions can have one."""
        if BROKER_LEVEL not in self.level_names:
            return None
        return f'spec.levels: the level "{BROKER_LEVEL}" is always there, as the last one; choose another name'

    @property
    def drains(self) -> Callable[[int, RackPath | None], bool]:
        """A function that returns whether a broker is drained, by id or by rack."""
        brokers, domains = frozenset(self.drain_brokers), frozenset(map(split_rack, self.drain_racks))

        def drained(broker: int, rack: RackPath | None) -> bool:
            path = rack or ()
            return broker in brokers or any(path[:steps] in domains for steps in range(1, len(path) + 1))

        return drained

    @property
    def rack_hash(self) -> str:
        """A hash of the fields that determine the racks of brokers."""
        fields = encode((self.levels, self.rack_source, self.rack_aliases, self.brokers))
        return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    def repairs(self, topic: str) -> bool:
        """Return whether plans include this topic without a KafkaTopic. An internal topic has to be listed."""
        internal = topic.startswith(INTERNAL_PREFIX) and topic not in self.internal_topics
        return self.repairs_unmanaged and not internal

    @property
    def scan(self) -> ComplianceScanSpec:
        """How a scan runs, even if the spec has no scans, because the annotation SCAN_NOW can start one."""
        return self.compliance or ComplianceScanSpec()

    @property
    def fills_brokers(self) -> bool:
        """Whether plans fill brokers that are new or were emptied."""
        return self.rebalance is Rebalance.ON_NEW_BROKERS

    @property
    def repairs_unmanaged(self) -> bool:
        """Whether plans include topics without a KafkaTopic."""
        return self.unmanaged_topics is UnmanagedTopics.REPAIR


class BrokerStatus(ApiStruct, frozen=True):
    """One broker. `rack` is its actual rack, `reported_rack` the rack in Kafka. `drift` means that they differ."""

    id: int
    host: str | None = None
    pod: str | None = None
    node: str | None = None
    rack: str | None = None
    reported_rack: str | None = None
    online: bool | None = None
    drift: bool | None = None
    draining: bool | None = None
    cordoned: bool | None = None


class DrainReplicas(ApiStruct, frozen=True):
    """The numbers of remaining replicas: the total, and by kind of topic. Each replica is counted once.

    `explicit` topics have a KafkaTopic whose assignment names a drained broker. `internal` topics are Kafka's own,
    without a KafkaTopic.
    """

    total: int
    managed: int = 0
    explicit: int = 0
    unmanaged: int = 0
    internal: int = 0


class DrainBlock(ApiStruct, frozen=True):
    """One reason why replicas remain, the number of topics that it applies to, and the first of them by name."""

    reason: str
    topics: int
    replicas: int
    samples: tuple[str, ...] = ()


class DrainStatus(ApiStruct, frozen=True):
    """One entry of drainBrokers or drainRacks: a broker id, or a domain such as /eu/eu-1a.

    `drained` is None if it is unknown. `replicas` and `blocks` are as of `observed_at`.
    """

    target: str
    reason: str
    message: str
    brokers: int = 0
    drained: bool | None = None
    replicas: DrainReplicas | None = None
    blocks: tuple[DrainBlock, ...] = ()
    observed_at: Time | None = None


class RestartingBroker(ApiStruct, frozen=True):
    """The broker that restarts: its evicted pod, and the rack that its node had then, if that rack was published.

    `request` is the value of the annotation that requested the restart, None if drift is the cause.
    """

    broker: int
    pod: str
    pod_uid: str
    since: Time
    rack: str | None = None
    request: str | None = None


class NotMended(ApiStruct, frozen=True):
    """A broker that does not report the rack of its node even after a restart."""

    broker: int
    rack: str
    pod: str | None = None
    reported_rack: str | None = None


class RestartsStatus(ApiStruct, frozen=True):
    """The restart in progress, and the brokers that are not restarted again for the same rack."""

    current: RestartingBroker | None = None
    not_mended: tuple[NotMended, ...] = ()


class LevelCount(ApiStruct, frozen=True):
    """The number of domains of a level."""

    level: str
    count: int


class BrokerCount(ApiStruct, frozen=True):
    """The number of brokers, and the first of their ids."""

    count: int
    brokers: tuple[int, ...] = ()

    @classmethod
    def of(cls, brokers: tuple[int, ...]) -> Self:
        """Count brokers, and keep as many of their ids as fit into a status."""
        return cls(len(brokers), tuple(sorted(brokers)[:MAX_BROKER_SAMPLES]))


class DriftedTopics(ApiStruct, frozen=True):
    """KafkaTopics that drift makes non-compliant: their number, and the first of them as `namespace/name`."""

    count: int
    samples: tuple[str, ...] = ()


class DriftStatus(BrokerCount, frozen=True):
    """Brokers that report another rack than their node's, and the affected topics; None if no topic is affected."""

    topics: DriftedTopics | None = None


class TopicCounts(ApiStruct, frozen=True):
    """The KafkaTopics of a topology, by state."""

    total: int
    ready: int = 0
    non_compliant: int = 0
    stalled: int = 0
    pinned: int = 0
    """Partitions that an explicit assignment does not spread fairly."""


class LastScan(ApiStruct, frozen=True):
    """The scan that was started last. `reason` and `message` are of a failure, the counts of the results."""

    scan_id: str
    trigger: ScanTrigger
    state: ScanState
    started_at: Time
    finished_at: Time | None = None
    reason: str | None = None
    message: str | None = None
    findings: int | None = None
    non_compliant: int | None = None


class ScansStatus(ApiStruct, frozen=True):
    """When scans are due, and the triggers that have been handled.

    Scans that were scheduled at `last_scheduled_at` or before are not due. `missed` counts the scheduled scans that
    were too late since the last one that was started. The `handled_*` are triggers for which a scan was started.
    `announced` is the id of the scan whose changes have Events.
    """

    schedule: str | None = None
    last_scheduled_at: Time | None = None
    next_at: Time | None = None
    missed: int | None = None
    running: int | None = None
    handled_request: str | None = None
    handled_topology: str | None = None
    announced: str | None = None


class RecentDeletions(ApiStruct, frozen=True):
    """The number of a namespace's topics deleted within a minute. `at` is the time of the last deletion request."""

    namespace: str
    at: Time
    count: int


class HeldDeletions(ApiStruct, frozen=True):
    """The number of a namespace's deletions that wait, and the text that confirms exactly these deletions."""

    namespace: str
    count: int
    confirmation: str


class DeletionsStatus(ApiStruct, frozen=True):
    """Deletions that wait for a person, in total and by namespace, and those of the last minute that did not wait."""

    waiting: int = 0
    held: tuple[HeldDeletions, ...] = ()
    recent: tuple[RecentDeletions, ...] = ()


class RackTopologyStatus(StatusStruct, frozen=True):
    """What the operator saw. Build the next status with `msgspec.structs.replace`; compare with `==` before writing.

    `lease` is the `namespace/name` of the Lease of the operator that writes this status. The operator renews it while
    it runs. `cordons` are the brokers that the operator has cordoned in Kafka, or is about to cordon. `kubectl get`
    shows `state` and the fields that end in `_summary`: the rest in one word or line.
    """

    observed_generation: int | None = None
    lease: str | None = None
    state: str | None = None
    cluster_id: str | None = None
    broker_count: int | None = None
    rack_hash: str | None = None
    """The `rack_hash` of the spec that gave `brokers` their racks; None in the status of an older operator."""
    domain_summary: str | None = None
    brokers: tuple[BrokerStatus, ...] = ()
    domains: tuple[LevelCount, ...] = ()
    drift: DriftStatus | None = None
    restarts: RestartsStatus | None = None
    missing_racks: BrokerCount | None = None
    cordons: tuple[int, ...] = ()
    drains: tuple[DrainStatus, ...] = ()
    drain_summary: str | None = None
    offline: BrokerCount | None = None
    offline_summary: str | None = None
    topics: TopicCounts | None = None
    plan: TopologyPlanStatus | None = None
    plan_summary: str | None = None
    last_scan: LastScan | None = None
    scans: ScansStatus | None = None
    deletions: DeletionsStatus | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def lists_all_brokers(self) -> bool:
        """Whether `brokers` has every broker. If very many have very long racks, only the first fit into an object."""
        return self.broker_count is None or self.broker_count <= len(self.brokers)

    @property
    def only_lacks_racks(self) -> bool:
        """Whether every drifting broker has no `broker.rack`. Then node labels and aliases are not the cause."""
        drifting = [broker for broker in self.brokers if broker.drift]
        return self.lists_all_brokers and bool(drifting) and not any(one.reported_rack for one in drifting)


class RackTopology(ApiObject, frozen=True):
    """A RackTopology object."""

    spec: RackTopologySpec
    status: RackTopologyStatus = RackTopologyStatus()
    list_annotations: ClassVar[tuple[str, ...]] = (APPROVE_PLAN, CONFIRM_DELETIONS)

    @property
    def has_current_racks(self) -> bool:
        """Whether the brokers in the status have the racks that follow from the current spec."""
        return self.status.rack_hash in (None, self.spec.rack_hash)

    @property
    def broker_namespace(self) -> str:
        """The namespace of the brokers' pods."""
        own = self.meta.namespace
        return self.spec.brokers.namespace or own if self.spec.brokers else own


def domain_summary(domains: tuple[LevelCount, ...]) -> str:
    """Return the number of domains per level in one line, such as `2 regions, 5 zones, 9 racks`."""
    return ", ".join(plural(domain.count, domain.level) for domain in domains)
