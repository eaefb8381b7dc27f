"""The observed state of the partitions that a plan changes, and the reasons why they wait."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rackspan.core.partitions import Disk, PartitionState, TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.rack_path import RackPath


def of_change(change: Change) -> TopicPartition:
    """Return the partition that a change applies to."""
    return TopicPartition(change.topic, change.partition)


@dataclass(frozen=True, slots=True)
class Observed:
    """The current state of the cluster as Kafka reports it.

    A partition that is absent does not exist any more. `online` are the brokers that are registered and not fenced;
    `min_insync` is per topic, if known; `sizes` are bytes of one replica. A broker without an entry in `disks` counts
    as having enough space. `recreated` are topics that were deleted and created again under the same name: none of
    their partitions is in `partitions`. `refused` are brokers to which Kafka refuses to move replicas. `cordoned` are
    brokers that take no new replicas for now (KIP-1066). `replaced` are brokers that were cordoned when replica lists
    were requested: their replicas leave in the same step in which others are added.
    """

    partitions: Mapping[TopicPartition, PartitionState]
    online: frozenset[int]
    min_insync: Mapping[str, int] = field(default_factory=dict)
    disks: Mapping[int, Disk] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()
    refused: frozenset[int] = frozenset()
    cordoned: frozenset[int] = frozenset()
    replaced: frozenset[int] = frozenset()


class WaitReason(StrEnum):
    """The reason why a pass does nothing about a partition."""

    LIMIT = "Limit"
    """Other copies use up the limits."""
    BROKER_OFFLINE = "BrokerOffline"
    """A broker that is planned to hold the partition is offline, or the partition has no leader."""
    CORDONED = "Cordoned"
    """A broker that is planned to hold the partition is cordoned, so it takes no new replicas."""
    DISK_OFFLINE = "DiskOffline"
    """The log directory of a broker that has to copy the partition, or may lead it, is offline."""
    DISK_FULL = "DiskFull"
    """A broker that is planned to hold the partition has too little free space."""
    NOT_IN_SYNC = "NotInSync"
    """The next step would leave fewer replicas in sync, or in fewer domains, than there are now and are planned."""
    MIN_INSYNC = "MinInSync"
    """The next step would leave fewer replicas in sync than min.insync.replicas."""
    REASSIGNED_BY_OTHERS = "ReassignedByOthers"
    """A reassignment that another client has started is under way."""
    CHANGED_BY_OTHERS = "ChangedByOthers"
    """Another client has changed the replicas to a list that is not part of the plan: a new plan is needed."""
    GONE = "Gone"
    """The partition has been deleted."""
    RECREATED = "Recreated"
    """The topic was deleted and created again under the same name: the plan does not apply to the new topic."""
    REFUSED = "Refused"
    """Kafka has refused the change several times, or each broker that has yet to copy: a new plan is needed."""
    NOT_TAKEN_BACK = "NotTakenBack"
    """The cancelled plan leaves a new replica or order: replicas that have to be in sync first are offline."""

    @property
    def final(self) -> bool:
        """Whether waiting does not help."""
        return self in (
            WaitReason.CHANGED_BY_OTHERS,
            WaitReason.GONE,
            WaitReason.RECREATED,
            WaitReason.REFUSED,
            WaitReason.NOT_TAKEN_BACK,
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A partition that a pass does nothing about, the reason, and the brokers that it waits for, if any.

    `min_insync` is the highest value that its topic's min.insync.replicas may have, if the config has to be lowered.
    `answer` is the message of Kafka's error, if that is the reason.
    """

    partition: TopicPartition
    reason: WaitReason
    brokers: tuple[int, ...] = ()
    min_insync: int | None = None
    answer: str = ""

    @property
    def details(self) -> str:
        """The details of the reason in brackets, or an empty string if there are none."""
        brokers = [f"broker {', '.join(map(str, self.brokers))}"] if self.brokers else []
        lower = f"lower min.insync.replicas to {self.min_insync}, in spec.config of its KafkaTopic if it has one"
        answer = [self.answer] if self.answer else []
        words = "; ".join([*brokers, *answer, lower] if self.min_insync else [*brokers, *answer])
        return f" ({words})" if words else ""


class Racks:
    """The racks of the brokers, used to count the domains that a set of brokers is in."""

    def __init__(self, racks: Mapping[int, RackPath | None]) -> None:
        self._depth = max((len(rack) for rack in racks.values() if rack), default=0)
        missing = self._depth * ("",)
        self._racks = {broker: ((rack or ()) + missing)[: self._depth] for broker, rack in racks.items()}
        self._unknown = missing

    def spread(self, brokers: Collection[int]) -> tuple[int, ...]:
        """Return the number of domains of the brokers at each level, top first, and then the number of brokers."""
        paths = {self._racks.get(broker, self._unknown) for broker in brokers}
        levels = [len({path[: step + 1] for path in paths}) for step in range(self._depth)]
        return (*levels, len(set(brokers)))

    def domains(self, broker: int) -> tuple[tuple[str | int, ...], ...]:
        """Return the domains of a broker, top first, and the broker as its own domain."""
        path = self._racks.get(broker, self._unknown)
        return (*(path[: step + 1] for step in range(self._depth)), (*path, broker))


class Spread:
    """The number of domains that a set of brokers is in (`Racks.spread`), while single brokers join and leave."""

    def __init__(self, racks: Racks, brokers: Collection[int]) -> None:
        self._racks = racks
        self._held = Counter(domain for broker in brokers for domain in racks.domains(broker))
        self.counts = racks.spread(brokers)

    def with_broker(self, broker: int) -> tuple[int, ...]:
        """Return the spread with another broker."""
        domains = self._racks.domains(broker)
        return tuple(count + (not self._held[one]) for count, one in zip(self.counts, domains, strict=True))

    def without(self, broker: int) -> tuple[int, ...]:
        """Return the spread without one of the brokers."""
        domains = self._racks.domains(broker)
        return tuple(count - (self._held[one] == 1) for count, one in zip(self.counts, domains, strict=True))

    def join(self, broker: int) -> None:
        """Add another broker."""
        self.counts = self.with_broker(broker)
        self._held.update(self._racks.domains(broker))

    def leave(self, broker: int) -> None:
        """Remove one of the brokers."""
        self.counts = self.without(broker)
        self._held.subtract(self._racks.domains(broker))
