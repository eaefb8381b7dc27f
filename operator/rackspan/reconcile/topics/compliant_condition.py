"""Compliance of one topic: the Compliant condition, and the counts and samples in its status. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from rackspan.api.kafkatopic import MAX_SAMPLES, ComplianceStatus, Finding
from rackspan.api.reasons import Reason
from rackspan.core import compliance as core
from rackspan.core.placement import Placement
from rackspan.core.scanning.findings import Facts
from rackspan.core.scanning.messages import message as sentence
from rackspan.core.scanning.rules import Rule
from rackspan.core.text import be, every, plural
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.specs.placement import judged
from rackspan.reconcile.topics.topic_conditions import FALSE, TRUE, UNKNOWN, ConditionValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.kafkatopic import KafkaTopicSpec
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription
    from rackspan.reconcile.topics.outcome import Outcome

_MAX_NAMED = 10
"""Broker ids listed in a message."""


@dataclass(frozen=True, slots=True)
class ComplianceResult:
    """What the status and the Compliant condition say; `compliance` is None where nothing could be compared."""

    compliance: ComplianceStatus | None
    condition: ConditionValue


def compliance_result(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> ComplianceResult:
    """Compare the replicas in Kafka with the spec; the fewest moves come from the plan where there is one."""
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
    return ComplianceResult(compliance if found.partitions else None, _spread_condition(found, state, drifted))


def _only_by_drift(spec: KafkaTopicSpec, seen: TopicDescription, found: core.Compliance, state: ClusterState) -> int:
    """How many of the partitions that are not compliant would be in the racks that Kafka reports."""
    if not found.non_compliant or not state.racks.drifted:
        return 0
    reported = judged(spec, seen.replicas, replace(state, racks=state.racks.as_reported)).compliance
    if isinstance(reported, Failure):
        return 0
    return int(np.count_nonzero(found.broken & ~reported.broken & ~reported.unknown))


def not_judged(why: Failure) -> ComplianceResult:
    """Compliant is Unknown for this reason."""
    return ComplianceResult(None, ConditionValue.of_failure(why, UNKNOWN))


def _spread_condition(found: core.Compliance, state: ClusterState, drifted: int) -> ConditionValue:
    """False where partitions are certainly not compliant, even if others cannot be judged."""
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
    """The result for an explicit assignment that names brokers which the topology drains.

    `blocking` are such rows with their partition numbers, `different` the partitions whose replicas differ from theirs.
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
