"""The Reassignments of one topology, carried out one after the other."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import KIND, State
from rackspan.core.reassignment import Limits
from rackspan.core.text import plural
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.reassignments import turns
from rackspan.reconcile.reassignments.connection import Connection
from rackspan.reconcile.reassignments.events import post_events
from rackspan.reconcile.reassignments.executor import Executor, StoppedError
from rackspan.reconcile.reassignments.gauges import forget, measure
from rackspan.reconcile.reassignments.journal import JournalError, StatusJournal
from rackspan.reconcile.reassignments.plans import UnreadablePlanError, record_from
from rackspan.reconcile.reassignments.rates import Rate
from rackspan.reconcile.reassignments.requests import in_order
from rackspan.reconcile.reassignments.status import ended, in_state, told, waits, with_pass
from rackspan.reconcile.reassignments.turns import PlannedBrokers, Wish
from rackspan.reconcile.runtime.finalizers import has_finalizer
from rackspan.reconcile.runtime.liveness import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment, ReassignmentStatus
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.reassignments.executor import Pass
    from rackspan.reconcile.reassignments.ports import ReassignmentConnector, ReassignmentObjects
    from rackspan.reconcile.runtime.finalizers import FinalizerWriter

_log = logging.getLogger("rackspan.reassignments")

_STEP_SECONDS = 1.0
"""After a pass that found something changed: the next step may be due."""
_COPYING_SECONDS = 3.0
_WAITING_SECONDS = 20.0
"""Where everything waits for what only others can mend."""
_RETRY_SECONDS = 15.0
_IDLE_SECONDS = 60.0
_STATUS_SECONDS = 10.0
"""How often progress alone is written: each write is a whole object to the API server's store."""
_RACKS_SECONDS = 30.0
"""How long a broker must be seen in another rack: a label that flaps stops nothing."""
_GONE_SECONDS = 600.0
"""How long a broker must be missing: it may only be restarted."""
_CLEARING_SECONDS = 60.0
"""How long throttles may take to be cleared where the object goes in any case."""


@dataclass(frozen=True, slots=True)
class ReassignmentDependencies:
    """What carrying out Reassignments needs."""

    cache: Cache
    kube: KubeApi
    objects: ReassignmentObjects
    connector: ReassignmentConnector
    finalizers: FinalizerWriter
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    liveness: Liveness = field(default_factory=Liveness)


@dataclass(slots=True)
class _Run:
    """The Reassignment whose turn it is, and what this process knows of it beside its object."""

    key: ObjectKey
    uid: str
    executor: Executor
    brokers: PlannedBrokers
    rate: Rate = field(default_factory=Rate)
    seen: Pass | None = None
    parked: bool = False
    """Paused, with nothing under way and no throttle set: nothing is to be done until that changes."""
    written_at: float = 0.0
    stopping: str | None = None
    """Why the plan does not fit any more: what is under way is taken back, and that is its end."""
    apart_since: float | None = None
    gone_since: float | None = None


class TopologyWorker:
    """Level-triggered: each pass starts from the objects that are there, what was recorded in them, and Kafka."""

    def __init__(self, key: ObjectKey, dependencies: ReassignmentDependencies) -> None:
        self.wake = asyncio.Event()
        self._key = key
        self._dependencies = dependencies
        self._cache = dependencies.cache
        self._connection = Connection(dependencies.connector, dependencies.kube)
        self._topology: RackTopology | None = None
        """As it was last, also once it is gone: throttles that are left lie in its cluster."""
        self._run: _Run | None = None

    async def close(self) -> None:
        """Close the connection to Kafka. What is under way there goes on, and is gone on with from the record."""
        self._run = None
        await self._connection.close()

    async def leave(self) -> Sequence[str]:
        """Clear all throttles, since the operator goes; what is left, a sentence for each. Never raises."""
        self._topology = self._cache.topologies.get(self._key)
        recorded = [one for one in in_order(self._cache, self._key) if one.status.record is not None]
        found = [(one, await self._cleared(one)) for one in recorded]
        await self.close()
        return [f"Reassignment {one.key}: {problem}" for one, problem in found if problem is not None]

    async def reconcile(self) -> float:
        """One pass; the seconds until the next one. Raises FailureError where the API server does not answer."""
        self._topology = self._cache.topologies.get(self._key) or self._topology
        await self._leave_lost_run()
        pause = await self._carry_on()
        mine = in_order(self._cache, self._key)
        unfinished = [one for one in mine if not one.ended]
        for one in turns.outlived([one for one in mine if one.ended], unfinished):
            await self._dependencies.objects.delete(one)
        if mine:
            measure(str(self._key), mine)
        else:
            forget(str(self._key))
        if not any(map(turns.needs_work, mine)):
            await self.close()
        return pause

    async def _carry_on(self) -> float:
        mine = in_order(self._cache, self._key)
        unfinished = [one for one in mine if not one.ended]
        if self._key not in self._cache.topologies and self._key in await self._dependencies.kube.uids(TOPOLOGY):
            return _RETRY_SECONDS  # it is there, and cannot be read now
        if self._topology_gone:
            for one in mine:
                if turns.needs_work(one):
                    await self._abandon(one, f"RackTopology {self._key.name} is gone")
            return _RETRY_SECONDS
        left = [one for one in mine if one.ended and turns.needs_work(one)]
        if not any(map(turns.has_begun, unfinished)):
            for one in left:
                await self._clear_left_over(one)
        if not unfinished:
            return _IDLE_SECONDS
        first = turns.first_in_turn(unfinished)
        for one in unfinished:
            if one is not first:
                await self._keep_waiting(one, first)
        return await self._have_its_turn(first, mine)

    @property
    def _topology_gone(self) -> bool:
        topology = self._cache.topologies.get(self._key)
        return topology is None or topology.meta.is_deleting

    # --- those that have to wait, and those that have ended --------------------------------------------------------

    async def _keep_waiting(self, one: Reassignment, first: Reassignment) -> None:
        if one.meta.is_deleting:
            await self._release(one)
        elif one.spec.cancelled:
            await self._end(one, State.CANCELLED, "cancelled before it began")
        else:
            await self._tell(one, one.status, State.QUEUED, f"waits until {first.meta.name} has ended")

    async def _clear_left_over(self, one: Reassignment) -> None:
        """Give back throttles that could not be cleared when it ended; one that is being deleted is let go anyway."""
        if one.status.throttles:
            problem = await self._cleared(one)
            known = self._current(one)
            if known is None:
                return
            if problem is None:
                await self._write(known, replace(known.status, throttles=0, record=None))
            elif known.meta.is_deleting:
                self._tell_left_over(known, problem)
            else:
                return
        if (known := self._current(one)) is not None:
            await self._release(known)

    async def _abandon(self, one: Reassignment, why: str) -> None:
        """End one that cannot be gone on with, and let its object go; throttles are cleared where Kafka answers."""
        problem = await self._cleared(one) if one.status.record is not None else None
        if (known := self._current(one)) is None:
            return
        if problem is not None:
            self._tell_left_over(known, problem)
        if not known.ended:
            await self._end(known, State.STOPPED, f"{why}; {problem or 'no throttle is left'}")
        if (known := self._current(one)) is not None:
            await self._release(known)

    async def _cleared(self, one: Reassignment) -> str | None:
        """Clear all throttles of one that is not carried out any more; what is left, in words. Never raises."""
        try:
            async with asyncio.timeout(_CLEARING_SECONDS):
                executor = self._run.executor if self._run is not None and self._run.uid == one.meta.uid else None
                if executor is None:
                    executor = await self._executor(one)
                await executor.clear_throttles()
        except (FailureError, JournalError, UnreadablePlanError, TimeoutError) as error:
            return f"throttles may be left in Kafka: {error or 'no answer in time'}"
        left = sorted({setting.name for setting in executor.record.throttles})
        return f"throttles are left in Kafka, on {', '.join(left[:10])}" if left else None

    async def _leave_lost_run(self) -> None:
        """Clear the throttles of what somebody has taken away, finalizer and all."""
        run = self._run
        if run is None or ((known := self._cache.reassignments.get(run.key)) and known.meta.uid == run.uid):
            return
        self._run = None
        try:
            async with asyncio.timeout(_CLEARING_SECONDS):
                await run.executor.clear_throttles()
        except (FailureError, TimeoutError, JournalError) as error:
            _log.warning("Reassignment %s is gone, and its throttles may be left in Kafka: %s", run.key, error)

    # --- the one whose turn it is ------------------------------------------------------------------------------------

    async def _have_its_turn(self, one: Reassignment, mine: Sequence[Reassignment]) -> float:
        topology = self._cache.topologies[self._key]
        wish = turns.wish_of(one, topology)
        if not turns.has_begun(one) and (pause := await self._not_yet(one, wish, mine)) is not None:
            return pause
        if not has_finalizer(one.meta) and not one.meta.is_deleting:
            written = await self._dependencies.finalizers.add(KIND, one.meta)
            await self._learn(one, written)
            return _STEP_SECONDS
        try:
            return await self._pass(one, topology, wish)
        except StoppedError as error:
            run = self._run
            if run is None or run.stopping is not None or wish is Wish.CANCEL:
                return await self._stop(one, str(error))
            run.stopping = str(error)
            return _STEP_SECONDS
        except UnreadablePlanError as error:
            await self._end(one, State.STOPPED, str(error), Reason.INVALID_SPEC)
            return _STEP_SECONDS
        except JournalError as error:
            _log.warning("Reassignment %s: %s", one.key, error)
            self._run = None
            await self._learn(one, None)
            return _COPYING_SECONDS
        except FailureError as error:
            await self._connection_failed(one, error)
            return _RETRY_SECONDS

    async def _not_yet(self, one: Reassignment, wish: Wish, mine: Sequence[Reassignment]) -> float | None:
        """Why one has its turn and does not begin: the seconds until it is looked at again, None where it does."""
        if one.meta.is_deleting:
            await self._release(one)
            return _STEP_SECONDS
        if wish is Wish.CANCEL:
            await self._end(one, State.CANCELLED, "cancelled before it began")
            return _STEP_SECONDS
        why = turns.obstacle(one, mine, self._dependencies.clock())
        if why is not None:
            await (self._end if why[0].ended else self._wait)(one, *why)
            return _STEP_SECONDS if why[0].ended else _RETRY_SECONDS
        if wish is Wish.PAUSE:
            await self._wait(one, State.PAUSED, _paused_by(one))
            return _IDLE_SECONDS
        return None

    async def _pass(self, one: Reassignment, topology: RackTopology, wish: Wish) -> float:
        run = await self._run_of(one)
        known = self._current(one)
        if known is None:
            return _STEP_SECONDS
        run.executor.adjust(_limits(known), known.spec.throttle)
        wish = Wish.CANCEL if run.stopping is not None else wish
        if wish is Wish.PAUSE and run.parked:
            return _IDLE_SECONDS
        run.parked = False
        if wish is not Wish.CANCEL:
            self._refuse_changed(run, topology)
        doing = {Wish.RUN: State.RUNNING, Wish.PAUSE: State.PAUSED, Wish.CANCEL: State.CANCELLING}[wish]
        if known.status.state is not doing and doing is not State.PAUSED:
            message = _BEGINS[doing] if run.stopping is None else f"stopping: {run.stopping}"
            await self._write(known, self._state(known, known.status, doing, message))
            why = known.spec.approved_by if doing is State.RUNNING else message
            post_events(self._dependencies.kube, known, topology, doing, why)
        before = run.seen
        run.seen = seen = await self._one_pass(run, wish)
        run.rate.add(self._dependencies.clock(), seen.progress.moved_bytes + seen.partial_bytes)
        if seen.finished:
            return await self._finished(one, run, wish)
        await self._show(one, run, doing, seen)
        if run.parked:
            return _IDLE_SECONDS
        if before is None or _signs(before) != _signs(seen) or not (seen.copying or seen.waiting):
            return _STEP_SECONDS
        return _COPYING_SECONDS if seen.copying else _WAITING_SECONDS

    async def _one_pass(self, run: _Run, wish: Wish) -> Pass:
        if wish is Wish.CANCEL:
            return await run.executor.take_back()
        if wish is Wish.RUN:
            return await run.executor.advance()
        seen = await run.executor.wind_down()
        run.parked = not (seen.copying or seen.throttles or seen.finished)
        return seen

    async def _finished(self, one: Reassignment, run: _Run, wish: Wish) -> float:
        seen = run.seen
        if (known := self._current(one)) is None or seen is None:
            return _STEP_SECONDS
        state, message = ended(seen)
        if run.stopping is not None:
            state = State.STOPPED
            message = f"stopped: {run.stopping}; what was under way is taken back; make a new plan"
        elif wish is Wish.CANCEL and not (state is State.SUCCEEDED and not known.meta.is_deleting and _whole(seen)):
            left = f"; {waits(seen.waiting)}" if seen.waiting else ""
            state = State.CANCELLED
            message = f"cancelled after {seen.progress.moved} of {plural(seen.progress.moves, 'move')}{left}"
        status = with_pass(known.status, seen, len(run.executor.record.changes), run.rate)
        if not seen.throttles:
            status = replace(status, record=None)
        self._run = None
        await self._end(known, state, message, status=status)
        return _STEP_SECONDS

    async def _stop(self, one: Reassignment, why: str) -> float:
        problem = await self._cleared(one) if turns.has_begun(one) else None
        self._run = None
        known = self._current(one)
        if known is not None:
            under_way = "what is under way goes on in Kafka, without a throttle; " if known.status.copying else ""
            status = known.status if problem else replace(known.status, throttles=0, record=None)
            if known.meta.is_deleting and problem is not None:
                self._tell_left_over(known, problem)
            message = f"stopped: {why}; {under_way}{problem or 'throttles are cleared'}; make a new plan"
            await self._end(known, State.STOPPED, message, status=status)
        return _STEP_SECONDS

    async def _connection_failed(self, one: Reassignment, error: FailureError) -> None:
        """Tell that Kafka does not answer, and begin anew with the Secrets of then."""
        self._run = None
        await self._connection.close()
        known = self._current(one)
        if error.failure.reason is Reason.LEASE_NOT_HELD or known is None:
            raise error
        state = known.status.state or State.QUEUED
        await self._tell(known, known.status, state, f"tried again: {error}", error.failure.reason)

    # --- help ---------------------------------------------------------------------------------------------------------

    async def _run_of(self, one: Reassignment) -> _Run:
        """What is known of the one whose turn it is; from its object as the API server has it, if that is nothing."""
        if self._run is None or self._run.uid != one.meta.uid:
            await self._learn(one, None)
            executor = await self._executor(self._current(one) or one)
            self._run = _Run(one.key, one.meta.uid, executor, PlannedBrokers.of(executor.record))
        return self._run

    async def _executor(self, one: Reassignment) -> Executor:
        """Raises UnreadablePlanError, and FailureError where Kafka cannot be reached."""
        record = await asyncio.to_thread(record_from, one)
        if self._topology is None:
            raise UnreadablePlanError("its RackTopology is gone, and with it the way to Kafka")
        admin = await self._connection.admin(self._topology)
        journal = StatusJournal(one, self._cache, self._dependencies.objects)
        return Executor(admin, journal, record, _limits(one), one.spec.throttle)

    def _refuse_changed(self, run: _Run, topology: RackTopology) -> None:
        """Raise StoppedError where racks have changed for longer than a label flaps or a broker restarts."""
        now = asyncio.get_running_loop().time()
        apart = turns.racks_changed(run.brokers, topology)
        gone = turns.brokers_gone(run.brokers, topology)
        run.apart_since = None if apart is None else now if run.apart_since is None else run.apart_since
        run.gone_since = None if gone is None else now if run.gone_since is None else run.gone_since
        if apart is not None and run.apart_since is not None and now - run.apart_since >= _RACKS_SECONDS:
            raise StoppedError(apart)
        if gone is not None and run.gone_since is not None and now - run.gone_since >= _GONE_SECONDS:
            raise StoppedError(gone)

    async def _show(self, one: Reassignment, run: _Run, state: State, seen: Pass) -> None:
        now = asyncio.get_running_loop().time()
        known = self._current(one)
        due = run.parked or now - run.written_at >= _STATUS_SECONDS
        if known is None or not (due or known.status.state is not state):
            return
        run.written_at = now
        status = with_pass(known.status, seen, len(run.executor.record.changes), run.rate)
        why = _paused_by(known) if state is State.PAUSED else f"stopping: {run.stopping}" if run.stopping else ""
        message = f"{why}; {told(seen)}" if why else told(seen)
        await self._tell(known, status, state, message)

    def _state(
        self,
        one: Reassignment,
        status: ReassignmentStatus,
        state: State,
        message: str,
        reason: Reason | None = None,
    ) -> ReassignmentStatus:
        return in_state(one, status, state, message, self._dependencies.clock(), reason)

    async def _tell(
        self,
        one: Reassignment,
        status: ReassignmentStatus,
        state: State,
        message: str,
        reason: Reason | None = None,
    ) -> None:
        status = self._state(one, status, state, message, reason)
        if status != one.status:
            await self._write(one, status)

    async def _wait(self, one: Reassignment, state: State, message: str) -> None:
        await self._tell(one, one.status, state, message)

    async def _end(
        self,
        one: Reassignment,
        state: State,
        message: str,
        reason: Reason | None = None,
        status: ReassignmentStatus | None = None,
    ) -> None:
        """Write how it ended, then let go of it unless throttles are left."""
        status = self._state(one, status or one.status, state, message, reason)
        if not await self._write(one, status):
            return
        post_events(self._dependencies.kube, one, self._topology, state, message)
        known = self._current(one)
        if known is not None and not status.throttles:
            await self._release(known)

    async def _write(self, one: Reassignment, status: ReassignmentStatus) -> bool:
        """Write a status; False where the object changed meanwhile, which is then known. Raises FailureError."""
        written = await self._dependencies.objects.write_status(one, status.to_dict())
        await self._learn(one, written)
        return written is not None

    async def _release(self, one: Reassignment) -> None:
        if has_finalizer(one.meta):
            await self._learn(one, await self._dependencies.finalizers.remove(KIND, one.meta))

    async def _learn(self, one: Reassignment, written: dict[str, object] | None) -> None:
        """Keep an object as it was written, or else as the API server has it."""
        body = written or await self._dependencies.kube.find(KIND, one.key)
        if body is not None:
            self._cache.put_reassignment_answer(body)
        elif (known := self._cache.reassignments.get(one.key)) is not None and known.meta.uid == one.meta.uid:
            self._cache.drop_reassignment(one.key)

    def _current(self, one: Reassignment) -> Reassignment | None:
        known = self._cache.reassignments.get(one.key)
        return known if known is not None and known.meta.uid == one.meta.uid else None

    def _tell_left_over(self, one: Reassignment, problem: str) -> None:
        _log.warning("Reassignment %s is let go: %s", one.key, problem)
        post_events(self._dependencies.kube, one, self._topology, None, problem)


_BEGINS = {State.RUNNING: "carried out from now on", State.CANCELLING: "what is under way is taken back"}


def _limits(one: Reassignment) -> Limits:
    return Limits(one.spec.max_concurrent_moves, one.spec.max_concurrent_moves_per_broker)


def _signs(seen: Pass) -> tuple[int, int, int, int]:
    """What changes when a step is done."""
    return seen.progress.moved, seen.copying, len(seen.waiting), seen.throttles


def _whole(seen: Pass) -> bool:
    return seen.progress.moved == seen.progress.moves


def _paused_by(one: Reassignment) -> str:
    return "paused by its spec" if one.spec.paused else "paused with its RackTopology"
