"""Writes Reassignments: statuses, records, how they end, their Events and their finalizers.

The cache has what was written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan.api import racktopology
from rackspan.api.reassignment import KIND, MAX_PLAN, ReassignmentState
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans.plan_documents import TooLargeError, packed, progress_document
from rackspan.reconcile.plans.reassignment_status import in_state
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reasons import Reason
    from rackspan.api.reassignment import Reassignment, ReassignmentStatus
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import ReassignmentDependencies
    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.reassignment_ports import ReassignmentObjects, Record


_log = logging.getLogger("rackspan.reassignments")

_REASONS: Final = {
    ReassignmentState.RUNNING: "ReassignmentStarted",
    ReassignmentState.CANCELLING: "ReassignmentCancelling",
    ReassignmentState.SUCCEEDED: "ReassignmentCompleted",
    ReassignmentState.FAILED: "ReassignmentFailed",
    ReassignmentState.CANCELLED: "ReassignmentCancelled",
    ReassignmentState.STOPPED: "ReassignmentStopped",
}
_LEFT: Final = "ThrottlesLeft"
_WARNINGS: Final = (ReassignmentState.FAILED, ReassignmentState.STOPPED, None)


class ReassignmentWriter:
    """Writes of one worker. All of them raise FailureError where the API server does not take them."""

    def __init__(self, dependencies: ReassignmentDependencies) -> None:
        self._dependencies = dependencies
        self._cache = dependencies.cache

    def current(self, one: Reassignment) -> Reassignment | None:
        """The object as it is known now, None where it is gone."""
        known = self._cache.reassignments.get(one.key)
        return known if known is not None and known.meta.uid == one.meta.uid else None

    async def read(self, one: Reassignment) -> None:
        """Know an object as the API server has it."""
        body = await self._dependencies.kube.find(KIND, one.key)
        if body is not None:
            self._cache.put_reassignment_answer(body)
        elif self.current(one) is not None:
            self._cache.drop_reassignment(one.key)

    async def write_state(
        self,
        one: Reassignment,
        state: ReassignmentState,
        message: str,
        *,
        status: ReassignmentStatus | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Write a state and why, with the counts of `status`, unless all of that stands there already."""
        new = in_state(one, status or one.status, state, message, self._dependencies.clock(), reason)
        if new != one.status:
            await self.write(one, new)

    async def end(
        self,
        one: Reassignment,
        state: ReassignmentState,
        message: str,
        topology: RackTopology | None,
        *,
        status: ReassignmentStatus | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Write how it ended and record it as an Event, then let go of it unless throttles are left."""
        new = in_state(one, status or one.status, state, message, self._dependencies.clock(), reason)
        if not await self.write(one, new):
            return
        self.announce(one, topology, state, message)
        known = self.current(one)
        if known is not None and not new.throttles:
            await self.release(known)

    async def write(self, one: Reassignment, status: ReassignmentStatus) -> bool:
        """Write a status; False where the object changed meanwhile, which is then known."""
        written = await self._dependencies.objects.write_status(one, status.to_dict())
        await self._answered(one, written)
        return written is not None

    async def hold(self, one: Reassignment) -> None:
        """Put the finalizer on it."""
        await self._answered(one, await self._dependencies.finalizers.add(KIND, one.meta))

    async def release(self, one: Reassignment) -> None:
        """Take the finalizer off, so that it can go."""
        if has_finalizer(one.meta):
            await self._answered(one, await self._dependencies.finalizers.remove(KIND, one.meta))

    def announce(
        self, one: Reassignment, topology: RackTopology | None, state: ReassignmentState | None, message: str
    ) -> None:
        """Queue Events about a new state; None says that the object goes and throttles may be left."""
        reason = _LEFT if state is None else _REASONS.get(state)
        if reason is None:
            return
        kube, warning, plan = self._dependencies.kube, state in _WARNINGS, f"plan {one.spec.plan_hash}"
        about, text = ObjectRef(KIND, one.key, one.meta.uid), f"{plan}: {message}" if message else plan
        kube.record_event(KubernetesEvent(about, reason, text, warning))
        if topology is not None:
            about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
            kube.record_event(KubernetesEvent(about, reason, f"Reassignment {one.meta.name}: {message}", warning))

    def left_over(self, one: Reassignment, topology: RackTopology | None, problem: str) -> None:
        """Report that the object goes and throttles may be left."""
        _log.warning("Reassignment %s is let go: %s", one.key, problem)
        self.announce(one, topology, None, problem)

    async def _answered(self, one: Reassignment, written: JsonObject | None) -> None:
        """Know an object as it was written, or as it is if it was not."""
        if written is None:
            await self.read(one)
        else:
            self._cache.put_reassignment_answer(written)


class JournalError(OSError):
    """The record could not be written, or it is not known whether it was: read the object before going on."""


class RecordTooLargeError(JournalError):
    """The record fits into no object: nothing was written, and nothing will be until less is asked for at once."""


class StatusJournal:
    """
    Implements `Journal` on the status subresource of one Reassignment.

    A write is of the object as it is known, by its resourceVersion: where anybody else has written meanwhile it is
    refused, and the call that needs it is not made.
    """

    def __init__(self, reassignment: Reassignment, cache: Cache, objects: ReassignmentObjects) -> None:
        self._key: ObjectKey = reassignment.key
        self._uid = reassignment.meta.uid
        self._cache = cache
        self._objects = objects

    async def write(self, record: Record) -> None:
        """Return once the API server has it. Raises JournalError."""
        try:
            text = packed(progress_document(record), MAX_PLAN)
        except TooLargeError as error:
            what = "what is under way at once is too much for one object: lower maxConcurrentMoves"
            raise RecordTooLargeError(what) from error
        known = self._cache.reassignments.get(self._key)
        if known is None or known.meta.uid != self._uid:
            raise JournalError("the object is gone")
        status = replace(known.status, record=text, throttles=len(record.throttles))
        try:
            written = await self._objects.write_status(known, status.to_dict())
        except FailureError as error:
            raise JournalError(f"the record could not be written: {error}") from error
        if written is None:
            raise JournalError("the object was changed just now: it is read again")
        self._cache.put_reassignment_answer(written)
