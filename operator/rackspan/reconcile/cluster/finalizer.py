"""A RackTopology goes last: after the KafkaTopics whose topics can be deleted only through it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rackspan.api.racktopology import KIND
from rackspan.reconcile.cluster.deletion import in_use, keeping
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.finalizers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.failures import Failure

_log = logging.getLogger("rackspan.reconcile")


class TopologyFinalizer:
    """Keeps the finalizer on one RackTopology while it lives, and takes it off when nobody needs it any more."""

    def __init__(self, key: ObjectKey, dependencies: Dependencies, users: Callable[[], Collection[KafkaTopic]]) -> None:
        self.problem: Failure | None = None
        """Why the RackTopology, which is being deleted, is still there."""
        self._key = key
        self._dependencies = dependencies
        self._users = users

    async def tend(self) -> None:
        """Put the finalizer on or take it off, as it should be; what cannot be written now is written later."""
        try:
            await self._tend()
        except FailureError as error:
            _log.warning("topology %s: its finalizer waits: %s", self._key, error)

    async def _tend(self) -> None:
        topology = self._dependencies.cache.topologies.get(self._key)
        if topology is None:
            return
        written = None
        if not topology.meta.is_deleting:
            self.problem = None
            if not has_finalizer(topology.meta):
                written = await self._dependencies.finalizers.add(KIND, topology.meta)
        elif has_finalizer(topology.meta):
            keys: Collection[ObjectKey] = ()
            if users := self._users():
                around = await self._dependencies.kube.terminating({self._key.namespace})
                keys = keeping(topology, users, around)
            self.problem = in_use(tuple(keys)) if keys else None
            if not keys:
                written = await self._dependencies.finalizers.remove(KIND, topology.meta)
        if written is not None:
            self._dependencies.cache.put_topology_answer(written)
