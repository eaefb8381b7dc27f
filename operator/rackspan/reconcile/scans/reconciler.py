"""One loop for the scans of all topologies: it looks when something changed, when a scan is due, and while one runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from rackspan import metrics
from rackspan.api import kafkatopic, racktopology
from rackspan.api.labels import SCAN_NOW
from rackspan.api.racktopology import ComplianceScanSpec, ScanEngine, ScansStatus, ScanState
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.liveness import Liveness
from rackspan.reconcile.runtime.waiting import wait_debounced
from rackspan.reconcile.scans.decision import Change, decide, fingerprint
from rackspan.reconcile.scans.events import measure_report, news
from rackspan.reconcile.scans.job_status import RunKind
from rackspan.reconcile.scans.manifests import scan_body
from rackspan.reconcile.scans.status import ScanFacts, last_scan, with_scans
from rackspan.reconcile.scans.turn_order import Turns, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import Cluster
    from rackspan.reconcile.scans.config import ScanSetup
    from rackspan.reconcile.scans.decision import ScanDecision
    from rackspan.reconcile.scans.job_status import Run
    from rackspan.reconcile.scans.ports import ScanRuns

_log = logging.getLogger("rackspan.scans")

_RUNNING_SECONDS = 5.0
"""How often it is asked how scans go, while any runs: one list for all of them."""
_IDLE_SECONDS = 60.0
"""How long to sleep at most: a clock that jumps is noticed by then."""
_RETRY_SECONDS = 15.0
_DEBOUNCE_SECONDS = 0.2
_START_GRACE = timedelta(seconds=15)
"""How long a pod may take to start before it is asked why it has not."""
_ORPHAN_SECONDS = 60.0
"""How long a topology must be missing before what scans it is deleted, in case it is only not listed yet."""


@dataclass(frozen=True, slots=True)
class ScanDependencies:
    """What the loop acts through; `told` is called when there is something new for a topology's status."""

    cache: Cache
    kube: Cluster
    runs: ScanRuns | None
    setup: ScanSetup
    namespaces: tuple[str, ...] = ()
    """Those that are watched; empty for all. Scans of topologies elsewhere are another operator's."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    liveness: Liveness = field(default_factory=Liveness)


class ScansReconciler:
    """
    Level-triggered: each turn starts from the objects that there are.

    While no topology asks for scans, the API server is asked nothing but, once, what an earlier operator left. A
    topology's failure is its own.
    """

    def __init__(self, dependencies: ScanDependencies, told: Callable[[ObjectKey], None]) -> None:
        self._dependencies = dependencies
        self._told = told
        self.facts: dict[ObjectKey, ScanFacts] = {}
        """What is known of each topology's scans, which its status may not tell yet."""
        self._changes: dict[str, Change] = {}
        self._due_since: dict[ObjectKey, datetime] = {}
        self._orphans: dict[ObjectKey, float] = {}
        self._runs: Sequence[Run] = ()
        self._has_listed = False
        self._applications = False
        self._unlisted: Failure | None = None
        self._unstarted: Mapping[str, str] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """A topology or a report changed."""
        self._wake.set()

    def topology_gone(self, key: ObjectKey) -> None:
        """The RackTopology is no more."""
        self.facts.pop(key, None)
        self._wake.set()

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """The RackTopology's status, with what is known of its scans."""
        return with_scans(topology, status, self.facts.get(topology.key), now)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            pause = await self._turn_safely()
            await wait_debounced(self._wake, pause, _DEBOUNCE_SECONDS)

    async def _turn_safely(self) -> float:
        try:
            with self._dependencies.liveness.track("scans"):
                return await self.turn()
        except FailureError as error:
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            _log.warning("scans: %s", error)
        except Exception:
            metrics.count_error("", Remedy.RETRY, Reason.UNEXPECTED_ERROR)
            _log.exception("scans: unexpected error")
        return _RETRY_SECONDS

    async def turn(self) -> float:
        """Look at all topologies, act, and say in how many seconds to look again. Raises FailureError."""
        cache = self._dependencies.cache
        topologies = [topology for topology in cache.topologies.values() if self._concerns(topology)]
        uids = {topology.meta.uid for topology in topologies}
        self._changes = {uid: change for uid, change in self._changes.items() if uid in uids}
        if not topologies and not self._runs and self._has_listed:
            return _IDLE_SECONDS
        self._applications = any(_spec(topology).engine is ScanEngine.SPARK_APPLICATION for topology in topologies)
        await self._list()
        await self._ask_for_pods()
        await self._delete_orphans()
        pauses = [_IDLE_SECONDS]
        turns = self._next(topologies)
        for topology in topologies:
            known = cache.topologies.get(topology.key)  # it may change or go while the API server answers
            if known is not None:
                pauses.append(await self._look_safely(known, turns))
        return min(pauses)

    def _next(self, topologies: Sequence[RackTopology]) -> frozenset[ObjectKey]:
        """Topologies whose scans may start in this turn; the others that are due wait, and are remembered."""
        setup, now = self._dependencies.setup, self._dependencies.clock()
        due = {}
        for topology in topologies:
            try:
                decision = self._decision(topology, now)
                fits = decision.start is not None and self._trouble(topology, decision) is None
            except Exception:  # noqa: S112 - told when this topology is looked at
                continue
            if fits:
                since = self._due_since.get(topology.key, now)
                trusted, replaces = setup.trusts(topology.key.namespace), bool(decision.replaced)
                due[topology.key] = Waiting(topology.key, since, trusted=trusted, replaces=replaces)
        self._due_since = {key: one.since for key, one in due.items()}
        running = [run.topology for run in self._runs if run.active]
        return Turns(setup.max_running, setup.allowance.limits.running_per_namespace).next(due.values(), running)

    # --- one topology ------------------------------------------------------------------------------------------------

    def _decision(self, topology: RackTopology, now: datetime) -> ScanDecision:
        facts = self._facts(topology)
        change = self._change(topology, now)
        return decide(topology, facts.memory, facts.last, self._runs_of(topology), now, change, self._unstarted)

    def _runs_of(self, topology: RackTopology) -> list[Run]:
        return [run for run in self._runs if run.topology_uid == topology.meta.uid]

    async def _look_safely(self, topology: RackTopology, turns: frozenset[ObjectKey]) -> float:
        """A defect that one topology meets with holds up no other."""
        try:
            return await self._look(topology, turns)
        except FailureError:
            raise
        except Exception as error:
            metrics.count_error(str(topology.key), Remedy.RETRY, Reason.UNEXPECTED_ERROR)
            _log.exception("topology %s: unexpected error about its scans", topology.key)
            trouble = Failure(Reason.UNEXPECTED_ERROR, f"{type(error).__name__}, see the operator's log", Remedy.RETRY)
            self._keep(topology, replace(self._facts(topology), trouble=trouble))
            return _RETRY_SECONDS

    async def _look(self, topology: RackTopology, turns: frozenset[ObjectKey]) -> float:
        """Decide and act about one topology, of which `turns` may start a scan; how many seconds it can wait then."""
        dependencies, now = self._dependencies, self._dependencies.clock()
        facts, runs = self._facts(topology), self._runs_of(topology)
        decision = self._decision(topology, now)
        refused = self._trouble(topology, decision)
        trouble, memory = decision.problem or refused, decision.memory
        starts = decision.start is not None and refused is None
        queued = starts and topology.key not in turns
        try:
            for run in (*decision.delete, *(decision.replaced if starts and not queued else ())):
                _log.info("topology %s: delete %s %s", topology.key, run.kind, run.name)
                await self._port.delete(run)
            if starts and not queued:
                await self._start(topology, decision)
                memory = decision.started
                await self._list()
                runs = self._runs_of(topology)
        except FailureError as error:
            metrics.count_error(str(topology.key), error.failure.remedy, error.failure.reason)
            _log.warning("topology %s: %s", topology.key, error)
            trouble = Failure(Reason.SCAN_NOT_STARTED, error.failure.message, error.failure.remedy)
        report = dependencies.cache.reports.get(topology.key)
        last = last_scan(facts.last, runs, decision.overdue, report, now, self._unstarted)
        self._count(topology, facts, last)
        memory = self._announce(topology, memory)
        waits_since = self._due_since.get(topology.key) if queued else None
        why = next((self._unstarted[run.uid] for run in runs if run.uid in self._unstarted), None)
        told = replace(facts, memory=memory, last=last, trouble=trouble, waits_since=waits_since, unstarted=why)
        self._keep(topology, told)
        if trouble is not None:
            return _RETRY_SECONDS
        if memory.running or queued:
            return _RUNNING_SECONDS
        return max(0.1, (decision.at - now).total_seconds()) if decision.at else _IDLE_SECONDS

    async def _start(self, topology: RackTopology, decision: ScanDecision) -> None:
        start = decision.start
        if start is None:
            return
        if await self._port.start(scan_body(topology, start, self._dependencies.setup)):
            _log.info("topology %s: scan %s started (%s)", topology.key, start.name, start.trigger)
            metrics.SCANS_STARTED.labels(str(topology.key), start.trigger).inc()

    def _trouble(self, topology: RackTopology, decision: ScanDecision) -> Failure | None:
        """Told as soon as scans are asked for, not only when the first one is due."""
        if topology.spec.compliance is None and decision.start is None:
            return None
        unlisted = self._unlisted if _spec(topology).engine is ScanEngine.SPARK_APPLICATION else None
        crowded = self._dependencies.cache.quota.over_quota(topology.key)
        return crowded or self._dependencies.setup.trouble(topology) or unlisted

    def _change(self, topology: RackTopology, now: datetime) -> Change | None:
        """What the topology is like, and since when it has been like that."""
        seen = fingerprint(topology)
        if seen is None:
            return None
        known = self._changes.get(topology.meta.uid)
        if known is None or known.fingerprint != seen or known.since > now:
            known = self._changes[topology.meta.uid] = Change(seen, now)
        return known

    def _facts(self, topology: RackTopology) -> ScanFacts:
        """What is known; after a start of the operator what the status remembers."""
        known = self.facts.get(topology.key)
        if known is not None and known.topology_uid == topology.meta.uid:
            return known
        status = topology.status
        return ScanFacts(topology.meta.uid, status.scans or ScansStatus(), status.last_scan)

    def _keep(self, topology: RackTopology, facts: ScanFacts) -> None:
        known = self._dependencies.cache.topologies.get(topology.key)
        if known is None or known.meta.uid != topology.meta.uid:
            return  # it went while the API server answered, and its series with it
        name, memory = str(topology.key), facts.memory
        metrics.SCAN_RUNNING.labels(name).set(memory.running or 0)
        metrics.SCAN_MISSED.labels(name).set(memory.missed or 0)
        if memory.next_at is not None:
            metrics.SCAN_NEXT.labels(name).set(memory.next_at.timestamp())
        else:
            metrics.SCAN_NEXT.remove_by_labels({"topology": name})
        last = facts.last
        if last is not None and last.state is not ScanState.RUNNING:
            metrics.SCAN_SUCCESS.labels(name).set(last.state is ScanState.COMPLETED)
        if self.facts.get(topology.key) != facts:
            self.facts[topology.key] = facts
            self._told(topology.key)

    def _count(self, topology: RackTopology, before: ScanFacts, last: racktopology.LastScan | None) -> None:
        if last is None or last.state is ScanState.RUNNING:
            return
        if before.last is None or before.last.scan_id != last.scan_id or before.last.state is ScanState.RUNNING:
            metrics.SCANS_ENDED.labels(str(topology.key), last.state).inc()

    def _announce(self, topology: RackTopology, memory: ScansStatus) -> ScansStatus:
        """Tell what the last scan changed, once: which scan was told of outlives the operator in the status."""
        cache = self._dependencies.cache
        report = cache.reports.get(topology.key)
        if report is None:
            return memory
        measure_report(str(topology.key), report)
        if report.scan_id is None or report.scan_id == memory.announced:
            return memory
        about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)

        def objects(name: str) -> list[ObjectRef]:
            found = cache.topics_named(topology.key, name)
            return [ObjectRef(kafkatopic.KIND, topic.key, topic.meta.uid) for topic in found]

        for event in news(about, report, objects):
            self._dependencies.kube.record_event(event)
        return structs.replace(memory, announced=report.scan_id)

    # --- all of them -------------------------------------------------------------------------------------------------

    @property
    def _port(self) -> ScanRuns:
        if self._dependencies.runs is None:
            raise FailureError(Failure(Reason.SCAN_NOT_SET_UP, "no namespace for scans", Remedy.ACCESS))
        return self._dependencies.runs

    def _concerns(self, topology: RackTopology) -> bool:
        return (
            topology.spec.compliance is not None
            or SCAN_NOW in topology.meta.annotations
            or topology.key in self._dependencies.cache.reports
            or topology.status.last_scan is not None
        )

    async def _list(self) -> None:
        if self._dependencies.runs is not None:
            self._runs = [
                *await self._dependencies.runs.runs(RunKind.JOB),
                *await self._spark_applications(self._dependencies.runs),
            ]
        self._has_listed = True

    async def _ask_for_pods(self) -> None:
        """Why pods of scans have not started, once they should have."""
        late = self._dependencies.clock() - _START_GRACE
        pending = [run for run in self._runs if run.active and run.pending and run.created < late]
        try:
            self._unstarted = await self._port.unstarted(pending) if pending else {}
        except FailureError as error:  # scans go on without it
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            self._unstarted = {}

    async def _spark_applications(self, port: ScanRuns) -> Sequence[Run]:
        """Those that there are, else those that were seen last: without them only their own topologies wait."""
        self._unlisted = None
        known = [run for run in self._runs if run.kind is RunKind.SPARK_APPLICATION]
        if not self._applications and not known:
            return known
        try:
            return await port.runs(RunKind.SPARK_APPLICATION)
        except FailureError as error:
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            words = f"SparkApplications cannot be listed (scan.sparkApplications of the chart): {error.failure.message}"
            self._unlisted = Failure(Reason.SCAN_NOT_STARTED, words, error.failure.remedy)
            return known

    async def _delete_orphans(self) -> None:
        """What scans a topology that is no more goes after it; owner references cannot cross namespaces."""
        known = {topology.meta.uid for topology in self._dependencies.cache.topologies.values()}
        watched = self._dependencies.namespaces
        ours = [run for run in self._runs if not watched or run.topology.namespace in watched]
        missing = {run.topology for run in ours if run.topology_uid not in known}
        loop_time = asyncio.get_running_loop().time()
        self._orphans = {key: self._orphans.get(key, loop_time) for key in missing}
        ripe = {key for key, since in self._orphans.items() if loop_time - since >= _ORPHAN_SECONDS}
        if not ripe:
            return
        there = await self._dependencies.kube.uids(racktopology.KIND)
        for run in ours:
            replaced = run.topology in self._dependencies.cache.topologies
            if run.topology in ripe and run.topology_uid not in known and (replaced or run.topology not in there):
                _log.info("%s %s scans a topology that is no more: deleted", run.kind, run.name)
                await self._port.delete(run)


def _spec(topology: RackTopology) -> ComplianceScanSpec:
    return topology.spec.compliance or ComplianceScanSpec()
