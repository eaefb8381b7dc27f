"""The clean-up when the operator or its CRDs are removed: removes finalizers, and throttles if Kafka responds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api import kafkatopic, racktopology, reassignment
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans.worker import TopologyWorker
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.informer import Informer, ResourceHandler
from rackspan.reconcile.runtime.writers import FinalizerWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.meta import Meta
    from rackspan.reconcile.dependencies import ReassignmentDependencies
    from rackspan.reconcile.ports import KubeApi


KINDS = (kafkatopic.KIND, racktopology.KIND, reassignment.KIND)


@dataclass(frozen=True, slots=True)
class Released:
    """The number of objects without a finalizer now, by kind, and those that may not be changed, with the failure."""

    counts: Mapping[str, int]
    refused: Mapping[ObjectRef, Failure]


async def release(kube: KubeApi, *, leaving_only: bool) -> Released:
    """Remove the finalizer from all objects, or only from objects being deleted.

    Topics stay in Kafka. An object that was modified meanwhile keeps its finalizer and is not counted. Raises
    FailureError if the API server does not respond.
    """
    finalizers, counts, refused = FinalizerWriter(kube), dict.fromkeys(KINDS, 0), dict[ObjectRef, Failure]()

    async def let_go(kind: str, meta: Meta) -> None:
        try:
            written = await finalizers.remove(kind, meta)
            counts[kind] += written is not None
        except FailureError as error:
            if error.failure.remedy is Remedy.RETRY:
                raise
            refused[ObjectRef(kind, meta.key, meta.uid)] = error.failure

    for kind in KINDS:
        chosen = [meta for meta in await kube.with_finalizer(kind) if meta.is_deleting or not leaving_only]
        await asyncio.gather(*(let_go(kind, meta) for meta in chosen))
    return Released(counts, refused)


async def clear_throttles(dependencies: ReassignmentDependencies) -> Sequence[str]:
    """Clear the throttles of all Reassignments. Return one sentence for each problem that is left.

    Ongoing copies continue in Kafka. An operator that is installed later continues the Reassignments. Raises
    FailureError if the API server does not respond.
    """
    kube, cache = dependencies.kube, dependencies.cache
    if not await kube.with_finalizer(reassignment.KIND):
        return ()
    for kind, put in ((racktopology.KIND, cache.put_topology), (reassignment.KIND, cache.put_reassignment)):
        informer = Informer(kind, ResourceHandler(put, lambda _: None), cache.versions, lambda: None)
        async for body in kube.objects(kind):
            informer.known(body)
    topologies = sorted({one.topology for one in cache.reassignments.values() if one.status.record is not None})
    found = await asyncio.gather(*(TopologyWorker(key, dependencies).leave() for key in topologies))
    return [problem for problems in found for problem in problems]
