"""The control loop over the Reassignments of all topologies: a task for each that has anything left to do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.reconcile.reassignments.gauges import forget, measure
from rackspan.reconcile.reassignments.turns import topologies_in_turn
from rackspan.reconcile.reassignments.worker import TopologyWorker
from rackspan.reconcile.runtime.guarded_loop import run_guarded
from rackspan.reconcile.runtime.waiting import wait_debounced

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.reassignments.objects import ReassignmentDependencies

_MOST_TOPOLOGIES = 32
"""Served at a time, each with a client and its threads; what has begun goes first, others wait."""
_DEBOUNCE_SECONDS = 0.2
_IDLE_SECONDS = 60.0


class ReassignmentsReconciler:
    """Starts a worker for each topology with a Reassignment that has not ended, and ends those that are done.

    While there is none, nothing is asked of Kafka or of the API server.
    """

    def __init__(self, dependencies: ReassignmentDependencies) -> None:
        self._dependencies = dependencies
        self._workers: dict[ObjectKey, tuple[TopologyWorker, asyncio.Task[None]]] = {}
        self._measured: set[ObjectKey] = set()
        self._wake = asyncio.Event()

    def changed(self, topology: ObjectKey) -> None:
        """A topology, or one of its Reassignments, changed or is gone."""
        if topology in self._workers:
            self._workers[topology][0].wake.set()
        self._wake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        try:
            while True:
                await self._start_and_end()
                self._measure()
                await wait_debounced(self._wake, _IDLE_SECONDS, _DEBOUNCE_SECONDS)
        finally:
            for key in list(self._workers):
                await self._end(key)
            for key in self._measured:
                forget(str(key))

    async def _start_and_end(self) -> None:
        cache = self._dependencies.cache
        serving = topologies_in_turn(cache.reassignments.values(), _MOST_TOPOLOGIES)
        for key in set(self._workers).difference(serving):
            if not self._workers[key][0].has_lost_run:
                await self._end(key)
        for key in serving:
            if key not in self._workers:
                worker = TopologyWorker(key, self._dependencies)
                name, liveness = f"reassignments of {key}", self._dependencies.liveness
                loop = run_guarded(name, worker.reconcile, worker.wake, _DEBOUNCE_SECONDS, liveness)
                self._workers[key] = worker, asyncio.create_task(loop, name=name)

    async def _end(self, key: ObjectKey) -> None:
        worker, task = self._workers.pop(key)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await worker.close()

    def _measure(self) -> None:
        """Set the metrics of all topologies that have Reassignments, and remove those of the others."""
        there: defaultdict[ObjectKey, list[Reassignment]] = defaultdict(list)
        for one in self._dependencies.cache.reassignments.values():
            there[one.topology].append(one)
        for key in self._measured.difference(there):
            forget(str(key))
        for key, objects in there.items():
            measure(str(key), objects)
        self._measured = set(there)
