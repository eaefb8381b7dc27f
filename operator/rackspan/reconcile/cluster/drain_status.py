"""The progress of drains: the replicas left on drained brokers and racks, and what their moves wait for. Pure.

A drain is done when Kafka shows no replica of any topic there. It is not done, or Unknown, while one of these is not
known: the broker, any broker in the rack, or the rack of a broker that might be in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from rackspan.api.conditions import COMPLIANT, READY, ConditionStatus, is_false, reason_of
from rackspan.api.racktopology import INTERNAL_PREFIX, MAX_DRAIN_SAMPLES, DrainBlock, DrainReplicas, DrainStatus
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import RackPath, domain_name, split_rack
from rackspan.core.text import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import RemainingReplicas

_NOT_ITS_TOPIC = frozenset(
    {
        Reason.TOPIC_CONFLICT,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.TOPIC_NAME_NOT_ALLOWED,
        Reason.INTERNAL_TOPIC,
        Reason.ADOPTION_NOT_ALLOWED,
        Reason.TOPIC_VANISHED,
        Reason.TOPIC_ID_MISMATCH,
        Reason.CLUSTER_ID_MISMATCH,
    }
)
"""The Ready reasons of objects whose topic is not the topic of that name in Kafka."""
_MAX_NAMED = 10
_WAITING_FOR = {
    Reason.PLAN_PENDING: "to move by the plan",
    Reason.INFEASIBLE: "with no other place",
    Reason.MISSING_RACKS: "not planned while racks are not known",
    Reason.EXPLICIT_ASSIGNMENT: "assigned there explicitly",
    Reason.NOT_MANAGED: "of topics without a KafkaTopic",
    Reason.INTERNAL_TOPIC: "of Kafka's own topics",
    Reason.WAITING: "not planned yet",
}


@dataclass(frozen=True, slots=True)
class _Target:
    """A broker or rack to drain, by broker ids; why it is unknown, and why more brokers may belong to it."""

    name: str
    brokers: frozenset[int]
    unknown: tuple[Reason, str] | None
    uncertainty: str | None = None


@dataclass(frozen=True, slots=True)
class _Owners:
    """The KafkaTopics by topic name, and a plan's parts by topic, which override the KafkaTopics' statuses."""

    state: ClusterState
    managed: Mapping[str, KafkaTopic]
    by_plan: Mapping[str, TopicPlan]
    leaving: Mapping[str, Mapping[int, int]]
    """How many replicas of each topic in `by_plan` leave each broker."""
    assigned: Mapping[str, frozenset[int]]
    """The brokers of the KafkaTopics' explicit assignments."""


def drain_statuses(
    state: ClusterState,
    remaining: RemainingReplicas | None,
    topics: Iterable[KafkaTopic],
    by_plan: Mapping[str, TopicPlan] = MappingProxyType({}),
) -> tuple[DrainStatus, ...]:
    """Return the status of each drain in the topology's spec, finished drains last.

    `remaining` is Kafka's last response about the drained brokers, None before the first response. `by_plan` has a
    plan's parts by topic. For other topics, their KafkaTopic's status says whether a plan exists.
    """
    targets = [*_brokers(state, remaining), *_racks(state)]
    if not targets:
        return ()
    managed = {
        topic.topic_name: topic
        for topic in topics
        if topic.status.topic_id is not None and reason_of(topic.status.conditions, READY) not in _NOT_ITS_TOPIC
    }
    leaving = {name: part.changes.leaving() for name, part in by_plan.items()}
    assigned = {
        name: frozenset(chain.from_iterable(topic.spec.placement.assignment))
        for name, topic in managed.items()
        if topic.spec.placement.assignment
    }
    owners = _Owners(state, managed, by_plan, leaving, assigned)
    found = [_drain_status(target, owners, remaining) for target in targets]
    return tuple(sorted(found, key=lambda drain: drain.drained is True))


def drained_condition(drains: Sequence[DrainStatus]) -> tuple[ConditionStatus, Reason, str]:
    """Return the condition Drained: status, reason and message. False if any drain is certainly not done."""
    for drain in drains:
        if drain.reason in (Reason.UNKNOWN_BROKER, Reason.UNKNOWN_RACK):
            return ConditionStatus.FALSE, Reason(drain.reason), drain.message
    for drain in drains:
        if drain.drained is False:
            return ConditionStatus.FALSE, Reason.DRAINING, f"{summary(drains)}; {drain.target}: {drain.message}"
    for drain in drains:
        if drain.drained is None:
            return ConditionStatus.UNKNOWN, Reason(drain.reason), f"{drain.target}: {drain.message}"
    return ConditionStatus.TRUE, Reason.DRAINED, f"{summary(drains)}: Kafka shows no replica there"


def summary(drains: Sequence[DrainStatus]) -> str:
    """Return a summary such as `1 of 2 drained, 12 replicas left`."""
    done = sum(drain.drained is True for drain in drains)
    left = sum(drain.replicas.total for drain in drains if drain.replicas)
    return f"{done} of {len(drains)} drained" + (f", {plural(left, 'replica')} left" if left else "")


def _brokers(state: ClusterState, remaining: RemainingReplicas | None) -> Iterable[_Target]:
    known = {row.id for row in state.racks.rows} | set(state.load.holders)
    for broker in state.spec.drain_brokers:
        is_known = broker in known or (remaining is not None and bool(remaining.replicas.get(broker)))
        message = (
            f"no broker {broker} is known: Kafka lists none, no pod runs it and no replica is on it; correct "
            "spec.drainBrokers, or take it off that list if it has been decommissioned"
        )
        unknown = Reason.UNKNOWN_BROKER, message
        yield _Target(str(broker), frozenset({broker}), None if is_known else unknown)


def _racks(state: ClusterState) -> Iterable[_Target]:
    rackless = sorted(
        {row.id for row in state.racks.missing} | (set(state.load.holders) - {r.id for r in state.racks.rows})
    )
    uncertain = f"no rack is known of brokers {', '.join(map(str, rackless[:_MAX_NAMED]))}, which may be in this rack"
    # A temporarily wrong label takes no broker out of a rack, and so ends no drain of the rack.
    seen = [*state.racks.known_racks.items(), *state.for_plans.racks.known_racks.items()]
    below: defaultdict[RackPath, set[int]] = defaultdict(set)
    for broker, rack in seen:
        for steps in range(1, len(rack) + 1):
            below[rack[:steps]].add(broker)
    for path in dict.fromkeys(map(split_rack, state.spec.drain_racks)):
        brokers = frozenset(below[path])
        name = domain_name(path)
        message = f"no broker is in {name}: correct spec.drainRacks, or take it off that list if all have gone"
        unknown = Reason.UNKNOWN_RACK, f"{message}; {uncertain}" if rackless else message
        yield _Target(name, brokers, None if brokers else unknown, uncertain if rackless else None)


def _drain_status(target: _Target, owners: _Owners, remaining: RemainingReplicas | None) -> DrainStatus:
    if target.unknown is not None:
        reason, message = target.unknown
        return DrainStatus(target.name, reason, message, drained=False)
    count = len(target.brokers)
    if remaining is None or not target.brokers <= remaining.replicas.keys():
        return DrainStatus(target.name, Reason.WAITING, "its replicas have not been read from Kafka yet", count)
    left, blocks = _replicas_left({one: remaining.replicas[one] for one in target.brokers}, owners)
    if left.total:
        why = ", ".join(
            f"{block.replicas} {_WAITING_FOR[Reason(block.reason)]}{_why(block, owners)}" for block in blocks
        )
        drained, reason, message = False, Reason.DRAINING, f"{plural(left.total, 'replica')} left: {why}"
    elif target.uncertainty is not None:
        drained, reason, message = None, Reason.MISSING_RACKS, target.uncertainty
    else:
        drained, reason, message = True, Reason.DRAINED, "Kafka shows no replica there"
    return DrainStatus(target.name, reason, message, count, drained, left, blocks, remaining.at)


def _why(block: DrainBlock, owners: _Owners) -> str:
    """Return why a plan finds no other place for the replicas of the first topic for which that is known."""
    if block.reason != Reason.INFEASIBLE:
        return ""
    known = ((name, owners.by_plan[name].problems[:1]) for name in block.samples if name in owners.by_plan)
    return next((f" ({name}: {one.reason}: {one.smallest_change})" for name, some in known for one in some), "")


def _replicas_left(
    held: Mapping[int, Mapping[str, int]], owners: _Owners
) -> tuple[DrainReplicas, tuple[DrainBlock, ...]]:
    """Return the replicas left on the brokers of a target, from `held`, the replicas by broker and topic."""
    by_reason: defaultdict[Reason, Counter[str]] = defaultdict(Counter)
    replicas: Counter[str] = Counter()
    for broker, topics in held.items():
        replicas.update(topics)
        for name, count in topics.items():
            leave = min(count, owners.leaving.get(name, {}).get(broker, 0))
            if leave:
                by_reason[Reason.PLAN_PENDING][name] += leave
            if count > leave:
                by_reason[_waits_for(name, held.keys(), owners)][name] += count - leave
    sums = {reason: sum(topics.values()) for reason, topics in by_reason.items()}
    total, explicit = sum(sums.values()), sums.get(Reason.EXPLICIT_ASSIGNMENT, 0)
    without = {name: count for name, count in replicas.items() if name not in owners.managed}
    internal = sum(count for name, count in without.items() if name.startswith(INTERNAL_PREFIX))
    unmanaged = sum(without.values()) - internal
    blocks = tuple(
        DrainBlock(reason, len(topics), sums[reason], tuple(sorted(topics)[:MAX_DRAIN_SAMPLES]))
        for reason, topics in sorted(by_reason.items(), key=lambda item: (-sums[item[0]], item[0]))
    )
    return DrainReplicas(total, total - explicit - unmanaged - internal, explicit, unmanaged, internal), blocks


def _waits_for(name: str, brokers: Collection[int], owners: _Owners) -> Reason:
    """Return what a topic's replicas on these brokers that do not leave by the plan wait for, as far as known."""
    topic, state = owners.managed.get(name), owners.state
    if not owners.assigned.get(name, frozenset()).isdisjoint(brokers):
        return Reason.EXPLICIT_ASSIGNMENT
    planned = owners.by_plan.get(name)
    if planned is not None:
        return Reason.INFEASIBLE if planned.problems else Reason.PLAN_PENDING
    if topic is None:
        return Reason.INTERNAL_TOPIC if name.startswith(INTERNAL_PREFIX) else Reason.NOT_MANAGED
    if topic.status.plan is not None:
        return Reason.PLAN_PENDING
    if state.racks.missing and not state.racks.ignore_missing:
        return Reason.MISSING_RACKS
    return Reason.INFEASIBLE if is_false(topic.status.conditions, COMPLIANT) else Reason.WAITING
