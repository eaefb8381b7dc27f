"""What is seen of partitions that a plan changes, and what limits its moves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rackspan.core.partitions import Disk, PartitionState, TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.rack_path import RackPath


def of_change(change: Change) -> TopicPartition:
    """Name the partition that a change is about."""
    return TopicPartition(change.topic, change.partition)


@dataclass(frozen=True, slots=True)
class Observed:
    """
    What Kafka says now.

    A partition that is absent does not exist any more. `online` are the brokers that are registered and not fenced;
    `min_insync` is per topic, as far as it is known; `sizes` are bytes of one replica. A broker without an entry in
    `disks` is taken to have room. `recreated` are topics that were deleted and created again under the same name: none
    of their partitions is in `partitions`. `refused` are brokers to which Kafka refuses to move replicas,
    `cordoned` those that take no new ones for the time being (KIP-1066), and `replaced` those that were cordoned when
    replica lists were asked for: their replicas leave in the same step as others come.
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
    """Why nothing is done about a partition in a pass."""

    LIMIT = "Limit"
    """Other copies are under way."""
    BROKER_OFFLINE = "BrokerOffline"
    """A broker that shall hold it is away, or it has no leader."""
    CORDONED = "Cordoned"
    """A broker that shall hold it is cordoned, so that it takes nothing new."""
    DISK_OFFLINE = "DiskOffline"
    """The log directory of a broker that is to copy it is offline."""
    DISK_FULL = "DiskFull"
    """A broker that shall hold it has too little room."""
    NOT_IN_SYNC = "NotInSync"
    """To go on would leave it in fewer domains, or with fewer replicas in sync, than it has and shall have."""
    MIN_INSYNC = "MinInSync"
    """To go on would leave it with fewer replicas in sync than min.insync.replicas."""
    REASSIGNED_BY_OTHERS = "ReassignedByOthers"
    """A reassignment that somebody else has started is under way."""
    CHANGED_BY_OTHERS = "ChangedByOthers"
    """Somebody else has given it replicas that are no part of the plan: a new plan is needed."""
    GONE = "Gone"
    """It has been deleted."""
    RECREATED = "Recreated"
    """Its topic was deleted and created again under the same name: another topic, which is left alone."""
    REFUSED = "Refused"
    """Kafka has refused it several times, or every broker that is still to take it: a new plan is needed."""
    NOT_TAKEN_BACK = "NotTakenBack"
    """It keeps a new replica, or another order, where a plan is cancelled: what has to be in sync first is away."""

    @property
    def final(self) -> bool:
        """Whether no waiting will help."""
        return self in (
            WaitReason.CHANGED_BY_OTHERS,
            WaitReason.GONE,
            WaitReason.RECREATED,
            WaitReason.REFUSED,
            WaitReason.NOT_TAKEN_BACK,
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """
    A partition that nothing is done about now, why, and the brokers that it waits for, if any.

    `min_insync` is the most that its topic's min.insync.replicas may be, where it is above that and has to be lowered.
    `answer` is what Kafka said, where that is the reason.
    """

    partition: TopicPartition
    reason: WaitReason
    brokers: tuple[int, ...] = ()
    min_insync: int | None = None
    answer: str = ""

    @property
    def details(self) -> str:
        """What it waits for besides the reason, in brackets; empty where there is no more to say."""
        brokers = [f"broker {', '.join(map(str, self.brokers))}"] if self.brokers else []
        lower = f"lower min.insync.replicas to {self.min_insync}, in spec.config of its KafkaTopic if it has one"
        answer = [self.answer] if self.answer else []
        words = "; ".join([*brokers, *answer, lower] if self.min_insync else [*brokers, *answer])
        return f" ({words})" if words else ""


class Racks:
    """Where brokers stand, to count the domains that some of them are in."""

    def __init__(self, racks: Mapping[int, RackPath | None]) -> None:
        self._depth = max((len(rack) for rack in racks.values() if rack), default=0)
        missing = self._depth * ("",)
        self._racks = {broker: ((rack or ()) + missing)[: self._depth] for broker, rack in racks.items()}
        self._unknown = missing

    def spread(self, brokers: Collection[int]) -> tuple[int, ...]:
        """Count the domains of each level, top first, that the brokers are in; the last number are the brokers."""
        paths = {self._racks.get(broker, self._unknown) for broker in brokers}
        levels = [len({path[: step + 1] for path in paths}) for step in range(self._depth)]
        return (*levels, len(set(brokers)))
