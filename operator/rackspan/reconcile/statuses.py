"""Writes statuses: only when they changed, many side by side, and never two for one object at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from rackspan.metrics import ERRORS
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.status import merge_patch

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
        self._unwritten: dict[str, Mapping[str, Any]] = {}
        """By uid, what the API server has of a status whose last write failed: the caller may know more by now."""

    async def write(self, ref: ObjectRef, old: Mapping[str, Any], new: Mapping[str, Any]) -> JsonObject | None:
        """The object as it is after the write; None where nothing had to be written or the object is gone.

        Raises FailureError where the API server did not take it; the caller tries again later.
        """
        patch = merge_patch(self._unwritten.get(ref.uid, old), new)
        if not patch:
            return None
        async with self._slots:
            try:
                written = await self._kube.patch_status(ref, patch)
            except FailureError as error:
                self._unwritten.setdefault(ref.uid, old)
                ERRORS.labels(error.failure.remedy, error.failure.reason).inc()
                _log.warning("status of %s %s was not written: %s", ref.kind, ref.key, error)
                raise
        self._unwritten.pop(ref.uid, None)
        return written
