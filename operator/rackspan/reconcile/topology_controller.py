"""Reconciles one RackTopology: observes its cluster, processes batches of its topics, writes its status and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from rackspan import metrics
from rackspan.api.conditions import COMPLIANT, DRAINED, READY, STALLED, ConditionStatus, find_condition, is_true
from rackspan.api.racktopology import KIND
from rackspan.api.reasons import Reason
from rackspan.metrics import count_error, forget_topology
from rackspan.reconcile.cluster.broker_events import BrokerEvents, announced_brokers, drift_events
from rackspan.reconcile.cluster.cordons import Cordons
from rackspan.reconcile.cluster.observer import Observer
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.cluster.topology_deletion import TopologyFinalizer
from rackspan.reconcile.cluster.topology_status import StatusInputs, topology_status
from rackspan.reconcile.failures import Failure, FailureError
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.controller import unexpected_failure
from rackspan.reconcile.runtime.threads import in_thread
from rackspan.reconcile.runtime.waiting import progress, wait_for_any
from rackspan.reconcile.runtime.workqueue import backoff
from rackspan.reconcile.topics.topic_events import condition_events
from rackspan.reconcile.topics.topics_reconciler import BATCHES, TopicsReconciler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prometheus_client import Gauge

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.cluster.topology_status import PlanSummary
    from rackspan.reconcile.dependencies import Dependencies


_log = logging.getLogger("rackspan.reconcile")

_STATUS_SECONDS = 1.0
"""The minimum time between two writes of the status, whose counts change with every topic."""
_APPROVAL_SECONDS = 2.0
"""How often to check whether a plan may begin: no watch event reports an opening window or an ended Reassignment."""
_REST = 60
"""The pause after judging a plan, as a multiple of its CPU time, which is 0.03 s for thousands of topics."""


class StatusPart(Protocol):
    """A loop over all topologies that contributes a part of their statuses."""

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """Return `status` with this loop's part for the topology."""


class TopologyReconciler:
    """Reconciles one RackTopology. Level-triggered: every pass starts from the current state, not from what changed."""

    def __init__(
        self,
        key: ObjectKey,
        dependencies: Dependencies,
        status_parts: Sequence[StatusPart],
        observer: Observer | None = None,
    ) -> None:
        self.last_pass: float | None = None
        self._key = key
        self._dependencies = dependencies
        self._status_parts = status_parts
        self.cluster = observer or Observer(key, dependencies)
        """The topology's Kafka cluster as last seen, and its client."""
        self.topics = TopicsReconciler(key, self.cluster, dependencies, self.write_status)
        self._cordons = Cordons()
        self._finalizer = TopologyFinalizer(
            key, dependencies, self.topics.finalizer.dependents, self._cordons.held, self._releases
        )
        self._status_due = asyncio.Event()
        self._cluster_changed = asyncio.Event()
        """Ends the pause after a status write: changes that affect all topics are rare and are written immediately."""
        self._writing = asyncio.Lock()
        self._broker_events: BrokerEvents | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._finished = False

    def deletions_confirmed(self) -> None:
        """Handle that a user confirmed deletions by annotating the RackTopology: queue the topics being deleted."""
        cache = self._dependencies.cache
        keys = cache.topics_of(self._key)
        self.topics.add(key for key in keys if cache.topics[key].meta.is_deleting)

    def topic_gone(self, key: ObjectKey) -> None:
        """Handle the deletion of this KafkaTopic."""
        self.topics.drop(key)
        self._status_due.set()

    def status_changed(self) -> None:
        """Write the status soon, because the part of another loop changed."""
        self._status_due.set()

    @property
    def connected(self) -> bool:
        """Whether the topology's Kafka cluster can be used."""
        return isinstance(self.cluster.state, ClusterState)

    async def run(self) -> None:
        """Run until cancelled or, after `finish`, until the ongoing batches have ended."""
        try:
            async with asyncio.TaskGroup() as group:
                self._loops = [
                    group.create_task(self._observe_loop()),
                    group.create_task(self._status_loop()),
                    group.create_task(self._approval_loop()),
                    group.create_task(self._batch_loop(group)),
                ]
                if self._finished:
                    self.finish()
        finally:
            await self.cluster.close()

    async def report(self) -> bool:
        """Write the finalizer and all statuses once, without a loop and without metrics. Raises FailureError.

        Return whether all is written, and no deletion waits.
        """
        await self._finalizer.reconcile()
        progress()
        left = set(self._dependencies.cache.topics_of(self._key))
        self.topics.add(sorted(left))
        while left:
            keys = await self.topics.take()
            await self.topics.process(keys)
            left.difference_update(keys)
        await self.write_status()
        return self.topics.is_idle

    def finish(self) -> None:
        """Let the ongoing batches end and start no other: the RackTopology is deleted, or not served any more."""
        self._finished = True
        for task in self._loops:
            task.cancel()

    async def _observe_loop(self) -> None:
        while True:
            with self._dependencies.liveness.track(f"look at {self._key}"):
                await self._finalizer.reconcile()  # before the first state, so before topics are created
                progress()
                everything = await self.cluster.observe()
            self._leave_cordons()  # before any await, so before the status has the cluster id
            if everything:
                topics = self._dependencies.cache.topics_of(self._key)
                self.topics.add(sorted(topics))  # sorted, because placements depend on earlier ones
                self._cluster_changed.set()
            if self._key in self._dependencies.cache.topologies:
                measure_observation(str(self._key), self.cluster.state)
            self._pass_done()
            with self._dependencies.liveness.track(f"cordons of {self._key}"):
                await self._reconcile_cordons()
            await self.cluster.wait()

    def _leave_cordons(self) -> None:
        topology, state = self._dependencies.cache.topologies.get(self._key), self.cluster.state
        if topology is None or not isinstance(state, ClusterState):
            return
        if (event := self._cordons.leave(topology, state.cluster_id)) is not None:
            self._dependencies.kube.record_event(event)

    async def _reconcile_cordons(self) -> None:
        topology = self._dependencies.cache.topologies.get(self._key)
        state, admin = self.cluster.state, self.cluster.admin
        if topology is None or admin is None or not isinstance(state, ClusterState) or state.spec != topology.spec:
            return
        able, remaining = self.cluster.cordonable, self.cluster.remaining
        empty = remaining.empty if remaining else ()
        racks = state.for_plans.racks  # the lasting racks: a label that is wrong for a moment must end no drain
        try:
            record, unproven = partial(self._record_cordons, topology), state.unproven
            if await self._cordons.reconcile(topology, racks, able, empty, admin, record, unproven):
                self.cluster.cordons_changed()
        except Exception:
            _log.exception("topology %s: unexpected error over its cordons", self._key)

    def _releases(self, topology: RackTopology) -> bool:
        """Return whether the operator's cordons can still be removed. They cannot if Kafka does not respond."""
        state = self.cluster.state
        answers = not isinstance(state, Failure) or state.reason in (Reason.WAITING, Reason.KAFKA_CLIENT_WAITING)
        return answers and self._cordons.releases(topology)

    async def _record_cordons(self, topology: RackTopology) -> bool:
        """Write into the status which cordons are the operator's, before Kafka is asked for them. Raises FailureError.

        Return whether the cordons are stored and the drains are still those of `topology`.
        """
        await self.write_status()
        latest = self._dependencies.cache.topologies.get(self._key)
        if latest is None or _drains(latest) != _drains(topology):
            return False
        return self._cordons.shown(latest.status) == latest.status

    async def _batch_loop(self, group: asyncio.TaskGroup) -> None:
        """Run one task per batch, up to BATCHES at a time."""
        slots = asyncio.Semaphore(BATCHES)
        while True:
            await slots.acquire()
            keys = await self.topics.take()
            batch = group.create_task(self._process(keys))
            batch.add_done_callback(lambda _: slots.release())

    async def _process(self, keys: Sequence[ObjectKey]) -> None:
        with self._dependencies.liveness.track(f"batch of {self._key}"):
            await self.topics.process(keys)
        self._pass_done()

    async def _status_loop(self) -> None:
        failures = 0
        while True:
            await self._status_due.wait()
            self._status_due.clear()
            self._cluster_changed.clear()
            try:
                with self._dependencies.liveness.track(f"status of {self._key}"):
                    await self._finalizer.reconcile()
                    progress()
                    await self.write_status()
                failures = 0
            except FailureError:
                failures += 1
            except Exception:
                failures += 1
                _log.exception("topology %s: unexpected error over its status", self._key)
            if failures:
                self._status_due.set()  # the write failed: try again
            await wait_for_any(backoff(_STATUS_SECONDS, failures), self._cluster_changed)

    async def _approval_loop(self) -> None:
        summary, judging, failures = None, 0.0, 0
        while True:
            try:
                with self._dependencies.liveness.track(f"approval of {self._key}"):
                    await self.topics.approvals.reconcile()
                    if summary != (summary := await self.topics.approvals.summary()):
                        self._status_due.set()
                judging, failures = self.topics.approvals.judging, 0
            except FailureError as error:
                failures += 1
                count_error(str(self._key), error.failure.remedy, error.failure.reason)
                _log.warning("topology %s: %s", self._key, error)
            except Exception as error:
                failures += 1
                unexpected_failure("reconcile", self._key, error)
            await asyncio.sleep(max(backoff(_APPROVAL_SECONDS, failures), _REST * judging))

    async def write_status(self) -> None:
        """Write the RackTopology's status now, if it changed. Raises FailureError."""
        async with self._writing:
            await self._write_latest_status()

    def _status_inputs(self, planned: PlanSummary | None) -> StatusInputs:
        cache, state = self._dependencies.cache, self.cluster.state
        deletions, waiting = self.topics.finalizer.review()
        return StatusInputs(
            state=state.with_own_load if isinstance(state, ClusterState) else state,
            racks=self.cluster.racks,
            topics=[cache.topics[key] for key in cache.topics_of(self._key) if key in cache.topics],
            remaining=self.cluster.remaining,
            deletions=deletions,
            waiting=tuple(waiting),
            deletion_blocked=self._finalizer.problem,
            planned=planned,
            failed_spec=self.cluster.failed_spec,
            cordon_problem=self._cordons.problem,
        )

    async def _write_latest_status(self) -> None:
        cache, inputs = self._dependencies.cache, self._status_inputs(await self.topics.approvals.summary())
        state = inputs.state
        topology = None if self._finished else cache.topologies.get(self._key)  # else it is a new object of that name
        if topology is None:
            forget_topology(str(self._key))
            return
        if isinstance(state, Failure) and state.reason == Reason.WAITING:
            return
        now = datetime.now(UTC)
        status = await in_thread(topology_status, topology, inputs, now)  # thousands of topics take time
        status = structs.replace(status, lease=str(self._dependencies.lease))
        if metrics.is_served(str(self._key)):
            measure(str(self._key), inputs, ready=is_true(status.conditions, READY))
            measure_drains(str(self._key), status)
        status = self._cordons.shown(status)
        for part in self._status_parts:
            status = part.status(topology, status, now)
        ref = ObjectRef(KIND, topology.key, topology.meta.uid)
        written = await self._dependencies.statuses.write(ref, topology.status.to_dict(), status.to_dict())
        if written is not None:
            cache.put_topology_answer(written)
            for event in condition_events(ref, topology.status.conditions, status.conditions):
                self._dependencies.kube.record_event(event)
            for event in drift_events(ref, topology.status, status):
                self._dependencies.kube.record_event(event)
        if isinstance(state, ClusterState):
            if topology.status.cluster_id not in (None, state.cluster_id):
                self._broker_events = BrokerEvents()  # another cluster has other brokers, even with the same ids
            self._record_broker_events(ref, topology.status, inputs, now)

    def _record_broker_events(
        self, ref: ObjectRef, before: RackTopologyStatus, inputs: StatusInputs, now: datetime
    ) -> None:
        if self._broker_events is None:
            self._broker_events = BrokerEvents(announced_brokers(before, now))
        loop_time = asyncio.get_running_loop().time()
        for event in self._broker_events.due_events(ref, inputs.online, inputs.offline, loop_time):
            self._dependencies.kube.record_event(event)

    def _pass_done(self) -> None:
        self.last_pass = asyncio.get_running_loop().time()
        self._status_due.set()


def _drains(topology: RackTopology) -> object:
    """Return the fields of a topology that determine its cordons."""
    spec = topology.spec
    return topology.meta.uid, topology.meta.is_deleting, spec.drain, spec.drain_brokers, spec.drain_racks


# --- the Prometheus gauges of one topology ----------------------------------------------------------------------------


BROKER_STATES = ("online", "offline", "unknown")
TOPIC_STATES = ("ready", "stalled", "pending", "unknown")


def measure_observation(topology: str, state: ClusterState | Failure) -> None:
    """Set the gauges that depend on the cluster alone, even if the status cannot be written."""
    metrics.CONNECTED.labels(topology).set(isinstance(state, ClusterState))
    if isinstance(state, ClusterState):
        metrics.LAST_PASS.labels(topology).set_to_current_time()


def measure(topology: str, inputs: StatusInputs, *, ready: bool) -> None:
    """Set the gauges of brokers and topics. `ready` is whether the topology's condition Ready is True.

    While Kafka cannot be reached, brokers and topics count as `unknown`.
    """
    state = inputs.state
    metrics.READY.labels(topology).set(ready)
    metrics.DELETIONS_HELD.labels(topology).set(len(inputs.waiting))
    known = isinstance(state, ClusterState)
    rows = inputs.racks.rows if inputs.racks else ()
    brokers = {"online": len(inputs.online), "offline": len(inputs.offline)} if known else {"unknown": len(rows)}
    topics = Counter(topic_state(topic) if known else "unknown" for topic in inputs.topics)
    _set(metrics.BROKERS, topology, BROKER_STATES, brokers)
    _set(metrics.TOPICS, topology, TOPIC_STATES, topics)
    if not known:
        metrics.forget_kafka_metrics(topology)
        return
    metrics.DRIFTED_BROKERS.labels(topology).set(sum(row.drift for row in rows))
    drifted = inputs.drifted_topics
    metrics.DRIFTED_TOPICS.labels(topology).set(drifted.count if drifted else 0)
    metrics.RACKLESS_BROKERS.labels(topology).set(sum(row.rack is None for row in rows))
    metrics.NON_COMPLIANT_TOPICS.labels(topology).set(inputs.counts.non_compliant)
    moves = (topic.status.compliance.moves for topic in inputs.topics if topic.status.compliance)
    metrics.MOVES_NEEDED.labels(topology).set(sum(number or 0 for number in moves))


def measure_drains(topology: str, status: RackTopologyStatus) -> None:
    """Set the gauges of replicas left to drain, or remove them if the numbers, or all brokers, are not known."""
    metrics.DRAIN_REPLICAS_LEFT.remove_by_labels({"topology": topology})
    condition = find_condition(status.conditions, DRAINED)
    if condition is None or condition.status == ConditionStatus.UNKNOWN:
        return
    for drain in status.drains:
        if drain.replicas is not None and drain.drained is not None:
            metrics.DRAIN_REPLICAS_LEFT.labels(topology, drain.target).set(drain.replicas.total)


def topic_state(topic: KafkaTopic) -> str:
    """Return `stalled`, `ready`, `pending` (neither), or `unknown` (not observed yet, or Compliant is Unknown)."""
    conditions = topic.status.conditions
    ready, compliant = find_condition(conditions, READY), find_condition(conditions, COMPLIANT)
    if is_true(conditions, STALLED):
        return "stalled"
    if ready is None:
        return "unknown"
    if ready.status == ConditionStatus.TRUE:
        return "ready"
    return "unknown" if compliant is not None and compliant.status == ConditionStatus.UNKNOWN else "pending"


def _set(gauge: Gauge, topology: str, states: tuple[str, ...], counts: Mapping[str, int]) -> None:
    for state in states:
        gauge.labels(topology, state).set(counts.get(state, 0))
