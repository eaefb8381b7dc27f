"""KafkaTopic: one topic of one Kafka cluster, and the placement of its replicas."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self

from msgspec import field

from rackspan.api.codec import ApiStruct, StatusStruct, decode
from rackspan.api.conditions import Condition
from rackspan.api.labels import ADOPT_TOPIC_ID, CONFIRM_DELETE, CREATED_FOR
from rackspan.api.meta import ApiObject, ObjectKey
from rackspan.api.plans import TopicPlanStatus
from rackspan.api.policies import DurabilitySpec, TopicReassignmentSpec
from rackspan.api.references import TopologyRef
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import Durability
from rackspan.core.placement import Spread, Unsatisfiable
from rackspan.core.rack_path import split_rack
from rackspan.core.requirements import TopicRequirements

KIND: Final = "KafkaTopic"
PLURAL: Final = "kafkatopics"

MAX_SAMPLES: Final = 5
"""Findings that fit into a status. The ComplianceReport has more."""

MAX_DOMAINS: Final = 100
"""Domains that fit into the placement summary of a status."""


class WhenUnsatisfiable(StrEnum):
    """What to do if the brokers cannot satisfy a level's maxSkew."""

    REFUSE = "Refuse"
    BEST = "Best"


class DeletionPolicy(StrEnum):
    """What happens to the topic in Kafka when its object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class OnTopicLoss(StrEnum):
    """What happens when another client deletes the topic in Kafka."""

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
    """The placement of replicas.

    `leaders` are rack paths. `assignment` has a row of broker ids per partition, preferred leader first. It is empty
    unless the user writes the placement explicitly; then all other fields are empty.
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
    """The desired state of the topic.

    `config` has the configs to manage, as written. `durability` and `reassignment` are None if the RackTopology's
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
        """The configs to manage, with the strings that Kafka accepts as values."""
        return {key: str(value) for key, value in self.config.items()}

    @property
    def own_min_insync(self) -> int | None:
        """The min.insync.replicas in the configs; None if it is absent or not a number."""
        given = self.config_values.get(MIN_INSYNC, "")
        return int(given) if given.isascii() and given.isdigit() else None


class _Names(ApiStruct, frozen=True):
    """The fields of the spec that say which topic the object is about."""

    topology_ref: TopologyRef
    topic_name: str | None = None


class Finding(ApiStruct, frozen=True):
    """A partition that is not compliant: `domain`, a domain of `level`, has `excess` replicas too many."""

    partition: int
    reason: str
    level: str | None = None
    domain: str | None = None
    excess: int | None = None


class ComplianceStatus(ApiStruct, frozen=True):
    """How many of the judged partitions are not compliant, and the minimum number of replicas to copy to fix all.

    `drifted` of them are not compliant only because brokers run in other racks than they report. `pinned` is the number
    of other partitions that follow an explicit assignment, which does not spread them fairly.
    """

    partitions: int
    non_compliant: int
    moves: int | None = None
    samples: tuple[Finding, ...] = ()
    drifted: int | None = None
    pinned: int | None = None


class DomainPlacement(ApiStruct, frozen=True):
    """The number of replicas and of preferred leaders of the topic in a domain."""

    domain: str
    replicas: int
    leaders: int


class PlacementStatus(ApiStruct, frozen=True):
    """The placement of the topic: sums for each domain of the upper levels."""

    domains: tuple[DomainPlacement, ...] = ()


class LevelDurability(ApiStruct, frozen=True):
    """A write acknowledged with acks=all is in at least `domains` of the level. The flags are about the loss of one."""

    level: str
    domains: int
    keeps_writes: bool
    stays_writable: bool


class DurabilityStatus(ApiStruct, frozen=True):
    """The failures that acknowledged writes survive: in a sentence, and by level. The last level is `broker`."""

    message: str
    levels: tuple[LevelDurability, ...] = ()


class KafkaTopicStatus(StatusStruct, frozen=True):
    """What the operator observed and did.

    Build the next status with `msgspec.structs.replace`, and compare the two with `==` before writing. `adopted` means
    that the topic was not created for this object. `creating` means that the operator was about to create the topic, so
    a topic that appears is not adopted; False cancels the annotation CREATED_FOR. Both apply to `cluster_id` only.
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

    @classmethod
    def claim(cls, obj: Mapping[str, Any]) -> Self:
        """Return an object whose spec cannot be read, with the names of that spec and defaults for all else.

        It says only which topic it is about. Raises SpecError if the names cannot be read either.
        """
        names = decode(_Names, obj.get("spec", {}), "spec")
        spec = KafkaTopicSpec(names.topology_ref, partitions=1, replication_factor=1, topic_name=names.topic_name)
        return cls(spec=spec, **cls._all_but_spec(obj))

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
        """The id of a recreated topic that the user has assigned to this object."""
        return self.meta.annotations.get(ADOPT_TOPIC_ID)

    @property
    def was_being_created(self) -> bool:
        """Whether the annotation CREATED_FOR says so, and the status has neither a topic id nor `creating`."""
        uid = self.meta.annotations.get(CREATED_FOR, "").partition("/")[0]
        return uid == self.meta.uid and self.status.topic_id is None and self.status.creating is None

    @property
    def created_in(self) -> str | None:
        """The id of the Kafka cluster in the annotation CREATED_FOR, or None."""
        return self.meta.annotations.get(CREATED_FOR, "").partition("/")[2] or None

    @property
    def confirm_delete(self) -> str | None:
        """The id of an adopted topic that, as the user has confirmed, is deleted with this object."""
        return self.meta.annotations.get(CONFIRM_DELETE)


def requirements_of(spec: KafkaTopicSpec, default_durability: DurabilitySpec) -> TopicRequirements:
    """Return a topic's requirements, with the given default durability."""
    placement = spec.placement
    return TopicRequirements(
        replication_factor=spec.replication_factor,
        partitions=spec.partitions,
        spread=tuple(
            Spread(one.level, one.max_skew, Unsatisfiable(one.when_unsatisfiable)) for one in placement.spread
        ),
        include=placement.brokers.include,
        exclude=placement.brokers.exclude,
        leaders=tuple(split_rack(domain) for domain in placement.leaders),
        assignment=placement.assignment,
        durability=durability_of(spec.durability or default_durability),
        seed=placement.seed,
        start_index=placement.start_index,
        shift=placement.shift,
    )


def durability_of(spec: DurabilitySpec) -> Durability:
    """Return the durability that a spec requests."""
    return Durability(min_domains=spec.min_domains, tolerate=spec.tolerate)
