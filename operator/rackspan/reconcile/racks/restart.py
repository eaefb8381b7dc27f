"""The control loop that restarts brokers whose `broker.rack` a restart mends: by evicting their pods, one at a time.

What is about to be done is in the RackTopology's status before it is done, so that an operator that is stopped in
between waits for the same broker, and does not take a second one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import structs

from rackspan import metrics
from rackspan.api.labels import RESTART, RESTARTS_FOR
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import (
    KIND,
    RestartingBroker,
    RestartPolicy,
    RestartsStatus,
    TopicsWithoutSpareReplica,
)
from rackspan.api.reasons import Reason
from rackspan.core.availability import lagging, shortfalls_without
from rackspan.core.rack_path import format_rack
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import Eviction, KubernetesEvent, ObjectRef
from rackspan.reconcile.racks.restart_decision import (
    GONE,
    Again,
    Begin,
    Done,
    RestartCandidate,
    RestartFacts,
    RestartHold,
    choose,
    cost,
    progress_of,
    progress_unseen,
    still_not_mended,
    unfit,
    unsafe,
    with_restarts,
)
from rackspan.reconcile.runtime.controller import Controller, unexpected_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rackspan.api.racktopology import NotMended, RackTopology, RackTopologyStatus
    from rackspan.core.availability import IsrShortfall
    from rackspan.reconcile.cluster.state import ObservedCluster
    from rackspan.reconcile.ports import KafkaAdmin, PodFacts
    from rackspan.reconcile.racks.publish import RackDependencies
    from rackspan.reconcile.racks.restart_decision import RestartChoice, RestartProgress

_log = logging.getLogger("rackspan.restarts")
_IDLE_SECONDS: Final = 60.0
_BUSY_SECONDS: Final = 5.0
"""How often brokers are looked at while one restarts, or waits for it."""
_TRIES: Final = 3
"""Brokers that are tried in one pass: each costs a Metadata request over all topics."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a pass waits for one topology's Kafka. Its step goes on beside the passes that follow."""


class ObservedTopologies(Protocol):
    """What the loop asks of the topologies' loops."""

    def cluster(self, key: ObjectKey) -> ObservedCluster | None:
        """The topology's Kafka cluster; None where nothing looks at it."""

    async def write_status(self, key: ObjectKey) -> None:
        """Write the RackTopology's status now. Raises FailureError."""

    def status_changed(self, key: ObjectKey) -> None:
        """The RackTopology's status has to be written soon."""


class RestartsReconciler(Controller):
    """Level-triggered: each pass starts from what Kafka and the API server say now, and from the recorded restart.

    One topology's failure does not affect the others, nor does a Kafka that is slow to answer. `published_rack` gives
    what the published racks of a topology say in a namespace of a node, `now` the time, and `clock` seconds that go on
    whatever the time is set to.
    """

    name = "restarts"

    def __init__(
        self,
        dependencies: RackDependencies,
        topologies: ObservedTopologies,
        published_rack: Callable[[ObjectKey, str, str], str | None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC).replace(microsecond=0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(dependencies.liveness)
        self._dependencies = dependencies
        self._pods = dependencies.pods
        self._topologies = topologies
        self._published_rack = published_rack
        self._now = now
        self._clock = clock
        self._facts: dict[ObjectKey, RestartFacts] = {}
        self._tried: dict[ObjectKey, int] = {}
        """By topology: the broker whose restart was tried last."""
        self._ready: dict[ObjectKey, tuple[str, float]] = {}
        """By topology: the uid of the new pod of the broker that restarts, and since when, by `clock`, it is ready."""
        self._steps: dict[ObjectKey, asyncio.Task[None]] = {}
        """By topology: the step that is under way."""

    def asked(self, topology: RackTopology) -> object:
        """The annotation may name a broker."""
        return super().asked(topology), topology.meta.annotations.get(RESTART)

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """`status` with what is known of the topology's restarts."""
        return with_restarts(topology, status, self._facts.get(topology.key), now)

    async def run(self) -> None:
        """Loop until cancelled."""
        try:
            await super().run()
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel the steps that are under way."""
        steps = list(self._steps.values())
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)

    async def reconcile(self) -> float:
        """One pass over all topologies; the seconds until the next one."""
        topologies = self._dependencies.cache.topologies
        for known in (self._facts, self._tried, self._ready):
            for gone in known.keys() - topologies.keys():
                del known[gone]
        self._steps = {key: step for key, step in self._steps.items() if not step.done()}
        busy = False
        for topology in sorted(topologies.values(), key=lambda one: one.meta.age):
            if self._is_due(topology):
                busy = True
                if topology.key not in self._steps:
                    self._steps[topology.key] = asyncio.create_task(self._look(topology))
            else:
                self._keep(topology, RestartFacts(topology.meta.uid))
        if self._steps:
            await asyncio.wait(self._steps.values(), timeout=_PATIENCE_SECONDS)
        return _BUSY_SECONDS if busy else _IDLE_SECONDS

    def _is_due(self, topology: RackTopology) -> bool:
        restarts = self._known(topology).restarts.current is not None
        return not topology.meta.is_deleting and (_is_wanted(topology) or restarts)

    async def _look(self, topology: RackTopology) -> None:
        self._keep(topology, await self._step_safely(topology, self._known(topology)))

    def _keep(self, topology: RackTopology, facts: RestartFacts) -> None:
        before, self._facts[topology.key] = self._known(topology), facts
        if facts != before:
            self._topologies.status_changed(topology.key)

    def _known(self, topology: RackTopology) -> RestartFacts:
        """What is known, at first from the status that an earlier operator left."""
        known = self._facts.get(topology.key)
        if known is None or known.topology_uid != topology.meta.uid:
            status = topology.status
            return RestartFacts(topology.meta.uid, status.restarts or RestartsStatus(), cluster_id=status.cluster_id)
        return known

    async def _step_safely(self, topology: RackTopology, facts: RestartFacts) -> RestartFacts:
        """One step; a failure leaves everything as it was, is reported, and does not affect other topologies."""
        try:
            return await self._step(topology, facts)
        except FailureError as error:
            failure = error.failure
            metrics.count_error(str(topology.key), failure.remedy, failure.reason)
        except Exception as error:
            failure = unexpected_failure(self.name, topology.key, error)
        known = self._facts.get(topology.key, facts)  # with the restart that was recorded meanwhile
        hold = RestartHold(failure.message, failure.reason)
        return replace(known, topology_uid=facts.topology_uid, hold=hold)

    async def _step(self, topology: RackTopology, facts: RestartFacts) -> RestartFacts:
        refused, current = self._refused(topology), facts.restarts.current
        if refused is not None and (current is None or self._now() - current.since >= GONE):
            return replace(facts, restarts=structs.replace(facts.restarts, current=None), hold=refused)
        cluster = self._topologies.cluster(topology.key)
        state = cluster.state if cluster else None
        admin = cluster.admin if cluster else None
        if not isinstance(state, ClusterState) or admin is None:
            return replace(facts, hold=RestartHold("Kafka cannot be asked whether a broker can be spared"))
        if state.spec != topology.spec:
            return facts  # racks, pods and Kafka itself may be others by now: it is looked at soon
        self._facts[topology.key] = facts = replace(facts.within(state.cluster_id), cluster_id=state.cluster_id)
        return replace(await self._step_in(topology, facts, state, admin, refused), cluster_id=state.cluster_id)

    async def _step_in(
        self,
        topology: RackTopology,
        facts: RestartFacts,
        state: ClusterState,
        admin: KafkaAdmin,
        refused: RestartHold | None,
    ) -> RestartFacts:
        current, brokers = facts.restarts.current, self._candidates(topology, state)
        restarts = structs.replace(facts.restarts, not_mended=still_not_mended(facts.restarts.not_mended, brokers))
        if current is not None:
            return await self._follow(topology, restarts, current, brokers, admin, refused)
        found = _choice(topology, brokers, restarts.not_mended)
        if found is None or isinstance(found, RestartHold):
            return RestartFacts(facts.topology_uid, restarts, found)
        other = self._restarting_elsewhere(topology)
        if other is not None:
            return RestartFacts(facts.topology_uid, restarts, other)
        return await self._begin_one(topology, restarts, found, admin)

    def _refused(self, topology: RackTopology) -> RestartHold | None:
        """Why this topology's brokers may not be restarted; None where they may be."""
        own, where = topology.meta.namespace, topology.broker_namespace
        if where not in self._dependencies.restart_in:
            why = f"the operator may not evict pods of namespace {where}: name it in racks.restart of the chart"
            return RestartHold(why, Reason.RESTART_NOT_ALLOWED)
        if where != own and self._dependencies.cache.namespaces.get(where, {}).get(RESTARTS_FOR) != own:
            why = f"namespace {where} does not let topologies of namespace {own} restart its pods: label it "
            return RestartHold(f"{why}{RESTARTS_FOR}={own}", Reason.RESTART_NOT_ALLOWED)
        return None

    def _restarting_elsewhere(self, topology: RackTopology) -> RestartHold | None:
        """That another topology restarts a broker now, where both say that they share the Kafka cluster."""
        cache = self._dependencies.cache
        for key, other in cache.topologies.items():
            same = key != topology.key and cache.share_cluster(topology.key, key)
            if same and self._known(other).restarts.current is not None:
                return RestartHold(f"RackTopology {key} of the same Kafka cluster restarts a broker")
        return None

    def _candidates(self, topology: RackTopology, state: ClusterState) -> Sequence[RestartCandidate]:
        settled = {row.id: row.rack for row in (state.settled or state.racks).rows}
        namespace = topology.broker_namespace
        found = []
        for row in state.racks.rows:
            lasts = row.rack is not None and settled.get(row.id) == row.rack and row.id not in state.unproven
            published = row.node and self._published_rack(topology.key, namespace, row.node)
            found.append(
                RestartCandidate(
                    id=row.id,
                    pod=row.pods[0] if len(row.pods) == 1 else None,
                    node=row.node,
                    rack=format_rack(row.rack) if row.rack is not None and lasts else None,
                    published=published or None,
                    reported=row.reported_rack,
                    online=row.online,
                    drift=row.drift,
                )
            )
        return found

    # --- a restart under way -----------------------------------------------------------------------------------------

    async def _follow(
        self,
        topology: RackTopology,
        restarts: RestartsStatus,
        current: RestartingBroker,
        brokers: Sequence[RestartCandidate],
        admin: KafkaAdmin,
        refused: RestartHold | None,
    ) -> RestartFacts:
        """Look what became of it. Nothing else is begun before the next pass."""
        uid = topology.meta.uid
        broker = next((one for one in brokers if one.id == current.broker), None)
        name = (broker and broker.pod) or current.pod  # the next pod may have another name
        pod = None if refused else await self._pods.get(ObjectKey(topology.broker_namespace, name))
        behind = None
        if broker is not None and broker.online:
            behind = len(lagging(broker.id, await admin.hosted(broker.id)))
        found: RestartProgress
        if refused:
            found = progress_unseen(current, broker, behind, self._now()) or refused
        else:
            found = progress_of(current, broker, pod, behind, self._now(), self._ready_for(topology, pod))
        if isinstance(found, RestartHold):
            return RestartFacts(uid, restarts, found)
        if isinstance(found, Again):
            return RestartFacts(uid, structs.replace(restarts, current=None), RestartHold(found.message))
        if current.request is not None and not await self._take_off(topology, current.request):
            hold = RestartHold("the annotation is not removed yet", Reason.RESTARTING)
            return RestartFacts(uid, restarts, hold)
        self._report_done(topology, found)
        self._ready.pop(topology.key, None)
        others = tuple(one for one in restarts.not_mended if one.broker != current.broker)
        mended = () if found.not_mended is None else (found.not_mended,)
        return RestartFacts(uid, RestartsStatus(None, tuple(sorted((*others, *mended), key=lambda one: one.broker))))

    async def _take_off(self, topology: RackTopology, request: str) -> bool:
        """Take off the annotation that asked for a restart; False where the RackTopology is changed at this moment.

        By its latest version: its status changes with its topics, up to once a second, while Kafka is asked.
        """
        cache, ref = self._dependencies.cache, ObjectRef(KIND, topology.key, topology.meta.uid)
        latest = cache.topologies.get(topology.key)
        if latest is None or latest.meta.uid != ref.uid or latest.meta.annotations.get(RESTART) != request:
            return True
        written = await self._dependencies.kube.remove_annotation(ref, RESTART, latest.meta.resource_version)
        if written is not None:
            cache.put_topology_answer(written)
        return written is not None  # else its watch event follows

    def _ready_for(self, topology: RackTopology, pod: PodFacts | None) -> timedelta | None:
        """How long this pod has been seen ready, by this operator's clock; None while it is not."""
        if pod is None or not pod.ready:
            self._ready.pop(topology.key, None)
            return None
        known = self._ready.get(topology.key)
        if known is None or known[0] != pod.uid:
            known = self._ready[topology.key] = pod.uid, self._clock()
        return timedelta(seconds=self._clock() - known[1])

    # --- a new one ---------------------------------------------------------------------------------------------------

    async def _begin_one(
        self, topology: RackTopology, restarts: RestartsStatus, begins: Sequence[Begin], admin: KafkaAdmin
    ) -> RestartFacts:
        """Restart the first broker that can be spared. A few are tried in each pass, in turn."""
        last = self._tried.get(topology.key, -1)
        in_turn = [one for one in begins if one.broker.id > last] + [one for one in begins if one.broker.id <= last]
        first: RestartFacts | None = None
        for begin in in_turn[:_TRIES]:
            self._tried[topology.key] = begin.broker.id
            found = await self._begin(topology, restarts, begin, admin)
            if found.restarts.current is not None:
                return found
            first = first or found
        return first or RestartFacts(topology.meta.uid, restarts)

    async def _begin(
        self, topology: RackTopology, restarts: RestartsStatus, begin: Begin, admin: KafkaAdmin
    ) -> RestartFacts:
        """Evict the pod where Kafka, its PodDisruptionBudget and the pod itself allow it."""
        uid, key = topology.meta.uid, ObjectKey(topology.broker_namespace, begin.pod)
        pod = await self._pods.get(key)
        all_hold = _all_hold(topology)
        hold = unfit(begin.broker, pod)
        hold = hold or unsafe(begin.broker.id, await _shortfalls(begin.broker.id, admin), all_hold=all_hold)
        if hold is None and pod is not None:
            hold = _refusal(await self._pods.evict(key, pod.uid, rehearse=True), begin)
        # Again: what is recorded next is known to the others at once.
        hold = hold or self._restarting_elsewhere(topology)
        if hold is not None or pod is None:
            return RestartFacts(uid, restarts, hold)
        request = topology.meta.annotations.get(RESTART) if begin.requested else None
        readable = begin.broker.rack if begin.broker.published == begin.broker.rack else None
        current = RestartingBroker(begin.broker.id, begin.pod, pod.uid, self._now(), readable, request)
        before = replace(self._known(topology), hold=None)  # so that the status is written, whatever comes of it
        try:
            shortfalls: Sequence[IsrShortfall] = ()
            if await self._record(topology, structs.replace(restarts, current=current)):
                # Kafka is asked again, just before: recording took its time. What people want, and racks, come last.
                shortfalls = await _shortfalls(begin.broker.id, admin)
                hold = unsafe(begin.broker.id, shortfalls, all_hold=all_hold) or self._changed(topology, begin)
            else:
                hold = RestartHold("the status could not be written yet")
        except Exception:
            self._facts[topology.key] = before  # nothing was asked for, and nothing is to be waited for
            raise
        hold = hold or _refusal(await self._pods.evict(key, pod.uid, rehearse=False), begin)
        if hold is not None:
            self._facts[topology.key] = before
            return RestartFacts(uid, restarts, hold)
        why = f"asked for by {RESTART}" if begin.requested else f"so that it reports {begin.broker.rack}"
        what = f"pod {begin.pod} of broker {begin.broker.id} was evicted, {why}{cost(shortfalls)}"
        self._event(topology, Reason.RESTARTING, what)
        metrics.BROKER_RESTARTS.labels(str(topology.key), "started").inc()
        _log.info("topology %s: evicted pod %s of broker %d", topology.key, begin.pod, begin.broker.id)
        return RestartFacts(uid, structs.replace(restarts, current=current))

    def _changed(self, topology: RackTopology, begin: Begin) -> RestartHold | None:
        """That something else is asked for by now, or allowed, or that the broker would not be chosen any more."""
        latest = self._dependencies.cache.topologies.get(topology.key)
        if latest is None or self.asked(latest) != self.asked(topology):
            return RestartHold("the RackTopology was changed just now: the operator checks again")
        if refused := self._refused(latest):
            return refused
        cluster = self._topologies.cluster(latest.key)
        state = cluster.state if cluster else None
        found = _choice(latest, self._candidates(latest, state), ()) if isinstance(state, ClusterState) else None
        if found is None or isinstance(found, RestartHold) or begin not in found:
            return RestartHold(f"broker {begin.broker.id} or its rack changed just now: the operator checks again")
        return None

    async def _record(self, topology: RackTopology, restarts: RestartsStatus) -> bool:
        """Write the restart to the status; whether it is there."""
        self._facts[topology.key] = replace(self._known(topology), restarts=restarts, hold=None)
        await self._topologies.write_status(topology.key)
        written = self._dependencies.cache.topologies.get(topology.key)
        known = written.status.restarts if written is not None and written.meta.uid == topology.meta.uid else None
        return known is not None and known.current == restarts.current

    def _report_done(self, topology: RackTopology, done: Done) -> None:
        mended = done.not_mended is None
        metrics.BROKER_RESTARTS.labels(str(topology.key), "mended" if mended else "not_mended").inc()
        reason = Reason.RESTARTED if mended else Reason.RESTART_DID_NOT_MEND
        self._event(topology, reason, done.message, warning=not mended)

    def _event(self, topology: RackTopology, reason: Reason, message: str, *, warning: bool = False) -> None:
        ref = ObjectRef(KIND, topology.key, topology.meta.uid)
        self._dependencies.kube.record_event(KubernetesEvent(ref, reason, message, warning=warning))


async def _shortfalls(broker: int, admin: KafkaAdmin) -> Sequence[IsrShortfall]:
    """What Kafka misses without a broker. Raises FailureError where it cannot be asked."""
    partitions = await admin.hosted(broker)
    configs = await admin.configs(sorted({one.topic for one in partitions}))
    known = {name: found.min_insync for name, found in configs.items() if found.min_insync is not None}
    return shortfalls_without(broker, partitions, known)


def _refusal(eviction: Eviction, begin: Begin) -> RestartHold | None:
    match eviction:
        case Eviction.ACCEPTED:
            return None
        case Eviction.REFUSED:
            return RestartHold(f"pod {begin.pod} of broker {begin.broker.id} waits for its PodDisruptionBudget")
        case Eviction.GONE:
            return RestartHold(f"pod {begin.pod} was replaced: the operator checks again")


def _choice(
    topology: RackTopology, brokers: Sequence[RestartCandidate], not_mended: Sequence[NotMended]
) -> RestartChoice:
    return choose(brokers, not_mended, topology.meta.annotations.get(RESTART), on_drift=_on_drift(topology))


def _on_drift(topology: RackTopology) -> bool:
    brokers = topology.spec.brokers
    return brokers is not None and brokers.restart is RestartPolicy.ON_DRIFT


def _all_hold(topology: RackTopology) -> bool:
    """Whether topics without a spare replica hold up restarts."""
    brokers = topology.spec.brokers
    return brokers is not None and brokers.topics_without_spare_replica is TopicsWithoutSpareReplica.HOLD


def _is_wanted(topology: RackTopology) -> bool:
    """Whether a restart was asked for, by the spec or by the annotation."""
    return _on_drift(topology) or RESTART in topology.meta.annotations
