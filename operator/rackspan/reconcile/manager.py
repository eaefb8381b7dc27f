"""Holds the operator's control loops together: what they share, what Kubernetes tells them, and whether they live."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.racks.annotate import AnnotationsReconciler
from rackspan.reconcile.racks.publish import RackDependencies, RacksReconciler
from rackspan.reconcile.racks.restart import RestartsReconciler
from rackspan.reconcile.reassignments.reconciler import ReassignmentsReconciler
from rackspan.reconcile.routes import TopologyHandler
from rackspan.reconcile.routing.locations import Locations
from rackspan.reconcile.routing.reassignments import ReassignmentHandler
from rackspan.reconcile.routing.reports import ReportHandler
from rackspan.reconcile.routing.topics import TopicHandler
from rackspan.reconcile.runtime.informer import Informer, sweep
from rackspan.reconcile.runtime.waiting import wait_for_any
from rackspan.reconcile.scans.scan_reconciler import ScanDependencies, ScansReconciler
from rackspan.reconcile.topology_loops import TopologyLoops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.reassignments.objects import ReassignmentDependencies
    from rackspan.reconcile.runtime.informer import ResourceHandler

_log = logging.getLogger("rackspan.reconcile")
_SWEEP_SECONDS = 300.0
"""How often deleted objects of our kinds are searched for, in case a watch has stopped without an error."""
_RELIST_SECONDS = 2.0
"""How long to wait after objects were listed again: the watches of several kinds are interrupted together."""


class Manager:
    """The loops of topologies, scans, racks, restarts and reassignments. Belongs to the event loop.

    `informers` takes what kopf tells of Rackspan's own kinds, by kind.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        scans: ScanDependencies,
        racks: RackDependencies,
        reassignments: ReassignmentDependencies,
        stall_seconds: float,
    ) -> None:
        self.cache: Cache = dependencies.cache
        self._dependencies = dependencies
        self._stall_seconds = stall_seconds
        self._started = False
        self._stopped_at: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._relisted = asyncio.Event()
        self._loops = TopologyLoops(dependencies)
        self._scans = ScansReconciler(scans, self._loops.status_changed)
        self._racks = RacksReconciler(racks, self._loops.status_changed)
        self._restarts = RestartsReconciler(racks, self._loops, self._racks.published_rack)
        self._loops.status_parts = self._scans, self._racks, self._restarts
        self._annotations = AnnotationsReconciler(racks)
        self._reassignments = ReassignmentsReconciler(reassignments)
        self.informers: Mapping[str, Informer] = {
            kind: Informer(kind, handler, self.cache.versions, self._relisted.set)
            for kind, handler in self._handlers().items()
        }
        locations = Locations(self.cache, self._loops, self._racks, self._annotations)
        self._reflectors = [
            reflector
            for kind, listener in locations.listeners.items()
            for reflector in dependencies.kube.reflectors(kind, listener)
        ]

    def _handlers(self) -> Mapping[str, ResourceHandler]:
        """Topologies and topics last: what is asked of them depends on the others."""
        cache, loops = self.cache, self._loops
        return {
            compliancereport.KIND: ReportHandler(cache, self._scans),
            reassignment.KIND: ReassignmentHandler(cache, loops, self._reassignments),
            racktopology.KIND: TopologyHandler(
                cache, loops, self._scans, self._racks, self._annotations, self._restarts, self._reassignments
            ),
            kafkatopic.KIND: TopicHandler(cache, loops),
        }

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def prime(self) -> None:
        """Learn of all objects that there are, before anything is decided. Raises FailureError."""
        for reflector in self._reflectors:
            await reflector.list()
        for kind, informer in self.informers.items():
            async for body in self._dependencies.kube.objects(kind):
                informer.known(body)
        self._relisted.set()  # what goes before the watches begin, none of them tells

    def start(self) -> None:
        """Start the background tasks, once all kinds have been listed."""
        self._started = True
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._scans.run(), name="scans"),
            asyncio.create_task(self._racks.run(), name="racks"),
            asyncio.create_task(self._reassignments.run(), name="reassignments"),
            asyncio.create_task(self._restarts.run(), name="restarts"),
            asyncio.create_task(self._annotations.run(), name="annotations"),
            asyncio.create_task(self._loops.run_orphans(), name="strays"),
            *(asyncio.create_task(reflector.watch(), name="watch") for reflector in self._reflectors),
        ]

    async def stop(self) -> None:
        """Cancel all loops. Calls to Kafka that are under way may still take effect."""
        self._started = False
        if self._stopped_at is None:
            self._stopped_at = asyncio.get_running_loop().time()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._loops.stop(), *self._tasks, return_exceptions=True)

    def alive(self) -> Mapping[str, object]:
        """The answer to the liveness probe: not ok while a task has ended or a step, such as the end, has stalled.

        That Kafka cannot be reached is no reason to restart.
        """
        now = asyncio.get_running_loop().time()
        ended: list[str] = []
        if self._started:  # tasks end on purpose while it stops
            ended = [*self._loops.defunct(), *(task.get_name() for task in self._tasks if task.done())]
        stalled = dict(self._dependencies.liveness.stalled(self._stall_seconds))
        if self._stopped_at is not None and now - self._stopped_at >= self._stall_seconds:
            stalled["end"] = round(now - self._stopped_at, 1)
        return {
            "ok": not ended and not stalled,
            "secondsSinceLastPass": self._loops.seconds_since_last_pass(now),
            "stalled": stalled,
            "ended": ended,
        }

    def ready(self) -> Mapping[str, object]:
        """The answer to the readiness probe: ok once `start` was called."""
        connected = {str(key): loop.connected for key, loop in self._loops if key in self.cache.topologies}
        return {"ok": self._started, "connected": connected}

    # --- objects of which no watch told ------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Forget cached objects that the API server does not have. Raises FailureError."""
        await sweep(self.cache.versions, self._dependencies.kube, self.informers)

    async def _sweep(self) -> None:
        while True:
            if await wait_for_any(_SWEEP_SECONDS, self._relisted):
                await asyncio.sleep(_RELIST_SECONDS)
                self._relisted.clear()
            try:
                with self._dependencies.liveness.track("sweep"):
                    await self.sweep()
            except FailureError as error:
                _log.warning("the sweep waits for the API server: %s", error)
                self._relisted.set()
            except Exception:
                _log.exception("the sweep goes on at its next turn")
