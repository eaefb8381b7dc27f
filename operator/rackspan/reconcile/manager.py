"""Holds the operator's control loops together: what they share, what wakes them, and whether they live."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from rackspan import metrics
from rackspan.reconcile.failures import DeniedError, FailureError
from rackspan.reconcile.plans.reassignments_reconciler import ReassignmentsReconciler
from rackspan.reconcile.racks.annotate import AnnotationsReconciler
from rackspan.reconcile.racks.publish import RackDependencies, RacksReconciler
from rackspan.reconcile.racks.restart import RestartsReconciler
from rackspan.reconcile.routes import Routes
from rackspan.reconcile.runtime.informer import Informer, sweep
from rackspan.reconcile.runtime.waiting import wait_for_any
from rackspan.reconcile.scans.scan_reconciler import ScanDependencies, ScansReconciler
from rackspan.reconcile.topology_loops import TopologyLoops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.runtime.controller import Controller

_log = logging.getLogger("rackspan.reconcile")
_SWEEP_SECONDS = 300.0
"""How often our kinds are searched for what no watch has told, in case one has stopped without an error."""
_RELIST_SECONDS = 2.0
"""How long to wait after objects were listed again: the watches of several kinds are interrupted together."""


class Manager:
    """The loops of topologies, scans, racks, restarts and reassignments. Belongs to the event loop.

    `informers` takes what kopf reports of Rackspan's own kinds, by kind.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        scans: ScanDependencies,
        racks: RackDependencies,
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
        publishing = RacksReconciler(racks, self._loops.status_changed)
        restarting = RestartsReconciler(racks, self._loops, publishing.published_rack)
        scanning = ScansReconciler(scans, self._loops.status_changed)
        self._loops.status_parts = scanning, publishing, restarting
        self._controllers: Sequence[Controller] = (scanning, publishing, restarting, AnnotationsReconciler(racks))
        self._reassignments = ReassignmentsReconciler(dependencies)
        routes = Routes(self.cache, self._loops, self._controllers, self._reassignments)
        self.informers: Mapping[str, Informer] = {
            kind: Informer(kind, handler, self.cache.versions, self._relisted.set)
            for kind, handler in routes.handlers.items()
        }
        self._watched = scans.namespaces
        self._reflectors = [
            reflector
            for kind, listener in routes.listeners.items()
            for reflector in dependencies.kube.reflectors(kind, listener)
        ]

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def prime(self) -> None:
        """Learn of all objects that there are, before anything is decided. Raises FailureError."""
        for reflector in self._reflectors:
            with contextlib.suppress(DeniedError):  # the watches go on asking for what may not be read
                await reflector.list()
        for kind, informer in self.informers.items():
            with contextlib.suppress(DeniedError):
                async for body in self._dependencies.kube.objects(kind):
                    informer.known(body)
        self._relisted.set()  # what goes before the watches begin, none of them reports

    def start(self) -> None:
        """Start the background tasks, once all kinds have been listed."""
        self._started = True
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweep"),
            *(asyncio.create_task(controller.run(), name=controller.name) for controller in self._controllers),
            asyncio.create_task(self._reassignments.run(), name="reassignments"),
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
        """The answer to the readiness probe: ok once `start` was called, unless no watched namespace can be read."""
        connected = {str(key): loop.connected for key, loop in self._loops if key in self.cache.topologies}
        left_out = self.cache.left_out
        reads = not left_out or not left_out.issuperset(self._watched)
        return {"ok": self._started and reads, "connected": connected, "leftOut": sorted(left_out)}

    # --- objects that no watch reported -------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Learn what no watch has told. Raises FailureError."""
        await sweep(self.cache.versions, self._dependencies.kube, self.informers)

    def leave_out(self, namespaces: frozenset[str]) -> None:
        """Do nothing for the objects of these namespaces, whose watches are refused, and go on with all others."""
        new, back = namespaces - self.cache.left_out, self.cache.left_out - namespaces
        self.cache.left_out = namespaces
        metrics.NAMESPACES_LEFT_OUT.set(len(namespaces))
        for namespace in sorted(new):
            _log.warning("namespace %s may not be read, and is left out: has the operator its Role there?", namespace)
        for namespace in sorted(back):
            _log.info("namespace %s is read again", namespace)
        topics = self.cache.topics.values()
        self._loops.requeue([one for one in topics if {one.meta.namespace, one.topology.namespace} & back])

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
