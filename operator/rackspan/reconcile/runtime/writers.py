"""Writes the status subresource: as a whole, only where it changed, with bounded concurrency."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rackspan.metrics import count_error
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import JsonObject, KubeApi, ObjectRef

_log = logging.getLogger("rackspan.reconcile")
_MAX_CONCURRENT_WRITES = 16


class StatusWriter:
    """Shared by all topologies, so that a large one cannot flood the API server.

    Each kind has its own slots: the status of a RackTopology does not wait for those of its thousands of topics.
    """

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self._slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(_MAX_CONCURRENT_WRITES))
        self._uncertain: set[str] = set()
        """Uids of objects whose last write failed or timed out, so that their status is not known."""

    async def write(self, ref: ObjectRef, old: Mapping[str, Any], new: JsonObject) -> JsonObject | None:
        """Replace the status where it differs; the object as written, None where nothing was written or it is gone.

        `old` is the status as last read. Raises FailureError where the write failed; the caller retries.
        """
        if old == new and ref.uid not in self._uncertain:
            return None
        self._uncertain.add(ref.uid)
        async with self._slots[ref.kind]:
            try:
                written = await self._kube.replace_status(ref, new)
            except FailureError as error:
                count_error("", error.failure.remedy, error.failure.reason)
                _log.warning("status of %s %s was not written: %s", ref.kind, ref.key, error)
                raise
        self._uncertain.discard(ref.uid)
        return written
