"""Before the operator is removed: no throttle of its Reassignments stays in Kafka, as far as Kafka answers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rackspan.api import racktopology, reassignment
from rackspan.api.spec_errors import SpecError
from rackspan.reconcile.reassignments.worker import TopologyWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.reconcile.reassignments.reassignment_objects import ReassignmentDependencies

_log = logging.getLogger("rackspan.reassignments")


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
