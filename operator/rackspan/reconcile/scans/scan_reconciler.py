"""The control loop for the scans of all topologies. It runs on changes, when a scan is due, and while scans run."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from rackspan import metrics
from rackspan.api import compliancereport, kafkatopic, racktopology
from rackspan.api.labels import SCAN_NOW
from rackspan.api.racktopology import ScanEngine, ScansStatus, ScanState
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.controller import Controller, unexpected_failure
from rackspan.reconcile.scans.job_status import RunKind
from rackspan.reconcile.scans.scan_decision import PendingScan, TopologyChange, admitted, decide, fingerprint
from rackspan.reconcile.scans.scan_manifests import scan_manifest
from rackspan.reconcile.scans.scan_status import ScanFacts, last_scan, report_events, update_report_metrics, with_scans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.runtime.waiting import Liveness
    from rackspan.reconcile.scans.job_status import JobRun, ScanRuns
    from rackspan.reconcile.scans.scan_decision import ScanDecision, ScanStart
    from rackspan.reconcile.scans.scan_setup import ScanSetup

_log = logging.getLogger("rackspan.scans")

_RUNNING_SECONDS = 5.0
"""The poll interval while scans run. One list request covers all scans."""
_IDLE_SECONDS = 60.0
"""The longest pause between passes, and so the longest time until a jump of the wall clock is noticed."""
_RETRY_SECONDS = 15.0
_START_GRACE_SECONDS = 15.0
"""How long a scan's pod may take to start before the reason is looked up."""
_STALE_RACKS = Failure(
    Reason.WAITING, "a scan is due and waits for the brokers' racks by the present spec", Remedy.RETRY
)
_ORPHAN_SECONDS = 60.0
"""How long a topology must be missing before its scans are deleted: the cache may not have listed it yet."""


@dataclass(frozen=True, slots=True)
class ScanDependencies:
    """The dependencies of the loop. `runs` is None if no namespace for scans is configured."""

    cache: Cache
    kube: KubeApi
    runs: ScanRuns | None
    setup: ScanSetup
    namespaces: tuple[str, ...]
    """The watched namespaces, empty for all. Scans of topologies in other namespaces belong to another operator."""
    liveness: Liveness
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


class ScansReconciler(Controller):
    """A level-triggered controller: each pass starts from the objects that exist.

    While no topology requests scans, the loop sends no requests to the API server, except one list of the scans that an
    earlier operator may have left. `on_change` is called when a topology's status has to be updated. The failure of one
    topology does not affect the others.
    """

    name = "scans"
    watched = frozenset({compliancereport.KIND})
    debounce_seconds = 0.2

    def __init__(self, dependencies: ScanDependencies, on_change: Callable[[ObjectKey], None]) -> None:
        super().__init__(dependencies.liveness)
        self._dependencies = dependencies
        self._on_change = on_change
        self.facts: dict[ObjectKey, ScanFacts] = {}
        """The known facts about each topology's scans. The topology's status may not have them yet."""
        self._changes: dict[str, TopologyChange] = {}
        self._due_since: dict[ObjectKey, datetime] = {}
        self._orphans: dict[ObjectKey, float] = {}
        self._runs: Sequence[JobRun] = ()
        self._has_listed = False
        self._uses_applications = False
        self._has_listed_applications = False
        self._applications_failure: Failure | None = None
        # By uid, in seconds of `monotonic`: the clocks of the operator and of the API server may differ, and jump.
        self._active_since: Mapping[str, float] = {}
        self._unstarted: Mapping[str, str] = {}
        self._unstarted_since: Mapping[str, float] = {}

    def asked(self, topology: RackTopology) -> object:
        """Return the base class's inputs, the scan-now annotation and the fingerprint: each may make a scan due."""
        return super().asked(topology), topology.meta.annotations.get(SCAN_NOW), fingerprint(topology)

    def topology_gone(self, key: ObjectKey) -> None:
        """Forget a RackTopology that was deleted."""
        self.facts.pop(key, None)
        super().topology_gone(key)

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """Return `status` with the known facts about the topology's scans."""
        return with_scans(topology, status, self.facts.get(topology.key), now)

    async def reconcile(self) -> float:
        """Run one pass over all topologies and return the seconds until the next pass. Raises FailureError."""
        cache = self._dependencies.cache
        topologies = [topology for topology in cache.topologies.values() if self._has_scans(topology)]
        uids = {topology.meta.uid for topology in topologies}
        self._changes = {uid: change for uid, change in self._changes.items() if uid in uids}
        if not topologies and not self._runs and self._has_listed:
            return _IDLE_SECONDS
        self._uses_applications = any(one.spec.scan.engine is ScanEngine.SPARK_APPLICATION for one in topologies)
        try:
            await self._list()
        except FailureError as error:
            self._tell_unlisted(topologies, error.failure)
            raise
        await self._find_unstarted()
        await self._delete_orphans()
        delays = [_IDLE_SECONDS]
        admitted = self._admit(topologies)
        for topology in topologies:
            known = cache.topologies.get(topology.key)  # the topology may change or be deleted during the requests
            if known is None:
                continue
            try:
                delays.append(await self._reconcile_topology(known, admitted))
            except FailureError:
                raise
            except Exception as error:  # recorded in the topology's facts, so that it affects no other topology
                failure = unexpected_failure(self.name, known.key, error)
                self._store(known, replace(self._facts(known), failure=failure))
                delays.append(_RETRY_SECONDS)
        return min(delays)

    def _tell_unlisted(self, topologies: Sequence[RackTopology], failure: Failure) -> None:
        """Record that Jobs cannot be listed, in each topology that requests scans: no decision is possible then."""
        failure = Failure(Reason.SCAN_NOT_STARTED, f"Jobs cannot be listed: {failure.message}", failure.remedy)
        for topology in topologies:
            if topology.spec.compliance is not None or SCAN_NOW in topology.meta.annotations:
                self._store(topology, replace(self._facts(topology), failure=failure))

    def _admit(self, topologies: Sequence[RackTopology]) -> frozenset[ObjectKey]:
        """Return the topologies whose scans may start in this pass. `_due_since` records when each became due."""
        setup, now = self._dependencies.setup, self._dependencies.clock()
        due = {}
        for topology in topologies:
            try:
                decision = self._decision(topology, now)
                fits = decision.start is not None and self._failure(topology, decision) is None
            except Exception:  # noqa: S112 - reported when this topology is reconciled
                continue
            if fits:
                since = self._due_since.get(topology.key, now)
                trusted, replaces = setup.trusts(topology.key.namespace), bool(decision.replaced)
                due[topology.key] = PendingScan(topology.key, since, trusted=trusted, replaces=replaces)
        self._due_since = {key: one.since for key, one in due.items()}
        running = [run.topology for run in self._runs if run.active]
        per_namespace = setup.allowance.limits.running_per_namespace
        return admitted(due.values(), running, setup.max_running, per_namespace)

    # --- one topology ------------------------------------------------------------------------------------------------

    def _decision(self, topology: RackTopology, now: datetime) -> ScanDecision:
        facts = self._facts(topology)
        return decide(
            topology,
            facts.scans,
            facts.last,
            self._runs_of(topology),
            now,
            self._change(topology, now),
            self._passed_since(self._active_since),
            self._passed_since(self._unstarted_since),
        )

    def _passed_since(self, since: Mapping[str, float]) -> Mapping[str, timedelta]:
        now = self._dependencies.monotonic()
        return {uid: timedelta(seconds=now - seconds) for uid, seconds in since.items()}

    def _runs_of(self, topology: RackTopology) -> list[JobRun]:
        return [run for run in self._runs if run.topology_uid == topology.meta.uid]

    async def _reconcile_topology(self, topology: RackTopology, admitted: frozenset[ObjectKey]) -> float:
        """Decide and act for one topology. Only those in `admitted` start scans. Return the seconds until it is due."""
        dependencies, now = self._dependencies, self._dependencies.clock()
        facts, runs = self._facts(topology), self._runs_of(topology)
        decision = self._decision(topology, now)
        refused = self._failure(topology, decision)
        failure, scans = decision.failure or refused, decision.scans
        due = decision.start if refused is None else None
        start = due if topology.key in admitted else None
        queued = due is not None and start is None
        try:
            for run in (*decision.delete, *(decision.replaced if start else ())):
                _log.info("topology %s: delete %s %s", topology.key, run.kind, run.name)
                await self._scan_runs.delete(run)
            if start is not None:
                await self._start(topology, start)
                await self._list()
                if (unlisted := self._unlisted(topology)) is not None:
                    raise FailureError(unlisted)
                # Not before the list: `last` would still be the scan before. The next pass recognises the object.
                runs, scans = self._runs_of(topology), decision.scans_if_started
        except FailureError as error:
            metrics.count_error(str(topology.key), error.failure.remedy, error.failure.reason)
            _log.warning("topology %s: %s", topology.key, error)
            failure = Failure(Reason.SCAN_NOT_STARTED, error.failure.message, error.failure.remedy)
        if not self._is_known(topology):
            return _IDLE_SECONDS
        report = dependencies.cache.report_of(topology)
        last = last_scan(facts.last, runs, decision.overdue, report, now, self._unstarted)
        if self._unlisted(topology) and not any(run.kind is RunKind.SPARK_APPLICATION for run in runs):
            last = facts.last  # an object that could not be listed is not a deleted object
        self._count_ended(topology, facts, last)
        scans = self._post_events(topology, scans)
        waits_since = self._due_since.get(topology.key) if queued else None
        why = next((self._unstarted[run.uid] for run in runs if run.uid in self._unstarted), None)
        known = replace(facts, scans=scans, last=last, failure=failure, waits_since=waits_since, unstarted=why)
        self._store(topology, known)
        if failure is not None:
            return _RETRY_SECONDS
        if scans.running or queued:
            return _RUNNING_SECONDS
        return max(0.1, (decision.requeue_at - now).total_seconds()) if decision.requeue_at else _IDLE_SECONDS

    async def _start(self, topology: RackTopology, start: ScanStart) -> None:
        if await self._scan_runs.start(scan_manifest(topology, start, self._dependencies.setup)):
            _log.info("topology %s: scan %s started (%s)", topology.key, start.name, start.trigger)
            metrics.count(metrics.SCANS_STARTED, str(topology.key), start.trigger)

    def _failure(self, topology: RackTopology, decision: ScanDecision) -> Failure | None:
        """Return why scans of this topology cannot be started, or None. Reported even before a scan is due.

        Racks by an earlier spec are reported only while a scan is due, because this state is temporary.
        """
        if topology.spec.compliance is None and decision.start is None:
            return None
        over_quota = self._dependencies.cache.quota.over_quota(topology.key)
        stale = None if topology.has_current_racks or decision.start is None else _STALE_RACKS
        return over_quota or self._dependencies.setup.failure(topology) or self._unlisted(topology) or stale

    def _unlisted(self, topology: RackTopology) -> Failure | None:
        return self._applications_failure if topology.spec.scan.engine is ScanEngine.SPARK_APPLICATION else None

    def _change(self, topology: RackTopology, now: datetime) -> TopologyChange | None:
        """Return the topology's fingerprint and since when it is unchanged, or None while it is not known."""
        current = fingerprint(topology)
        if current is None:
            return None
        known = self._changes.get(topology.meta.uid)
        if known is None or known.fingerprint != current or known.since > now:
            known = self._changes[topology.meta.uid] = TopologyChange(current, now)
        return known

    def _facts(self, topology: RackTopology) -> ScanFacts:
        """Return the known facts, or those recorded in the status after a restart of the operator."""
        known = self.facts.get(topology.key)
        if known is not None and known.topology_uid == topology.meta.uid:
            return known
        status = topology.status
        return ScanFacts(topology.meta.uid, status.scans or ScansStatus(), status.last_scan)

    def _store(self, topology: RackTopology, facts: ScanFacts) -> None:
        if not self._is_known(topology):
            return
        if metrics.is_served(str(topology.key)):
            _measure(str(topology.key), facts)
        if self.facts.get(topology.key) != facts:
            self.facts[topology.key] = facts
            self._on_change(topology.key)

    def _is_known(self, topology: RackTopology) -> bool:
        """Return whether the topology still exists. Its deletion, during a request, has removed its metrics."""
        known = self._dependencies.cache.topologies.get(topology.key)
        return known is not None and known.meta.uid == topology.meta.uid

    def _count_ended(self, topology: RackTopology, before: ScanFacts, last: racktopology.LastScan | None) -> None:
        if last is None or last.state is ScanState.RUNNING:
            return
        if before.last is None or before.last.scan_id != last.scan_id or before.last.state is ScanState.RUNNING:
            metrics.count(metrics.SCANS_ENDED, str(topology.key), last.state)

    def _post_events(self, topology: RackTopology, scans: ScansStatus) -> ScansStatus:
        """Set metrics and post Events from the report, Events once per scan: `scans.announced` is the last scan id."""
        cache = self._dependencies.cache
        report = cache.report_of(topology)
        if report is None:
            return scans
        if topology.status.cluster_id is not None and report.cluster_id not in (None, topology.status.cluster_id):
            metrics.forget_report(str(topology.key))  # it is about the cluster that was there before
            return scans
        if metrics.is_served(str(topology.key)):
            update_report_metrics(str(topology.key), report)
        if report.scan_id is None or report.scan_id == scans.announced:
            return scans
        about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)

        def objects(name: str) -> list[ObjectRef]:
            found = cache.topics_named(topology.key, name)
            return [ObjectRef(kafkatopic.KIND, topic.key, topic.meta.uid) for topic in found]

        for event in report_events(about, report, objects):
            self._dependencies.kube.record_event(event)
        return structs.replace(scans, announced=report.scan_id)

    # --- all topologies ----------------------------------------------------------------------------------------------

    @property
    def _scan_runs(self) -> ScanRuns:
        if self._dependencies.runs is None:
            raise FailureError(Failure(Reason.SCAN_NOT_SET_UP, "no namespace for scans", Remedy.ACCESS))
        return self._dependencies.runs

    def _has_scans(self, topology: RackTopology) -> bool:
        """Return whether the topology needs a pass: also to clear the status after scans are no longer requested."""
        known = self._facts(topology)
        return (
            topology.spec.compliance is not None
            or SCAN_NOW in topology.meta.annotations
            or self._dependencies.cache.report_of(topology) is not None
            or topology.status.last_scan is not None
            or (known.scans.schedule, known.failure, known.waits_since) != (None, None, None)
        )

    async def _list(self) -> None:
        if self._dependencies.runs is not None:
            self._runs = [
                *await self._dependencies.runs.runs(RunKind.JOB),
                *await self._spark_applications(self._dependencies.runs),
            ]
        now = self._dependencies.monotonic()
        self._active_since = {run.uid: self._active_since.get(run.uid, now) for run in self._runs if run.active}
        self._has_listed = self._dependencies.runs is None or self._has_listed_applications

    async def _find_unstarted(self) -> None:
        """Look up why pods of scans have not started within `_START_GRACE_SECONDS`."""
        now = self._dependencies.monotonic()
        known = {uid for uid, since in self._active_since.items() if now - since >= _START_GRACE_SECONDS}
        pending = [run for run in self._runs if run.pending and run.uid in known]
        try:
            self._unstarted = await self._scan_runs.unstarted(pending) if pending else {}
        except FailureError as error:  # not fatal: only messages and the deadline of starts use the reasons
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            self._unstarted = {}
        self._unstarted_since = {uid: self._unstarted_since.get(uid, now) for uid in self._unstarted}

    async def _spark_applications(self, port: ScanRuns) -> Sequence[JobRun]:
        """Return all SparkApplications, or the last known if listing fails, which affects only topologies with them.

        They are listed once even if no topology uses them: an earlier operator may have started some.
        """
        self._applications_failure = None
        known = [run for run in self._runs if run.kind is RunKind.SPARK_APPLICATION]
        if self._has_listed_applications and not self._uses_applications and not known:
            return known
        try:
            found = await port.runs(RunKind.SPARK_APPLICATION)
        except FailureError as error:
            if error.failure.remedy is Remedy.ACCESS and not self._uses_applications:
                self._has_listed_applications = True  # without scan.sparkApplications there is no right, and no need
                return known
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            message = (
                f"SparkApplications cannot be listed (scan.sparkApplications of the chart): {error.failure.message}"
            )
            self._applications_failure = Failure(Reason.SCAN_NOT_STARTED, message, error.failure.remedy)
            return known
        self._has_listed_applications = True
        return found

    async def _delete_orphans(self) -> None:
        """Delete scans of deleted topologies, because owner references cannot cross namespaces."""
        topologies = self._dependencies.cache.topologies
        known = {topology.meta.uid for topology in topologies.values()}
        watched = self._dependencies.namespaces
        ours = [run for run in self._runs if not watched or run.topology.namespace in watched]
        missing = {run.topology for run in ours if run.topology_uid not in known}
        now = self._dependencies.monotonic()
        self._orphans = {key: self._orphans.get(key, now) for key in missing}
        expired = {key for key, since in self._orphans.items() if now - since >= _ORPHAN_SECONDS}
        if not expired:
            return
        try:
            existing = await self._dependencies.kube.listed(racktopology.KIND)
        except FailureError as error:
            _pass_over(error)
            return
        for run in ours:
            present = topologies.get(run.topology)  # the topology may have appeared during the list request
            gone = existing.lacks(run.topology) if present is None else present.meta.uid != run.topology_uid
            if run.topology in expired and gone:
                _log.info("delete %s %s, which scans a topology that is gone", run.kind, run.name)
                try:
                    await self._scan_runs.delete(run)
                except FailureError as error:
                    _pass_over(error)


def _measure(topology: str, facts: ScanFacts) -> None:
    """Set the gauges of a topology's scans."""
    scans, last = facts.scans, facts.last
    metrics.SCAN_RUNNING.labels(topology).set(scans.running or 0)
    metrics.SCAN_MISSED.labels(topology).set(scans.missed or 0)
    if scans.next_at is not None:
        metrics.SCAN_NEXT.labels(topology).set(scans.next_at.timestamp())
    else:
        metrics.SCAN_NEXT.remove_by_labels({"topology": topology})
    if last is not None and last.state is not ScanState.RUNNING:
        metrics.SCAN_SUCCESS.labels(topology).set(last.state is ScanState.COMPLETED)


def _pass_over(error: FailureError) -> None:
    """Count and log an error that does not hinder any scan."""
    metrics.count_error("", error.failure.remedy, error.failure.reason)
    _log.warning("scans of topologies that are gone: %s", error)
