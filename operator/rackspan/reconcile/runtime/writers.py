"""Writes statuses and finalizers of Rackspan's objects: only if they change, with bounded concurrency."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from rackspan.api.labels import FINALIZER
from rackspan.metrics import count_error
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import ObjectRef

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rackspan.api.meta import Meta
    from rackspan.reconcile.ports import JsonObject, KubeApi

_log = logging.getLogger("rackspan.reconcile")
_MAX_CONCURRENT_WRITES = 16
_NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})


class StatusWriter:
    """Writes statuses. All topologies share one writer, so that a large topology cannot flood the API server.

    Each kind has its own slots, so the status of a RackTopology does not wait for those of its thousands of topics. The
    namespaces take turns.
    """

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self._slots = defaultdict[str, FairSlots](lambda: FairSlots(_MAX_CONCURRENT_WRITES))
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By uid. The loop of topics without a topology may still write a status when the topology's loop starts."""
        self._uncertain: set[str] = set()
        """Uids of objects whose last write is in progress, failed or timed out, so that their status is not known."""

    async def write(self, ref: ObjectRef, old: Mapping[str, Any], new: JsonObject) -> JsonObject | None:
        """Replace the status if it differs. Return the written object, or None if it is unchanged or deleted.

        `old` is the status as last read. Raises FailureError if the write fails. The caller retries.
        """
        if old == new and ref.uid not in self._uncertain:
            return None
        turn = self._turns.setdefault(ref.uid, asyncio.Lock())
        async with turn:
            return await self._replace(ref, new)

    async def _replace(self, ref: ObjectRef, new: JsonObject) -> JsonObject | None:
        self._uncertain.add(ref.uid)
        async with self._slots[ref.kind].slot(ref.key.namespace):
            try:
                written = await self._kube.replace_status(ref, new)
            except FailureError as error:
                count_error("", error.failure.remedy, error.failure.reason)
                _log.warning("status of %s %s was not written: %s", ref.kind, ref.key, error)
                raise
        self._uncertain.discard(ref.uid)
        return written

    def forget(self, uid: str) -> None:
        """Forget an object that was deleted."""
        self._uncertain.discard(uid)


class FinalizerWriter:
    """Writes finalizers. All topologies share one writer, which bounds the requests. Namespaces take turns."""

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self._slots = FairSlots(_MAX_CONCURRENT_WRITES)

    async def add(self, kind: str, meta: Meta, annotations: Mapping[str, str] = _NO_ANNOTATIONS) -> JsonObject | None:
        """Add Rackspan's finalizer, which the object lacks, and these annotations. Return the written object.

        Under deletionPolicy Retain, too: if it came only with Delete, it would be too late for an object that is
        deleted right after that change. Return None on a conflict or if deleted. Raises FailureError.
        """
        return await self._write(kind, meta, (*meta.finalizers, FINALIZER), annotations)

    async def remove(self, kind: str, meta: Meta) -> JsonObject | None:
        """Remove Rackspan's finalizer. Return the object, or None on a conflict or if deleted. Raises FailureError."""
        left = tuple(name for name in meta.finalizers if name != FINALIZER)
        return await self._write(kind, meta, left, _NO_ANNOTATIONS)

    async def _write(
        self, kind: str, meta: Meta, finalizers: Sequence[str], annotations: Mapping[str, str]
    ) -> JsonObject | None:
        ref = ObjectRef(kind, meta.key, meta.uid)
        async with self._slots.slot(ref.key.namespace):
            return await self._kube.set_finalizers(ref, finalizers, meta.resource_version, annotations)


def has_finalizer(meta: Meta) -> bool:
    """Return whether the object has Rackspan's finalizer."""
    return FINALIZER in meta.finalizers


class FairSlots:
    """A fixed number of slots. If all are in use, waiting namespaces get one slot each in turn. For one event loop."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the block ends."""
        await self._acquire(namespace)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # cancelled after it was granted
            raise

    def _release(self) -> None:
        while self._waiting:
            namespace, waiting = next(iter(self._waiting.items()))
            del self._waiting[namespace]
            granted = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
