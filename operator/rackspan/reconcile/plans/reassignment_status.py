"""The status of a Reassignment: pure functions from a pass to counts, sentences and conditions; and its writer.

The writer also queues Events, and puts each written object (status, record, finalizers) into the cache. `measure` sets
the metrics of a topology's Reassignments.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan import metrics
from rackspan.api import racktopology
from rackspan.api.conditions import READY, Conditions, ConditionStatus
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import (
    KIND,
    MAX_FAILURE,
    MAX_MESSAGE,
    MAX_PLAN,
    MAX_SAMPLE,
    MAX_SAMPLES,
    ProgressTexts,
    ReassignmentState,
    ThrottleStatus,
    WaitingFor,
    WaitingStatus,
)
from rackspan.core.copy_costs import removed
from rackspan.core.reassignment import PaceReason
from rackspan.core.text import plural, size
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans.plan_documents import TooLargeError, packed, progress_document
from rackspan.reconcile.plans.turns import has_begun
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from prometheus_client import Gauge

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment, ReassignmentStatus
    from rackspan.core.reassignment import Waiting, WaitReason
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.dependencies import ReassignmentDependencies
    from rackspan.reconcile.plans.executor import Pass
    from rackspan.reconcile.ports import JsonObject, ReassignmentObjects, Record


_log = logging.getLogger("rackspan.reassignments")

REASONS: Final = {
    ReassignmentState.QUEUED: Reason.QUEUED,
    ReassignmentState.RUNNING: Reason.MOVING,
    ReassignmentState.PAUSED: Reason.PAUSED,
    ReassignmentState.CANCELLING: Reason.CANCELLING,
    ReassignmentState.SUCCEEDED: Reason.MOVED,
    ReassignmentState.FAILED: Reason.NOT_ALL_MOVED,
    ReassignmentState.CANCELLED: Reason.CANCELLED,
    ReassignmentState.STOPPED: Reason.STOPPED,
}
PACES: Final = {
    PaceReason.START: "adaptive: begins at the floor",
    PaceReason.CALM: "adaptive: no replica falls behind, so it rises up to the ceiling",
    PaceReason.FELL_BEHIND: "adaptive: replicas fell behind, so it is halved, once in 30 s",
    PaceReason.STILL_BEHIND: "adaptive: stays as it is while replicas that fell behind are so still",
}
_WINDOW = timedelta(seconds=60)
"""The period over which the rate of copies is measured."""
_LONGEST_SECONDS = 3650 * 86400
_FAILED = (ReassignmentState.FAILED, ReassignmentState.CANCELLED, ReassignmentState.STOPPED)
_EVENTS: Final = {
    ReassignmentState.RUNNING: "ReassignmentStarted",
    ReassignmentState.CANCELLING: "ReassignmentCancelling",
    ReassignmentState.SUCCEEDED: "ReassignmentCompleted",
    ReassignmentState.FAILED: "ReassignmentFailed",
    ReassignmentState.CANCELLED: "ReassignmentCancelled",
    ReassignmentState.STOPPED: "ReassignmentStopped",
}
_LEFT: Final = "ThrottlesLeft"
_WARNINGS: Final = (ReassignmentState.FAILED, ReassignmentState.STOPPED, None)


def in_state(
    reassignment: Reassignment,
    status: ReassignmentStatus,
    state: ReassignmentState,
    message: str,
    now: datetime,
    reason: Reason | None = None,
) -> ReassignmentStatus:
    """Return `status` with a state, a message, and the conditions; `reason` overrides the state's own reason."""
    whole = now.replace(microsecond=0)
    started = status.started_at or (
        whole if state in (ReassignmentState.RUNNING, ReassignmentState.CANCELLING) else None
    )
    ended = status.finished_at or (whole if state.ended else None)
    conditions, why = Conditions(status.conditions, reassignment.meta.generation, now), reason or REASONS[state]
    if state is ReassignmentState.SUCCEEDED:
        conditions.set(READY, ConditionStatus.TRUE, why, message)
        conditions.remove_abnormal()
    else:
        conditions.set(READY, ConditionStatus.FALSE, why, message)
        abnormal = conditions.set_stalled if state in _FAILED else conditions.set_reconciling
        abnormal(why, message)
    return replace(
        replace(_without_rate(status), throttle=None) if state.ended else status,
        observed_generation=reassignment.meta.generation,
        state=state,
        message=message[:MAX_MESSAGE],
        started_at=started,
        finished_at=ended,
        conditions=conditions.all,
    )


def _without_rate(status: ReassignmentStatus) -> ReassignmentStatus:
    """Return `status` without the rate of copies, because no pass has just measured it."""
    progress = replace(status.progress, rate=None) if status.progress else None
    return replace(status, rate=None, estimated_end=None, progress=progress)


def with_pass(
    status: ReassignmentStatus, seen: Pass, partitions: int, rate: Rate, throttle_by: str
) -> ReassignmentStatus:
    """Return `status` with the counts of a pass; `throttle_by` says who has set the throttle."""
    progress = seen.progress
    copied = progress.moved_bytes + seen.partial_bytes
    total = progress.known_bytes
    per_second = rate.per_second if seen.copying else 0
    return replace(
        status,
        partitions=partitions,
        moves=progress.moves,
        moved=progress.moved,
        removals=progress.removals or None,
        bytes=total,
        moved_bytes=copied,
        rate=per_second,
        estimated_end=None if total is None or not seen.copying else rate.end(max(total - copied, 0)),
        copying=seen.copying,
        progress=ProgressTexts(
            f"{progress.moved}/{progress.moves}",
            f"{size(copied)}/{size(total, '?')}",
            None if per_second is None else f"{size(per_second)}/s",
        ),
        waiting=_waiting(seen.waiting),
        failures=tuple(text[:MAX_FAILURE] for text in seen.failures[:MAX_SAMPLES]),
        throttles=seen.throttles,
        throttle=_throttle(seen, throttle_by),
    )


def _throttle(seen: Pass, by: str) -> ThrottleStatus | None:
    """Return the rate in force, or None if no throttle is set."""
    if not seen.throttles or seen.rate is None:
        return None
    why = f"as {by} says" if seen.pace is None else PACES[seen.pace]
    return ThrottleStatus(seen.rate, f"{why}; throttles that others have set stay" if seen.others else why)


def _waiting(waiting: Sequence[Waiting]) -> WaitingStatus | None:
    if not waiting:
        return None
    by_reason: defaultdict[WaitReason, list[Waiting]] = defaultdict(list)
    for one in waiting:
        by_reason[one.reason].append(one)
    reasons = (
        WaitingFor(
            reason.value, len(some), tuple(f"{one.partition}{one.details}"[:MAX_SAMPLE] for one in some[:MAX_SAMPLES])
        )
        for reason, some in by_reason.items()
    )
    found = tuple(sorted(reasons, key=lambda one: (-one.partitions, one.reason)))
    summary = ", ".join(f"{one.partitions:,} {one.reason}" for one in found)
    return WaitingStatus(len(waiting), summary, found)


def progress_sentence(seen: Pass) -> str:
    """Return a sentence about the progress of a plan."""
    words = [f"{seen.progress.moved} of {plural(seen.progress.moves, 'move')} done, {seen.copying} being copied"]
    words += [why for why in (waits(seen.waiting), next(iter(seen.failures), ""), seen.others) if why]
    return "; ".join(words)


def waits(waiting: Sequence[Waiting]) -> str:
    """Return why partitions wait or are given up, the most frequent reason first, with one partition for each.

    Empty if there are none.
    """
    parts = []
    for final in (False, True):
        found = _waiting([one for one in waiting if one.reason.final is final])
        for one in found.reasons if found else ():
            many = one.partitions > 1
            how = "given up" if final else "wait" if many else "waits"
            sample = f"{', such as' if many else ':'} {one.samples[0]}"
            parts.append(f"{plural(one.partitions, 'partition')} {how} ({one.reason}){sample}")
    return "; ".join(parts)


def ended(seen: Pass) -> tuple[ReassignmentState, str]:
    """Return the final state of a finished plan, and its message."""
    left = (
        f"; {plural(seen.throttles, 'throttle')} of brokers that are away are still set, without effect, and are "
        "cleared when they are back"
        if seen.throttles
        else ""
    )
    left += f"; {seen.others}" if seen.others else ""
    if seen.waiting:
        return ReassignmentState.FAILED, f"not all was moved: {waits(seen.waiting)}; make a new plan{left}"
    taken = f", {removed(seen.progress.removals)}" if seen.progress.removals else ""
    return ReassignmentState.SUCCEEDED, f"all is as planned: {plural(seen.progress.moves, 'move')} done{taken}{left}"


class Rate:
    """The rate of copies of one Reassignment, from the bytes copied over time."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque()

    def add(self, now: datetime, copied: int) -> None:
        """Record the bytes that have been copied by `now`."""
        if self._seen and (now < self._seen[-1][0] or copied < self._seen[-1][1]):
            self._seen.clear()  # the clock was set back, or copies were taken back
        elif self._seen and now - self._seen[-1][0] > _WINDOW:
            self._seen.clear()  # it was paused, and continues
        self._seen.append((now, copied))
        while len(self._seen) > 1 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> int | None:
        """The bytes per second; None before there are two measurements."""
        if len(self._seen) < 2:  # noqa: PLR2004
            return None
        (since, before), (now, copied) = self._seen[0], self._seen[-1]
        seconds = (now - since).total_seconds()
        return round((copied - before) / seconds) if seconds > 0 else None

    def end(self, left: int) -> datetime | None:
        """Return when `left` more bytes will have been copied, or None if unknown."""
        rate = self.per_second
        if not rate or not self._seen:
            return None
        return self._seen[-1][0] + timedelta(seconds=min(left / rate, _LONGEST_SECONDS))


class ReassignmentWriter:
    """The writes of one worker. All of them raise FailureError if the API server does not accept them."""

    def __init__(self, dependencies: ReassignmentDependencies) -> None:
        self._dependencies = dependencies
        self._cache = dependencies.cache

    def current(self, one: Reassignment) -> Reassignment | None:
        """Return the object from the cache, or None if it is deleted."""
        known = self._cache.reassignments.get(one.key)
        return known if known is not None and known.meta.uid == one.meta.uid else None

    async def read(self, one: Reassignment) -> None:
        """Read an object from the API server into the cache."""
        body = await self._dependencies.kube.find(KIND, one.key)
        if body is not None:
            self._cache.put_reassignment_answer(body)
        elif self.current(one) is not None:
            self._cache.drop_reassignment(one.key)

    async def write_state(
        self,
        one: Reassignment,
        state: ReassignmentState,
        message: str,
        *,
        status: ReassignmentStatus | None = None,
        reason: Reason | None = None,
    ) -> bool:
        """Write a state and a message, with the counts of `status`. Return False if the object changed meanwhile."""
        new = in_state(one, status or _without_rate(one.status), state, message, self._dependencies.clock(), reason)
        return new == one.status or await self.write(one, new)

    async def end(
        self,
        one: Reassignment,
        state: ReassignmentState,
        message: str,
        topology: RackTopology | None,
        *,
        status: ReassignmentStatus | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Write the final state and queue Events about it, then release the object unless throttles are left."""
        new = in_state(one, status or one.status, state, message, self._dependencies.clock(), reason)
        if not await self.write(one, new):
            return
        self.announce(one, topology, state, message)
        known = self.current(one)
        if known is not None and not new.throttles:
            await self.release(known)

    async def write(self, one: Reassignment, status: ReassignmentStatus) -> bool:
        """Write a status. Return False if the object changed meanwhile; the cache then has the changed object."""
        written = await self._dependencies.objects.write_status(one, status.to_dict())
        await self._answered(one, written)
        return written is not None

    async def hold(self, one: Reassignment) -> None:
        """Add the finalizer."""
        await self._answered(one, await self._dependencies.finalizers.add(KIND, one.meta))

    async def release(self, one: Reassignment) -> None:
        """Remove the finalizer, so that the object can be deleted."""
        if has_finalizer(one.meta):
            await self._answered(one, await self._dependencies.finalizers.remove(KIND, one.meta))

    def announce(
        self, one: Reassignment, topology: RackTopology | None, state: ReassignmentState | None, message: str
    ) -> None:
        """Queue Events about a new state; None means that the object is released and throttles may be left."""
        reason = _LEFT if state is None else _EVENTS.get(state)
        if reason is None:
            return
        kube, warning, plan = self._dependencies.kube, state in _WARNINGS, f"plan {one.spec.plan_hash}"
        about, text = ObjectRef(KIND, one.key, one.meta.uid), f"{plan}: {message}" if message else plan
        kube.record_event(KubernetesEvent(about, reason, text, warning))
        if topology is not None:
            about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
            kube.record_event(KubernetesEvent(about, reason, f"Reassignment {one.meta.name}: {message}", warning))

    def left_over(self, one: Reassignment, topology: RackTopology | None, problem: str) -> None:
        """Report that the object is released and throttles may be left."""
        _log.warning("Reassignment %s loses its finalizer: %s", one.key, problem)
        self.announce(one, topology, None, problem)

    async def _answered(self, one: Reassignment, written: JsonObject | None) -> None:
        """Put the written object into the cache, or the current one if it was not written."""
        if written is None:
            await self.read(one)
        else:
            self._cache.put_reassignment_answer(written)


class JournalError(OSError):
    """The record could not be written, or it is unknown whether it was: read the object before you continue."""


class RecordTooLargeError(JournalError):
    """The record is too large for an object. Nothing is written until fewer moves are requested at once."""


class StatusJournal:
    """Implements `Journal` on the status subresource of one Reassignment.

    A write uses the resourceVersion of the cached object. If another client has written meanwhile, the write is
    refused, and the call that needs the record is not made. The cached object may be newer than the last write: if it
    has another record, as of an operator with another Lease, that record is not overwritten.
    """

    def __init__(self, reassignment: Reassignment, cache: Cache, objects: ReassignmentObjects) -> None:
        self._key: ObjectKey = reassignment.key
        self._uid = reassignment.meta.uid
        self._record = reassignment.status.record
        self._cache = cache
        self._objects = objects

    async def write(self, record: Record) -> None:
        """Return when the API server has stored the record. Raises JournalError."""
        try:
            text = packed(progress_document(record), MAX_PLAN)
        except TooLargeError as error:
            what = "what is under way at once is too much for one object: lower maxConcurrentMoves"
            raise RecordTooLargeError(what) from error
        known = self._cache.reassignments.get(self._key)
        if known is None or known.meta.uid != self._uid:
            raise JournalError("the object is gone")
        if known.status.record != self._record:
            raise JournalError("another process has written the record: it is read again")
        status = replace(known.status, record=text, throttles=len(record.throttles))
        try:
            written = await self._objects.write_status(known, status.to_dict())
        except FailureError as error:
            raise JournalError(f"the record could not be written: {error}") from error
        if written is None:
            raise JournalError("the object was changed just now: it is read again")
        self._record = text
        self._cache.put_reassignment_answer(written)


def measure(topology: str, objects: Sequence[Reassignment]) -> None:
    """Set the gauges of a topology that is served: counts by state, and the progress of the last plan.

    The counts are 0 before its first Reassignment, because an alert compares them over time.
    """
    if not metrics.is_served(topology):
        return
    begun = [one for one in objects if has_begun(one)]
    under_way = [one for one in begun if not one.ended]
    last = max(under_way or begun, key=lambda one: (one.meta.age[0], one.spec.part), default=None)
    if last is None:
        metrics.forget_progress(topology)  # of a deleted Reassignment
    states = Counter(one.state_name for one in objects)
    for state in ReassignmentState:
        metrics.REASSIGNMENTS.labels(topology, state.value).set(states[state])
    metrics.REASSIGNMENT_THROTTLES.labels(topology).set(sum(one.status.throttles or 0 for one in objects))
    if last is None:
        return
    status = last.status
    _set_known(metrics.REASSIGNMENT_MOVES, topology, status.moves)
    metrics.REASSIGNMENT_MOVED.labels(topology).set(status.moved or 0)
    _set_known(metrics.REASSIGNMENT_BYTES, topology, status.bytes)
    metrics.REASSIGNMENT_MOVED_BYTES.labels(topology).set(status.moved_bytes or 0)
    _set_known(metrics.REASSIGNMENT_RATE, topology, 0 if last.ended else status.rate)
    metrics.REASSIGNMENT_WAITING.remove_by_labels({"topology": topology})
    for one in status.waiting.reasons if status.waiting else ():
        metrics.REASSIGNMENT_WAITING.labels(topology, one.reason).set(one.partitions)


def _set_known(gauge: Gauge, topology: str, value: int | None) -> None:
    """Set a gauge, or remove its series if the value is not known."""
    if value is None:
        gauge.remove_by_labels({"topology": topology})
    else:
        gauge.labels(topology).set(value)
