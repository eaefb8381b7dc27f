"""From what was seen and done to a KafkaTopic's status. Pure: the clock is an argument.

Ready is True when Kafka has all that the spec asks for, placement included. What only moving replicas can change keeps
it False with the plan that would, and what that costs: nothing here carries it out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from rackspan.api.conditions import (
    COMPLIANT,
    PAUSED,
    READY,
    RECONCILING,
    STALLED,
    Condition,
    ConditionStatus,
    find_condition,
    remove_condition,
    set_condition,
)
from rackspan.api.kafkatopic import (
    MAX_DOMAINS,
    MAX_SAMPLES,
    ComplianceStatus,
    DomainPlacement,
    Finding,
    PlacementStatus,
)
from rackspan.api.labels import CONFIRM_DELETE
from rackspan.api.plans import MAX_PLAN_SAMPLES, PartitionChange, TopicPlanStatus
from rackspan.api.reasons import Reason
from rackspan.core import compliance as core
from rackspan.core.text import be, every, plural
from rackspan.core.topology import RackPath, domain_name
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topics.deletion import deletes, is_confirmed
from rackspan.reconcile.topics.limits import too_large
from rackspan.reconcile.topics.placement import against_assignment, judged, leads_elsewhere, placer_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicSpec, KafkaTopicStatus
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription
    from rackspan.reconcile.topics.batch import Outcome

_MAX_NAMED = 10
"""Brokers that a message names."""
_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class _Told:
    """One condition to set, before it gets its generation and time."""

    status: ConditionStatus
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Judgement:
    compliance: ComplianceStatus | None
    told: _Told


def conclude(outcome: Outcome, state: ClusterState, now: datetime) -> KafkaTopicStatus:
    """The status after a pass over a topic that Kafka was asked about."""
    topic, seen, problem = outcome.topic, outcome.seen, outcome.problem
    if seen is None or outcome.guarded:
        status = structs.replace(
            failed(topic, problem or _not_there_yet(outcome), now), creating=outcome.creating or None
        )
        if outcome.decision.foreign is not None:
            status = _without_facts(topic, status, outcome.decision.foreign, now)
        return structs.replace(status, topic_id=None, adopted=None) if _is_to_be_recreated(outcome) else status
    large = too_large(topic, seen, state)
    judgement = _judge(outcome, seen, state) if large is None else _unjudged(large)
    ready = _with_pause(topic, _ready(outcome, seen, judgement, state))
    status = structs.replace(
        topic.status,
        observed_generation=topic.meta.generation,
        topic_name=topic.topic_name,
        topic_id=seen.topic_id,
        adopted=_is_adopted(outcome, seen) or None,
        creating=None,
        cluster_id=state.cluster_id,
        partitions=len(seen.replicas),
        replication_factor=min(map(len, seen.replicas), default=0),
        min_in_sync_replicas=outcome.config.min_insync if outcome.config else topic.status.min_in_sync_replicas,
        placer=None if topic.spec.placement.assignment else placer_name(topic.spec, state),
        compliance=judgement.compliance,
        placement=_where(seen.replicas, state) if large is None else None,
        plan=_certificate(outcome.plan),
    )
    conditions = _set(topic, status.conditions, READY, ready, now)
    conditions = _set(topic, conditions, COMPLIANT, judgement.told, now)
    held_up = _unclear(topic) if topic.meta.is_paused else problem
    conditions = _abnormal(topic, conditions, held_up or _what_it_waits_for(ready), now)
    if not outcome.settled:
        waits = _Told(_TRUE, Reason.UPDATING, "Kafka has taken the change and does not show it yet")
        conditions = _set(topic, conditions, RECONCILING, waits, now)
    return structs.replace(status, conditions=_paused(topic, conditions, now))


def failed(topic: KafkaTopic, failure: Failure, now: datetime) -> KafkaTopicStatus:
    """The status where nothing could be said about Kafka's topic: the last good facts stay, the conditions tell why.

    Where nobody asks any more before the object changes, it is not called compliant for what was once seen.
    """
    told = _Told(_FALSE, failure.reason, failure.message)
    conditions = _set(topic, topic.status.conditions, READY, told, now)
    if failure.remedy is Remedy.SPEC and find_condition(conditions, COMPLIANT) is not None:
        conditions = _set(topic, conditions, COMPLIANT, replace(told, status=_UNKNOWN), now)
    conditions = _abnormal(topic, conditions, failure, now)
    return structs.replace(
        topic.status,
        observed_generation=topic.meta.generation,
        topic_name=topic.topic_name,
        conditions=_paused(topic, conditions, now),
    )


def _without_facts(topic: KafkaTopic, status: KafkaTopicStatus, lost: Failure, now: datetime) -> KafkaTopicStatus:
    """The status of an object whose topic is not there: its id stays, for that is what is missed, and no count does."""
    return structs.replace(
        status,
        partitions=None,
        replication_factor=None,
        min_in_sync_replicas=None,
        placer=None,
        compliance=None,
        placement=None,
        plan=None,
        conditions=_set(topic, status.conditions, COMPLIANT, _Told(_UNKNOWN, lost.reason, lost.message), now),
    )


def _is_adopted(outcome: Outcome, seen: TopicDescription) -> bool:
    """Whether the topic was there before the object had one."""
    if outcome.topic.status.topic_id == seen.topic_id:
        return bool(outcome.topic.status.adopted)
    return not outcome.creating


def _is_to_be_recreated(outcome: Outcome) -> bool:
    """Whether the lost topic's id is forgotten now, so that a later pass makes a new topic.

    In this order, because a topic whose id was not recorded before a crash would look like somebody else's after it.
    """
    lost = outcome.problem
    return (
        lost is not None
        and lost.reason == Reason.TOPIC_VANISHED
        and lost.remedy is Remedy.RETRY
        and not outcome.topic.meta.is_paused
    )


def _not_there_yet(outcome: Outcome) -> Failure:
    unclear = _unclear(outcome.topic)
    if unclear is not None:
        return unclear
    if outcome.topic.meta.is_paused:
        return Failure(Reason.PAUSED, "paused: the topic is not created before the annotation is gone", Remedy.SPEC)
    return Failure(Reason.CREATING, "Kafka has taken the creation and does not show the topic yet", Remedy.RETRY)


def _unjudged(why: Failure) -> _Judgement:
    return _Judgement(None, _Told(_UNKNOWN, why.reason, why.message))


def _judge(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> _Judgement:
    spec, plan, known = outcome.topic.spec, outcome.plan, outcome.judged
    if spec.placement.assignment:
        return _judge_explicit(spec, seen, state)
    if known is None or known.replicas != seen.replicas:
        known = judged(spec, seen.replicas, state)
    found = known.compliance
    if isinstance(found, Failure):
        return _unjudged(found)
    compliance = ComplianceStatus(
        partitions=found.partitions,
        non_compliant=found.non_compliant,
        moves=plan.lower_bound if plan is not None and plan.feasible else found.moves,
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
    return _Judgement(compliance if found.partitions else None, _verdict(found, state))


def _verdict(found: core.Compliance, state: ClusterState) -> _Told:
    """What is wrong for certain comes before what is not known."""
    unknown = ""
    if found.undecided:
        brokers = ", ".join(str(row.id) for row in state.racks.missing[:_MAX_NAMED])
        unknown = f"{plural(found.undecided, 'partition')} cannot be judged: no rack is known of brokers {brokers}"
    if found.non_compliant:
        first = found.sample(1)[0]
        message = (
            f"{found.non_compliant} of {plural(found.partitions, 'partition')} {be(found.non_compliant)} not spread as "
            f"asked; {plural(found.moves, 'replica')} would have to move; "
            f"partition {first.partition}: {_sentence(first)}"
        )
        return _Told(_FALSE, Reason.NOT_COMPLIANT, f"{message}; {unknown}" if unknown else message)
    if unknown:
        return _Told(_UNKNOWN, Reason.MISSING_RACKS, unknown)
    return _Told(_TRUE, Reason.COMPLIANT, f"{every(found.partitions, 'partition')} spread as asked")


def _sentence(finding: core.Finding) -> str:
    match finding.reason:
        case core.Reason.TOO_MANY_REPLICAS:
            return f"{finding.level} {finding.domain} holds {finding.excess} too many"
        case core.Reason.BROKER_NOT_ELIGIBLE:
            return f"broker {finding.domain} may hold no replica of it"
        case core.Reason.BROKER_UNKNOWN:
            return f"broker {finding.domain} is not known"
        case core.Reason.BROKER_REPEATED:
            return f"broker {finding.domain} is listed twice"


def _judge_explicit(spec: KafkaTopicSpec, seen: TopicDescription, state: ClusterState) -> _Judgement:
    found = against_assignment(spec.placement.assignment, seen.replicas)
    samples = tuple(
        Finding(
            partition=index,
            reason=f"replicas are {_ids(seen.replicas[index])}, "
            f"the assignment says {_ids(spec.placement.assignment[index])}",
        )
        for index in found.different[:MAX_SAMPLES]
    )
    compliance = ComplianceStatus(len(seen.replicas), len(found.different), found.moves, samples)
    drained = {row.id for row in state.racks.rows if row.draining}
    kept = [(index, row) for index, row in enumerate(spec.placement.assignment) if not drained.isdisjoint(row)]
    if kept:
        return _holding_up(compliance, kept, drained, {*found.different})
    if not found.different:
        return _Judgement(compliance, _Told(_TRUE, Reason.COMPLIANT, "replicas are where the assignment puts them"))
    return _Judgement(
        compliance,
        _Told(
            _FALSE,
            Reason.ASSIGNMENT_DIFFERS,
            f"{len(found.different)} of {plural(len(seen.replicas), 'partition')} "
            f"differ{'s' * (len(found.different) == 1)} from the assignment; {plural(found.moves, 'replica')} "
            f"would have to move; partition {samples[0].partition}: {samples[0].reason}",
        ),
    )


def _holding_up(
    compliance: ComplianceStatus, kept: Sequence[tuple[int, Sequence[int]]], drained: set[int], different: set[int]
) -> _Judgement:
    """The verdict on an assignment that keeps replicas where the topology wants none."""
    brokers = sorted({broker for _, row in kept for broker in row} & drained)
    samples = [
        Finding(index, f"the assignment {_ids(row)} names a broker that is to be drained") for index, row in kept
    ]
    told = _Told(
        _FALSE,
        Reason.HOLDS_UP_DRAIN,
        f"the assignment keeps {plural(sum(broker in drained for _, row in kept for broker in row), 'replica')} on "
        f"brokers that the topology is to drain ({', '.join(map(str, brokers[:_MAX_NAMED]))}): "
        "change spec.placement.assignment, or end the drain",
    )
    wrong = different | {index for index, _ in kept if index < compliance.partitions}
    return _Judgement(
        structs.replace(compliance, non_compliant=len(wrong), samples=(*samples, *compliance.samples)[:MAX_SAMPLES]),
        told,
    )


def _ready(outcome: Outcome, seen: TopicDescription, judgement: _Judgement, state: ClusterState) -> _Told:
    spec, problem = outcome.topic.spec, outcome.problem
    if problem is not None:
        return _Told(_FALSE, problem.reason, problem.message)
    if outcome.topic.meta.is_paused and not outcome.waiting.idle:
        return _Told(_FALSE, Reason.PAUSED, f"paused; waiting for the annotation to go: {outcome.waiting.summary}")
    if len(seen.replicas) < spec.partitions or not outcome.settled:
        return _Told(
            _FALSE,
            Reason.UPDATING,
            f"{len(seen.replicas)} of {plural(spec.partitions, 'partition')} {be(len(seen.replicas))} there",
        )
    lacks = _lacks(spec, seen, judgement)
    if outcome.plan is not None and not outcome.plan.empty:
        return _pending(outcome.plan, lacks)
    if lacks is not None:
        return _without_plan(outcome.plan, lacks)
    size, min_insync = spec.replication_factor, outcome.config.min_insync if outcome.config else None
    warning = ""
    if size > 1 and min_insync == size:
        warning = f"; min.insync.replicas is {size} as well, so one replica that lags stops acks=all writes"
    if leads_elsewhere(spec, state):
        domains = ", ".join(spec.placement.leaders)
        warning += f"; all brokers of the domains preferred for leaders ({domains}) are offline, so others lead"
    topic = outcome.topic
    if deletes(topic) and _is_adopted(outcome, seen) and not is_confirmed(topic, seen.topic_id):
        warning += (
            "; the topic was adopted, so deletionPolicy Delete does not apply to it without the annotation "
            f"{CONFIRM_DELETE}={seen.topic_id}"
        )
    partitions = plural(len(seen.replicas), "partition")
    told = f"{partitions} of {plural(size, 'replica')} {be(len(seen.replicas))} as asked{warning}"
    return _Told(_TRUE, Reason.IN_SYNC, told)


def _with_pause(topic: KafkaTopic, ready: _Told) -> _Told:
    """That the topic is paused is seen first, whatever else there is to say."""
    unclear = _unclear(topic)
    if unclear is not None:
        return _Told(_FALSE, unclear.reason, unclear.message)
    if not topic.meta.is_paused or ready.reason == Reason.PAUSED:
        return ready
    what = ready.message if ready.status == _TRUE else f"{ready.reason}: {ready.message}"
    return _Told(ready.status, Reason.PAUSED, f"paused; {what}")


def _lacks(spec: KafkaTopicSpec, seen: TopicDescription, judgement: _Judgement) -> _Told | None:
    """What only moving replicas can change."""
    other = [len(row) for row in seen.replicas if len(row) != spec.replication_factor]
    if other:
        return _Told(
            _FALSE,
            Reason.REPLICATION_FACTOR_DIFFERS,
            f"{len(other)} of {plural(len(seen.replicas), 'partition')} {'has' if len(other) == 1 else 'have'} "
            f"{_range(other)} {'replica' if set(other) == {1} else 'replicas'}, the spec says "
            f"{spec.replication_factor}",
        )
    if judgement.told.status != _TRUE:
        return _Told(_FALSE, judgement.told.reason, judgement.told.message)
    return None


def _pending(plan: TopicPlan, lacks: _Told | None) -> _Told:
    """That there is a plan, and what it costs."""
    why = lacks.message if lacks is not None else "leaders are not in the domains preferred for them"
    return _Told(_FALSE, Reason.PLAN_PENDING, f"plan {plan.hash} {_cost(plan)}; not executed yet: {why}")


def _without_plan(plan: TopicPlan | None, lacks: _Told) -> _Told:
    """What is lacking, and why nothing can be planned for it where that is known."""
    if plan is None or not plan.problems:
        return lacks
    problem = plan.problems[0]
    return replace(lacks, message=f"{lacks.message}; no plan: {problem.reason}: {problem.smallest_change}")


def _cost(plan: TopicPlan) -> str:
    removes = f"removes {plural(plan.removals, 'replica')}" if plan.removals else ""
    if plan.moves:
        copies = f"copies {plural(plan.moves, 'replica')} of {plural(len(plan.changes), 'partition')}"
        both = f"{copies} and {removes}" if removes else copies
        return f"{both}, and no plan copies fewer" if not plan.gap else f"{both}; {plan.lower_bound} are the least"
    partitions = plural(plan.reorders, "partition")
    if not removes:
        return f"copies nothing and reorders the replicas of {partitions}"
    return (
        f"copies nothing, {removes} and reorders those of {partitions}"
        if plan.reorders
        else f"copies nothing and {removes}"
    )


def _certificate(plan: TopicPlan | None) -> TopicPlanStatus | None:
    if plan is None or plan.empty:
        return None
    return TopicPlanStatus(
        hash=plan.hash,
        moves=plan.moves,
        lower_bound=plan.lower_bound,
        reorders=plan.reorders,
        partitions=len(plan.changes),
        bytes=plan.bytes,
        samples=tuple(
            PartitionChange(change.partition, change.before, change.replicas)
            for change in plan.changes[:MAX_PLAN_SAMPLES]
        ),
    )


def _abnormal(
    topic: KafkaTopic, conditions: tuple[Condition, ...], problem: Failure | None, now: datetime
) -> tuple[Condition, ...]:
    """Stalled and Reconciling are there only when they are true: kstatus reads them so."""
    conditions = remove_condition(conditions, RECONCILING) if problem is None or _stalls(problem) else conditions
    conditions = remove_condition(conditions, STALLED) if problem is None or not _stalls(problem) else conditions
    if problem is None:
        return conditions
    told = _Told(_TRUE, problem.reason, problem.message)
    return _set(topic, conditions, STALLED if _stalls(problem) else RECONCILING, told, now)


def _what_it_waits_for(ready: _Told) -> Failure | None:
    """A topic that is not as asked either goes on by itself or waits for a person: then no pass will change it."""
    if ready.status == _TRUE:
        return None
    goes_on = ready.reason in (Reason.UPDATING, Reason.CREATING)
    return Failure(ready.reason, ready.message, Remedy.RETRY if goes_on else Remedy.SPEC)


def _stalls(problem: Failure) -> bool:
    return problem.remedy is not Remedy.RETRY


def _unclear(topic: KafkaTopic) -> Failure | None:
    """A pause that says neither yes nor no: the topic is left alone, and somebody has to say what is meant."""
    message = topic.meta.unclear_pause
    return Failure(Reason.INVALID_ANNOTATION, message, Remedy.SPEC) if message is not None else None


def _paused(topic: KafkaTopic, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    if not topic.meta.is_paused:
        return remove_condition(conditions, PAUSED)
    unclear = _unclear(topic)
    told = _Told(_TRUE, Reason.PAUSED, "the annotation rackspan.dev/paused leaves the topic alone")
    told = replace(told, reason=unclear.reason, message=unclear.message) if unclear is not None else told
    return _set(topic, conditions, PAUSED, told, now)


def _set(
    topic: KafkaTopic, conditions: tuple[Condition, ...], kind: str, told: _Told, now: datetime
) -> tuple[Condition, ...]:
    return set_condition(
        conditions, kind, told.status, told.reason, told.message, generation=topic.meta.generation, now=now
    )


def _where(replicas: Sequence[Sequence[int]], state: ClusterState) -> PlacementStatus:
    """Replicas and preferred leaders per domain, as many levels from the top as fit into a status."""
    racks = {row.id: row.rack or () for row in state.racks.rows}
    held: Counter[RackPath] = Counter()
    led: Counter[RackPath] = Counter()
    for row in replicas:
        for position, broker in enumerate(row):
            path = racks.get(broker, ())
            for depth in range(1, len(path) + 1):
                held[path[:depth]] += 1
                led[path[:depth]] += position == 0
    by_level = sorted(held, key=lambda path: (len(path), path))
    while len(by_level) > MAX_DOMAINS:
        by_level = [path for path in by_level if len(path) < len(by_level[-1])]
    return PlacementStatus(tuple(DomainPlacement(domain_name(path), held[path], led[path]) for path in by_level))


def _ids(brokers: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, brokers)) + "]"


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"
