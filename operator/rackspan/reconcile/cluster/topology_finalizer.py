"""Keeps a RackTopology until the topics are gone that can be deleted only through it, and its cordons are released."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rackspan.api.racktopology import KIND
from rackspan.api.reasons import Reason
from rackspan.reconcile.cluster.broker_events import broker_list
from rackspan.reconcile.cluster.topology_deletion import blocking_topics, in_use_failure
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.failures import Failure

_log = logging.getLogger("rackspan.reconcile")


class TopologyFinalizer:
    """The finalizer of one RackTopology: added while it exists, removed once no KafkaTopic blocks its deletion.

    `dependents()` gives the KafkaTopics whose topics are to be deleted with them, `cordoned()` the brokers that the
    operator has cordoned, and `releases()` whether they can still be released.
    """

    def __init__(
        self,
        key: ObjectKey,
        dependencies: Dependencies,
        dependents: Callable[[], Collection[KafkaTopic]],
        cordoned: Callable[[RackTopology], Collection[int]],
        releases: Callable[[RackTopology], bool],
    ) -> None:
        self.problem: Failure | None = None
        """What blocks the deletion of the RackTopology; None where nothing does or it is not being deleted."""
        self._key = key
        self._dependencies = dependencies
        self._dependents = dependents
        self._cordoned = cordoned
        self._releases = releases

    async def reconcile(self) -> None:
        """Add or remove the finalizer as needed. Never raises: a failed write is logged and tried again next time."""
        try:
            await self._reconcile()
        except FailureError as error:
            _log.warning("topology %s: its finalizer waits: %s", self._key, error)

    async def _reconcile(self) -> None:
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
            if dependents := self._dependents():
                terminating = await self._dependencies.kube.terminating({self._key.namespace})
                keys = blocking_topics(topology, dependents, terminating)
            self.problem = in_use_failure(tuple(keys)) if keys else None
            if not keys and not self._releases(topology):
                written = await self._dependencies.finalizers.remove(KIND, topology.meta)
                self._tell_cordons(topology)
        if written is not None:
            self._dependencies.cache.put_topology_answer(written)

    def _tell_cordons(self, topology: RackTopology) -> None:
        """Say which cordons stay, since nobody knows of them any more."""
        left = sorted(self._cordoned(topology))
        if left:
            message = (
                f"the cordon of {broker_list(left)} is left in Kafka, which could not be asked to release it: delete "
                "the config cordoned.log.dirs there with kafka-configs.sh --entity-type brokers"
            )
            about = ObjectRef(KIND, topology.key, topology.meta.uid)
            self._dependencies.kube.record_event(KubernetesEvent(about, Reason.CORDONS_LEFT, message, warning=True))
            _log.warning("topology %s: %s", self._key, message)
