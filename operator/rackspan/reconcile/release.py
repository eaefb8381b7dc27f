"""Lets objects go without touching Kafka: where there will be no operator, or no definition of them, any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api import kafkatopic, racktopology
from rackspan.reconcile.runtime.finalizers import FinalizerWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import Cluster

KINDS = (kafkatopic.KIND, racktopology.KIND)


async def release(kube: Cluster, *, leaving_only: bool) -> Mapping[str, int]:
    """Take our finalizer off all objects, or only off those that are being deleted; how many of each kind.

    Topics stay in Kafka. An object that changed meanwhile is not counted, and still has it. Raises FailureError.
    """
    finalizers, counts = FinalizerWriter(kube), {}
    for kind in KINDS:
        chosen = [meta for meta in await kube.with_finalizer(kind) if meta.is_deleting or not leaving_only]
        written = await asyncio.gather(*(finalizers.remove(kind, meta) for meta in chosen))
        counts[kind] = sum(one is not None for one in written)
    return counts
