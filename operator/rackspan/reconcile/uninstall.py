"""When the operator or its CRDs are removed: no finalizer stays, and no throttle as far as Kafka answers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rackspan.api import kafkatopic, racktopology, reassignment
from rackspan.api.codec import SpecError
from rackspan.reconcile.plans.worker import TopologyWorker
from rackspan.reconcile.runtime.writers import FinalizerWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.dependencies import ReassignmentDependencies
    from rackspan.reconcile.ports import KubeApi


_log = logging.getLogger("rackspan.reassignments")
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


async def clear_throttles(dependencies: ReassignmentDependencies) -> Sequence[str]:
    """
    Clear the throttles of all Reassignments; what is left, a sentence for each.

    Copies under way go on in Kafka, and the Reassignments with an operator that is installed later. Raises FailureError
    where the API server does not answer.
    """
    kube, cache = dependencies.kube, dependencies.cache
    if not await kube.with_finalizer(reassignment.KIND):
        return ()
    for kind, put in ((racktopology.KIND, cache.put_topology), (reassignment.KIND, cache.put_reassignment)):
        async for body in kube.objects(kind):
            try:
                if cache.versions.record(kind, body):
                    put(body)
            except SpecError as error:
                _log.warning("%s cannot be read: %s", kind, error)
    topologies = sorted({one.topology for one in cache.reassignments.values() if one.status.record is not None})
    found = await asyncio.gather(*(TopologyWorker(key, dependencies).leave() for key in topologies))
    return [problem for problems in found for problem in problems]
