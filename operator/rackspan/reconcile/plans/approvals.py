"""Handles the approval of a topology's plan: begins approved parts, and makes topics report what they wait for.

Each pass starts from the current plan and the current objects. Before a part begins, its topic is read from Kafka once
more: an approval applies only to the replicas that the plan was made for.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rackspan.api.plans import is_unmanaged, topology_hash
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.cluster.topology_status import NO_PLAN
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans import holds
from rackspan.reconcile.plans.approved_hashes import ApprovedHashes
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, ApprovedPlans
from rackspan.reconcile.plans.plan_review import Present, review_plan, summary
from rackspan.reconcile.plans.plan_sizes import PlanSizes
from rackspan.reconcile.plans.shrinking import lowered, lowered_at_last, make_room
from rackspan.reconcile.plans.topology_plan import UnmanagedParts, inputs_of, inputs_of_unmanaged
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef, TopicDescription
from rackspan.reconcile.runtime.threads import in_planner_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.core.planning import Change
    from rackspan.core.reassignment import Need
    from rackspan.reconcile.cluster.state import ObservedCluster
    from rackspan.reconcile.cluster.topology_status import PlanSummary
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.plans.holds import PlanHold
    from rackspan.reconcile.plans.plan_review import Review
    from rackspan.reconcile.plans.topology_plan import PlanInputs, TopologyPlan, WholePlan
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.runtime.workqueue import WorkQueue
    from rackspan.reconcile.specs.topic_quotas import Quotas

_ROOM_SECONDS = 10.0
"""The time between two checks for plans that min.insync.replicas holds up: to lower it takes two calls to Kafka."""

_AT_ONCE = 500
"""The number of topics that are compared without a pause."""
_COUNT_SECONDS = 60.0
"""The time between two counts of the brokers' replicas that approvals on KafkaTopics cause."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How often the cluster has changed and Reassignments have ended. Either makes earlier data of Kafka outdated."""

    epoch: int
    ended: int


class Approvals:
    """The approval of one topology's plan."""

    def __init__(
        self,
        key: ObjectKey,
        observer: ObservedCluster,
        dependencies: Dependencies,
        plans: TopologyPlan,
        quotas: Quotas,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._key = key
        self._observer = observer
        self._dependencies = dependencies
        self._plans = plans
        self._quotas = quotas
        self._queue = queue
        self._unmanaged = UnmanagedParts(key, dependencies.cache, plans)
        self._reassignments = ApprovedPlans(dependencies.cache, dependencies.objects)
        self._sizes = PlanSizes(dependencies.connector, dependencies.kube)
        self._approved = ApprovedHashes(dependencies.cache, dependencies.kube)
        self._epoch = -1
        self._unseen: set[ObjectKey] = set()
        """Topics that have not been checked since the cluster changed."""
        self._ended = 0
        """How often the Reassignments under way have ended."""
        self._moved: set[ObjectKey] = set()
        """Topics that have not been checked since the Reassignments under way ended."""
        self._complete: int | None = None
        """The epoch whose topics have all been checked, and whose plan was computed over all of them together."""
        self._same_since: dict[str, float] = {}
        """The time since when each part has been the same, by its hash."""
        self._put_off: set[ObjectKey] = set()
        """Topics whose check is postponed: what is known of their parts may be outdated."""
        self._begun: dict[str, str] = {}
        """The names of the Reassignments that parts were begun as, by the hashes of the parts."""
        self._begun_whole: dict[str, str] = {}
        """The same by hashes of whole plans and namespaces' parts, if the hashes of some parts are not kept."""
        self._recalled = False
        """Whether the plans that were begun before this process are known."""
        self._moving: set[ObjectKey] = set()
        """Topics with a part in the Reassignments under way."""
        self._was_busy = False
        self._reported: dict[ObjectKey, tuple[PlanHold, int | None]] = {}
        self._above: Mapping[str, Need] = {}
        """The needs of the namespaces above their shares of the limits, at the last review of the whole plan."""
        self._last: Review | None = None
        """The last review of the whole plan."""
        self._holds: Mapping[ObjectKey, tuple[PlanHold, int | None]] = {}
        """What the parts waited for at the last review, and their bytes."""
        self._summary: tuple[Review, PlanSummary] | None = None
        """The last review that was summarized, and its summary."""
        self.judging = 0.0
        """The CPU seconds of the last review."""
        self._carried_out: set[str] = set()
        """Hashes that named plans begun before: approvals of these hashes in specs stay there."""
        self._counted_at = float("-inf")
        self._room_due = float("-inf")

    # --- what a plan waits for ---------------------------------------------------------------------------------------

    def holds_of(self, topics: Iterable[KafkaTopic]) -> Mapping[ObjectKey, tuple[PlanHold, int | None]]:
        """Return what the parts of these topics wait for, and their bytes. Topics without a part are left out.

        Only these parts are reviewed. If the shares of the limits have changed, a later pass reports it.
        """
        whole = self._plans.whole
        parts = {topic.key: topic for topic in topics if topic.key in whole.parts}
        review = self._review_of(whole.of(parts), self._above, datetime.now(UTC))
        if review is None:
            return {}
        found = {key: review.hold_of(topic) for key, topic in parts.items()}
        self._reported |= found
        return found

    async def summary(self) -> PlanSummary | None:
        """Return the whole plan for the RackTopology's status, or None while not all topics have been checked.

        It is that of the last review, if the plan is still the same.
        """
        if not self._is_complete:
            return None
        if self._last is None or self._last.whole is not self._plans.whole:
            await self._review(datetime.now(UTC))
        review = self._last
        if review is None:
            return NO_PLAN
        if self._summary is None or self._summary[0] is not review:
            self._summary = review, await in_planner_thread(summary, review)
        return self._summary[1] if self._is_complete else None

    async def _review(self, now: datetime) -> Review | None:
        """Review the current plan in a thread. Return None without a plan or the state of a cluster."""
        whole = self._plans.whole
        present = self._present(whole)
        if present is None:
            self._last, self._holds = None, {}
            return None
        review, told, self.judging = await in_planner_thread(_reviewed, whole, present, now)
        self._last, self._holds, self._above = review, told, review.outcome.above
        return review

    def _review_of(self, some: WholePlan, above: Mapping[str, Need], now: datetime) -> Review | None:
        """Review some parts of the current or an earlier plan.

        `above` are the needs of the namespaces that exceed their shares of the limits, by the review of the whole plan.
        """
        present = self._present(some)
        return None if present is None else review_plan(some, replace(present, above=above), now)

    def _present(self, whole: WholePlan) -> Present | None:
        """Return what a review depends on, as it is now."""
        cache, state = self._dependencies.cache, self._observer.state
        topology = cache.topologies.get(self._key)
        if topology is None or not isinstance(state, ClusterState) or not whole.parts:
            return None
        now = asyncio.get_running_loop().time()
        if not self._recalled:
            self._recall()
        before, current = self._same_since, self._plans.whole.parts.values()
        since = self._same_since = {part.hash: before.get(part.hash, now) for part in current}
        return Present(
            topology,
            state,
            {key: cache.topics[key] for key in whole.parts if key in cache.topics},
            self._approved,
            self._sizes,
            busy=self._reassignments.active(self._key),
            begun={key: name for key in whole.parts if (name := self._begun_as(key, whole)) is not None},
            settled={
                key for key, part in whole.parts.items() if now - since.get(part.hash, now) >= holds.PLAN_SETTLE_SECONDS
            },
        )

    # --- which topics have been checked ------------------------------------------------------------------------------

    def moment(self) -> Moment:
        """Return the current moment, before a pass reads topics from Kafka."""
        self._was_busy = self._was_busy or self._is_busy
        return Moment(self._observer.epoch, self._ended)

    def looked_at(self, keys: Collection[ObjectKey], since: Moment, put_off: Collection[ObjectKey]) -> None:
        """Record that these topics were read from Kafka after the moment `since`.

        The check of `put_off` topics is postponed: plans do not wait for them, as one namespace could delay all others.
        """
        self._put_off.difference_update(keys)
        self._put_off.update(put_off)
        self._note_epoch()
        if since.epoch == self._epoch:
            self._unseen.difference_update(keys)
        if since == Moment(self._epoch, self._ended):
            self._moved.difference_update(keys)

    def forget(self, key: ObjectKey) -> None:
        """Stop waiting for a topic whose KafkaTopic is deleted."""
        self._note_epoch()
        for waiting in (self._unseen, self._moved, self._put_off):
            waiting.discard(key)

    def _note_epoch(self) -> None:
        if self._epoch != self._observer.epoch:
            self._epoch = self._observer.epoch
            self._unseen = set(self._dependencies.cache.topics_of(self._key))

    @property
    def _is_complete(self) -> bool:
        """Whether all topics have been checked since the cluster changed and since the last Reassignment ended."""
        has_ended = self._was_busy and not self._is_busy
        seen = self._complete == self._observer.epoch and not self._moved and not self._unmanaged.is_due
        return seen and not has_ended

    @property
    def _is_busy(self) -> bool:
        """Whether a Reassignment of the topology waits or is under way."""
        return self._reassignments.active(self._key) is not None

    # --- one pass ----------------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Begin approved parts, refuse approvals of outdated plans, and make topics report what they wait for.

        Raises FailureError if Kafka or the API server does not respond.
        """
        self._note_epoch()
        if self._is_busy:
            self._recall()
        await self._plan_together()
        await self._note_end()
        self._note_new_plan()
        whole = self._plans.whole
        if self._is_complete and (topology := self._dependencies.cache.topologies.get(self._key)) is not None:
            await self._sizes.look(topology, whole)
            self._approved.cover(topology, whole)
        now = datetime.now(UTC)
        review, admin = await self._review(now), self._observer.admin
        if self._is_complete:
            reviewed, shown = (whole, ()) if review is None else (review.whole, review.shown_as_approved)
            self._approved.keep(reviewed, shown)
        problem: FailureError | None = None
        if review is not None and admin is not None and self._is_complete and self._is_current(review.state):
            if review.outcome.approved:
                try:
                    await self._begin(review, admin, now)
                except FailureError as error:
                    problem = error  # raised below, after the waiting topics are queued
                review = await self._review(datetime.now(UTC))
            else:
                await self._let_shrink(review, admin)
            if review is not None and review.whole is self._plans.whole:
                await self._refuse(review)
        if review is not None:
            self._requeue_changed()
        if problem is not None:
            raise problem

    async def _plan_together(self) -> None:
        """Plan topics without a KafkaTopic, and compute the plan again if no topic's pass does so.

        Once all topics have been checked since the cluster changed, the plan is computed over all of them together.
        """
        state, admin, epoch = self._observer.state, self._observer.admin, self._observer.epoch
        if not isinstance(state, ClusterState) or admin is None:
            return
        await self._unmanaged.look(state, admin, epoch)
        if self._complete != epoch and epoch == self._epoch and not self._unseen:
            self._plans.make_anew()
            self._complete = epoch
        if self._plans.outdated:
            await self._plans.of((), state.for_plans)

    def _recall(self) -> None:
        """Find the plans begun before this process, or by this process without a response, from the existing objects.

        A plan that ended without success does not start automatically again. If its Reassignment is deleted, the
        statuses of its topics still name it.
        """
        if not self._recalled:
            cache = self._dependencies.cache
            told = (cache.topics[key].status.plan for key in cache.topics_of(self._key))
            self._begun |= {plan.hash: plan.reassignment for plan in told if plan is not None and plan.reassignment}
        for plan in self._reassignments.begun_before(self._key):
            if self._recalled and plan.ended:
                continue
            self._carried_out |= plan.names
            again = {} if plan.succeeded else dict.fromkeys(plan.names, plan.name)
            if plan.missing and plan.name not in self._begun.values():
                self._begun_whole |= again
            self._begun = {text: name for text, name in self._begun.items() if text not in plan.names} | again
            self._approved.spend(plan.names)
        self._recalled = True

    def _begun_as(self, key: ObjectKey, whole: WholePlan) -> str | None:
        """Return the Reassignment that a part was begun as before, or None."""
        named = (self._begun_whole.get(text) for text in whole.names(key)) if self._begun_whole else ()
        return self._begun.get(whole.parts[key].hash) or next(filter(None, named), None)

    async def _note_end(self) -> None:
        """Once Reassignments have ended, check their topics again and count the brokers' replicas again."""
        busy = self._is_busy
        if self._was_busy and not busy:
            await self._count_again()
            self._ended += 1
            cache = self._dependencies.cache
            mine = set(cache.topics_of(self._key))
            planned = {key for key in mine if cache.topics[key].status.plan is not None}
            # A Reassignment of another process, such as a predecessor, may move any topic.
            self._moved = mine & (self._moving | planned) if self._moving else mine
            self._queue.add(sorted(self._moved))
            self._unmanaged.look_again()
            self._moving.clear()
        self._was_busy = busy

    def _note_new_plan(self) -> None:
        """Forget begun parts that left the plan: if the same part is needed again, it may begin again."""
        if self._begun and not self._was_busy and self._is_complete and not self._put_off:
            whole = self._plans.whole
            parts = {part.hash for part in whole.parts.values()}
            self._begun = {text: name for text, name in self._begun.items() if text in parts}
            present = {whole.hash, *whole.namespaces.values()}
            self._begun_whole = {text: name for text, name in self._begun_whole.items() if text in present}

    async def _begin(self, review: Review, admin: KafkaAdmin, at: datetime) -> None:
        topic_ids, changed = await self._compared(review, admin)
        self._look_again(changed)
        same = {key: part for key, part in review.approved.items() if key not in changed}
        await review.state.load.settle({review.whole.inputs[key].topic for key in same})
        # Remove an approval before anything is done for it: a restarted operator must not find it again.
        able = await self._approved.take_off(review.topology, review.whole, same)
        changes = await in_planner_thread(self._sizes.sized, able)
        # A person may have withdrawn an approval meanwhile, or paused a topic. A window that has closed does not count.
        now = self._review_of(review.whole.of(able), review.outcome.above, at)
        parts = {key: part for key, part in able.items() if now is not None and key in now.outcome.approved}
        if now is None or not parts or not self._is_current(review.state):
            return
        whole = review.whole
        spaces = (whole.namespaces[key.namespace] for key in parts)
        names = dict.fromkeys((whole.hash, *spaces, *(part.hash for part in parts.values())))
        plan_hash = topology_hash({str(key): part.hash for key, part in parts.items()})
        rows = review.state.racks.rows
        plan = ApprovedPlan(
            cluster_id=review.state.cluster_id,
            plan_hash=plan_hash,
            changes=[change for key in parts for change in changes[key]],
            racks={row.id: row.rack for row in rows},
            reported_racks={row.id: row.reported_rack for row in rows if row.online},
            approved_by=now.approved_by,
            names=tuple(names),
            topic_ids=topic_ids,
        )
        topics = self._dependencies.cache.topics
        shrinking = [(topics[key], part.changes) for key, part in parts.items() if key in topics and part.removals]
        for event in await make_room(shrinking, review.state, admin, lowered):
            self._dependencies.kube.record_event(event)
        name = await self._reassignments.begin(review.topology, plan)
        self._was_busy = True
        self._begun |= {part.hash: name for part in parts.values()}
        self._carried_out = (self._carried_out & self._approved.declared(review.topology)) | names.keys()
        self._moving.update(parts)
        self._approved.spend(names)
        self._look_again(parts)
        message = f"plan {plan_hash} {review.cost(parts)}; it is begun as {name}, {plan.approved_by}"
        about = ObjectRef(TOPOLOGY, self._key, review.topology.meta.uid)
        self._dependencies.kube.record_event(KubernetesEvent(about, Reason.PLAN_APPROVED, message))

    def _is_current(self, state: ClusterState) -> bool:
        """Return whether the racks and the RackTopology's spec are still those of a checked state."""
        topology = self._dependencies.cache.topologies.get(self._key)
        return topology is not None and topology.spec == state.spec and self._complete == self._observer.epoch

    async def _let_shrink(self, review: Review, admin: KafkaAdmin) -> None:
        """Lower min.insync.replicas if nothing else holds up the Reassignment under way."""
        now = asyncio.get_running_loop().time()
        if now < self._room_due:
            return
        held: defaultdict[str, list[Change]] = defaultdict(list)
        for change in await self._reassignments.held_by_min_insync(self._key):
            held[change.topic].append(change)
        if not held:
            return
        self._room_due = now + _ROOM_SECONDS
        topics = self._dependencies.cache.topics
        # A topic with too many replicas still has a part in the current plan, which says which object the topic has.
        objects = {inputs.topic: topics[key] for key, inputs in review.whole.inputs.items() if key in topics}
        shrinking = [(objects[name], some) for name, some in held.items() if name in objects]
        for event in await make_room(shrinking, review.state, admin, lowered_at_last):
            self._dependencies.kube.record_event(event)

    async def _compared(self, review: Review, admin: KafkaAdmin) -> tuple[Mapping[str, str], Collection[ObjectKey]]:
        """Return the ids of the approved topics, and those topics whose inputs have changed since the plan was made."""
        planned = {key: review.whole.inputs[key] for key in review.approved}
        seen = await admin.topics([inputs.topic for inputs in planned.values()])
        above_quota = self._quotas.of(planned)
        topic_ids = {name: found.topic_id for name, found in seen.items() if isinstance(found, TopicDescription)}
        changed = []
        for number, (key, inputs) in enumerate(planned.items()):
            if self._inputs_now(key, seen.get(inputs.topic), review, above_quota) != inputs:
                changed.append(key)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)  # other tasks wait for the event loop
        return topic_ids, changed

    def _inputs_now(
        self,
        key: ObjectKey,
        found: TopicDescription | Failure | None,
        review: Review,
        above_quota: Collection[ObjectKey],
    ) -> PlanInputs | None:
        """Return the current inputs of a topic's part, or None if Kafka does not have the topic of the part."""
        topic, state = self._dependencies.cache.topics.get(key), review.state.for_plans
        if not isinstance(found, TopicDescription):
            return None
        if is_unmanaged(key):
            still = self._unmanaged.is_unmanaged_still(review.topology, key.name)
            return inputs_of_unmanaged(key.name, found.replicas, state) if still else None
        if topic is None or topic.topology != self._key or found.topic_id != topic.status.topic_id:
            return None
        return inputs_of(topic, found, state, above_quota)

    async def _refuse(self, review: Review) -> None:
        """Refuse approvals of another plan, and compute the plan again from the current replicas on the brokers.

        The person may have made the approved plan on the command line, from newer counts. After an approval on a
        KafkaTopic, the parts of its namespace are computed again, and replicas are counted at most once a minute.
        """
        if self._approved.refuse(review.topology, review.whole, self._carried_out):
            self._last = None  # it does not show the refusal
            await self._count_again()
            self._plans.make_anew()
        if namespaces := self._approved.refuse_parts(review.topology, review.whole):
            self._last = None
            if asyncio.get_running_loop().time() - self._counted_at >= _COUNT_SECONDS:
                await self._count_again()
            self._plans.make_anew(namespaces)

    async def _count_again(self) -> None:
        """Count the current replicas on the brokers: the next plans use the counts."""
        state, admin = self._observer.state, self._observer.admin
        if isinstance(state, ClusterState) and admin is not None:
            await state.load.recount(admin)
            self._counted_at = asyncio.get_running_loop().time()

    def _look_again(self, keys: Collection[ObjectKey]) -> None:
        self._queue.add(sorted(key for key in keys if not is_unmanaged(key)))
        if any(map(is_unmanaged, keys)):
            self._unmanaged.look_again()

    def _requeue_changed(self) -> None:
        """Queue topics whose status does not report what their parts wait for now."""
        told, parts = self._holds, self._plans.whole.parts  # which may have parts that are not reviewed yet
        self._reported = {key: one for key, one in self._reported.items() if key in told or key in parts}
        topics = self._dependencies.cache.topics
        self._queue.add([key for key, one in self._reported.items() if told.get(key, one) != one and key in topics])


def _reviewed(
    whole: WholePlan, present: Present, now: datetime
) -> tuple[Review, Mapping[ObjectKey, tuple[PlanHold, int | None]], float]:
    """Return the review of a plan, what the part of each KafkaTopic waits for, and the CPU seconds that it took."""
    began = time.thread_time()
    review = review_plan(whole, present, now)
    told = {key: review.hold_of(topic) for key, topic in present.topics.items()}
    return review, told, time.thread_time() - began
