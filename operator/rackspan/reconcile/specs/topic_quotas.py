"""How much the KafkaTopics of one namespace may have in Kafka: what would exceed it waits.

It follows from the objects alone, so that a restart changes nothing: what Kafka holds counts first, whoever has it. The
rest is given to the oldest first, to each all that it asks for or nothing. Nothing is taken away that Kafka holds.
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
"""How many times as long as finding who fits took, in CPU time, the topics of a namespace wait for the next time."""


class Use(NamedTuple):
    """Topics, partitions and replicas in Kafka."""

    topics: int = 0
    partitions: int = 0
    replicas: int = 0

    def plus(self, other: Use) -> Use:
        """The sum of both."""
        return Use(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def above(self, other: Use) -> Use:
        """What this is more than another one, by each of the three."""
        return Use(max(self[0] - other[0], 0), max(self[1] - other[1], 0), max(self[2] - other[2], 0))

    def __str__(self) -> str:
        counts = zip(self, ("topic", "partition", "replica"), strict=True)
        return ", ".join(plural(count, word) for count, word in counts if count) or "nothing"


NOTHING: Final = Use()


class Excess(NamedTuple):
    """What a topic asks for above the quota: so much more, beside what its namespace has or older topics ask for."""

    growth: Use
    used: Use
    limit: Use

    def failure(self, topic: KafkaTopic) -> Failure:
        """The same for the topic's conditions."""
        return Failure(
            Reason.QUOTA_EXCEEDED,
            f"topic {topic.topic_name} asks for {self.growth} more; namespace {topic.meta.namespace} has {self.used} "
            f"in topology {topic.topology} with what older topics ask for, and may have {self.limit} (its "
            "spec.allowedNamespaces.quota): ask for less, delete topics, or have the quota raised",
            Remedy.SPEC,
        )


class Demand(NamedTuple):
    """One KafkaTopic: what it asks for, and what Kafka holds for it or is about to hold."""

    topic: KafkaTopic
    key: ObjectKey
    age: tuple[str, str]
    asked: Use
    held: Use

    @classmethod
    def of(cls, topic: KafkaTopic) -> Demand:
        """By the object alone. A topic that the operator has recorded it is about to create counts as created."""
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
    """Which KafkaTopics may not get all that they ask for; `demands` are all of their namespaces.

    `taking` is what is being made in Kafka now. Those that are `refused` for another reason ask for nothing.
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
    """Whether none of the three that grow would be above the limit."""
    return all(not grows or now <= most for grows, now, most in zip(growth, then, limit, strict=True))


class Quotas:
    """The quotas of the namespaces that use one topology. Belongs to the event loop."""

    def __init__(self, topology: ObjectKey, cache: Cache) -> None:
        self._topology = topology
        self._cache = cache
        self._taking: dict[ObjectKey, Use] = {}
        """What is being made in Kafka for KafkaTopics whose statuses do not show it yet."""
        self._waiting: defaultdict[str, dict[ObjectKey, bool]] = defaultdict(dict)
        """Of the topics that were looked at, which were above the quota then, by namespace."""
        self._demands: dict[ObjectKey, Demand] = {}
        self._rested_at: dict[str, float] = {}
        """When namespaces have rested, by the event loop's clock."""

    def of(self, keys: Iterable[ObjectKey]) -> Mapping[ObjectKey, Excess]:
        """Which KafkaTopics of the namespaces of these may not get what they ask for."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None:
            return {}
        namespaces = {key.namespace for key in keys} - {self._topology.namespace}
        topics = (topic for name in namespaces for topic in self._cache.topics_from(self._topology, name))
        return above_quotas(topology, map(self._demand, topics), self._taking, refusals(self._cache))

    def _demand(self, topic: KafkaTopic) -> Demand:
        """Made once for each version of an object: one namespace may have ten thousands of them."""
        demand = self._demands.get(topic.key)
        if demand is None or demand.topic is not topic:
            demand = self._demands[topic.key] = Demand.of(topic)
        return demand

    def rest(self, namespace: str) -> float:
        """Seconds until a namespace may be looked at again: the more objects it has, the longer it rests."""
        return self._rested_at.get(namespace, 0.0) - asyncio.get_running_loop().time()

    def take(self, topics: Collection[KafkaTopic]) -> Mapping[ObjectKey, Failure]:
        """Why some of these, which are looked at, may not. What the others ask for is theirs until `release`."""
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
        """These have been looked at. Gives topics of their namespaces of which something else holds by now."""
        for key in keys:
            self._taking.pop(key, None)
        now = self.of(keys)
        namespaces = {key.namespace for key in keys}
        waiting = [one for name in namespaces for one in self._waiting.get(name, {}).items()]
        return [key for key, waits in waiting if waits != (key in now)]

    def forget(self, key: ObjectKey) -> Collection[ObjectKey]:
        """Drop a KafkaTopic that is gone. Gives one of its namespace to look at: others that wait follow from it."""
        self._taking.pop(key, None)
        self._demands.pop(key, None)
        waiting = self._waiting.get(key.namespace, {})
        waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(key.namespace, None)
            self._rested_at.pop(key.namespace, None)
        return [one for one, waits in waiting.items() if waits][:1]
