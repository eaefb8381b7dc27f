"""KafkaTopic: one topic of one Kafka cluster, and where its replicas shall live."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import field

from rackspan.api.codec import ApiStruct, StatusStruct
from rackspan.api.conditions import Condition
from rackspan.api.labels import ADOPT_TOPIC_ID, CONFIRM_DELETE, CREATED_FOR
from rackspan.api.meta import ApiObject, ObjectKey
from rackspan.api.plans import TopicPlanStatus
from rackspan.api.policies import DurabilitySpec, TopicReassignmentSpec
from rackspan.api.references import TopologyRef
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import Durability
from rackspan.core.placement import Spread, Unsatisfiable
from rackspan.core.rack_path import parse_rack
from rackspan.core.requirements import TopicRequirements

KIND: Final = "KafkaTopic"
PLURAL: Final = "kafkatopics"

MAX_SAMPLES: Final = 5
"""Findings that fit into a status. All of them are in the ComplianceReport."""

MAX_DOMAINS: Final = 100
"""Domains that fit into the placement summary of a status."""


class WhenUnsatisfiable(StrEnum):
    """What to do where the brokers cannot satisfy a level's maxSkew."""

    REFUSE = "Refuse"
    BEST = "Best"


class DeletionPolicy(StrEnum):
    """What happens to the topic in Kafka when its object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class OnTopicLoss(StrEnum):
    """What happens when somebody else deletes the topic in Kafka."""

    STALL = "Stall"
    RECREATE = "Recreate"


class TopicSpread(ApiStruct, frozen=True):
    """How far replicas of a partition may be from an even spread at one level."""

    level: str
    max_skew: int = 1
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.REFUSE


class BrokerFilter(ApiStruct, frozen=True):
    """Which brokers may hold replicas. Entries are broker ids such as "12" or rack patterns such as /eu/*/r1."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class TopicPlacement(ApiStruct, frozen=True):
    """Where replicas shall live.

    `leaders` are rack paths. `assignment` has a row of broker ids per partition, preferred leader first; it is empty
    unless the placement is written by hand, and then everything else is empty.
    """

    placer: str | None = None
    spread: tuple[TopicSpread, ...] = ()
    brokers: BrokerFilter = BrokerFilter()
    leaders: tuple[str, ...] = ()
    assignment: tuple[tuple[int, ...], ...] = ()
    seed: int | None = None
    start_index: int | None = None
    shift: int | None = None


class KafkaTopicSpec(ApiStruct, frozen=True):
    """What the topic shall be.

    `config` holds the configs to manage, as written. `durability` and `reassignment` are None where the RackTopology's
    defaults apply.
    """

    topology_ref: TopologyRef
    partitions: int
    replication_factor: int
    topic_name: str | None = None
    config: Mapping[str, int | str] = field(default_factory=dict)
    placement: TopicPlacement = TopicPlacement()
    durability: DurabilitySpec | None = None
    reassignment: TopicReassignmentSpec | None = None
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    on_topic_loss: OnTopicLoss = OnTopicLoss.STALL

    @property
    def config_values(self) -> dict[str, str]:
        """The configs to manage, as Kafka takes them."""
        return {key: str(value) for key, value in self.config.items()}

    @property
    def own_min_insync(self) -> int | None:
        """The min.insync.replicas among the configs; None where there is none, or no number."""
        given = self.config_values.get(MIN_INSYNC, "")
        return int(given) if given.isascii() and given.isdigit() else None


class Finding(ApiStruct, frozen=True):
    """A partition that is not compliant: `domain`, of `level`, holds `excess` replicas too many."""

    partition: int
    reason: str
    level: str | None = None
    domain: str | None = None
    excess: int | None = None


class ComplianceStatus(ApiStruct, frozen=True):
    """How many of the partitions judged are not compliant, and the fewest replicas to copy to fix all of them.

    `drifted` of them are not compliant only because brokers run in other racks than they report. `pinned` others lie as
    the explicit assignment says, which does not spread them fairly.
    """

    partitions: int
    non_compliant: int
    moves: int | None = None
    samples: tuple[Finding, ...] = ()
    drifted: int | None = None
    pinned: int | None = None


class DomainPlacement(ApiStruct, frozen=True):
    """How many replicas and preferred leaders of the topic a domain holds."""

    domain: str
    replicas: int
    leaders: int


class PlacementStatus(ApiStruct, frozen=True):
    """Where the topic is, summed over the domains of the upper levels."""

    domains: tuple[DomainPlacement, ...] = ()


class LevelDurability(ApiStruct, frozen=True):
    """A write acknowledged with acks=all is in at least `domains` of the level; and what the loss of any one does."""

    level: str
    domains: int
    keeps_writes: bool
    stays_writable: bool


class DurabilityStatus(ApiStruct, frozen=True):
    """What acknowledged writes survive: in a sentence, and by level, the last of which is `broker`."""

    message: str
    levels: tuple[LevelDurability, ...] = ()


class KafkaTopicStatus(StatusStruct, frozen=True):
    """What the operator saw and did.

    Build the next one with `msgspec.structs.replace`, and compare the two with `==` before writing. `adopted` says that
    the topic was not made for this object, `creating` that the operator was about to make it: what appears then is no
    adoption. False denies what the annotation CREATED_FOR says. `cluster_id` says where either holds.
    """

    observed_generation: int | None = None
    topic_name: str | None = None
    topic_id: str | None = None
    adopted: bool | None = None
    creating: bool | None = None
    cluster_id: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    min_in_sync_replicas: int | None = None
    placer: str | None = None
    durability: DurabilityStatus | None = None
    compliance: ComplianceStatus | None = None
    placement: PlacementStatus | None = None
    plan: TopicPlanStatus | None = None
    conditions: tuple[Condition, ...] = ()


class KafkaTopic(ApiObject, frozen=True):
    """A KafkaTopic object."""

    spec: KafkaTopicSpec
    status: KafkaTopicStatus = KafkaTopicStatus()

    @property
    def topic_name(self) -> str:
        """The topic's name in Kafka."""
        return self.spec.topic_name or self.meta.name

    @property
    def topology(self) -> ObjectKey:
        """The RackTopology that the topic belongs to."""
        return self.spec.topology_ref.key(self.meta.namespace)

    @property
    def adopt_topic_id(self) -> str | None:
        """The id of a recreated topic that a person asked this object to own."""
        return self.meta.annotations.get(ADOPT_TOPIC_ID)

    @property
    def was_being_created(self) -> bool:
        """Whether an annotation says so that has not been used up: the status knows of no topic, and denies none."""
        uid = self.meta.annotations.get(CREATED_FOR, "").partition("/")[0]
        return uid == self.meta.uid and self.status.topic_id is None and self.status.creating is None

    @property
    def created_in(self) -> str | None:
        """The id of the Kafka cluster that the annotation names; None where it names none."""
        return self.meta.annotations.get(CREATED_FOR, "").partition("/")[2] or None

    @property
    def confirm_delete(self) -> str | None:
        """The id of an adopted topic that a person asked this object to delete in the end."""
        return self.meta.annotations.get(CONFIRM_DELETE)


def requirements_of(spec: KafkaTopicSpec, default_durability: DurabilitySpec) -> TopicRequirements:
    """What a topic should be: its own durability, else the topology's. Raises RackPathError for a domain of leaders."""
    placement = spec.placement
    return TopicRequirements(
        replication_factor=spec.replication_factor,
        partitions=spec.partitions,
        spread=tuple(
            Spread(one.level, one.max_skew, Unsatisfiable(one.when_unsatisfiable)) for one in placement.spread
        ),
        include=placement.brokers.include,
        exclude=placement.brokers.exclude,
        leaders=tuple(parse_rack(domain) for domain in placement.leaders),
        assignment=placement.assignment,
        durability=durability_of(spec.durability or default_durability),
        seed=placement.seed,
        start_index=placement.start_index,
        shift=placement.shift,
    )


def durability_of(spec: DurabilitySpec) -> Durability:
    """The durability that a spec asks for."""
    return Durability(min_domains=spec.min_domains, tolerate=spec.tolerate)
