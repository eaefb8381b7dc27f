"""The reconcile loop for the Reassignments of all topologies: a task for each topology with anything left to do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.reconcile.plans.reassignment_status import measure
from rackspan.reconcile.plans.turns import Contender, has_work, in_turn
from rackspan.reconcile.plans.worker import TopologyWorker
from rackspan.reconcile.runtime.controller import run_guarded
from rackspan.reconcile.runtime.waiting import wait_debounced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.dependencies import ReassignmentDependencies

_PLACES = 32
"""The number of topologies that are served at a time, each with a client and its threads."""
_TURN_SECONDS = 60.0
"""How long a topology keeps its place while others wait for theirs. Kafka continues its copies without a place."""
_DEBOUNCE_SECONDS = 0.2
_CROWDED_SECONDS = 1.0
"""The time between two assignments of places while a topology has none."""
_IDLE_SECONDS = 60.0


@dataclass(slots=True)
class _Served:
    """A topology with anything left to do. It has a place while there is a `task`."""

    worker: TopologyWorker
    since: float
    """When it began to wait, or when its turn began, in the event loop's time."""
    rests: bool = False
    task: asyncio.Task[None] | None = None
    leaving: asyncio.Task[None] | None = None
    """The task that closes its previous client."""

    @property
    def has_left(self) -> bool:
        """Whether all its clients are closed."""
        return self.task is None and (self.leaving is None or self.leaving.done())

    def displace(self) -> None:
        """Take away its place. A separate task closes its client, which may take seconds."""
        if self.task is not None:
            self.task.cancel()
            self.leaving = asyncio.create_task(_left(self.task, self.worker))
            self.task = None

    def look(self, now: float) -> None:
        """Update whether it rests. Reset `since` if it stops resting or its turn has ended."""
        woke = self.rests and not self.worker.rests
        self.rests = self.worker.rests
        if woke or (self.task is not None and now - self.since >= _TURN_SECONDS):
            self.since = now


class ReassignmentsReconciler:
    """Keeps a worker for each topology whose Reassignments need work, and runs as many workers as there are places.

    Without any such topology, it sends no requests to Kafka or to the API server.
    """

    def __init__(self, dependencies: ReassignmentDependencies) -> None:
        self._dependencies = dependencies
        self._served: dict[ObjectKey, _Served] = {}
        self._wake = asyncio.Event()

    def changed(self, topology: ObjectKey) -> None:
        """Reconcile soon, because a topology or one of its Reassignments was changed or deleted."""
        if topology in self._served:
            self._served[topology].worker.wake.set()
        self._wake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        try:
            while True:
                there = self._by_topology()
                self._give_places(there)
                for key in self._dependencies.cache.topologies:
                    measure(str(key), there.get(key, ()))
                crowded = any(one.task is None for one in self._served.values())
                await wait_debounced(self._wake, _CROWDED_SECONDS if crowded else _IDLE_SECONDS, _DEBOUNCE_SECONDS)
        finally:
            for one in self._served.values():
                one.displace()
            leaving = [one.leaving for one in self._served.values() if one.leaving is not None]
            await asyncio.gather(*leaving, return_exceptions=True)

    def _by_topology(self) -> Mapping[ObjectKey, Sequence[Reassignment]]:
        there: defaultdict[ObjectKey, list[Reassignment]] = defaultdict(list)
        for one in self._dependencies.cache.reassignments.values():
            there[one.topology].append(one)
        return there

    def _give_places(self, there: Mapping[ObjectKey, Sequence[Reassignment]]) -> None:
        now = asyncio.get_running_loop().time()
        needed = {key for key, objects in there.items() if has_work(objects)}
        for key in needed - self._served.keys():
            self._served[key] = _Served(TopologyWorker(key, self._dependencies), now)
        contenders = []
        for key, one in list(self._served.items()):
            one.look(now)
            if key not in needed and not one.worker.has_lost_run:
                one.displace()
                if one.has_left:
                    del self._served[key]
            elif one.task is not None or (one.has_left and not one.rests):
                contenders.append(Contender(key, one.since, one.rests))
        placed = set(in_turn(contenders, _PLACES))
        for key, one in self._served.items():
            if key not in placed:
                one.displace()
            elif one.task is None:
                name, liveness = f"reassignments of {key}", self._dependencies.liveness
                loop = run_guarded(name, one.worker.reconcile, one.worker.wake, _DEBOUNCE_SECONDS, liveness)
                one.task = asyncio.create_task(loop, name=name)


async def _left(task: asyncio.Task[None], worker: TopologyWorker) -> None:
    await asyncio.gather(task, return_exceptions=True)
    await worker.step_aside()
