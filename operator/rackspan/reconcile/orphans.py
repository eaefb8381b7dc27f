"""KafkaTopics that name a RackTopology that is not there: one queue and few workers for all of them together.

Anybody may make up names of topologies. A loop for each would let a namespace spend the operator's memory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topics.reconciler import TopicsReconciler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin

_WORKERS = 2


class NoTopology:
    """The outlook where there is no topology, and so no way to any Kafka."""

    state: ClusterState | Failure = Failure(Reason.TOPOLOGY_NOT_FOUND, "there is no such RackTopology", Remedy.SPEC)
    admin: KafkaAdmin | None = None
    epoch = 0

    def wake(self) -> None:
        """Nothing is asked here."""


class Orphans:
    """`found` is called for a topic whose topology has come while it was worked on here."""

    def __init__(self, dependencies: Dependencies, found: Callable[[KafkaTopic], None]) -> None:
        self._cache = dependencies.cache
        self._topics = TopicsReconciler(None, NoTopology(), dependencies, _nothing)
        self._found = found
        self._liveness = dependencies.liveness

    def add(self, keys: Iterable[ObjectKey]) -> None:
        """These changed, or their topology went."""
        self._topics.add(keys)

    def drop(self, key: ObjectKey) -> None:
        """It is no more, or its topology is there now."""
        self._topics.drop(key)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            keys = await self._topics.take()
            with self._liveness.track("batch of topics without a topology"):
                await self._topics.process(keys)
            for key in keys:
                topic = self._cache.topics.get(key)
                if topic is not None and topic.topology in self._cache.topologies:
                    self._topics.drop(key)
                    self._found(topic)


async def _nothing() -> None:
    """There is no RackTopology whose status could be written."""
