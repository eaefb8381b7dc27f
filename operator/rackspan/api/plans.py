"""The plan in a status, which would bring topics to their specs: its certificate, and a few samples."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from rackspan.api.codec import ApiStruct
from rackspan.api.meta import ObjectKey

MAX_PLAN_SAMPLES: Final = 5
"""Samples of a plan that fit into a status. `rackspan plan --topology` prints the whole plan."""


MAX_PLAN_NAMESPACES: Final = 50
"""Namespaces whose parts of a plan are listed one by one in a status."""
MAX_APPROVED: Final = 100
"""Hashes that one approval may have."""


class PartitionChange(ApiStruct, frozen=True):
    """The replicas of one partition now and after the plan, the preferred leader first."""

    partition: int
    from_: tuple[int, ...]
    replicas: tuple[int, ...]


class TopicPlanStatus(ApiStruct, frozen=True):
    """The plan of one topic: replicas to copy, the minimum that any plan has to copy, and the other changes.

    `removals` is the number of replicas that are removed without a copy, also in the sums below; None for none.
    `reassignment` is the name of the Reassignment that this plan has begun as, or None if it has not begun.
    """

    hash: str
    moves: int
    lower_bound: int
    reorders: int
    partitions: int
    bytes: int | None = None
    removals: int | None = None
    reassignment: str | None = None
    samples: tuple[PartitionChange, ...] = ()


class PlannedTopic(ApiStruct, frozen=True):
    """A KafkaTopic, or the name of a topic without a KafkaTopic, and the number of replicas that its plan copies."""

    topic: str
    hash: str
    moves: int
    removals: int | None = None


class PlannedNamespace(ApiStruct, frozen=True):
    """The parts of one namespace's KafkaTopics, with their own hash. `namespace` is None for unmanaged topics."""

    hash: str
    topics: int
    moves: int
    namespace: str | None = None
    removals: int | None = None


class TopologyPlanStatus(ApiStruct, frozen=True):
    """The sums of the plans of all topics of a topology. `samples` are the topics whose plans copy the most.

    `unmanaged` of the topics have no KafkaTopic. `namespaces` is empty if there is only one namespace.
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
    """Return the key of an unmanaged topic's part. It has no namespace, so it differs from keys of tenants' objects."""
    return ObjectKey("", topic)


def is_unmanaged(key: ObjectKey) -> bool:
    """Return whether a part belongs to an unmanaged topic, which has no KafkaTopic."""
    return not key.namespace


def part_name(key: ObjectKey) -> str:
    """Return the KafkaTopic of a part as `namespace/name`, or the name of an unmanaged topic."""
    return key.name if is_unmanaged(key) else str(key)


def topology_hash(hashes: Mapping[str, str]) -> str:
    """Return the hash of a topology's plan from the hashes of its topics' plans by `namespace/name`, at least one."""
    digest = sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    return digest[: len(next(iter(hashes.values())))]
