"""The worker that carries out the Reassignments of one topology, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import ReassignmentState
from rackspan.core.reassignment import Limits
from rackspan.reconcile.audit_log import AuditedAdmin
from rackspan.reconcile.cluster.client import ReassignmentClient
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans import turns
from rackspan.reconcile.plans.approved_plans import UnreadablePlanError, in_order, record_from
from rackspan.reconcile.plans.executor import Executor, StoppedError
from rackspan.reconcile.plans.reassignment_status import (
    JournalError,
    ReassignmentWriter,
    RecordTooLargeError,
    StatusJournal,
    measure,
)
from rackspan.reconcile.plans.runs import Run, stopped_by
from rackspan.reconcile.plans.turns import Intent, rules_of
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.dependencies import ReassignmentDependencies

_log = logging.getLogger("rackspan.reassignments")

_STEP_SECONDS = 1.0
_RECORD_SECONDS = 3.0
"""The pause after a refused write of the record: by then the watch has reported the change."""
_RETRY_SECONDS = 15.0
_IDLE_SECONDS = 60.0
_CLEARING_SECONDS = 60.0
"""The time limit for clearing the throttles of a Reassignment that is not carried out any more."""
_LOST = "waits for Kafka to clear the throttles of a Reassignment that is gone"


class TopologyWorker:
    """Level-triggered: each pass starts from the current objects, the records in them, and the state of Kafka."""

    def __init__(self, key: ObjectKey, dependencies: ReassignmentDependencies) -> None:
        self.wake = asyncio.Event()
        self._key = key
        self._dependencies = dependencies
        self._cache = dependencies.cache
        self._writer = ReassignmentWriter(dependencies)
        self._connection = ReassignmentClient(dependencies.connector, dependencies.kube)
        self._topology: RackTopology | None = None
        """The last known RackTopology, kept after its deletion: throttles that are left are in its cluster."""
        self._run: Run | None = None
        self._aside: Run | None = None
        """The run from before the worker stepped aside or failed. The object may have a newer record."""
        self._rests_until = 0.0
        self._parts = frozenset[str]()
        """The uids of the known parts of the next plan."""
        self._parts_since = 0.0
        """Since when these are the known parts, by the event loop's clock."""

    @property
    def rests(self) -> bool:
        """Whether nothing is due now: the plan is paused, or waits for Kafka or for others, and nothing has changed."""
        return not self.wake.is_set() and asyncio.get_running_loop().time() < self._rests_until

    @property
    def has_lost_run(self) -> bool:
        """Whether another client has deleted the Reassignment under way, whose throttles are not cleared yet."""
        run = self._run or self._aside
        if run is None:
            return False
        return not run.is_of(self._cache.reassignments.get(run.of.key))

    async def close(self) -> None:
        """Close the connection to Kafka. Moves under way continue there, and the next run continues from the record."""
        self._run = self._aside = None
        await self._connection.close()

    async def step_aside(self) -> None:
        """Close the connection and keep the run: the time for which a broker is missing counts across turns."""
        self._put_aside()
        await self._connection.close()

    def _put_aside(self) -> None:
        """Keep the run, with another executor from its next pass on: if the object is gone, only it has the record."""
        self._aside, self._run = self._run or self._aside, None

    async def leave(self) -> Sequence[str]:
        """Clear all throttles before an uninstall. Return a sentence for each problem. Never raises."""
        self._topology = self._cache.topologies.get(self._key)
        recorded = [one for one in in_order(self._cache, self._key) if one.status.record is not None]
        found = [(one, await self._cleared(one)) for one in recorded]
        await self.close()
        return [f"Reassignment {one.key}: {problem}" for one, problem in found if problem is not None]

    async def reconcile(self) -> float:
        """Run one pass. Return the seconds until the next. Raises FailureError if the API server does not respond."""
        pause, self._rests_until = _RETRY_SECONDS, 0.0
        try:
            pause = await self._look()
        except asyncio.CancelledError:
            pause = 0.0
            raise
        finally:
            if pause >= _RETRY_SECONDS:
                self._rests_until = asyncio.get_running_loop().time() + pause
        return pause

    async def _look(self) -> float:
        self._topology = self._cache.topologies.get(self._key) or self._topology
        await self._leave_lost_run()
        pause = await self._carry_on()
        mine = in_order(self._cache, self._key)
        for one in turns.outlived(mine):
            await self._dependencies.objects.delete(one)
        measure(str(self._key), mine)
        if not self.has_lost_run and not any(map(turns.needs_work, mine)):
            await self.close()
        return pause

    async def _carry_on(self) -> float:
        mine = in_order(self._cache, self._key)
        topology = self._cache.topologies.get(self._key)
        if topology is None and not (await self._dependencies.kube.listed(TOPOLOGY)).lacks(self._key):
            return _RETRY_SECONDS  # the topology exists, but cannot be read now
        if topology is None or topology.meta.is_deleting:
            left = [await self._abandon(one) for one in mine if turns.needs_work(one)]
            return _RETRY_SECONDS if all(left) else _STEP_SECONDS
        unfinished = [one for one in mine if not one.ended]
        if not any(map(turns.has_begun, unfinished)):
            for one in mine:
                if one.ended and turns.needs_work(one):
                    await self._clear_left_over(one)
        if not unfinished:
            return _IDLE_SECONDS
        first = next(filter(turns.has_begun, unfinished), unfinished[0])  # a Reassignment that has begun goes first
        for one in unfinished:
            if one is not first and not await self._end_withdrawn(one):
                waits = f"waits until {first.meta.name} has ended"
                await self._writer.write_state(one, ReassignmentState.QUEUED, waits)
        return await self._have_its_turn(first, topology, mine)

    # --- Reassignments that wait or have ended -----------------------------------------------------------------------

    async def _end_withdrawn(self, one: Reassignment) -> bool:
        """End a Reassignment that was deleted or cancelled before it began. Return whether it was."""
        if one.meta.is_deleting:
            await self._writer.release(one)
        elif one.spec.cancelled:
            await self._writer.end(one, ReassignmentState.CANCELLED, "cancelled before it began", self._topology)
        return one.meta.is_deleting or one.spec.cancelled

    async def _clear_left_over(self, one: Reassignment) -> None:
        """Clear the throttles left at its end, then release the object. Release it anyway if it is being deleted."""
        if one.status.throttles:
            problem = await self._cleared(one)
            known = self._writer.current(one)
            if known is None:
                return
            if problem is None:
                if not await self._writer.write(known, replace(known.status, throttles=0, record=None)):
                    return
            elif known.meta.is_deleting:
                self._writer.left_over(known, self._topology, problem)
            else:
                return
        if (known := self._writer.current(one)) is not None:
            await self._writer.release(known)

    async def _abandon(self, one: Reassignment) -> bool:
        """End a Reassignment whose topology is deleted, and release its object. Clear throttles if Kafka responds.

        Return False if the end could not be written, because another client changed the object: the next pass retries.
        """
        problem = await self._cleared(one) if one.status.record is not None else None
        if (known := self._writer.current(one)) is None:
            return True
        if not known.ended:
            why = f"RackTopology {self._key.name} is gone; {problem or 'no throttle is left'}"
            await self._writer.end(known, ReassignmentState.STOPPED, why, self._topology)
            after = self._writer.current(one)
            if after is not None and not after.ended:
                return False
        if problem is not None:
            self._writer.left_over(known, self._topology, problem)
        if (known := self._writer.current(one)) is not None:
            await self._writer.release(known)
        return True

    async def _cleared(self, one: Reassignment) -> str | None:
        """Clear the throttles of a Reassignment that is not carried out. Return what is left, or None. Never raises."""
        try:
            async with asyncio.timeout(_CLEARING_SECONDS):
                run = self._run
                executor = run.executor if run is not None and run.is_of(one) else await self._executor(one)
                await executor.clear_throttles()
        except (FailureError, JournalError, UnreadablePlanError, TimeoutError) as error:
            return f"throttles may be left in Kafka: {error or 'no answer in time'}"
        left = sorted({setting.name for setting in executor.record.throttles})
        return f"throttles are left in Kafka, on {', '.join(left[:10])}" if left else None

    async def _leave_lost_run(self) -> None:
        """Clear the throttles of a Reassignment that another client has deleted with its finalizer."""
        run = self._run or self._aside
        if run is None or not self.has_lost_run:
            return
        try:
            async with asyncio.timeout(_CLEARING_SECONDS):
                if self._run is None and self._topology is not None:
                    admin = await self._connection.admin(self._topology)
                    run.executor = run.executor.over(AuditedAdmin(admin, run.of))
                with contextlib.suppress(JournalError):  # the record was deleted with the object
                    await run.executor.clear_throttles()
        except (FailureError, TimeoutError) as error:
            _log.warning("Reassignment %s is gone, and its throttles may be left in Kafka: %s", run.of.key, error)
            if self._key in self._cache.topologies:
                await self.step_aside()  # the next pass retries
                return
        except Exception:
            self._run = self._aside = None  # a bug must not block the other Reassignments
            raise
        self._run = self._aside = None

    # --- the Reassignment whose turn it is ---------------------------------------------------------------------------

    async def _have_its_turn(self, one: Reassignment, topology: RackTopology, mine: Sequence[Reassignment]) -> float:
        intent = turns.intent_of(one, mine, topology, self._dependencies.clock())
        if (pause := await self._waits(one, intent, mine)) is not None:
            return pause
        try:
            return await self._pass(one, topology, intent)
        except StoppedError as error:
            run = self._run
            if run is None or run.stopping is not None or intent is Intent.CANCEL:
                return await self._stop(one, str(error))
            run.stopping = str(error)
            return _STEP_SECONDS
        except UnreadablePlanError as error:
            await self._writer.end(one, ReassignmentState.STOPPED, str(error), topology, reason=Reason.INVALID_SPEC)
            return _STEP_SECONDS
        except RecordTooLargeError as error:
            self._put_aside()
            if (known := self._writer.current(one)) is not None:
                await self._writer.write_state(known, known.status.state or ReassignmentState.RUNNING, str(error))
            return _RETRY_SECONDS
        except JournalError as error:
            return await self._record_failed(one, error)
        except FailureError as error:
            await self._connection_failed(one, error)
            return _RETRY_SECONDS

    async def _record_failed(self, one: Reassignment, error: JournalError) -> float:
        """Start again from the object in the API server. Return the seconds until then."""
        _log.warning("Reassignment %s: %s", one.key, error)
        self._put_aside()  # its record may differ from the stored one
        await self._writer.read(one)
        return _RECORD_SECONDS

    async def _waits(self, one: Reassignment, intent: Intent, mine: Sequence[Reassignment]) -> float | None:
        """Return None if a pass may run now, else the seconds until the next check."""
        if not turns.has_begun(one) and (pause := await self._not_yet(one, intent, mine)) is not None:
            return pause
        if self.has_lost_run:  # the run of this one would replace it
            await self._writer.write_state(one, one.status.state or ReassignmentState.QUEUED, _LOST)
            return _RETRY_SECONDS
        if not has_finalizer(one.meta) and not one.meta.is_deleting:
            await self._writer.hold(one)
            return _STEP_SECONDS
        return None

    async def _not_yet(self, one: Reassignment, intent: Intent, mine: Sequence[Reassignment]) -> float | None:
        """Return None if a Reassignment may begin at its turn, else the seconds until the next check."""
        if await self._end_withdrawn(one):
            return _STEP_SECONDS
        obstacle = turns.obstacle(one, mine, self._unchanged_seconds(one, mine))
        if obstacle is not None and obstacle[0].ended:
            await self._writer.end(one, *obstacle, self._topology)
            return _STEP_SECONDS
        if obstacle is not None:
            await self._writer.write_state(one, *obstacle)
            return _RETRY_SECONDS
        if intent is Intent.PAUSE:
            told = await self._writer.write_state(one, ReassignmentState.PAUSED, turns.paused_by(one, mine))
        elif (refused := self._cache.unusable(self._key)) is not None:
            told = await self._writer.write_state(one, ReassignmentState.QUEUED, refused.message, reason=refused.reason)
        else:
            return None
        return _IDLE_SECONDS if told else _STEP_SECONDS  # the cache has the change: its event wakes nobody

    def _unchanged_seconds(self, one: Reassignment, mine: Sequence[Reassignment]) -> float:
        """Return how long this process has seen the same parts of a plan: the API server may have another clock."""
        now = asyncio.get_running_loop().time()
        parts = frozenset(two.meta.uid for two in mine if two.spec.plan_hash == one.spec.plan_hash)
        if parts != self._parts:
            self._parts, self._parts_since = parts, now
        return now - self._parts_since

    async def _pass(self, one: Reassignment, topology: RackTopology, intent: Intent) -> float:
        before = self._run or self._aside
        if before is not None and before.is_of(one) and before.is_left_alone(intent):
            return _IDLE_SECONDS
        run, now = await self._run_of(one), asyncio.get_running_loop().time()
        if (known := self._writer.current(one)) is None:
            return _STEP_SECONDS
        if run.stopping is not None:
            intent = Intent.CANCEL
        if intent is not Intent.CANCEL:
            run.refuse_changed(topology, now)
            run.refuse_held(intent, now)
        state, begins = run.state(intent)
        if known.status.state is not state and state is not ReassignmentState.PAUSED:
            if not await self._writer.write_state(known, state, begins):
                return _STEP_SECONDS  # it may be paused or cancelled now
            self._writer.announce(known, topology, state, known.spec.approved_by or begins)
        mine = in_order(self._cache, self._key)
        rules = rules_of(known, mine, topology)
        seen = await run.advance(rules, intent, self._dependencies.clock())
        if (known := self._writer.current(one)) is None:
            return _STEP_SECONDS
        if seen.finished:
            self._run = None
            status, state, message = run.ended(known, seen, intent)
            await self._writer.end(known, state, message, topology, status=status)
            return _STEP_SECONDS
        if run.is_due(known, state, now):
            status, message = run.progress(known, mine, seen, state)
            run.told = await self._writer.write_state(known, state, message, status=status)
        return _IDLE_SECONDS if run.is_left_alone(intent) else run.pause

    async def _stop(self, one: Reassignment, why: str) -> float:
        """End a Reassignment whose moves under way cannot be cancelled."""
        problem = await self._cleared(one) if turns.has_begun(one) else None
        self._run = None
        known = self._writer.current(one)
        if known is not None:
            under_way = "what is under way goes on in Kafka, without a throttle; " if known.status.copying else ""
            status = known.status if problem else replace(known.status, throttles=0, record=None)
            message = f"stopped: {why}; {under_way}{problem or 'throttles are cleared'}; make a new plan"
            await self._writer.end(known, ReassignmentState.STOPPED, message, self._topology, status=status)
        return _STEP_SECONDS

    async def _connection_failed(self, one: Reassignment, error: FailureError) -> None:
        """Report that Kafka does not respond. The next pass connects again, with the Secrets of that time."""
        await self.step_aside()
        known = self._writer.current(one)
        if error.failure.reason is Reason.LEASE_NOT_HELD or known is None:
            raise error
        state = known.status.state or ReassignmentState.QUEUED
        await self._writer.write_state(known, state, f"tried again: {error}", reason=error.failure.reason)

    async def _run_of(self, one: Reassignment) -> Run:
        """Return the run of the Reassignment whose turn it is. Create it from the API server's object if needed."""
        if self._run is None or not self._run.is_of(one):
            await self._writer.read(one)
            executor = await self._executor(self._writer.current(one) or one)
            if self._aside is not None and self._aside.is_of(one):
                self._run = self._aside
                self._run.executor = executor
            else:
                self._run = Run(one, executor)
                self._run.stopping = stopped_by(self._writer.current(one) or one)
            self._aside = None
        return self._run

    async def _executor(self, one: Reassignment) -> Executor:
        """Raises UnreadablePlanError, JournalError if the object is deleted, FailureError if no server responds."""
        plan = await self._dependencies.objects.plan(one)
        if plan is None:
            raise JournalError("the object is gone")
        record = await asyncio.to_thread(record_from, one, plan)
        if self._topology is None:
            raise UnreadablePlanError("its RackTopology is gone, and with it the way to Kafka")
        admin = await self._connection.admin(self._topology)
        journal = StatusJournal(one, self._cache, self._dependencies.objects)
        return Executor(AuditedAdmin(admin, one), journal, record, Limits())
