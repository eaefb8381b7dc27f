"""Writes statuses: whole, only when they changed, and many side by side."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from rackspan.metrics import count_error
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import Cluster, JsonObject, ObjectRef

_log = logging.getLogger("rackspan.reconcile")
_AT_ONCE = 16


class StatusWriter:
    """Shared by all topologies, so that one large one cannot flood the API server."""

    def __init__(self, kube: Cluster) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._uncertain: set[str] = set()
        """By uid, objects whose status may be any that was sent since: the answer to a write was an error, or none."""

    async def write(self, ref: ObjectRef, old: Mapping[str, Any], new: JsonObject) -> JsonObject | None:
        """The object as it is after the write; None where nothing had to be written or the object is gone.

        The status is replaced as a whole, so that nothing stays of a write whose answer was lost. Raises FailureError
        where the API server did not take it; the caller tries again later.
        """
        if old == new and ref.uid not in self._uncertain:
            return None
        self._uncertain.add(ref.uid)
        async with self._slots:
            try:
                written = await self._kube.replace_status(ref, new)
            except FailureError as error:
                count_error("", error.failure.remedy, error.failure.reason)
                _log.warning("status of %s %s was not written: %s", ref.kind, ref.key, error)
                raise
        self._uncertain.discard(ref.uid)
        return written
