"""KafkaTopics that refer to a RackTopology that does not exist: one queue and few workers for all of them.

Users can refer to any number of topologies that do not exist, so each must not cost a control loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin

_WORKERS = 2


class NoTopology:
    """The observer for these topics: without a topology there is no Kafka cluster to observe."""

    state: ClusterState | Failure = Failure(Reason.TOPOLOGY_NOT_FOUND, "there is no such RackTopology", Remedy.SPEC)
    admin: KafkaAdmin | None = None
    epoch = 0
    out_of_sight: float | None = None

    def wake(self) -> None:
        """Do nothing: there is no loop to wake."""


class Orphans:
    """Reconciles topics without a topology. `found` is called where the topology was created during that."""

    def __init__(self, dependencies: Dependencies, found: Callable[[KafkaTopic], None]) -> None:
        self._cache = dependencies.cache
        self._topics = TopicsReconciler(None, NoTopology(), dependencies, _nothing)
        self._found = found
        self._liveness = dependencies.liveness

    def add(self, keys: Iterable[ObjectKey]) -> None:
        """Queue topics: they changed, or their topology was deleted."""
        self._topics.add(keys)

    def drop(self, key: ObjectKey) -> None:
        """Remove a topic: it was deleted, or its topology exists now."""
        self._topics.drop(key)

    async def run(self) -> None:
        """Run the workers until cancelled."""
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
    """Do nothing: there is no RackTopology whose status could be updated."""
