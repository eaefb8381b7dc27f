"""Looks after the approval of a topology's plan: who has approved what, what it waits for, and its beginning.

Each look starts from the plan that is there now and from the objects as they are. Before anything begins, its topics
are read from Kafka once more: an approval is never for replicas that nobody has seen.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from rackspan.api.conditions import ConditionStatus
from rackspan.api.kafkatopic import KIND as TOPIC
from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.plans import MAX_PLAN_SAMPLES, PlannedTopic, TopologyPlanStatus, topology_hash
from rackspan.api.policies import Approval, TopicApproval
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Approver, Hold, Limits, PlanPart, Terms, Verdict, judge_approval
from rackspan.core.text import plural, size
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.cluster.status import NO_PLAN, PlanSummary
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef, TopicDescription
from rackspan.reconcile.reassignment_ports import ApprovedPlan
from rackspan.reconcile.runtime.schedule import ScheduleError
from rackspan.reconcile.runtime.windows import Windows
from rackspan.reconcile.topics import holds
from rackspan.reconcile.topics.plan import inputs_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.runtime.workqueue import WorkQueue
    from rackspan.reconcile.topics.holds import PlanHold, Surroundings
    from rackspan.reconcile.topics.plan import Plans, WholePlan

_log = logging.getLogger("rackspan.reconcile")
_REMEMBERED = 100
"""Refused approvals that are remembered, so that the plan is made anew once for each."""


class ObservedCluster(Protocol):
    """The state of a topology's Kafka cluster, and its client where there is one."""

    @property
    def state(self) -> ClusterState | Failure: ...  # noqa: D102
    @property
    def admin(self) -> KafkaAdmin | None: ...  # noqa: D102
    @property
    def epoch(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Review:
    """One look at a plan: the verdict by topic, and what its sentences name."""

    topology: RackTopology
    state: ClusterState
    whole: WholePlan
    verdict: Verdict
    around: Surroundings

    @property
    def approved(self) -> Mapping[ObjectKey, TopicPlan]:
        """The parts that begin."""
        return {key: part for key, part in self.whole.parts.items() if str(key) in self.verdict.approved}


class Approvals:
    """The approval of one topology's plan. `requeue` has topics looked at again."""

    def __init__(
        self,
        key: ObjectKey,
        observer: ObservedCluster,
        dependencies: Dependencies,
        plans: Plans,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._key = key
        self._observer = observer
        self._dependencies = dependencies
        self._plans = plans
        self._queue = queue
        self._complete: int | None = None
        """The epoch whose topics have all been looked at."""
        self._same_since: tuple[str, float] = ("", float("-inf"))
        self._begun: tuple[str, str] | None = None
        """The whole plan that was begun last, and the name of its Reassignment."""
        self._moving: set[ObjectKey] = set()
        """Topics with a part in what is under way."""
        self._was_busy = False
        self._told: dict[ObjectKey, PlanHold] = {}
        self._refused: dict[tuple[ObjectKey, str], None] = {}
        """Approvals of plans that are not there, by object."""
        self._carried_out = ""
        """The whole plan that was begun before this one: its approval in a spec stays there."""
        self._spent: dict[ObjectRef, str] = {}
        """Annotations to take off, by object."""

    # --- what a plan waits for ---------------------------------------------------------------------------------------

    def holds(self, topics: Iterable[KafkaTopic]) -> Mapping[ObjectKey, PlanHold]:
        """What the parts of these topics wait for; those without a part are left out."""
        review = self._review(datetime.now(UTC))
        if review is None:
            return {}
        found = {topic.key: self._hold(topic, review) for topic in topics if topic.key in review.whole.parts}
        self._told |= found
        return found

    def summary(self) -> PlanSummary | None:
        """The whole plan for the RackTopology's status; None while not all topics have been looked at."""
        if not self._is_complete:
            return None
        review = self._review(datetime.now(UTC))
        return NO_PLAN if review is None else _summary(review)

    def _hold(self, topic: KafkaTopic, review: Review) -> PlanHold:
        part = review.whole.parts[topic.key]
        may = _may_approve(topic.key, review.topology)
        hold = review.verdict.holds.get(str(topic.key))
        return holds.topic_hold(hold, topic.key, part.hash, review.around, may_approve=may)

    def _review(self, now: datetime) -> Review | None:
        """None without a plan, or without a cluster that it is for."""
        cache, state, whole = self._dependencies.cache, self._observer.state, self._plans.whole
        topology = cache.topologies.get(self._key)
        if topology is None or not isinstance(state, ClusterState) or not whole.parts:
            return None
        terms = topology.spec.reassignment
        active = self._dependencies.reassignments.active(self._key)
        windows, wrong = _windows(topology)
        again = self._begun is not None and self._begun[0] == whole.hash
        around = holds.Surroundings(
            self._key,
            terms,
            busy=active.name if active else None,
            opens=windows.opens(now) if windows else None,
            wrong_window=wrong,
            begun=self._begun[1] if self._begun and again else None,
        )
        parts = {str(key): self._part(key, part, topology, again=again) for key, part in whole.parts.items()}
        verdict = judge_approval(
            parts,
            whole.hash,
            self._known(self._key, self._said(TOPOLOGY, topology.meta, terms.approved_plan, again=again), whole.hash),
            Terms(
                terms.max_moves,
                terms.max_bytes,
                busy=active is not None,
                open=windows is not None and windows.is_open(now),
                settled=self._is_settled(whole.hash),
                steady=state.settled is None,
            ),
        )
        return Review(topology, state, whole, verdict, around)

    def _said(self, kind: str, meta: Meta, approved_plan: str | None, *, again: bool) -> frozenset[str]:
        """The hashes that an object approves, by its annotation and its spec.

        Where the same plan was begun before, only an annotation that was set since then says so.
        """
        annotation = meta.annotations.get(APPROVE_PLAN)
        if annotation is not None and self._spent.get(ObjectRef(kind, meta.key, meta.uid)) == annotation:
            annotation = None
        return frozenset(text for text in (annotation, None if again else approved_plan) if text)

    def _known(self, key: ObjectKey, said: Collection[str], plan_hash: str) -> frozenset[str]:
        """The hashes that people have approved: the one that is there, and others once they are refused."""
        return frozenset(text for text in said if text == plan_hash or (key, text) in self._refused)

    def _part(self, key: ObjectKey, part: TopicPlan, topology: RackTopology, *, again: bool) -> PlanPart:
        topic = self._dependencies.cache.topics.get(key)
        if topic is None or topic.meta.is_deleting:
            return PlanPart(part.hash, part.moves, part.bytes, paused=True)
        asked, may = topic.spec.reassignment, _may_approve(key, topology)
        defaults = topology.spec.defaults.reassignment
        held = asked is not None and Approval.AUTOMATIC not in (asked.approval, asked.reorders)
        policy = defaults.overridden_by(asked) if may or held else defaults
        automatic = policy.of(reorders_only=not part.moves and not part.removals) is Approval.AUTOMATIC
        said = self._said(TOPIC, topic.meta, asked.approved_plan if asked else None, again=again) if may else ()
        return PlanPart(
            part.hash,
            part.moves,
            part.bytes,
            automatic=automatic and not again,
            approved=self._known(key, said, part.hash),
            paused=topic.meta.is_paused,
        )

    def _is_settled(self, plan: str) -> bool:
        now = asyncio.get_running_loop().time()
        if self._same_since[0] != plan:
            self._same_since = plan, now
        return now - self._same_since[1] >= holds.SETTLE_SECONDS

    # --- one pass ----------------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Begin what is approved, refuse what is not there any more, and have topics tell what they wait for.

        Raises FailureError where Kafka or the API server does not answer.
        """
        if self._queue.idle:
            self._complete = self._observer.epoch
        self._note_end()
        self._note_new_plan()
        await self._take_off_spent()
        review, admin = self._review(datetime.now(UTC)), self._observer.admin
        if review is not None and admin is not None and self._is_complete:
            if review.verdict.approved:
                await self._begin(review, admin)
                review = self._review(datetime.now(UTC))
            else:
                await self._refuse(review, admin)
        if review is not None:
            self._requeue_changed(review)

    def _note_end(self) -> None:
        """Have everything looked at again once what was under way has ended."""
        busy = self._dependencies.reassignments.active(self._key) is not None
        if self._was_busy and not busy:
            cache = self._dependencies.cache
            planned = [key for key in cache.topics_of(self._key) if cache.topics[key].status.plan is not None]
            self._queue.add(sorted(self._moving.union(planned)))
            self._moving.clear()
            self._complete = None
        self._was_busy = busy

    def _note_new_plan(self) -> None:
        """What was begun is no matter any more once another plan is there: it may come again, and begin again."""
        if self._begun and not self._was_busy and self._is_complete and self._plans.whole.hash != self._begun[0]:
            self._carried_out, self._begun = self._begun[0], None

    @property
    def _is_complete(self) -> bool:
        """Whether all topics have been looked at since the cluster changed."""
        return self._complete is not None and self._complete == self._observer.epoch

    async def _begin(self, review: Review, admin: KafkaAdmin) -> None:
        parts = review.approved
        if changed := await self._changed(review, admin):
            self._queue.add(changed)
            self._complete = None
            return
        whole = len(parts) == len(review.whole.parts)
        plan_hash = review.whole.hash if whole else topology_hash({str(key): part.hash for key, part in parts.items()})
        spec, rows = review.topology.spec.reassignment, review.state.racks.rows
        plan = ApprovedPlan(
            cluster_id=review.state.cluster_id,
            plan_hash=plan_hash,
            changes=[change for part in parts.values() for change in part.changes if change.before],
            racks={row.id: row.rack for row in rows},
            reported_racks={row.id: row.reported_rack for row in rows},
            throttle=spec.throttle,
            limits=Limits(spec.max_concurrent_moves, spec.max_concurrent_moves_per_broker),
            approved_by=_approved_by(review),
        )
        name = await self._dependencies.reassignments.begin(review.topology, plan)
        self._begun, self._was_busy = (review.whole.hash, name), True
        self._moving.update(parts)
        self._spend(review)
        self._queue.add(sorted(parts))
        moves = sum(part.moves for part in parts.values())
        message = f"plan {plan_hash} copies {plural(moves, 'replica')} and is begun as {name}, {plan.approved_by}"
        self._dependencies.kube.record_event(KubernetesEvent(_ref(review.topology.meta), Reason.PLAN_APPROVED, message))

    async def _changed(self, review: Review, admin: KafkaAdmin) -> Collection[ObjectKey]:
        """The approved topics of which Kafka, their objects or the brokers say something else than the plan."""
        cache, approved = self._dependencies.cache, review.approved
        seen = await admin.topics([review.whole.inputs[key].topic for key in approved])
        changed = []
        for key in approved:
            planned, topic = review.whole.inputs[key], cache.topics.get(key)
            found = seen.get(planned.topic)
            if (
                topic is None
                or not isinstance(found, TopicDescription)
                or found.topic_id != topic.status.topic_id
                or inputs_of(topic, found, review.state.for_plans) != planned
            ):
                changed.append(key)
        return changed

    async def _refuse(self, review: Review, admin: KafkaAdmin) -> None:
        """Refuse approvals of another plan, and make the plan anew from what lies on the brokers now.

        Whoever approved it may have made the plan on the command line, from newer counts than those here.
        """
        cache, topology = self._dependencies.cache, review.topology
        asked_of_all = topology.spec.reassignment.approved_plan
        said = {(self._key, text) for text in self._said(TOPOLOGY, topology.meta, asked_of_all, again=False)}
        present = {(self._key, review.whole.hash), (self._key, self._carried_out)}
        for key, part in review.whole.parts.items():
            topic = cache.topics.get(key)
            if topic is not None and _may_approve(key, topology):
                asked = topic.spec.reassignment
                texts = self._said(TOPIC, topic.meta, asked.approved_plan if asked else None, again=False)
                said.update((key, text) for text in texts)
                present.add((key, part.hash))
        unseen = said - present - self._refused.keys()
        if not unseen:
            return
        self._refused |= dict.fromkeys(unseen)
        while len(self._refused) > _REMEMBERED:
            self._refused.pop(next(iter(self._refused)))
        review.state.load.recount(await admin.replica_counts())
        self._plans.make_anew()
        self._queue.add([next(iter(review.whole.parts))])
        self._complete = None

    def _requeue_changed(self, review: Review) -> None:
        """Queue topics whose status tells of something else than what their parts wait for now."""
        cache = self._dependencies.cache
        self._told = {key: told for key, told in self._told.items() if key in review.whole.parts}
        there = ((cache.topics[key], told) for key, told in self._told.items() if key in cache.topics)
        self._queue.add([topic.key for topic, told in there if told != self._hold(topic, review)])

    # --- annotations -------------------------------------------------------------------------------------------------

    def _spend(self, review: Review) -> None:
        """Have the annotations taken off that approved what has begun."""
        if review.topology.meta.annotations.get(APPROVE_PLAN) == review.whole.hash:
            self._spent[_ref(review.topology.meta)] = review.whole.hash
        for key, part in review.approved.items():
            topic = self._dependencies.cache.topics.get(key)
            if topic is not None and topic.meta.annotations.get(APPROVE_PLAN) == part.hash:
                self._spent[ObjectRef(TOPIC, key, topic.meta.uid)] = part.hash

    async def _take_off_spent(self) -> None:
        cache = self._dependencies.cache
        for ref, value in list(self._spent.items()):
            found = (cache.topologies if ref.kind == TOPOLOGY else cache.topics).get(ref.key)
            if found is not None and found.meta.uid == ref.uid and found.meta.annotations.get(APPROVE_PLAN) == value:
                written = await self._dependencies.kube.remove_annotation(
                    ref, APPROVE_PLAN, found.meta.resource_version
                )
                if written is None:
                    continue  # it changed meanwhile: look again
                if ref.kind == TOPOLOGY:
                    cache.put_topology_answer(written)
                else:
                    cache.put_answer(written)
            self._spent.pop(ref, None)


def _summary(review: Review) -> PlanSummary:
    whole, verdict = review.whole, review.verdict
    planned = sorted(whole.parts.items(), key=lambda item: (-item[1].moves, item[0]))
    sizes = [part.bytes for _, part in planned if part.bytes is not None]
    plan = TopologyPlanStatus(
        hash=whole.hash,
        topics=len(planned),
        moves=sum(part.moves for _, part in planned),
        lower_bound=sum(part.lower_bound for _, part in planned),
        reorders=sum(part.reorders for _, part in planned),
        partitions=sum(len(part.changes) for _, part in planned),
        bytes=sum(sizes) if sizes else None,
        samples=tuple(PlannedTopic(str(key), part.hash, part.moves) for key, part in planned[:MAX_PLAN_SAMPLES]),
    )
    first = min(verdict.holds.values(), key=list(Hold).index, default=None)
    how = holds.approve_topology(review.topology.key, whole.hash)
    told = holds.sentence(first, how, review.around)
    reason = holds.REASON_OF[first]
    if verdict.stale:
        stale = review.topology.meta.annotations.get(APPROVE_PLAN) or review.topology.spec.reassignment.approved_plan
        reason = Reason.STALE_APPROVAL
        told = f"{stale} was approved, which is another plan than this one, that is there now; {how}"
    cost = f"copies {plural(plan.moves, 'replica')}" + (f" ({size(plan.bytes)})" if plan.bytes else "")
    least = "no plan copies fewer" if plan.moves == plan.lower_bound else f"{plan.lower_bound:,} are the least"
    waiting = sum(hold is first for hold in verdict.holds.values())
    partly = f" ({waiting:,} of them)" if first is not None and waiting < len(planned) else ""
    message = f"plan {whole.hash} {cost} for {plural(len(planned), 'topic')}{partly}, and {least}; {told}"
    return PlanSummary(plan, ConditionStatus.FALSE, reason, message)


def _windows(topology: RackTopology) -> tuple[Windows | None, str | None]:
    """The windows, or why they cannot be read."""
    try:
        return Windows.parse(topology.spec.reassignment.windows), None
    except ScheduleError as error:
        return None, str(error)


def _may_approve(key: ObjectKey, topology: RackTopology) -> bool:
    """Whether a KafkaTopic decides about its own part."""
    match topology.spec.reassignment.topic_approval:
        case TopicApproval.OWN:
            return key.namespace == topology.key.namespace
        case TopicApproval.ALLOWED:
            return True
        case TopicApproval.NEVER:
            return False


def _approved_by(review: Review) -> str:
    who = set(review.verdict.approved.values())
    words = {
        Approver.PLAN: f"approved on RackTopology {review.topology.key}",
        Approver.TOPIC: "approved on KafkaTopics",
        Approver.POLICY: "by the policy Automatic",
    }
    return " and ".join(words[one] for one in Approver if one in who)


def _ref(meta: Meta) -> ObjectRef:
    return ObjectRef(TOPOLOGY, meta.key, meta.uid)
