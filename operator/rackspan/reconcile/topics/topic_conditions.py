"""The conditions Ready and Compliant of a KafkaTopic, and the counts and samples of its compliance. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from rackspan.api.conditions import ConditionStatus
from rackspan.api.kafkatopic import MAX_SAMPLES, ComplianceStatus, DeletionPolicy, Finding
from rackspan.api.labels import CONFIRM_DELETE
from rackspan.api.reasons import Reason
from rackspan.core import compliance as core
from rackspan.core.copy_costs import removing
from rackspan.core.placement import Placement
from rackspan.core.scanning.findings import Facts
from rackspan.core.scanning.messages import message as sentence
from rackspan.core.scanning.rules import Rule
from rackspan.core.text import be, every, have, plural
from rackspan.reconcile.cluster.state import RACKS_SETTLE_SECONDS
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.specs.placement import judged, leads_elsewhere, placer_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicSpec
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.plans.holds import PlanHold
    from rackspan.reconcile.ports import TopicDescription
    from rackspan.reconcile.topics.topic_decision import Outcome


TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


class ConditionValue(NamedTuple):
    """The content of a condition. Its type, generation and transition time are added when it is set."""

    status: ConditionStatus
    reason: Reason
    message: str

    @classmethod
    def of_failure(cls, failure: Failure, status: ConditionStatus) -> ConditionValue:
        """Return a value with the reason and message of a failure."""
        return cls(status, failure.reason, failure.message)


def invalid_pause(topic: KafkaTopic) -> Failure | None:
    """Return why a pause annotation is invalid, or None. A topic with an invalid annotation counts as paused."""
    message = topic.meta.unclear_pause
    return Failure(Reason.INVALID_ANNOTATION, message, Remedy.SPEC) if message is not None else None


def ready_condition(
    outcome: Outcome, seen: TopicDescription, compliant: ConditionValue, state: ClusterState
) -> ConditionValue:
    """Return the condition Ready of an existing topic, `seen` in Kafka. `compliant` is its condition Compliant.

    The message of a paused topic begins with "paused".
    """
    topic, ready = outcome.topic, _unpaused(outcome, seen, compliant, state)
    invalid = invalid_pause(topic)
    if invalid is not None:
        return ConditionValue.of_failure(invalid, FALSE)
    if not topic.meta.is_paused or ready.reason == Reason.PAUSED:
        return ready
    what = ready.message if ready.status == TRUE else f"{ready.reason}: {ready.message}"
    return ConditionValue(ready.status, Reason.PAUSED, f"paused; {what}")


def _unpaused(
    outcome: Outcome, seen: TopicDescription, compliant: ConditionValue, state: ClusterState
) -> ConditionValue:
    spec, problem = outcome.topic.spec, outcome.problem
    if problem is not None:
        return ConditionValue.of_failure(problem, FALSE)
    if outcome.topic.meta.is_paused and not outcome.paused_decision.idle:
        message = f"paused; waiting for the annotation to go: {outcome.paused_decision.summary}"
        return ConditionValue(FALSE, Reason.PAUSED, message)
    partitions = plural(len(seen.replicas), "partition")
    if len(seen.replicas) < spec.partitions or not outcome.settled:
        message = f"{len(seen.replicas)} of {plural(spec.partitions, 'partition')} {be(len(seen.replicas))} there"
        return ConditionValue(FALSE, Reason.UPDATING, message)
    wrong = _misplaced(spec, seen, compliant)
    plan = None if outcome.plan is None or outcome.plan.empty else outcome.plan
    if plan is not None:
        nothing_to_mend = wrong is None and (plan.moves > 0 or not spec.placement.leaders)
        fills = nothing_to_mend and state.spec.fills_brokers
        if nothing_to_mend and not fills and state.settled is not None:
            return _outlived(plan)
        if not fills:
            return _plan_pending(plan, wrong, None if outcome.topic.meta.is_paused else outcome.hold)
    if wrong is not None:
        return _not_planned(outcome.plan, wrong, settling=state.settled is not None)
    replicas = plural(spec.replication_factor, "replica")
    message = f"{partitions} of {replicas} {be(len(seen.replicas))} as asked{_warnings(outcome, seen, state)}"
    if plan is not None:
        message += _filling(plan, outcome.hold)
    return ConditionValue(TRUE, Reason.IN_SYNC, message)


def _warnings(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> str:
    """Return warnings for a topic that is as requested, to be appended to the message."""
    topic, spec, warnings = outcome.topic, outcome.topic.spec, ""
    size, min_insync = spec.replication_factor, outcome.config.min_insync if outcome.config else None
    if size > 1 and min_insync == size:
        warnings += f"; min.insync.replicas is {size} as well, so one replica that lags stops acks=all writes"
    if leads_elsewhere(spec, state):
        domains = ", ".join(spec.placement.leaders)
        warnings += f"; all brokers of the domains preferred for leaders ({domains}) are offline, so others lead"
    deletes = spec.deletion_policy is DeletionPolicy.DELETE
    if deletes and outcome.is_adopted and topic.confirm_delete != seen.topic_id:
        warnings += (
            "; the topic was adopted, so deletionPolicy Delete does not apply to it without the annotation "
            f"{CONFIRM_DELETE}={seen.topic_id}"
        )
    return warnings


def _misplaced(spec: KafkaTopicSpec, seen: TopicDescription, compliant: ConditionValue) -> ConditionValue | None:
    """Return the problem that only moving, adding or removing replicas can fix, or None."""
    other = [len(row) for row in seen.replicas if len(row) != spec.replication_factor]
    if other:
        return ConditionValue(
            FALSE,
            Reason.REPLICATION_FACTOR_DIFFERS,
            f"{len(other)} of {plural(len(seen.replicas), 'partition')} {have(len(other))} "
            f"{_range(other)} {'replica' if set(other) == {1} else 'replicas'}, the spec says "
            f"{spec.replication_factor}",
        )
    return compliant._replace(status=FALSE) if compliant.status != TRUE else None


def _plan_pending(plan: TopicPlan, wrong: ConditionValue | None, hold: PlanHold | None) -> ConditionValue:
    why = wrong.message if wrong is not None else "leaders are not in the domains preferred for them"
    message = f"plan {plan.hash} {_plan_cost(plan)}; not executed yet: {why}"
    if hold is None:
        return ConditionValue(FALSE, Reason.PLAN_PENDING, message)
    return ConditionValue(FALSE, hold.reason, f"{message}; {hold.message}")


def _outlived(plan: TopicPlan) -> ConditionValue:
    """Return the value for a plan that is no longer needed. New plans wait until the racks are stable."""
    message = (
        f"plan {plan.hash} is for racks that have changed since; planned anew once the racks have stayed the same for "
        f"{RACKS_SETTLE_SECONDS:g} seconds"
    )
    return ConditionValue(FALSE, Reason.RACKS_SETTLING, message)


def _filling(plan: TopicPlan, hold: PlanHold | None) -> str:
    """Return what a plan that only fills brokers does, to be appended to the message."""
    copies = f"copies {plural(plan.moves, 'replica')}" if plan.moves else "copies nothing, and moves leaders,"
    return f"; plan {plan.hash} {copies} to fill brokers" + (f"; {hold.message}" if hold is not None else "")


def _not_planned(plan: TopicPlan | None, wrong: ConditionValue, *, settling: bool) -> ConditionValue:
    """Return the problem, and why no plan fixes it if that is known."""
    if settling and wrong.reason == Reason.NOT_COMPLIANT and not (plan and plan.problems):
        message = (
            f"{wrong.message}; planned for once the racks have stayed the same for {RACKS_SETTLE_SECONDS:g} seconds"
        )
        return ConditionValue(FALSE, Reason.RACKS_SETTLING, message)
    if plan is None or not plan.problems:
        return wrong
    problem = plan.problems[0]
    return wrong._replace(message=f"{wrong.message}; no plan: {problem.reason}: {problem.smallest_change}")


def _plan_cost(plan: TopicPlan) -> str:
    removes = removing(plan.removals)
    if plan.moves:
        cost = f"copies {plural(plan.moves, 'replica')} of {plural(len(plan.changes), 'partition')}{removes}"
        return f"{cost}, and no plan copies fewer" if not plan.gap else f"{cost}; {plan.lower_bound} are the least"
    reorders = f", and reorders the replicas of {plural(plan.reorders, 'partition')}" if plan.reorders else ""
    return f"copies nothing{removes}{reorders}"


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


# --- Compliant --------------------------------------------------------------------------------------------------------

_MAX_NAMED = 10
"""The maximum number of broker ids in a message."""
_UNFAIR_PLACERS = ("Simple", "Striped")
"""The built-in placers whose new topics may be non-compliant."""


@dataclass(frozen=True, slots=True)
class ComplianceResult:
    """The compliance for the status and the condition Compliant. `compliance` is None if nothing could be compared."""

    compliance: ComplianceStatus | None
    condition: ConditionValue


def compliance_result(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> ComplianceResult:
    """Compare the replicas in Kafka with the spec. The fewest moves come from the plan if there is one."""
    spec, plan, known = outcome.topic.spec, outcome.plan, outcome.judged
    if spec.placement.assignment:
        return _explicit_result(spec, seen, state)
    if known is None or known.replicas != seen.replicas:
        known = judged(spec, seen.replicas, state)
    found = known.compliance
    if isinstance(found, Failure):
        return not_judged(found)
    compliance = ComplianceStatus(
        partitions=found.partitions,
        non_compliant=found.non_compliant,
        moves=plan.lower_bound if plan is not None and plan.feasible and state.settled is None else found.moves,
        drifted=(drifted := _only_by_drift(spec, seen, found, state)) or None,
        samples=tuple(
            Finding(
                partition=finding.partition,
                reason=finding.reason,
                level=finding.level,
                domain=finding.domain,
                excess=finding.excess,
            )
            for finding in found.sample(MAX_SAMPLES)
        ),
    )
    condition, placer = _spread_condition(found, state, drifted), placer_name(spec, state)
    if found.non_compliant and placer in _UNFAIR_PLACERS:
        message = f"{condition.message}; the placer {placer} does not always spread fairly, and plans correct this"
        condition = condition._replace(message=message)
    return ComplianceResult(compliance if found.partitions else None, condition)


def _only_by_drift(spec: KafkaTopicSpec, seen: TopicDescription, found: core.Compliance, state: ClusterState) -> int:
    """Return how many of the non-compliant partitions would be compliant in the racks that Kafka reports."""
    if not found.non_compliant or not state.racks.drifted:
        return 0
    reported = judged(spec, seen.replicas, replace(state, racks=state.racks.as_reported)).compliance
    if isinstance(reported, Failure):
        return 0
    return int(np.count_nonzero(found.broken & ~reported.broken & ~reported.unknown))


def not_judged(why: Failure) -> ComplianceResult:
    """Return a result whose condition Compliant is Unknown for this reason."""
    return ComplianceResult(None, ConditionValue.of_failure(why, UNKNOWN))


def _spread_condition(found: core.Compliance, state: ClusterState, drifted: int) -> ConditionValue:
    """Return the condition: False if partitions are certainly not compliant, even if others cannot be judged."""
    unknown = ""
    if found.undecided:
        brokers = ", ".join(str(row.id) for row in state.racks.missing[:_MAX_NAMED])
        unknown = f"{plural(found.undecided, 'partition')} cannot be judged: no rack is known of brokers {brokers}"
    if found.non_compliant:
        first = found.sample(1)[0]
        message = (
            f"{found.non_compliant} of {plural(found.partitions, 'partition')} {be(found.non_compliant)} not spread as "
            f"asked; {_mending(found)}; "
            f"partition {first.partition}: {_finding_text(first)}"
        )
        if drifted:
            message += f"; {drifted} of them only because brokers run elsewhere than they report"
        return ConditionValue(FALSE, Reason.NOT_COMPLIANT, f"{message}; {unknown}" if unknown else message)
    if unknown:
        return ConditionValue(UNKNOWN, Reason.MISSING_RACKS, unknown)
    return ConditionValue(TRUE, Reason.COMPLIANT, f"{every(found.partitions, 'partition')} spread as asked")


def _mending(found: core.Compliance) -> str:
    never, moves = int(np.count_nonzero(found.unsatisfiable)), f"{plural(found.moves, 'replica')} would have to move"
    return f"{moves}, and too few brokers may hold {never} of them" if never else moves


def _finding_text(finding: core.Violation) -> str:
    level, domain = finding.level, finding.domain
    broker = int(domain) if level == core.BROKER_LEVEL else None
    facts = Facts(Rule.NOT_COMPLIANT, None, finding.partition, broker, level, domain, finding.reason, finding.excess)
    return sentence(facts)


def _explicit_result(spec: KafkaTopicSpec, seen: TopicDescription, state: ClusterState) -> ComplianceResult:
    lists = Placement(seen.replicas).padded
    found = core.judge_pinned(state.racks.tree, lists, core.assigned(spec.placement.assignment, np.arange(len(lists))))
    different, pinned = np.flatnonzero(found.different).tolist(), int(np.count_nonzero(found.unfair))
    moves = int(found.moves_of.sum())
    samples = tuple(
        Finding(
            partition=index,
            reason=f"replicas are {_broker_list(seen.replicas[index])}, "
            f"the assignment says {_broker_list(spec.placement.assignment[index])}",
        )
        for index in different[:MAX_SAMPLES]
    )
    compliance = ComplianceStatus(len(seen.replicas), len(different), moves, samples, pinned=pinned or None)
    drained = {row.id for row in state.racks.rows if row.draining}
    blocking = [(index, row) for index, row in enumerate(spec.placement.assignment) if not drained.isdisjoint(row)]
    if blocking:
        return _blocking_drain(compliance, blocking, drained, {*different})
    if not different:
        message = "replicas are where the assignment puts them"
        if pinned:
            message += (
                f"; {pinned} of {plural(len(lists), 'partition')} {be(pinned)} not spread fairly by it, and "
                f"{plural(int(found.moves_without.sum()), 'replica')} would have to move without it"
            )
        return ComplianceResult(compliance, ConditionValue(TRUE, Reason.COMPLIANT, message))
    return ComplianceResult(
        compliance,
        ConditionValue(
            FALSE,
            Reason.ASSIGNMENT_DIFFERS,
            f"{len(different)} of {plural(len(seen.replicas), 'partition')} "
            f"differ{'s' * (len(different) == 1)} from the assignment; {plural(moves, 'replica')} "
            f"would have to move; partition {samples[0].partition}: {samples[0].reason}",
        ),
    )


def _blocking_drain(
    compliance: ComplianceStatus, blocking: Sequence[tuple[int, Sequence[int]]], drained: set[int], different: set[int]
) -> ComplianceResult:
    """Return the result for an explicit assignment that names brokers which the topology drains.

    `blocking` are these rows of the assignment with their partition numbers, `different` the partitions whose replicas
    differ from their rows.
    """
    brokers = sorted({broker for _, row in blocking for broker in row} & drained)
    samples = [
        Finding(index, f"the assignment {_broker_list(row)} names a broker that is to be drained")
        for index, row in blocking
    ]
    value = ConditionValue(
        FALSE,
        Reason.HOLDS_UP_DRAIN,
        f"the assignment keeps {plural(sum(broker in drained for _, row in blocking for broker in row), 'replica')} on "
        f"brokers that the topology is to drain ({', '.join(map(str, brokers[:_MAX_NAMED]))}): "
        "change spec.placement.assignment, or end the drain",
    )
    wrong = different | {index for index, _ in blocking if index < compliance.partitions}
    return ComplianceResult(
        structs.replace(compliance, non_compliant=len(wrong), samples=(*samples, *compliance.samples)[:MAX_SAMPLES]),
        value,
    )


def _broker_list(brokers: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, brokers)) + "]"
