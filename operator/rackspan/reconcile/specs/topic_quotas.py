"""The quotas of namespaces: how much their KafkaTopics may have in Kafka. What would exceed a quota waits.

The result depends on the objects alone, so that a restart changes nothing. What exists in Kafka counts first, whichever
object has it. The rest is given to the oldest objects first. Each object gets everything that it requests, or nothing.
Nothing that exists in Kafka is taken away.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from rackspan.api.reasons import Reason
from rackspan.core.text import plural
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.specs.ownership import refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import Cache


_REST = 20
"""The pause of a namespace's topics after a quota check, as a multiple of the check's CPU time."""


class Use(NamedTuple):
    """The numbers of topics, partitions and replicas in Kafka."""

    topics: int = 0
    partitions: int = 0
    replicas: int = 0

    def plus(self, other: Use) -> Use:
        """Return the sum of both."""
        return Use(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def above(self, other: Use) -> Use:
        """Return by how much each of the three numbers exceeds the other's, 0 if it does not."""
        return Use(max(self[0] - other[0], 0), max(self[1] - other[1], 0), max(self[2] - other[2], 0))

    def __str__(self) -> str:
        counts = zip(self, ("topic", "partition", "replica"), strict=True)
        return ", ".join(plural(count, word) for count, word in counts if count) or "nothing"


NOTHING: Final = Use()


class Excess(NamedTuple):
    """A topic's request above the quota: its `growth`, and what its namespace has or older topics request (`used`)."""

    growth: Use
    used: Use
    limit: Use

    def failure(self, topic: KafkaTopic) -> Failure:
        """Return the excess as a failure for the topic's conditions."""
        return Failure(
            Reason.QUOTA_EXCEEDED,
            f"topic {topic.topic_name} asks for {self.growth} more; namespace {topic.meta.namespace} has {self.used} "
            f"in topology {topic.topology} with what older topics ask for, and may have {self.limit} (its "
            "spec.allowedNamespaces.quota): ask for less, delete topics, or have the quota raised",
            Remedy.SPEC,
        )


class Demand(NamedTuple):
    """One KafkaTopic: what it requests, and what it has in Kafka or is about to have."""

    topic: KafkaTopic
    key: ObjectKey
    age: tuple[str, str]
    asked: Use
    held: Use

    @classmethod
    def of(cls, topic: KafkaTopic) -> Demand:
        """Return the demand of an object. A topic recorded as about to be created counts as created."""
        spec, status = topic.spec, topic.status
        asked = Use(1, spec.partitions, spec.partitions * spec.replication_factor)
        if status.partitions is None:
            held = asked if status.creating else NOTHING
        else:
            held = Use(1, status.partitions, status.partitions * (status.replication_factor or 0))
        return cls(topic, topic.key, topic.meta.age, asked, held)


def above_quotas(
    topology: RackTopology,
    demands: Iterable[Demand],
    taking: Mapping[ObjectKey, Use] = MappingProxyType({}),
    refused: Callable[[KafkaTopic], Failure | None] = lambda _: None,
) -> Mapping[ObjectKey, Excess]:
    """Return the KafkaTopics that may not get everything that they request. `demands` has all of their namespaces.

    `taking` is what is being created in Kafka now. KafkaTopics that are `refused` for another reason request nothing.
    """
    by_namespace: defaultdict[str, list[Demand]] = defaultdict(list)
    for demand in demands:
        by_namespace[demand.key.namespace].append(demand)
    by_namespace.pop(topology.meta.namespace, None)
    quota = topology.spec.allowed_namespaces.quota
    limit = Use(quota.topics, quota.partitions, quota.replicas)
    found = (_above_quota(some, limit, taking, refused) for some in by_namespace.values())
    return {key: excess for one in found for key, excess in one.items()}


def _above_quota(
    demands: Iterable[Demand],
    limit: Use,
    taking: Mapping[ObjectKey, Use],
    refused: Callable[[KafkaTopic], Failure | None],
) -> Mapping[ObjectKey, Excess]:
    used, growing = NOTHING, []
    for demand in demands:
        _, key, _, asked, held = demand
        if key in taking:
            held = held.plus(taking[key].above(held))
        if held is not NOTHING:
            used = used.plus(held)
        growth = asked.above(held) if held is not NOTHING else asked
        if growth != NOTHING and not demand.topic.meta.is_deleting:
            growing.append((demand, growth))
    everything = NOTHING
    for _, growth in growing:
        everything = everything.plus(growth)
    found: dict[ObjectKey, Excess] = {}
    if _fits(used.plus(everything), limit, everything):
        return found
    growing.sort(key=lambda one: one[0].age)
    for demand, growth in growing:
        if (growth[0] and used[0] >= limit[0]) or not _fits(used.plus(growth), limit, growth):
            found[demand.key] = Excess(growth, used, limit)
        elif refused(demand.topic) is None:
            used = used.plus(growth)
    return found


def _fits(then: Use, limit: Use, growth: Use) -> bool:
    """Return whether none of the three numbers that grow would exceed the limit."""
    return all(not grows or now <= most for grows, now, most in zip(growth, then, limit, strict=True))


class Quotas:
    """The quotas of the namespaces that use one topology. Belongs to the event loop."""

    def __init__(self, topology: ObjectKey, cache: Cache) -> None:
        self._topology = topology
        self._cache = cache
        self._taking: dict[ObjectKey, Use] = {}
        """What is being created in Kafka for KafkaTopics whose statuses do not show it yet."""
        self._waiting: defaultdict[str, dict[ObjectKey, bool]] = defaultdict(dict)
        """Whether each checked topic was above the quota at its last check, by namespace."""
        self._demands: dict[ObjectKey, Demand] = {}
        self._rested_at: dict[str, float] = {}
        """When each namespace may be checked again, by the event loop's clock."""

    def of(self, keys: Iterable[ObjectKey]) -> Mapping[ObjectKey, Excess]:
        """Return the KafkaTopics in the namespaces of these keys that may not get everything that they request."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None:
            return {}
        namespaces = {key.namespace for key in keys} - {self._topology.namespace}
        topics = (topic for name in namespaces for topic in self._cache.topics_from(self._topology, name))
        return above_quotas(topology, map(self._demand, topics), self._taking, refusals(self._cache))

    def _demand(self, topic: KafkaTopic) -> Demand:
        """Return the demand, computed once per version of an object: a namespace may have tens of thousands."""
        demand = self._demands.get(topic.key)
        if demand is None or demand.topic is not topic:
            demand = self._demands[topic.key] = Demand.of(topic)
        return demand

    def rest(self, namespace: str) -> float:
        """Return the seconds until a namespace may be checked again: the more objects, the longer."""
        return self._rested_at.get(namespace, 0.0) - asyncio.get_running_loop().time()

    def take(self, topics: Collection[KafkaTopic]) -> Mapping[ObjectKey, Failure]:
        """Return why some topics exceed the quota. The others reserve what they request until `release`."""
        bounded = [topic for topic in topics if topic.meta.namespace != self._topology.namespace]
        found: dict[ObjectKey, Excess] = {}
        for name, key in {topic.meta.namespace: topic.key for topic in bounded}.items():
            began = time.thread_time()
            found |= self.of([key])
            rest = _REST * (time.thread_time() - began)
            self._rested_at[name] = asyncio.get_running_loop().time() + rest
        for topic in bounded:
            self._waiting[topic.meta.namespace][topic.key] = topic.key in found
            if topic.key not in found:
                replicas = topic.status.replication_factor or topic.spec.replication_factor
                self._taking[topic.key] = Use(1, topic.spec.partitions, topic.spec.partitions * replicas)
        return {topic.key: found[topic.key].failure(topic) for topic in bounded if topic.key in found}

    def release(self, keys: Collection[ObjectKey]) -> Collection[ObjectKey]:
        """End the reservations of these keys. Return topics of their namespaces whose quota result has changed."""
        for key in keys:
            self._taking.pop(key, None)
        now = self.of(keys)
        namespaces = {key.namespace for key in keys}
        waiting = [one for name in namespaces for one in self._waiting.get(name, {}).items()]
        return [key for key, waits in waiting if waits != (key in now)]

    def forget(self, key: ObjectKey) -> Collection[ObjectKey]:
        """Drop a deleted KafkaTopic. Return one waiting topic of its namespace: its `release` returns the others."""
        self._taking.pop(key, None)
        self._demands.pop(key, None)
        waiting = self._waiting.get(key.namespace, {})
        waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(key.namespace, None)
            self._rested_at.pop(key.namespace, None)
        return [one for one, waits in waiting.items() if waits][:1]
