"""Reassignments: what is under way is part of what a topology's loop decides by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.reassignments.reconciler import ReassignmentsReconciler
    from rackspan.reconcile.topology_loops import TopologyLoops


class ReassignmentHandler:
    """Implements `ResourceHandler`."""

    def __init__(self, cache: Cache, loops: TopologyLoops, reassignments: ReassignmentsReconciler) -> None:
        self._cache = cache
        self._loops = loops
        self._reassignments = reassignments

    def put(self, body: Mapping[str, Any]) -> None:
        """Put a Reassignment into the cache, and wake who carries it out. Raises SpecError."""
        before = self._cache.reassignments.get(key_of(body))
        known = self._cache.put_reassignment(body)
        if before is None or _asked(before) != _asked(known) or known.status.state is None:
            self._changed_for(known.topology)

    def changed(self, key: ObjectKey) -> None:
        """Nothing more: `put` woke who carries it out."""

    def drop(self, key: ObjectKey) -> None:
        """Forget a Reassignment."""
        known = self._cache.drop_reassignment(key)
        if known is not None:
            self._changed_for(known.topology)

    def _changed_for(self, topology: ObjectKey) -> None:
        self._reassignments.changed(topology)
        self._loops.look_again(topology)


def _asked(one: Reassignment) -> object:
    """What is asked of a Reassignment and whether it has ended, so that the operator's own writes wake nothing."""
    meta = one.meta
    return meta.uid, meta.generation, meta.is_deleting, one.ended
