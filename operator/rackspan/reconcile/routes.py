"""RackTopologies: each has a loop, and wakes the loops over all topologies that what changed concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.api.labels import CONFIRM_DELETIONS, RESTART, SCAN_NOW
from rackspan.reconcile.scans.scan_decision import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.racks.annotate import AnnotationsReconciler
    from rackspan.reconcile.racks.publish import RacksReconciler
    from rackspan.reconcile.racks.restart import RestartsReconciler
    from rackspan.reconcile.reassignments.reconciler import ReassignmentsReconciler
    from rackspan.reconcile.scans.scan_reconciler import ScansReconciler
    from rackspan.reconcile.topology_loops import TopologyLoops


class TopologyHandler:
    """Implements `ResourceHandler`. What a loop was woken for is remembered, so that statuses wake none."""

    def __init__(
        self,
        cache: Cache,
        loops: TopologyLoops,
        scans: ScansReconciler,
        racks: RacksReconciler,
        annotations: AnnotationsReconciler,
        restarts: RestartsReconciler,
        reassignments: ReassignmentsReconciler,
    ) -> None:
        self._cache = cache
        self._loops = loops
        self._scans = scans
        self._racks = racks
        self._annotations = annotations
        self._restarts = restarts
        self._reassignments = reassignments
        self._asked: dict[ObjectKey, dict[str, object]] = {}

    def put(self, body: Mapping[str, Any]) -> None:
        """Put a RackTopology into the cache. Raises SpecError."""
        self._cache.put_topology(body)

    def changed(self, key: ObjectKey) -> None:
        """Start its loop, and wake those that are asked for something else than before."""
        topology = self._cache.topologies.get(key)
        if topology is None:
            return
        meta, loop = topology.meta, self._loops.start(key)
        spec = meta.uid, meta.generation, meta.is_deleting
        if self._asks_anew(key, "reassignments", (*spec, meta.is_paused)):
            self._reassignments.changed(key)
        if self._asks_anew(key, "spec", spec):
            loop.look_again()
            self._requeue_namesakes(topology)
            self._racks.wake()
            self._annotations.wake()
            self._restarts.wake()
        if CONFIRM_DELETIONS in meta.annotations:
            loop.deletions_confirmed()
        if self._asks_anew(key, "restart", meta.annotations.get(RESTART)):
            self._restarts.wake()
        if self._asks_anew(key, "scan", (*spec, meta.annotations.get(SCAN_NOW), fingerprint(topology))):
            self._scans.wake()

    def drop(self, key: ObjectKey) -> None:
        """Forget a RackTopology. The status of its KafkaTopics will say so; Kafka is not changed."""
        self._cache.drop_topology(key)
        self._asked.pop(key, None)
        self._scans.topology_gone(key)
        self._racks.wake()
        self._annotations.wake()
        self._reassignments.changed(key)
        self._loops.finish(key)

    def _asks_anew(self, key: ObjectKey, about: str, asked: object) -> bool:
        known = self._asked.setdefault(key, {})
        before, known[about] = known.get(about), asked
        return before != asked

    def _requeue_namesakes(self, topology: RackTopology) -> None:
        """Queue the topics of a topology that shares its cluster: their names may conflict with those of the others."""
        if topology.spec.shared_with:
            topics = map(self._cache.topics.get, self._cache.topics_of(topology.key))
            self._loops.requeue([topic for topic in topics if topic is not None])
