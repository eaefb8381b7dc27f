"""
What is due: from the spec, the clock, what was dealt with and the scans that there are, to what shall be done. Pure.

A scan is due by the schedule, by a new value of the annotation `rackspan.dev/scan-now`, and, where the spec says so,
once the topology has changed and has stayed as it is for a while. What is due at one time gets one scan. Names are made
from what a scan is for, and what was started is found again in the objects themselves, so that an operator that ends
between starting a scan and writing that down starts none twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan.api.labels import SCAN_NOW
from rackspan.api.racktopology import ComplianceScanSpec, ConcurrencyPolicy, ScanTrigger
from rackspan.api.reasons import Reason
from rackspan.api.times import timestamp
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.scans.schedule import Schedule, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rackspan.api.racktopology import LastScan, RackTopology, ScansStatus
    from rackspan.reconcile.scans.job_status import Run

DEBOUNCE: Final = timedelta(seconds=60)
"""How long a topology has to stay as it is before its change starts a scan."""
CLOCK_TOLERANCE: Final = timedelta(minutes=1)
"""How far ahead what was recorded may be before the clock is taken to have been put back."""
OVERDUE_GRACE: Final = timedelta(seconds=60)
"""How long after activeDeadlineSeconds whatever runs the scan may take to end it before the operator does."""
POD_START_DEADLINE: Final = timedelta(minutes=10)
"""How long the pod of a scan may take to start, before the scan is taken to have failed and lets the next one go."""
MAX_REQUEST: Final = 1024
"""Characters of the annotation's value that are remembered."""
_MOST_MISSED = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What the topology is like now, as a fingerprint, and since when."""

    fingerprint: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ScanStart:
    """A scan to start. `name` is its id, and the name of the object that runs it."""

    name: str
    trigger: ScanTrigger
    cause: str


@dataclass(frozen=True, slots=True)
class ScanDecision:
    """
    What shall be done about the scans of one topology.

    `delete` first, then `start`, before which `replaced` end. `memory` is to be remembered at once, `started` in its
    place once the start has worked. `overdue` are among those to delete. Look again `at` that time at the latest.
    """

    memory: ScansStatus
    started: ScansStatus
    start: ScanStart | None = None
    replaced: tuple[Run, ...] = ()
    delete: tuple[Run, ...] = ()
    overdue: tuple[Run, ...] = ()
    at: datetime | None = None
    problem: Failure | None = None
    waiting: bool = False
    """Whether a scan is due that waits for the one that runs."""


def decide(
    topology: RackTopology,
    memory: ScansStatus,
    last: LastScan | None,
    runs: Sequence[Run],
    now: datetime,
    change: Change | None = None,
    unstarted: Collection[str] = (),
) -> ScanDecision:
    """Decide about one topology, of which `runs` are all scans that there are; pods of `unstarted` have not started."""
    spec = topology.spec.compliance or ComplianceScanSpec()
    overdue = tuple(run for run in runs if run.active and (now > _ends(run, spec) or _is_stuck(run, now, unstarted)))
    active = [run for run in runs if run.active and run not in overdue]
    schedule, problem = _schedule(spec)
    memory = _recalled(memory, last, runs, now)
    memory = replace(_following(memory, schedule, now), running=len(active) or None)
    memory, due, done = _due(topology, spec, schedule, memory, now, change)
    outdated = _outdated(runs, spec)
    waiting = due is not None and bool(active) and spec.concurrency_policy is ConcurrencyPolicy.FORBID
    start = None if waiting else due
    replaced = tuple(active) if start and spec.concurrency_policy is ConcurrencyPolicy.REPLACE else ()
    return ScanDecision(
        memory=memory,
        started=replace(done, running=len(active) - len(replaced) + 1) if start else memory,
        start=start,
        replaced=replaced,
        delete=(*overdue, *outdated),
        overdue=overdue,
        at=_soonest(
            memory.next_at,
            *(_ends(run, spec) + timedelta(seconds=1) for run in active),
            change.since + DEBOUNCE if change and _wants(spec, change, memory) else None,
            later_than=now,
        ),
        problem=problem,
        waiting=waiting,
    )


def fingerprint(topology: RackTopology) -> str | None:
    """What a scan's verdict depends on: the racks, and what the spec asks for. None while that is not known."""
    status, spec = topology.status, topology.spec
    if status.observed_generation != topology.meta.generation or not status.brokers:
        return None
    seen = (
        spec.levels,
        spec.rack_source,
        spec.missing_rack_policy,
        sorted(spec.rack_aliases.items()),
        spec.drain_brokers,
        spec.drain_racks,
        spec.defaults,
        sorted((broker.id, broker.rack or "") for broker in status.brokers),
    )
    return sha256(repr(seen).encode()).hexdigest()[:16]


def _schedule(spec: ComplianceScanSpec) -> tuple[Schedule | None, Failure | None]:
    if spec.schedule is None:
        return None, None
    try:
        schedule = Schedule.parse(spec.schedule, spec.time_zone)
    except ScheduleError as error:
        return None, Failure(Reason.INVALID_SCHEDULE, str(error), Remedy.SPEC)
    return (None if spec.suspend else schedule), None


def _recalled(memory: ScansStatus, last: LastScan | None, runs: Sequence[Run], now: datetime) -> ScansStatus:
    """What was started and could not be written down, learnt from the objects that were made."""
    unwritten = [run for run in runs if last is None or run.created > last.started_at]
    for run in sorted(unwritten, key=lambda run: run.created):
        match run.trigger:
            case ScanTrigger.REQUEST:
                memory = replace(memory, handled_request=run.cause)
            case ScanTrigger.TOPOLOGY_CHANGE:
                memory = replace(memory, handled_topology=run.cause)
            case ScanTrigger.SCHEDULE:
                at, known = run.scheduled_at, memory.last_scheduled_at
                if at is not None and at <= now + CLOCK_TOLERANCE and (known is None or at > known):
                    memory = replace(memory, last_scheduled_at=at)
    return memory


def _following(memory: ScansStatus, schedule: Schedule | None, now: datetime) -> ScansStatus:
    """
    The schedule that is followed from now on.

    A schedule that is new, or that was suspended, owes nothing for the time before: it would start a scan at once. The
    same goes for a clock that was put back by more than it may err, or nothing would be due before it has caught up.
    """
    if schedule is None:
        return replace(memory, schedule=None, last_scheduled_at=None, next_at=None, missed=None)
    since = memory.last_scheduled_at
    if memory.schedule != schedule.text or since is None or since > now + CLOCK_TOLERANCE:
        memory = replace(memory, schedule=schedule.text, last_scheduled_at=now.replace(microsecond=0), missed=None)
    return replace(memory, next_at=schedule.after(now))


def _due(
    topology: RackTopology,
    spec: ComplianceScanSpec,
    schedule: Schedule | None,
    memory: ScansStatus,
    now: datetime,
    change: Change | None,
) -> tuple[ScansStatus, ScanStart | None, ScansStatus]:
    """What to remember at once, what is due, and what to remember instead once that was started."""
    due: ScanStart | None = None
    done = memory
    if change is not None and _wants(spec, change, memory) and now - change.since >= DEBOUNCE:
        due = ScanStart(
            _name(topology, "t", f"{change.fingerprint} {change.since.isoformat()}"),
            ScanTrigger.TOPOLOGY_CHANGE,
            change.fingerprint,
        )
        done = replace(done, handled_topology=change.fingerprint)
    if schedule is not None and memory.last_scheduled_at is not None:
        latest = schedule.latest(memory.last_scheduled_at, now)
        limit = spec.starting_deadline_seconds
        if latest is not None and limit is not None and now - latest > timedelta(seconds=limit):
            number = schedule.count(memory.last_scheduled_at, latest, _MOST_MISSED)
            missed = replace(memory, last_scheduled_at=latest, missed=(memory.missed or 0) + number)
            memory, done = missed, replace(done, last_scheduled_at=latest, missed=missed.missed)
        elif latest is not None:
            due = ScanStart(
                _base(topology) + str(int(latest.timestamp()) // 60),
                ScanTrigger.SCHEDULE,
                timestamp(latest),
            )
            done = replace(done, last_scheduled_at=latest, missed=None)
    request = topology.meta.annotations.get(SCAN_NOW, "")[:MAX_REQUEST]
    if request and request != memory.handled_request:
        due = ScanStart(_name(topology, "r", f"{request} {now:%Y-%m-%dT%H:%M}"), ScanTrigger.REQUEST, request)
        done = replace(done, handled_request=request)
    return memory, due, done


def _wants(spec: ComplianceScanSpec, change: Change, memory: ScansStatus) -> bool:
    return spec.after_topology_change and not spec.suspend and change.fingerprint != memory.handled_topology


def _outdated(runs: Sequence[Run], spec: ComplianceScanSpec) -> tuple[Run, ...]:
    """Scans that ended and are more than the limits let stay; the latest stay."""
    ended = sorted(
        ((run.finished, run.name, run) for run in runs if run.finished is not None and not run.deleting), reverse=True
    )
    succeeded = [run for *_, run in ended if run.succeeded]
    failed = [run for *_, run in ended if not run.succeeded]
    return (*succeeded[spec.successful_jobs_history_limit :], *failed[spec.failed_jobs_history_limit :])


def _ends(run: Run, spec: ComplianceScanSpec) -> datetime:
    return run.created + timedelta(seconds=spec.active_deadline_seconds) + OVERDUE_GRACE


def _is_stuck(run: Run, now: datetime, unstarted: Collection[str]) -> bool:
    return run.uid in unstarted and now > run.created + POD_START_DEADLINE


def _soonest(*moments: datetime | None, later_than: datetime) -> datetime | None:
    return min((moment for moment in moments if moment is not None and moment > later_than), default=None)


def _name(topology: RackTopology, letter: str, cause: str) -> str:
    return _base(topology) + letter + sha256(cause.encode()).hexdigest()[:8]


def _base(topology: RackTopology) -> str:
    """Room is left for what a Job's controller and Spark append: names of pods have 63 characters."""
    own = sha256(f"{topology.key} {topology.meta.uid}".encode()).hexdigest()[:6]
    return f"scan-{topology.meta.name[:24].replace('.', '-').strip('-')}-{own}-"
