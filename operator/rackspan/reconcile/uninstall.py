"""Removes Rackspan's finalizer without touching Kafka, when the operator or its CRDs are being removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api import kafkatopic, racktopology, reassignment
from rackspan.reconcile.runtime.writers import FinalizerWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import KubeApi

KINDS = (kafkatopic.KIND, racktopology.KIND, reassignment.KIND)


async def release(kube: KubeApi, *, leaving_only: bool) -> Mapping[str, int]:
    """Remove the finalizer from all objects, or only from those being deleted; the number of objects by kind.

    Topics stay in Kafka. An object that was modified meanwhile keeps its finalizer and is not counted. Raises
    FailureError.
    """
    finalizers, counts = FinalizerWriter(kube), {}
    for kind in KINDS:
        chosen = [meta for meta in await kube.with_finalizer(kind) if meta.is_deleting or not leaving_only]
        written = await asyncio.gather(*(finalizers.remove(kind, meta) for meta in chosen))
        counts[kind] = sum(one is not None for one in written)
    return counts
