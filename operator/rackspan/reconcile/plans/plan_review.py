"""A review of a topology's plan: which parts begin, what the others wait for, and what statuses report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.api.conditions import ConditionStatus
from rackspan.api.plans import (
    MAX_PLAN_NAMESPACES,
    MAX_PLAN_SAMPLES,
    PlannedNamespace,
    PlannedTopic,
    TopologyPlanStatus,
    is_unmanaged,
    part_name,
)
from rackspan.api.policies import Approval
from rackspan.api.reasons import Reason
from rackspan.core.copy_costs import removing
from rackspan.core.planning import below_min_insync
from rackspan.core.reassignment import ApprovalHold, ApprovalOutcome, Approver, PlanPart, Terms, judge_approval
from rackspan.core.text import plural, rounded, size
from rackspan.reconcile.cluster.topology_status import PlanSummary
from rackspan.reconcile.plans import holds
from rackspan.reconcile.plans.approved_hashes import may_approve
from rackspan.reconcile.plans.plan_sizes import steady
from rackspan.reconcile.plans.shrinking import min_insync_above_replicas
from rackspan.reconcile.runtime.schedule import MaintenanceWindows, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import BelowMinInsync, TopicPlan
    from rackspan.core.reassignment import Need
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.plans.approved_hashes import Approved, ApprovedHashes
    from rackspan.reconcile.plans.holds import HoldContext, PlanHold
    from rackspan.reconcile.plans.plan_sizes import PlanSizes
    from rackspan.reconcile.plans.topology_plan import WholePlan


@dataclass(frozen=True, slots=True)
class Present:
    """The inputs of a review: the current objects, and what is known of approvals and sizes."""

    topology: RackTopology
    state: ClusterState
    topics: Mapping[ObjectKey, KafkaTopic]
    """The KafkaTopics with a part of the plan, by key."""
    approved: ApprovedHashes
    sizes: PlanSizes
    busy: str | None
    """The Reassignment under way."""
    begun: Mapping[ObjectKey, str]
    """The ended Reassignments that the same parts were begun as."""
    settled: Collection[ObjectKey]
    """The parts that have been the same for long enough to start automatically."""
    above: Mapping[str, Need] | None = None
    """The needs of the namespaces above their shares of the limits, if they are known from the whole plan."""


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome by topic, and the data for its sentences."""

    topology: RackTopology
    state: ClusterState
    whole: WholePlan
    sizes: Mapping[ObjectKey, int | None]
    """The bytes that each part copies, None if unknown."""
    asked: bool
    """Whether brokers have been asked for the sizes since this process has known the plan."""
    outcome: ApprovalOutcome[ObjectKey]
    around: HoldContext
    below: Mapping[ObjectKey, BelowMinInsync]
    """The parts that leave topics with fewer replicas than their min.insync.replicas."""

    @property
    def approved(self) -> Mapping[ObjectKey, TopicPlan]:
        """The parts that begin."""
        return {key: part for key, part in self.whole.parts.items() if key in self.outcome.approved}

    @property
    def shown_as_approved(self) -> Collection[ObjectKey]:
        """The parts whose statuses show that they are approved: those that begin, and those that wait to begin."""
        return {key for key in self.whole.parts if self.outcome.holds.get(key) in holds.SHOW_APPROVAL}

    @property
    def approved_by(self) -> str:
        """Who approved the parts that begin."""
        who = set(self.outcome.approved.values())
        words = {
            Approver.PLAN: f"approved on RackTopology {self.topology.key}",
            Approver.TOPIC: "approved on KafkaTopics",
            Approver.POLICY: "by the policy Automatic",
        }
        return " and ".join(words[one] for one in Approver if one in who)

    def cost(self, parts: Mapping[ObjectKey, TopicPlan]) -> str:
        """Return what these parts copy and remove, such as `copies 3 replicas (1.2 GiB) and removes 2 replicas`."""
        return _cost(parts.values(), [self.sizes[key] for key in parts])

    def hold_of(self, topic: KafkaTopic) -> tuple[PlanHold, int | None]:
        """Return what the part of a topic waits for, and the bytes that it copies, None if unknown."""
        key, part = topic.key, self.whole.parts[topic.key]
        copied, before = self.sizes[key], topic.status.plan
        known = before.bytes if before is not None and before.hash == part.hash else None
        may, held = may_approve(key, self.topology), self.outcome.holds.get(key)
        hold = holds.topic_hold(held, key, part.hash, self.around, may_approve=may)
        if key in self.below:
            hold = replace(hold, message=f"{self.below[key]}; {hold.message}")
        return hold, known if copied is None else steady(copied, known)


def review_plan(whole: WholePlan, present: Present, now: datetime) -> Review:
    """Return which parts of a plan are approved, and what the others wait for."""
    topology, terms = present.topology, present.topology.spec.reassignment
    windows, wrong = _windows(topology)
    names = present.approved.names(whole)
    said = present.approved.of_topology(topology, names, present.begun)
    outcome = judge_approval(
        {key: _part(key, part, names[key], said, present) for key, part in whole.parts.items()},
        said.all,
        Terms(
            terms.max_moves,
            terms.max_bytes,
            busy=present.busy is not None,
            held=_held(topology, windows, now),
            steady=present.state.settled is None,
            first=topology.meta.namespace,
        ),
        present.above,
    )
    around = holds.HoldContext(
        topology.key,
        terms,
        busy=present.busy,
        opens=windows.opens(now) if windows else None,
        wrong_window=wrong,
        begun=present.begun,
        above=outcome.above,
    )
    sizes = {key: present.sizes.of(part) for key, part in whole.parts.items()}
    asked = all(map(present.sizes.is_known, whole.parts.values()))
    below = {key: found for key, part in whole.parts.items() if (found := _below(present, key, part)) is not None}
    return Review(topology, present.state, whole, sizes, asked, outcome, around, below)


def _below(present: Present, key: ObjectKey, part: TopicPlan) -> BelowMinInsync | None:
    """Return how a part takes its topic below min.insync.replicas, or None, as for a topic without a KafkaTopic."""
    topic = present.topics.get(key)
    least = min_insync_above_replicas([topic] if topic is not None else [], present.topology.spec)
    return next(iter(below_min_insync(part.changes, least)), None) if least else None


def _part(key: ObjectKey, part: TopicPlan, names: frozenset[str], said: Approved, present: Present) -> PlanPart:
    topology, again = present.topology, key in present.begun
    topic = None if is_unmanaged(key) else present.topics.get(key)
    held, approved, policy = None, frozenset[str](), topology.spec.defaults.reassignment
    if topic is not None and not topic.meta.is_deleting:
        asked, may = topic.spec.reassignment, may_approve(key, topology)
        if may or (asked is not None and Approval.AUTOMATIC not in (asked.approval, asked.reorders)):
            policy = policy.overridden_by(asked)
        if may:
            approved = present.approved.of_part(topic, part.hash, again=again)
        held = ApprovalHold.PAUSED if topic.meta.is_paused else None
    elif not is_unmanaged(key):
        held = ApprovalHold.DELETING
    known = present.sizes.is_known(part) or topology.spec.reassignment.max_bytes is None
    return PlanPart(
        part.hash,
        part.moves,
        present.sizes.of(part) if known else 0,  # the part does not begin before its size is known
        automatic=not again and policy.of(reorders_only=not part.moves and not part.removals) is Approval.AUTOMATIC,
        approved=approved,
        held=held,
        namespace=holds.sharing(key, topology.meta.namespace),
        names=names & said.annotated if again else names,
        settled=known and key in present.settled,
    )


def _held(topology: RackTopology, windows: MaintenanceWindows | None, now: datetime) -> ApprovalHold | None:
    """Return the topology's hold on all parts, or None."""
    if topology.meta.is_deleting:
        return ApprovalHold.TOPOLOGY_DELETING
    if topology.meta.is_paused:
        return ApprovalHold.TOPOLOGY_PAUSED
    return None if windows is not None and windows.is_open(now) else ApprovalHold.WINDOW


def _windows(topology: RackTopology) -> tuple[MaintenanceWindows | None, str | None]:
    """Return the windows, or why they cannot be read."""
    try:
        return MaintenanceWindows.parse(topology.spec.reassignment.windows), None
    except ScheduleError as error:
        return None, str(error)


# --- what the RackTopology's status says ------------------------------------------------------------------------------


def summary(review: Review) -> PlanSummary:
    """Return the whole plan for the RackTopology's status."""
    whole, outcome = review.whole, review.outcome
    planned = sorted(whole.parts.items(), key=lambda item: (-item[1].moves, item[0]))
    sizes, before = list(review.sizes.values()), review.topology.status.plan
    last = before.bytes if before is not None and before.hash == whole.hash else None
    if not review.asked and last is not None:
        sizes = [last]  # after a restart, what was reported stays until brokers have been asked
    known = [one for one in sizes if one is not None]
    plan = TopologyPlanStatus(
        hash=whole.hash,
        topics=len(planned),
        moves=sum(part.moves for _, part in planned),
        lower_bound=whole.lower_bound,
        reorders=sum(part.reorders for _, part in planned),
        partitions=sum(len(part.changes) for _, part in planned),
        bytes=steady(sum(known), last) if len(known) == len(sizes) else None,
        unmanaged=sum(map(is_unmanaged, whole.parts)) or None,
        namespaces=_namespaces(whole),
        removals=sum(part.removals for _, part in planned) or None,
        samples=tuple(
            PlannedTopic(part_name(key), part.hash, part.moves, part.removals or None)
            for key, part in planned[:MAX_PLAN_SAMPLES]
        ),
    )
    order = list(ApprovalHold)
    first, key = min(
        ((hold, key) for key, hold in outcome.holds.items()), key=lambda one: order.index(one[0]), default=(None, None)
    )
    how = holds.approve_topology(review.topology.key, _waiting(review))
    waits = holds.sentence(first, key, how, review.around)
    reason = holds.REASON_OF[first]
    if outcome.stale:
        reason = Reason.STALE_APPROVAL
        stale = ", ".join(sorted(outcome.stale))
        waits = f"{stale} was approved, which is not the current plan; {how}"
    cost = _cost(whole.parts.values(), sizes if plan.bytes is None else [plan.bytes])
    least = "no plan copies fewer" if plan.moves == plan.lower_bound else f"{plan.lower_bound:,} are the least"
    without = f", {plan.unmanaged:,} of them without a KafkaTopic" if plan.unmanaged else ""
    waiting = sum(hold is first for hold in outcome.holds.values())
    partly = f" ({waiting:,} of them)" if first is not None and waiting < len(planned) else ""
    about = f"plan {whole.hash} {cost} for {plural(len(planned), 'topic')}{without}{partly}, and {least}"
    message = f"{about}{_below_in_words(list(review.below.values()))}; {waits}"
    return PlanSummary(plan, ConditionStatus.FALSE, reason, message, whole.parts)


def _below_in_words(below: Sequence[BelowMinInsync]) -> str:
    more = f", and {plural(len(below) - 1, 'more topic')} likewise" if len(below) > 1 else ""
    return f"; {below[0]}{more}" if below else ""


def _namespaces(whole: WholePlan) -> tuple[PlannedNamespace, ...]:
    """Return the parts of those namespaces that copy the most; empty if there is only one namespace."""
    if len(whole.namespaces) == 1:
        return ()
    topics, moves, removals = Counter[str](), Counter[str](), Counter[str]()
    for key, part in whole.parts.items():
        topics[key.namespace] += 1
        moves[key.namespace] += part.moves
        removals[key.namespace] += part.removals
    most = sorted(whole.namespaces, key=lambda name: (-moves[name], name))[:MAX_PLAN_NAMESPACES]
    return tuple(
        PlannedNamespace(whole.namespaces[name], topics[name], moves[name], name or None, removals[name] or None)
        for name in most
    )


def _waiting(review: Review) -> str:
    """Return the hashes that approve all waiting parts: per namespace, so that no other makes the approval stale."""
    whole = review.whole
    waiting = {key.namespace for key in whole.parts if key in review.outcome.holds} or whole.namespaces.keys()
    if len(waiting) > MAX_PLAN_NAMESPACES:
        return whole.hash
    return ",".join(whole.namespaces[name] for name in sorted(waiting))


def _cost(parts: Collection[TopicPlan], sizes: Collection[int | None]) -> str:
    moves = sum(part.moves for part in parts)
    copies = f"{plural(moves, 'replica')}{_in_brackets(sizes)}" if moves else "nothing"
    return f"copies {copies}{removing(sum(part.removals for part in parts))}"


def _in_brackets(sizes: Collection[int | None]) -> str:
    """Return the known bytes, in brackets."""
    known = [one for one in sizes if one is not None]
    if not sum(known):
        return ""
    return f" ({size(rounded(sum(known)))}{'' if len(known) == len(sizes) else ' and more'})"
