"""What Kafka holds of partitions and brokers: replicas, disks and dynamic configs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

MOST_BYTES = 2**57
"""Of all replicas that a broker's answers or a file tell at once, 128 PiB: no cluster has more, and sums of up to 63 of
them fit into 64 bits. Where it is exceeded no size is known."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def largest(sizes: Mapping[tuple[TopicPartition, int], int]) -> Mapping[TopicPartition, int]:
    """The size of each partition in bytes, by those of its replicas, `sizes[partition, broker]`."""
    found: dict[TopicPartition, int] = {}
    for (partition, _), size in sizes.items():
        found[partition] = max(size, found.get(partition, 0))
    return found


def present_replicas(replicas: Sequence[int], adding: Collection[int]) -> tuple[int, ...]:
    """
    The replicas that a partition has, without those that a reassignment is adding to it.

    While it is under way, Kafka lists both; these are left if it is cancelled (KIP-455).
    """
    return tuple(broker for broker in replicas if broker not in adding)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """
    A partition in Kafka: its replicas with the preferred leader first, its ISR, and its leader if it has one.

    While a reassignment is under way, `adding` and `removing` (KIP-455) are those of its `replicas` that are to come
    and to go. `offline` are those of its replicas whose disk, or whose broker, is away. `topic_id` is None where the
    broker does not report it.
    """

    replicas: tuple[int, ...]
    in_sync: frozenset[int]
    leader: int | None
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    offline: frozenset[int] = frozenset()
    topic_id: str | None = None

    @property
    def under_way(self) -> bool:
        """Whether Kafka is reassigning it."""
        return bool(self.adding or self.removing)

    @property
    def replication_factor(self) -> int:
        """The number of replicas, as Kafka counts it: replicas that are being added are left out (KIP-860)."""
        return len(set(present_replicas(self.replicas, self.adding)))

    @property
    def heading_for(self) -> frozenset[int]:
        """The brokers that hold it once the reassignment under way is complete."""
        return frozenset(self.replicas) - self.removing


@dataclass(frozen=True, slots=True)
class InSync:
    """A partition's replicas and those of them that are in sync (its ISR), as broker ids."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


@dataclass(frozen=True, slots=True)
class Disk:
    """A broker's log directories: bytes in all, and bytes that are free where least is (KIP-827)."""

    total: int
    usable: int
    lost: int = 0
    """How many of them are offline."""


class SettingKind(StrEnum):
    """What a dynamic config belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class Setting(NamedTuple):
    """A dynamic config: of a broker by its id, or of a topic by its name."""

    kind: SettingKind
    name: str
    key: str


class ListOperation(StrEnum):
    """What is done with names of a setting that is a list."""

    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True)
class ListChange:
    """Names, separated by commas, that a list gets or loses; the controller leaves all others on it as they are."""

    operation: ListOperation
    names: str


SettingChange: TypeAlias = str | ListChange | None
"""What becomes of a setting: a value, a change of its list, or None where it is deleted."""
