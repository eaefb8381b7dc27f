"""RackTopology: one Kafka cluster, and the tree of regions, zones and racks that its brokers stand in."""

import json
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Final, Self

from msgspec import field

from rackspan.api.codec import ApiStruct, StatusStruct, Time, encode
from rackspan.api.conditions import Condition
from rackspan.api.meta import ApiObject
from rackspan.api.plans import TopologyPlanStatus
from rackspan.api.policies import DurabilitySpec, ReassignmentDefaults, TopologyReassignment
from rackspan.api.references import LabelSelector
from rackspan.core.rack_path import RackPath, is_within, parse_rack
from rackspan.core.text import plural

KIND: Final = "RackTopology"
PLURAL: Final = "racktopologies"

MAX_DRAINS: Final = 100
"""Drains that fit into a status."""
MAX_DRAIN_SAMPLES: Final = 5
"""Topics that are named for each reason why something is left."""
MAX_DRIFT_SAMPLES: Final = 10
"""Topics that are named as not compliant because of drift."""
MAX_BROKER_SAMPLES: Final = 100
"""Broker ids that fit into a status's lists of drift and of missing racks."""
MAX_HELD: Final = 100
"""Namespaces whose waiting deletions fit into a status."""
MAX_RECENT: Final = 1_000
"""Namespaces whose latest deletions fit into a status."""
NAMESPACE_VARIABLE: Final = "$(namespace)"
"""Stands for a KafkaTopic's namespace in `topicPrefixes`."""
INTERNAL_PREFIX: Final = "__"
"""How the names of Kafka's internal topics begin, and by custom those of other tools."""
DEFAULT_HISTORY_PATH: Final = "/var/lib/rackspan"
"""Where a scan's history volume is mounted unless the spec says otherwise."""


class SaslMechanism(StrEnum):
    """How to log in: with a user name and a password, or with tokens by client credentials or by an AWS access key."""

    AWS_MSK_IAM = "AWS_MSK_IAM"
    OAUTHBEARER = "OAUTHBEARER"
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class RackSource(StrEnum):
    """Where a broker's rack comes from: the labels of its pod's node, or Kafka's own `broker.rack`."""

    NODES = "Nodes"
    BROKER = "Broker"


class MissingRackPolicy(StrEnum):
    """What to do while some brokers have a rack and some have not."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class BrokerIdFrom(StrEnum):
    """Where a pod's broker id is read."""

    NAME_SUFFIX = "NameSuffix"
    LABEL = "Label"
    ANNOTATION = "Annotation"


class RestartPolicy(StrEnum):
    """Whether the operator restarts brokers that report another rack than their node's."""

    NEVER = "Never"
    ON_DRIFT = "OnDrift"


class TopicsWithoutSpareReplica(StrEnum):
    """What a restart does about topics that have no more replicas than min.insync.replicas."""

    REPORT = "Report"
    HOLD = "Hold"


class NamespacesFrom(StrEnum):
    """Which namespaces' KafkaTopics may use a topology."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class Adoption(StrEnum):
    """Whose KafkaTopics may take over a topic that is in Kafka already: the topology's namespace's, all, or none."""

    OWN = "Own"
    ALLOWED = "Allowed"
    NEVER = "Never"


class UnmanagedTopics(StrEnum):
    """What is done about topics without a KafkaTopic that are not spread fairly."""

    REPORT = "Report"
    REPAIR = "Repair"


class Rebalance(StrEnum):
    """When replicas are moved that lie well, so that brokers hold equally many."""

    NEVER = "Never"
    ON_NEW_BROKERS = "OnNewBrokers"


class ScanEngine(StrEnum):
    """What runs a compliance scan. All but the last run it in a Job."""

    AUTO = "Auto"
    JOB = "Job"
    SPARK_ON_KUBERNETES = "SparkOnKubernetes"
    SPARK_APPLICATION = "SparkApplication"


class ConcurrencyPolicy(StrEnum):
    """What a scan does that is due while another one of the same cluster runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class ScanTrigger(StrEnum):
    """What started a scan."""

    SCHEDULE = "Schedule"
    REQUEST = "Request"
    TOPOLOGY_CHANGE = "TopologyChange"


class ScanState(StrEnum):
    """How a scan stands."""

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

    The keys are of the Secret that `SaslSpec.secret_ref` names.
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
    """How to log in. `oauth` is there for OAUTHBEARER alone, and `msk_iam` for AWS_MSK_IAM."""

    mechanism: SaslMechanism
    secret_ref: SaslSecretRef
    oauth: OauthSpec | None = None
    msk_iam: MskIamSpec | None = None

    @property
    def keys(self) -> tuple[str, str]:
        """The Secret's keys: of the user name and the password, the client's id and secret, or the access key."""
        if self.oauth is not None:
            return self.oauth.client_id_key, self.oauth.client_secret_key
        if self.msk_iam is not None:
            return "accessKeyId", "secretAccessKey"
        return self.secret_ref.username_key, self.secret_ref.password_key


class KafkaSpec(ApiStruct, frozen=True):
    """How to reach the Kafka cluster. `cluster_id` is the one that is meant, None where any will do."""

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
        """The Secrets that a connection needs: when one changes, connect anew."""
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
    """One level of the rack tree, and the node label that it is read from."""

    name: str
    node_label: str | None = None


class BrokerIdSpec(ApiStruct, frozen=True):
    """Where a pod's broker id is read: `key` names the label or annotation, `offset` is added to the number."""

    from_: BrokerIdFrom = BrokerIdFrom.NAME_SUFFIX
    key: str | None = None
    offset: int = 0


class BrokerPodsSpec(ApiStruct, frozen=True):
    """Which pods are the brokers. `namespace` is None for the topology's own."""

    pod_selector: LabelSelector
    namespace: str | None = None
    broker_id: BrokerIdSpec = BrokerIdSpec()
    restart: RestartPolicy = RestartPolicy.NEVER
    topics_without_spare_replica: TopicsWithoutSpareReplica = TopicsWithoutSpareReplica.REPORT


class TopicQuota(ApiStruct, frozen=True):
    """How much the KafkaTopics of one namespace may have in Kafka together."""

    topics: int = 500
    partitions: int = 2_000
    replicas: int = 6_000


class AllowedNamespaces(ApiStruct, frozen=True):
    """Which namespaces' KafkaTopics may use a topology, and what those of other namespaces than its own may have.

    A topic's name begins with one of `topic_prefixes`, in which `$(namespace)` stands for its object's namespace. None
    is for any name. `quota` is for each namespace.
    """

    from_: NamespacesFrom = NamespacesFrom.SAME
    selector: LabelSelector | None = None
    topic_prefixes: tuple[str, ...] | None = None
    quota: TopicQuota = TopicQuota()

    def admits(self, namespace: str, labels: Mapping[str, str], *, own: str) -> bool:
        """Whether topics of a namespace with these labels may use a topology of the namespace `own`."""
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
        """How topics of another namespace than the topology's begin; None where they are called as they like."""
        if self.topic_prefixes is None:
            return None
        return tuple(prefix.replace(NAMESPACE_VARIABLE, namespace) for prefix in self.topic_prefixes)


class TopicDefaults(ApiStruct, frozen=True):
    """What topics get where they do not say otherwise."""

    placer: str = "MultiLevel"
    durability: DurabilitySpec = field(default_factory=DurabilitySpec)
    reassignment: ReassignmentDefaults = ReassignmentDefaults()


class PodResources(ApiStruct, frozen=True):
    """What a pod requests, and its limits: quantities by resource, as Kubernetes writes them."""

    requests: Mapping[str, int | str] = field(default_factory=dict)
    limits: Mapping[str, int | str] = field(default_factory=dict)


class ExecutorsSpec(ApiStruct, frozen=True):
    """The pods that Spark spreads a scan over. `memory` is the heap of each, in Spark's notation."""

    instances: int = 2
    cores: int = 1
    memory: str = "1g"


class HistoryVolume(ApiStruct, frozen=True):
    """A volume that keeps the history: a PersistentVolumeClaim of the namespace where scans run."""

    claim_name: str
    sub_path: str | None = None


class ProducersSpec(ApiStruct, frozen=True):
    """How many producers have one `client.rack`."""

    rack: str
    count: int = 1


class ComplianceScanSpec(ApiStruct, frozen=True):
    """How and when the whole cluster is scanned. Without a schedule only on demand.

    `sample_seconds` lie between two looks at the offsets of consumer groups; None: their rates are not known.
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
        """Where the history is kept, as the scan sees it; None where none is kept."""
        return self.history_location or (DEFAULT_HISTORY_PATH if self.history_volume else None)


class DrainSpec(ApiStruct, frozen=True):
    """How drains are carried out. `cordon`: whether the operator cordons drained brokers in Kafka (KIP-1066)."""

    cordon: bool = True


class RackTopologySpec(ApiStruct, frozen=True):
    """How to reach the Kafka cluster, and where its brokers' racks come from.

    `levels` are top first. `rack_aliases` maps the flat ids that Kafka reports to rack paths. `drain_racks` are rack
    paths. `internal_topics` are the internal topics that KafkaTopics may be about, and that are repaired without one.
    `shared_with` are namespaces that have RackTopologies for the same Kafka cluster.
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
    adoption: Adoption = Adoption.OWN
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

    def drains(self, broker: int, rack: RackPath | None) -> bool:
        """Whether a broker is drained, by its id or by its rack. Raises RackPathError for `drain_racks`."""
        return broker in self.drain_brokers or (
            rack is not None and any(is_within(rack, parse_rack(domain)) for domain in self.drain_racks)
        )

    @property
    def rack_hash(self) -> str:
        """A hash of the fields by which brokers get their racks."""
        fields = encode((self.levels, self.rack_source, self.rack_aliases, self.brokers))
        return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    def repairs(self, topic: str) -> bool:
        """Whether a topic of this name is planned for without a KafkaTopic; an internal one only where it is listed."""
        internal = topic.startswith(INTERNAL_PREFIX) and topic not in self.internal_topics
        return self.repairs_unmanaged and not internal

    @property
    def scan(self) -> ComplianceScanSpec:
        """How a scan runs, also where the spec asks for none: the annotation may."""
        return self.compliance or ComplianceScanSpec()

    @property
    def fills_brokers(self) -> bool:
        """Whether plans fill brokers that are new or were emptied."""
        return self.rebalance is Rebalance.ON_NEW_BROKERS

    @property
    def repairs_unmanaged(self) -> bool:
        """Whether topics without a KafkaTopic are planned for."""
        return self.unmanaged_topics is UnmanagedTopics.REPAIR


class BrokerStatus(ApiStruct, frozen=True):
    """One broker. `rack` is where it stands, `reported_rack` what Kafka says; `drift` is that the two differ."""

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
    """Replicas that are left, in all and by whose topics they are of: each is counted once.

    `explicit` topics have a KafkaTopic whose assignment names a broker that is drained; `internal` ones are Kafka's
    own, without a KafkaTopic.
    """

    total: int
    managed: int = 0
    explicit: int = 0
    unmanaged: int = 0
    internal: int = 0


class DrainBlock(ApiStruct, frozen=True):
    """One reason why replicas are left, the topics that it holds for, and the first of them by name."""

    reason: str
    topics: int
    replicas: int
    samples: tuple[str, ...] = ()


class DrainStatus(ApiStruct, frozen=True):
    """One entry of drainBrokers or drainRacks: a broker id, or a domain such as /eu/eu-1a.

    `drained` is None where that is not known. `replicas` and `blocks` are as of `observed_at`.
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
    """The broker that restarts: its pod that was evicted, and the rack that its node had then, if it was published.

    `request` is the annotation's value that asked for it, None where drift did.
    """

    broker: int
    pod: str
    pod_uid: str
    since: Time
    rack: str | None = None
    request: str | None = None


class NotMended(ApiStruct, frozen=True):
    """A broker that a restart did not give the rack of its node."""

    broker: int
    rack: str
    pod: str | None = None
    reported_rack: str | None = None


class RestartsStatus(ApiStruct, frozen=True):
    """The restart under way, and brokers that are not restarted again for the same rack."""

    current: RestartingBroker | None = None
    not_mended: tuple[NotMended, ...] = ()


class LevelCount(ApiStruct, frozen=True):
    """How many domains a level has."""

    level: str
    count: int


class BrokerCount(ApiStruct, frozen=True):
    """How many brokers, and the ids of the first of them."""

    count: int
    brokers: tuple[int, ...] = ()

    @classmethod
    def of(cls, brokers: tuple[int, ...]) -> Self:
        """Counts brokers, and keeps as many of their ids as fit into a status."""
        return cls(len(brokers), tuple(sorted(brokers)[:MAX_BROKER_SAMPLES]))


class DriftedTopics(ApiStruct, frozen=True):
    """KafkaTopics that drift makes non-compliant: how many, and the first of them as `namespace/name`."""

    count: int
    samples: tuple[str, ...] = ()


class DriftStatus(BrokerCount, frozen=True):
    """Brokers that report another rack than their node's, and what that does to topics; None where nothing."""

    topics: DriftedTopics | None = None


class TopicCounts(ApiStruct, frozen=True):
    """The KafkaTopics of a topology, by state."""

    total: int
    ready: int = 0
    non_compliant: int = 0
    stalled: int = 0
    pinned: int = 0
    """Partitions that lie unfairly because an explicit assignment says so."""


class LastScan(ApiStruct, frozen=True):
    """The scan that was started last. `reason` and `message` say why it failed, the counts what it found."""

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
    """
    When scans are due, and what has been dealt with.

    Nothing is due that was scheduled at `last_scheduled_at` or before. `missed` counts what came too late since then.
    The `handled_*` are what a scan was started for; `announced` is the scan whose changes have Events.
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
    """How many topics of a namespace went within a minute; `at` is when somebody asked for the last of them."""

    namespace: str
    at: Time
    count: int


class HeldDeletions(ApiStruct, frozen=True):
    """How many deletions of a namespace wait, and what confirms just these."""

    namespace: str
    count: int
    confirmation: str


class DeletionsStatus(ApiStruct, frozen=True):
    """Deletions that wait for a person, in all and by namespace, and those of the last minute that did not have to."""

    waiting: int = 0
    held: tuple[HeldDeletions, ...] = ()
    recent: tuple[RecentDeletions, ...] = ()


class RackTopologyStatus(StatusStruct, frozen=True):
    """What the operator saw. Build the next one with `msgspec.structs.replace`, and compare with `==` before writing.

    `lease` is the `namespace/name` of the Lease that the operator holds which writes this status, and renews while it
    runs. `cordons` are the brokers that the operator has cordoned in Kafka, or is about to. `state`, and what ends in
    `_summary`, is what `kubectl get` shows: all else in one word or line.
    """

    observed_generation: int | None = None
    lease: str | None = None
    state: str | None = None
    cluster_id: str | None = None
    broker_count: int | None = None
    rack_hash: str | None = None
    """`rack_hash` of the spec by which `brokers` have their racks; None in the status of an older operator."""
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
        """Whether `brokers` has every broker: of very many with very long racks, only the first fit into an object."""
        return self.broker_count is None or self.broker_count <= len(self.brokers)

    @property
    def only_lacks_racks(self) -> bool:
        """Whether every broker that drifts has no `broker.rack`: then no label of a node and no alias is in doubt."""
        drifting = [broker for broker in self.brokers if broker.drift]
        return self.lists_all_brokers and bool(drifting) and not any(one.reported_rack for one in drifting)


class RackTopology(ApiObject, frozen=True):
    """A RackTopology object."""

    spec: RackTopologySpec
    status: RackTopologyStatus = RackTopologyStatus()

    @property
    def has_current_racks(self) -> bool:
        """Whether the brokers in the status have their racks by the present spec."""
        return self.status.rack_hash in (None, self.spec.rack_hash)

    @property
    def broker_namespace(self) -> str:
        """The namespace of the brokers' pods."""
        own = self.meta.namespace
        return self.spec.brokers.namespace or own if self.spec.brokers else own


def domain_summary(domains: tuple[LevelCount, ...]) -> str:
    """The domains per level in one line, such as `2 regions, 5 zones, 9 racks`."""
    return ", ".join(plural(domain.count, domain.level) for domain in domains)
