"""Decides which scans to start and to delete, and how many may run at once. Pure: the clock is an argument.

A scan is due by its schedule, by a new value of the annotation `rackspan.dev/scan-now`, and, if the spec says so, after
the topology has changed and then been stable for `DEBOUNCE`. One scan covers all causes that are due at the same time.
Names are derived from the cause, and started scans are recognised by their objects. So an operator that stops between
creating an object and writing the status does not create a second object.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan.api.codec import moment_of, timestamp
from rackspan.api.labels import SCAN_NOW
from rackspan.api.racktopology import ComplianceScanSpec, ConcurrencyPolicy, ScanState, ScanTrigger
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import LastScan, RackTopology, ScansStatus
    from rackspan.reconcile.scans.job_status import JobRun

DEBOUNCE: Final = timedelta(seconds=60)
"""How long a changed topology must be stable before the change starts a scan."""
CLOCK_TOLERANCE: Final = timedelta(minutes=1)
"""How far in the future a recorded time may be. If it is later, the clock is assumed to have been set back."""
OVERDUE_GRACE: Final = timedelta(seconds=60)
"""How long after activeDeadlineSeconds the operator deletes a scan that its controller has not ended."""
POD_START_DEADLINE: Final = timedelta(minutes=10)
"""How long the operator may observe that a scan's pod does not start. Then the scan fails and is deleted."""
MAX_REQUEST_CHARS: Final = 1024
"""The number of characters of the annotation's value that are compared and kept."""
_MAX_MISSED = 1000


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """The topology's current fingerprint, and since when it is unchanged."""

    fingerprint: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ScanStart:
    """A scan to start. `name` is its id and its object's name; `cause` is as in `JobRun`."""

    name: str
    trigger: ScanTrigger
    cause: str


@dataclass(frozen=True, slots=True)
class ScanDecision:
    """What to do about the scans of one topology: first `delete`, then `replaced`, then `start`."""

    scans: ScansStatus
    """The new `status.scans`."""
    scans_if_started: ScansStatus
    """The new `status.scans` if `start` succeeds."""
    start: ScanStart | None
    replaced: tuple[JobRun, ...]
    """Running scans that `start` replaces (concurrencyPolicy Replace)."""
    delete: tuple[JobRun, ...]
    """`overdue`, and finished scans beyond the history limits."""
    overdue: tuple[JobRun, ...]
    """Running scans that are past their deadline, or whose pod does not start."""
    requeue_at: datetime | None
    """When to decide again at the latest, or None if only a change can lead to a new decision."""
    failure: Failure | None
    """Why the schedule is invalid, or None."""


def decide(
    topology: RackTopology,
    scans: ScansStatus,
    last: LastScan | None,
    runs: Sequence[JobRun],
    now: datetime,
    change: TopologyChange | None,
    active_for: Mapping[str, timedelta],
    unstarted_for: Mapping[str, timedelta],
) -> ScanDecision:
    """Decide about one topology.

    `scans` and `last` are the recorded `status.scans` and `status.lastScan`. `runs` are all scans of the topology that
    exist. `active_for` is, by uid, how long the operator observes that a scan is active, and `unstarted_for` that its
    pod has not started. A long-running scan may be among these, because its pod starts again after its node was
    drained. Creation times are not used for deadlines: they are of the API server's clock.
    """
    spec = topology.spec.scan
    overdue = tuple(
        run
        for run in runs
        if run.active
        and (
            _time_left(run, spec, active_for) < timedelta(0)
            or unstarted_for.get(run.uid, timedelta(0)) >= POD_START_DEADLINE
        )
    )
    active = [run for run in runs if run.active and run not in overdue]
    schedule, failure = _schedule(spec)
    scans = _recovered(scans, last, runs, now)
    scans = replace(_with_schedule(scans, schedule, now), running=len(active) or None)
    upcoming = scans.next_at
    scans, due, if_started = _due(topology, spec, schedule, scans, now, change)
    surplus = _beyond_history_limits(runs, spec)
    start = None if active and spec.concurrency_policy is ConcurrencyPolicy.FORBID else due
    replaced = tuple(active) if start and spec.concurrency_policy is ConcurrencyPolicy.REPLACE else ()
    return ScanDecision(
        scans=scans,
        scans_if_started=replace(if_started, running=len(active) - len(replaced) + 1) if start else scans,
        start=start,
        replaced=replaced,
        delete=(*overdue, *surplus),
        overdue=overdue,
        requeue_at=_earliest(
            upcoming,
            *(now + _time_left(run, spec, active_for) + timedelta(seconds=1) for run in active),
            change.since + DEBOUNCE if change and _is_unhandled(spec, change, scans) else None,
            after=now,
        ),
        failure=failure,
    )


def begun_since(last: LastScan | None, runs: Sequence[JobRun], now: datetime) -> list[JobRun]:
    """Return the scans that began with or after `last`.

    If the clock was set back since, `last` seems to begin in the future. Then a running scan counts as later than
    `last`. When that scan has become `last`, ended scans from the future count as earlier.
    """
    if last is None:
        return list(runs)
    present = now + CLOCK_TOLERANCE
    running = [run for run in runs if run.active and run.created <= present]
    if running and last.started_at > present and last.state is not ScanState.RUNNING:
        return running
    return [
        run
        for run in runs
        if run.name == last.scan_id or (run.created >= last.started_at and (run.active or run.created <= present))
    ]


def fingerprint(topology: RackTopology) -> str | None:
    """Return a hash of what findings depend on: brokers' racks and the spec. None while the status is not current."""
    status, spec = topology.status, topology.spec
    if not topology.has_current_racks or status.observed_generation != topology.meta.generation or not status.brokers:
        return None
    inputs = (
        spec.levels,
        spec.rack_source,
        spec.missing_rack_policy,
        sorted(spec.rack_aliases.items()),
        spec.drain_brokers,
        spec.drain_racks,
        spec.defaults,
        sorted((broker.id, broker.rack or "") for broker in status.brokers),
    )
    return sha256(repr(inputs).encode()).hexdigest()[:16]


def _schedule(spec: ComplianceScanSpec) -> tuple[Schedule | None, Failure | None]:
    if spec.schedule is None:
        return None, None
    try:
        schedule = Schedule.parse(spec.schedule, spec.time_zone)
    except ScheduleError as error:
        return None, Failure(Reason.INVALID_SCHEDULE, str(error), Remedy.SPEC)
    return (None if spec.suspend else schedule), None


def _recovered(scans: ScansStatus, last: LastScan | None, runs: Sequence[JobRun], now: datetime) -> ScansStatus:
    """Return `scans` with the scans that were started but not recorded. They are recognised by their objects."""
    # A scan of the same second as `last` is recorded already: creation times have whole seconds.
    unrecorded = [run for run in begun_since(last, runs, now) if last is None or run.created != last.started_at]
    for run in sorted(unrecorded, key=lambda run: run.created):
        match run.trigger:
            case ScanTrigger.REQUEST:
                scans = replace(scans, handled_request=run.cause)
            case ScanTrigger.TOPOLOGY_CHANGE:
                scans = replace(scans, handled_topology=run.cause)
            case ScanTrigger.SCHEDULE:
                at, known = moment_of(run.cause), scans.last_scheduled_at
                if at is not None and at <= now + CLOCK_TOLERANCE and (known is None or at > known):
                    scans = replace(scans, last_scheduled_at=at)
    return scans


def _with_schedule(scans: ScansStatus, schedule: Schedule | None, now: datetime) -> ScansStatus:
    """Return `scans` with the schedule and its next time.

    A schedule that is new, or was suspended, counts from now, because it must not start a scan for a time in the past.
    If its last time is in the future, because the clock was set back, it counts from now, too. Otherwise no scan would
    be due until that time.
    """
    if schedule is None:
        return replace(scans, schedule=None, last_scheduled_at=None, next_at=None, missed=None)
    since = scans.last_scheduled_at
    if scans.schedule != schedule.text or since is None or since > now + CLOCK_TOLERANCE:
        scans = replace(scans, schedule=schedule.text, last_scheduled_at=now.replace(microsecond=0), missed=None)
    return replace(scans, next_at=schedule.after(now))


def _due(
    topology: RackTopology,
    spec: ComplianceScanSpec,
    schedule: Schedule | None,
    scans: ScansStatus,
    now: datetime,
    change: TopologyChange | None,
) -> tuple[ScansStatus, ScanStart | None, ScansStatus]:
    """Return the new `status.scans`, the scan that is due, and the `status.scans` after this scan was started.

    While a scheduled scan is due, it is the next one: its time tells for how long it has not been started.
    """
    due: ScanStart | None = None
    if_started = scans
    if change is not None and _is_unhandled(spec, change, scans) and now - change.since >= DEBOUNCE:
        due = ScanStart(
            _name(topology, "t", f"{change.fingerprint} {change.since.isoformat()}"),
            ScanTrigger.TOPOLOGY_CHANGE,
            change.fingerprint,
        )
        if_started = replace(if_started, handled_topology=change.fingerprint)
    if schedule is not None and (since := scans.last_scheduled_at) is not None:
        latest = schedule.latest(since, now)
        limit = spec.starting_deadline_seconds
        if latest is not None and limit is not None and now - latest > timedelta(seconds=limit):
            number = schedule.count(since, latest, _MAX_MISSED)
            missed = replace(scans, last_scheduled_at=latest, missed=(scans.missed or 0) + number)
            scans, if_started = missed, replace(if_started, last_scheduled_at=latest, missed=missed.missed)
        elif latest is not None:
            due = ScanStart(
                _name_prefix(topology) + str(int(latest.timestamp()) // 60),
                ScanTrigger.SCHEDULE,
                timestamp(latest),
            )
            if_started = replace(if_started, last_scheduled_at=latest, missed=None)
            scans = replace(scans, next_at=schedule.after(since))
    request = topology.meta.annotations.get(SCAN_NOW, "")[:MAX_REQUEST_CHARS]
    if request and request != scans.handled_request:
        due = ScanStart(_name(topology, "r", f"{request} {now:%Y-%m-%dT%H:%M}"), ScanTrigger.REQUEST, request)
        if_started = replace(if_started, handled_request=request)
    return scans, due, if_started


def _is_unhandled(spec: ComplianceScanSpec, change: TopologyChange, scans: ScansStatus) -> bool:
    return spec.after_topology_change and not spec.suspend and change.fingerprint != scans.handled_topology


def _beyond_history_limits(runs: Sequence[JobRun], spec: ComplianceScanSpec) -> tuple[JobRun, ...]:
    """Return finished scans beyond successfulJobsHistoryLimit and failedJobsHistoryLimit, which keep the latest."""
    ended = sorted(
        ((run.finished, run.name, run) for run in runs if run.finished is not None and not run.deleting), reverse=True
    )
    succeeded = [run for *_, run in ended if run.succeeded]
    failed = [run for *_, run in ended if not run.succeeded]
    return (*succeeded[spec.successful_jobs_history_limit :], *failed[spec.failed_jobs_history_limit :])


def _time_left(run: JobRun, spec: ComplianceScanSpec, active_for: Mapping[str, timedelta]) -> timedelta:
    limit = run.deadline or timedelta(seconds=spec.active_deadline_seconds)
    return limit + OVERDUE_GRACE - active_for.get(run.uid, timedelta(0))


def _earliest(*moments: datetime | None, after: datetime) -> datetime | None:
    return min((moment for moment in moments if moment is not None and moment > after), default=None)


def _name(topology: RackTopology, letter: str, cause: str) -> str:
    return _name_prefix(topology) + letter + sha256(cause.encode()).hexdigest()[:8]


def _name_prefix(topology: RackTopology) -> str:
    """Return a short prefix: the Job controller and Spark append to it, and pods' names have 63 characters at most."""
    own = sha256(f"{topology.key} {topology.meta.uid}".encode()).hexdigest()[:6]
    return f"scan-{topology.meta.name[:24].replace('.', '-').strip('-')}-{own}-"


@dataclass(frozen=True, slots=True)
class PendingScan:
    """A scan that is due, by its topology.

    `since` is when the scan became due. `trusted` says whether its namespace is exempt from the limit per namespace.
    `replaces` says whether it replaces the topology's running scan, so that the number of running scans does not grow.
    """

    key: ObjectKey
    since: datetime
    trusted: bool
    replaces: bool


def admitted(
    pending: Iterable[PendingScan], running: Collection[ObjectKey], max_running: int, max_per_namespace: int
) -> frozenset[ObjectKey]:
    """Return the topologies of `pending` scans that may start now. `running` has one entry per running scan.

    Namespaces with the fewest running scans go first, so that one with many topologies cannot block the others.
    Within a namespace, and among equal namespaces, the scan that has waited longest goes first. While a scan waits
    for a free slot, replacing scans wait, too. Otherwise a topology that replaces its scan again and again would
    keep its slot for ever.
    """
    of_namespace, busy = Counter(key.namespace for key in running), len(running)
    left = list(pending)
    chosen: set[ObjectKey] = set()
    while left:
        if busy >= max_running and not all(one.replaces for one in left):
            break
        eligible = [
            one for one in left if one.trusted or one.replaces or of_namespace[one.key.namespace] < max_per_namespace
        ]
        if not eligible:
            break
        first = min(eligible, key=lambda one: (of_namespace[one.key.namespace], one.since, one.key))
        left.remove(first)
        chosen.add(first.key)
        if not first.replaces:
            of_namespace[first.key.namespace] += 1
            busy += 1
    return frozenset(chosen)
