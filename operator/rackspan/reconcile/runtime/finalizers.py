"""Writes our finalizer onto objects and takes it off again: many side by side, and never too many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.ports import ObjectRef

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


def finalizers_for(meta: Meta) -> tuple[str, ...] | None:
    """The finalizers that a living object should have; None where they are right.

    Ours is there under either policy. Put there only once the policy says Delete, it would come too late for an object
    that is deleted right after.
    """
    return None if has_finalizer(meta) else (*meta.finalizers, FINALIZER)


def has_finalizer(meta: Meta) -> bool:
    """Whether the object cannot go before we let it."""
    return FINALIZER in meta.finalizers


def without_finalizer(meta: Meta) -> tuple[str, ...]:
    """The object's finalizers less ours."""
    return tuple(name for name in meta.finalizers if name != FINALIZER)
