"""The record of what Kafka cannot say, in the status of a Reassignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.reassignment import MAX_PLAN
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.reassignments.plan_documents import TooLargeError, packed, progress_document

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.reassignments.executor_ports import ReassignmentObjects, Record


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
