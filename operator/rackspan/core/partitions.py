"""The state of partitions and brokers in Kafka: replicas, disks and dynamic configs."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeGuard

MOST_BYTES = 2**57
"""The largest plausible sum of replica sizes in one set of broker responses or one file: 128 PiB. No cluster has more,
and sums of up to 63 such values fit into 64 bits. If a sum exceeds the limit, all its sizes count as unknown."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(value: object) -> TypeGuard[str]:
    """Return whether Kafka accepts the value as the name of a topic (`Topic.validate` of its clients)."""
    return isinstance(value, str) and _TOPIC_NAME.fullmatch(value) is not None and value not in (".", "..")


class TopicPartition(NamedTuple):
    """A partition, identified by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def largest(sizes: Mapping[tuple[TopicPartition, int], int]) -> Mapping[TopicPartition, int]:
    """Return the size of the largest replica of each partition in bytes, from `sizes[partition, broker]`."""
    found: dict[TopicPartition, int] = {}
    for (partition, _), size in sizes.items():
        found[partition] = max(size, found.get(partition, 0))
    return found


class ReassignedReplicas(NamedTuple):
    """The brokers that the reassignment of a partition adds to its replicas, and those that it removes (KIP-455)."""

    adding: frozenset[int]
    removing: frozenset[int]


def present_replicas(replicas: Sequence[int], adding: Collection[int]) -> tuple[int, ...]:
    """Return the replicas of a partition without those that a reassignment is adding.

    During a reassignment Kafka lists both. The returned replicas remain if the reassignment is cancelled (KIP-455).
    """
    return tuple(broker for broker in replicas if broker not in adding)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition in Kafka: its replicas with the preferred leader first, its ISR, and its leader if it has one.

    During a reassignment, `adding` and `removing` (KIP-455) are the `replicas` that Kafka is adding and removing.
    `offline` are the replicas whose disk or broker is offline. `topic_id` is None if the broker does not report it.
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
        """Whether Kafka is reassigning the partition."""
        return bool(self.adding or self.removing)

    @property
    def replication_factor(self) -> int:
        """The number of replicas as Kafka counts them: without replicas that are being added (KIP-860)."""
        return len(set(present_replicas(self.replicas, self.adding)))

    @property
    def heading_for(self) -> frozenset[int]:
        """The brokers that hold the partition after the reassignment under way is complete."""
        return frozenset(self.replicas) - self.removing


@dataclass(frozen=True, slots=True)
class InSync:
    """The replicas of a partition and its ISR, as broker ids."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


@dataclass(frozen=True, slots=True)
class Disk:
    """The log directories of a broker: total bytes, and the free bytes of the fullest directory (KIP-827)."""

    total: int
    usable: int
    lost: int = 0
    """The number of log directories that are offline."""


class SettingKind(StrEnum):
    """The kind of resource that a dynamic config belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class Setting(NamedTuple):
    """A dynamic config of a broker (`name` is its id) or of a topic (`name` is its name)."""

    kind: SettingKind
    name: str
    key: str


class ListOperation(StrEnum):
    """The operation on a setting whose value is a list."""

    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True)
class ListChange:
    """Comma-separated names to append to a list or to remove; the controller leaves all other entries unchanged."""

    operation: ListOperation
    names: str


SettingChange: TypeAlias = str | ListChange | None
"""The change of a setting: a new value, a change of its list, or None to delete the setting."""
