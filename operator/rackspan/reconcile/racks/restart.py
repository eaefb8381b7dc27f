"""The control loop that restarts brokers whose `broker.rack` a restart would correct. It evicts one pod at a time.

The operator records a restart in the RackTopology's status before it evicts the pod. So an operator that stops in
between waits for the same broker after its start, and does not restart a second broker.
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
from rackspan.api.racktopology import KIND, RestartingBroker, RestartPolicy, RestartsStatus, TopicsWithoutSpareReplica
from rackspan.api.reasons import Reason
from rackspan.core.availability import lagging, shortfalls_without
from rackspan.core.rack_path import format_rack
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import Eviction, KubernetesEvent, ObjectRef, TopicConfig
from rackspan.reconcile.racks.restart_decision import (
    GONE,
    Again,
    Begin,
    Done,
    RestartCandidate,
    RestartFacts,
    RestartHold,
    begun_by,
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
"""How often the operator checks brokers while a broker restarts, or waits for its restart."""
_TRIES: Final = 3
"""The number of brokers that are tried in one pass. Each costs a Metadata request over all topics."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a pass waits for the steps of all topologies. A step on a slow Kafka continues during the next passes."""


class ObservedTopologies(Protocol):
    """The part of the topologies' loops that this loop uses."""

    def cluster(self, key: ObjectKey) -> ObservedCluster | None:
        """Return the topology's Kafka cluster, or None if no loop observes it."""

    async def write_status(self, key: ObjectKey) -> None:
        """Write the RackTopology's status now. Raises FailureError."""

    def status_changed(self, key: ObjectKey) -> None:
        """Request that the RackTopology's status is written soon."""


class RestartsReconciler(Controller):
    """A level-triggered controller: each pass starts from the current state of Kafka and the API server.

    A pass also uses the recorded restart. The failure of one topology does not affect the others, nor does a Kafka that
    responds slowly. `published_rack` returns the rack of a node that is published for a topology in a namespace. `now`
    returns the time, and `clock` monotonic seconds.
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
        """By topology: the uid of the restarting broker's new pod, and since when (by `clock`) this pod is ready."""
        self._steps: dict[ObjectKey, asyncio.Task[None]] = {}
        """By topology: the running step."""

    def asked(self, topology: RackTopology) -> object:
        """Return the base class's inputs and the annotation that requests a restart."""
        return super().asked(topology), topology.meta.annotations.get(RESTART)

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """Return `status` with the known facts about the topology's restarts."""
        return with_restarts(topology, status, self._facts.get(topology.key), now)

    async def run(self) -> None:
        """Loop until cancelled, then cancel the running steps."""
        try:
            await super().run()
        finally:
            for step in self._steps.values():
                step.cancel()
            await asyncio.gather(*self._steps.values(), return_exceptions=True)

    async def reconcile(self) -> float:
        """Run one pass over all topologies and return the seconds until the next pass."""
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
        wanted = _on_drift(topology) or RESTART in topology.meta.annotations
        return not topology.meta.is_deleting and (wanted or self._known(topology).restarts.current is not None)

    async def _look(self, topology: RackTopology) -> None:
        self._keep(topology, await self._step_safely(topology, self._known(topology)))

    def _keep(self, topology: RackTopology, facts: RestartFacts) -> None:
        before, self._facts[topology.key] = self._known(topology), facts
        if facts != before:
            self._topologies.status_changed(topology.key)

    def _known(self, topology: RackTopology) -> RestartFacts:
        """Return the known facts, at first those in the status that an earlier operator wrote."""
        known = self._facts.get(topology.key)
        if known is None or known.topology_uid != topology.meta.uid:
            status = topology.status
            return RestartFacts(topology.meta.uid, status.restarts or RestartsStatus(), cluster_id=status.cluster_id)
        return known

    async def _step_safely(self, topology: RackTopology, facts: RestartFacts) -> RestartFacts:
        """Run one step. A failure only sets the hold, is reported, and does not affect other topologies."""
        try:
            return await self._step(topology, facts)
        except FailureError as error:
            failure = error.failure
            metrics.count_error(str(topology.key), failure.remedy, failure.reason)
        except Exception as error:
            failure = unexpected_failure(self.name, topology.key, error)
        known = self._facts.get(topology.key, facts)  # includes a restart that the step has recorded
        hold = RestartHold(failure.message, failure.reason)
        return replace(known, topology_uid=facts.topology_uid, hold=hold)

    async def _step(self, topology: RackTopology, facts: RestartFacts) -> RestartFacts:
        facts = replace(facts, restarts=begun_by(facts.restarts, self._now()))
        refused, current = self._refused(topology), facts.restarts.current
        if refused is not None and (current is None or self._now() - current.since >= GONE):
            return replace(facts, restarts=structs.replace(facts.restarts, current=None), hold=refused)
        cluster = self._topologies.cluster(topology.key)
        state = cluster.state if cluster else None
        admin = cluster.admin if cluster else None
        if not isinstance(state, ClusterState) or admin is None:
            return replace(facts, hold=RestartHold("Kafka cannot be asked whether a broker can be spared"))
        if state.spec != topology.spec:
            return facts  # racks, pods and the Kafka cluster may have changed: the state is observed again soon
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
        """Return why the operator may not restart this topology's brokers, or None."""
        if (over_quota := self._dependencies.cache.quota.over_quota(topology.key)) is not None:
            return RestartHold(over_quota.message, over_quota.reason)
        own, where = topology.meta.namespace, topology.broker_namespace
        if where not in self._dependencies.restart_in:
            why = f"the operator may not evict pods of namespace {where}: name it in racks.restart of the chart"
            return RestartHold(why, Reason.RESTART_NOT_ALLOWED)
        if where != own and self._dependencies.cache.namespaces.get(where, {}).get(RESTARTS_FOR) != own:
            why = f"namespace {where} does not let topologies of namespace {own} restart its pods: label it "
            return RestartHold(f"{why}{RESTARTS_FOR}={own}", Reason.RESTART_NOT_ALLOWED)
        return None

    def _restarting_elsewhere(self, topology: RackTopology) -> RestartHold | None:
        """Return a hold if another topology restarts a broker, and both declare that they share the Kafka cluster."""
        cache = self._dependencies.cache
        for key, other in cache.topologies.items():
            same = key != topology.key and cache.share_cluster(topology.key, key)
            if same and cache.quota.over_quota(key) is None and self._known(other).restarts.current is not None:
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

    # --- the current restart -----------------------------------------------------------------------------------------

    async def _follow(
        self,
        topology: RackTopology,
        restarts: RestartsStatus,
        current: RestartingBroker,
        brokers: Sequence[RestartCandidate],
        admin: KafkaAdmin,
        refused: RestartHold | None,
    ) -> RestartFacts:
        """Check the progress of the current restart. The next restart begins in a later pass."""
        uid = topology.meta.uid
        broker = next((one for one in brokers if one.id == current.broker), None)
        name = (broker and broker.pod) or current.pod  # the new pod may have another name
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
        """Remove the annotation that requested a restart. Return False if the RackTopology was changed meanwhile.

        Uses the latest known version, because the status changes with the topics, up to once a second, during requests.
        """
        cache, ref = self._dependencies.cache, ObjectRef(KIND, topology.key, topology.meta.uid)
        latest = cache.topologies.get(topology.key)
        if latest is None or latest.meta.uid != ref.uid or latest.meta.annotations.get(RESTART) != request:
            return True
        written = await self._dependencies.kube.set_annotation(ref, RESTART, None, latest.meta.resource_version)
        if written is not None:
            cache.put_topology_answer(written)
        return written is not None  # else a watch event with the newer version follows

    def _ready_for(self, topology: RackTopology, pod: PodFacts | None) -> timedelta | None:
        """Return how long this pod has been observed as ready, by this operator's clock, or None while it is not."""
        if pod is None or not pod.ready:
            self._ready.pop(topology.key, None)
            return None
        known = self._ready.get(topology.key)
        if known is None or known[0] != pod.uid:
            known = self._ready[topology.key] = pod.uid, self._clock()
        return timedelta(seconds=self._clock() - known[1])

    # --- a new restart -----------------------------------------------------------------------------------------------

    async def _begin_one(
        self, topology: RackTopology, restarts: RestartsStatus, begins: Sequence[Begin], admin: KafkaAdmin
    ) -> RestartFacts:
        """Restart the first broker that can be spared. Each pass tries at most `_TRIES` brokers, in turn."""
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
        """Evict the pod if Kafka, its PodDisruptionBudget and the pod's own state allow it."""
        uid, key = topology.meta.uid, ObjectKey(topology.broker_namespace, begin.pod)
        pod = await self._pods.get(key)
        spec = topology.spec.brokers
        all_hold = spec is not None and spec.topics_without_spare_replica is TopicsWithoutSpareReplica.HOLD
        hold = unfit(begin.broker, pod)
        hold = hold or unsafe(begin.broker.id, await _shortfalls(begin.broker.id, admin), all_hold=all_hold)
        if hold is None and pod is not None:
            hold = _refusal(await self._pods.evict(key, pod.uid, rehearse=True), begin)
        # Check again without an await before the record below, which other topologies' steps see at once.
        hold = hold or self._restarting_elsewhere(topology)
        if hold is not None or pod is None:
            return RestartFacts(uid, restarts, hold)
        request = topology.meta.annotations.get(RESTART) if begin.requested else None
        readable = begin.broker.rack if begin.broker.published == begin.broker.rack else None
        current = RestartingBroker(begin.broker.id, begin.pod, pod.uid, self._now(), readable, request)
        before = replace(self._known(topology), hold=None)  # differs from any new hold, so that the status is written
        try:
            shortfalls: Sequence[IsrShortfall] = ()
            if await self._record(topology, structs.replace(restarts, current=current)):
                # Recording takes time, so check Kafka again just before the eviction, then the spec and the racks.
                shortfalls = await _shortfalls(begin.broker.id, admin)
                hold = unsafe(begin.broker.id, shortfalls, all_hold=all_hold) or self._changed(topology, begin)
            else:
                hold = RestartHold("the status could not be written yet")
        except Exception:
            self._facts[topology.key] = before  # no eviction was requested, so there is no restart to wait for
            raise
        hold = hold or _refusal(await self._pods.evict(key, pod.uid, rehearse=False), begin)
        if hold is not None:
            self._facts[topology.key] = before
            return RestartFacts(uid, restarts, hold)
        why = f"asked for by {RESTART}" if begin.requested else f"so that it reports {begin.broker.rack}"
        what = f"pod {begin.pod} of broker {begin.broker.id} was evicted, {why}{cost(shortfalls)}"
        self._event(topology, Reason.RESTARTING, what)
        metrics.count(metrics.BROKER_RESTARTS, str(topology.key), "started")
        _log.info("topology %s: evicted pod %s of broker %d", topology.key, begin.pod, begin.broker.id)
        return RestartFacts(uid, structs.replace(restarts, current=current))

    def _changed(self, topology: RackTopology, begin: Begin) -> RestartHold | None:
        """Return a hold if the RackTopology or the permissions changed, or the broker would not be chosen any more."""
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
        """Write the restart to the status. Return whether the status has it now."""
        self._facts[topology.key] = replace(self._known(topology), restarts=restarts, hold=None)
        await self._topologies.write_status(topology.key)
        written = self._dependencies.cache.topologies.get(topology.key)
        known = written.status.restarts if written is not None and written.meta.uid == topology.meta.uid else None
        return known is not None and known.current == restarts.current

    def _report_done(self, topology: RackTopology, done: Done) -> None:
        mended = done.not_mended is None
        metrics.count(metrics.BROKER_RESTARTS, str(topology.key), "mended" if mended else "not_mended")
        reason = Reason.RESTARTED if mended else Reason.RESTART_DID_NOT_MEND
        self._event(topology, reason, done.message, warning=not mended)

    def _event(self, topology: RackTopology, reason: Reason, message: str, *, warning: bool = False) -> None:
        ref = ObjectRef(KIND, topology.key, topology.meta.uid)
        self._dependencies.kube.record_event(KubernetesEvent(ref, reason, message, warning=warning))


async def _shortfalls(broker: int, admin: KafkaAdmin) -> Sequence[IsrShortfall]:
    """Return the partitions with too few in-sync replicas without a broker. Raises FailureError if Kafka fails."""
    partitions = await admin.hosted(broker)
    configs = await admin.configs(sorted({one.topic for one in partitions}))
    read = ((name, found) for name, found in configs.items() if isinstance(found, TopicConfig))
    known = {name: found.min_insync for name, found in read if found.min_insync is not None}
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
