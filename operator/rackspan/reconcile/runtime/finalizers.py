"""Adds Rackspan's finalizer to objects and removes it, with bounded concurrency."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.ports import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.meta import Meta
    from rackspan.reconcile.ports import JsonObject, KubeApi

_MAX_CONCURRENT_WRITES = 16
_NONE: Mapping[str, str] = MappingProxyType({})


class FinalizerWriter:
    """Shared by all topologies, so that a large one cannot flood the API server."""

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)

    async def add(self, kind: str, meta: Meta, annotations: Mapping[str, str] = _NONE) -> JsonObject | None:
        """The object with Rackspan's finalizer and these annotations.

        None on a conflict or where it is gone. Raises FailureError.
        """
        return await self._write(kind, meta, finalizers_for(meta) or meta.finalizers, annotations)

    async def remove(self, kind: str, meta: Meta) -> JsonObject | None:
        """The object without Rackspan's finalizer; None on a conflict or where it is gone. Raises FailureError."""
        return await self._write(kind, meta, without_finalizer(meta), _NONE)

    async def _write(
        self, kind: str, meta: Meta, finalizers: Sequence[str], annotations: Mapping[str, str]
    ) -> JsonObject | None:
        ref = ObjectRef(kind, meta.key, meta.uid)
        async with self._slots:
            return await self._kube.set_finalizers(ref, finalizers, meta.resource_version, annotations)


def finalizers_for(meta: Meta) -> tuple[str, ...] | None:
    """The finalizers to write to an object that is not being deleted; None where Rackspan's is there already.

    It is added under either deletionPolicy: if it were added only once the policy is Delete, it would come too late for
    an object that is deleted right after that change.
    """
    return None if has_finalizer(meta) else (*meta.finalizers, FINALIZER)


def has_finalizer(meta: Meta) -> bool:
    """Whether the object carries Rackspan's finalizer."""
    return FINALIZER in meta.finalizers


def without_finalizer(meta: Meta) -> tuple[str, ...]:
    """The object's finalizers without Rackspan's."""
    return tuple(name for name in meta.finalizers if name != FINALIZER)
