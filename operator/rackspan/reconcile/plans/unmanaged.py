"""Topics of a topology's cluster without a KafkaTopic, where `spec.unmanagedTopics` says that they are repaired.

They are known by Kafka's names alone (`api.plans.unmanaged_key`), so nothing that a tenant writes approves their parts.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from rackspan.reconcile.runtime.threads import in_planner_thread
from rackspan.reconcile.specs.ownership import declared, refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.plans.topology_plan import TopologyPlan
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.specs.placement import Assignment

_LOOK_SECONDS = 60.0
"""How old what is known of them may be: a look is a Metadata request over all topics."""


def unmanaged_topics(
    topology: RackTopology, topics: Iterable[KafkaTopic], others: Collection[str], replicas: Mapping[str, Assignment]
) -> Mapping[str, Assignment]:
    """Those of all topics that are repaired without a KafkaTopic, by name.

    `topics` are the KafkaTopics that the topology admits; `others` are names that other topologies' KafkaTopics have.
    """
    managed = declared(topology, topics).keys() | set(others)
    return {name: rows for name, rows in replicas.items() if name not in managed and topology.spec.repairs(name)}


class UnmanagedParts:
    """Keeps the plan's topics without a KafkaTopic up to date. Asks Kafka nothing where they are only reported."""

    def __init__(self, key: ObjectKey, cache: Cache, plans: TopologyPlan) -> None:
        self._key = key
        self._cache = cache
        self._plans = plans
        self._due = float("-inf")
        self._epoch: int | None = None
        self._planned = False

    @property
    def is_due(self) -> bool:
        """Whether what Kafka holds has changed, or was not looked at yet."""
        return self._due == float("-inf")

    def look_again(self) -> None:
        """Have the next look not wait for its time: what Kafka holds has changed."""
        self._due = float("-inf")

    async def look(self, state: ClusterState, admin: KafkaAdmin, epoch: int) -> None:
        """Look at them if it is time. Raises FailureError where Kafka does not answer."""
        topology, now = self._cache.topologies.get(self._key), asyncio.get_running_loop().time()
        if topology is None or (self._epoch == epoch and now < self._due):
            return
        found: Mapping[str, Assignment] = {}
        if topology.spec.repairs_unmanaged:
            replicas = await admin.assignments()
            others = self._cache.claimed_by_others(self._key)
            found = await in_planner_thread(
                partial(unmanaged_topics, topology, self._admitted(topology), others, replicas)
            )
        if found or self._planned:
            await self._plans.of_unmanaged(found, state.for_plans)
        self._planned, self._epoch, self._due = bool(found), epoch, now + _LOOK_SECONDS

    def is_unmanaged_still(self, topology: RackTopology, topic: str) -> bool:
        """Whether no KafkaTopic has come for it."""
        rivals = [one for one in self._cache.topics_named(self._key, topic) if self._admits(topology, one)]
        return topic not in declared(topology, rivals)

    def _admitted(self, topology: RackTopology) -> list[KafkaTopic]:
        topics = (self._cache.topics[key] for key in self._cache.topics_of(self._key))
        return [topic for topic in topics if self._admits(topology, topic)]

    def _admits(self, topology: RackTopology, topic: KafkaTopic) -> bool:
        return refusal(topic, topology, self._cache.namespaces) is None
