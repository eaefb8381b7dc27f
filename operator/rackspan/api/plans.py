"""What a status says about the plan that would bring topics to what is asked: the certificate, and a few samples."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from rackspan.api.codec import ApiStruct
from rackspan.api.meta import ObjectKey

MAX_PLAN_SAMPLES: Final = 5
"""Samples of a plan that fit into a status. `rackspan plan --topology` prints all of it."""


MAX_PLAN_NAMESPACES: Final = 50
"""Namespaces whose parts of a plan are listed one by one in a status."""
MAX_APPROVED: Final = 100
"""Hashes that one approval may name."""


class PartitionChange(ApiStruct, frozen=True):
    """The replicas of one partition now and by the plan, the preferred leader first."""

    partition: int
    from_: tuple[int, ...]
    replicas: tuple[int, ...]


class TopicPlanStatus(ApiStruct, frozen=True):
    """The plan of one topic: replicas to copy, the fewest that any plan could copy, and what else changes.

    `removals` are the replicas by which partitions shrink, here as in the sums below; None for none.
    """

    hash: str
    moves: int
    lower_bound: int
    reorders: int
    partitions: int
    bytes: int | None = None
    removals: int | None = None
    samples: tuple[PartitionChange, ...] = ()


class PlannedTopic(ApiStruct, frozen=True):
    """A KafkaTopic, or the name of a topic without one, and the replicas that its plan copies."""

    topic: str
    hash: str
    moves: int
    removals: int | None = None


class PlannedNamespace(ApiStruct, frozen=True):
    """The parts of one namespace's KafkaTopics, with a hash of their own; None for topics without a KafkaTopic."""

    hash: str
    topics: int
    moves: int
    namespace: str | None = None
    removals: int | None = None


class TopologyPlanStatus(ApiStruct, frozen=True):
    """The plans of all topics of a topology in sums; the samples are those that copy the most.

    `unmanaged` of the topics have no KafkaTopic. `namespaces` is empty where there is only one.
    """

    hash: str
    topics: int
    moves: int
    lower_bound: int
    reorders: int
    partitions: int
    bytes: int | None = None
    removals: int | None = None
    unmanaged: int | None = None
    namespaces: tuple[PlannedNamespace, ...] = ()
    samples: tuple[PlannedTopic, ...] = ()


def unmanaged_key(topic: str) -> ObjectKey:
    """The key of the part of a topic without a KafkaTopic. It has no namespace, so no tenant's object has the same."""
    return ObjectKey("", topic)


def is_unmanaged(key: ObjectKey) -> bool:
    """Whether a part is of a topic without a KafkaTopic."""
    return not key.namespace


def part_name(key: ObjectKey) -> str:
    """The KafkaTopic of a part as `namespace/name`, or the name of a topic without one."""
    return key.name if is_unmanaged(key) else str(key)


def topology_hash(hashes: Mapping[str, str]) -> str:
    """The hash of a topology's plan, from those of its topics' plans by `namespace/name`; there is one at least."""
    digest = sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    return digest[: len(next(iter(hashes.values())))]
