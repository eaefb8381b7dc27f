"""Writes our finalizer onto objects and takes it off again: many side by side, and never too many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.topics.deletion import finalizers_for, without_finalizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.meta import Meta
    from rackspan.reconcile.ports import Cluster, JsonObject

_AT_ONCE = 16


class FinalizerWriter:
    """Shared by all topologies, so that one large one cannot flood the API server."""

    def __init__(self, kube: Cluster) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def put_on(self, kind: str, meta: Meta) -> JsonObject | None:
        """The object with our finalizer; None where it changed meanwhile or is gone. Raises FailureError."""
        return await self._write(kind, meta, finalizers_for(meta) or meta.finalizers)

    async def take_off(self, kind: str, meta: Meta) -> JsonObject | None:
        """The object without our finalizer; None where it changed meanwhile or is gone. Raises FailureError."""
        return await self._write(kind, meta, without_finalizer(meta))

    async def _write(self, kind: str, meta: Meta, finalizers: Sequence[str]) -> JsonObject | None:
        async with self._slots:
            return await self._kube.set_finalizers(
                ObjectRef(kind, meta.key, meta.uid), finalizers, meta.resource_version
            )
