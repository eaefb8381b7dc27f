"""The state of a topology, from its objects alone: what is wrong, why, and one next step. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from rackspan.api.conditions import (
    BROKERS_ONLINE,
    COMPLIANT,
    CONNECTED,
    DELETIONS_HELD,
    RACKS_IN_SYNC,
    READY,
    REASSIGNED,
    SCANNED,
    Condition,
    ConditionStatus,
    find_condition,
    is_false,
    is_true,
)
from rackspan.api.drains import Drains
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.plans import TopologyPlanStatus
from rackspan.api.racktopology import LastScan, RackTopology, ScanState
from rackspan.api.reasons import PLAN_GOES_ON, Reason
from rackspan.api.reassignment import Reassignment
from rackspan.cli.rendering.reassignment_line import sentence
from rackspan.cli.rendering.times import utc_time
from rackspan.cli.shared.drain_progress import in_words, never_moved, staying, ways_out
from rackspan.cli.shared.next_steps import connected_step, ready_step, scan_step
from rackspan.cli.shared.operator_lease import OperatorLease
from rackspan.core.copy_costs import removing, time_to_copy
from rackspan.core.text import few, plural, size
from rackspan.reconcile.plans.holds import PLAN_REASONS, approve_topology

_NAMED = 5
_BROKERS_NAMED = 10
_NOT_KNOWN = "not known yet"
_TOPICS_GO_ON = PLAN_GOES_ON | {Reason.CREATING, Reason.UPDATING, Reason.RACKS_SETTLING}
_WAITS: Mapping[str, str] = {
    Reason.PLAN_PENDING: "it waits for approval",
    Reason.STALE_APPROVAL: "the approved plan is not the current plan",
}
"""What a plan waits for. Replaces the condition's message, whose approval command is the next step already."""


class AspectState(IntEnum):
    """The state of one aspect, the worst last."""

    FINE = 0
    GOES_ON = 1
    WRONG = 2
    UNKNOWN = 3

    @property
    def word(self) -> str:
        """The state as printed."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Aspect:
    """One aspect: its state, a message, and the next step if the user has to act."""

    name: str
    state: AspectState
    message: str
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The aspects of a topology, the worst first."""

    topology: str
    cluster_id: str | None
    aspects: tuple[Aspect, ...]

    @property
    def state(self) -> AspectState:
        """The worst state of all aspects."""
        return max((one.state for one in self.aspects), default=AspectState.FINE)

    @property
    def step(self) -> str | None:
        """The one next step. Steps that copy and delete nothing come first."""
        steps = {one.name: one.step for one in self.aspects if one.step}
        return steps.get(min(steps, key=_STEPS.index, default=""))


_STEPS = (
    *("operator", "Kafka", "brokers", "racks", "topology", "deletions", "plan", "moves", "drains", "topics"),
    *("broker.rack", "scan"),
)
"""Aspects in the order in which their steps are suggested."""
_CURRENT: Mapping[str, Collection[str]] = {"operator": ("operator", "scan"), "Kafka": ("operator", "Kafka", "scan")}
"""By the unknown aspect: the aspects that stay valid. A scan is about a time in the past, which its message names."""


def situation(
    topology: RackTopology,
    topics: Sequence[KafkaTopic] | None,
    reassignments: Sequence[Reassignment],
    operator: OperatorLease | None = None,
) -> Situation:
    """Return the state of a topology. Without an operator or Kafka, old observations are never fine and have no step.

    `topics` is None if they cannot be listed; then only their counts are known. `operator` is None if it is not known
    whether the operator runs.
    """
    own = (_kafka, _topology, _brokers, _racks, _plan, _drains, _deletions, _scan)
    found = [
        *_operator(topology, operator),
        *(one for aspect in own for one in aspect(topology)),
        *_topics(topology, topics),
        *_moves(reassignments),
    ]
    unknown = [one.name for one in found if one.name in _CURRENT and one.state is AspectState.UNKNOWN]
    if unknown:
        found = [one if one.name in _CURRENT[unknown[0]] else _last_seen(one) for one in found]
    return Situation(str(topology.key), topology.status.cluster_id, tuple(sorted(found, key=lambda one: -one.state)))


def _last_seen(one: Aspect) -> Aspect:
    state = one.state if one.state is AspectState.WRONG else AspectState.UNKNOWN
    return replace(one, state=state, message=f"last seen: {one.message}", step=None)


def _operator(topology: RackTopology, lease: OperatorLease | None) -> Iterator[Aspect]:
    if lease is not None and lease.holder is None:
        step = f"see why it does not run: kubectl get pods --namespace {lease.key.namespace}"
        yield Aspect("operator", AspectState.UNKNOWN, lease.absence, step)
    elif topology.status.observed_generation != topology.meta.generation:
        message = f"the operator has not observed generation {topology.meta.generation} of the RackTopology yet"
        yield Aspect(
            "operator", AspectState.UNKNOWN, message, "check that the operator runs: kubectl get pods, and its log"
        )
    elif lease is not None:
        yield Aspect("operator", AspectState.FINE, f"{lease.holder} holds Lease {lease.key}")


def _kafka(topology: RackTopology) -> Iterator[Aspect]:
    connected = _condition(topology, CONNECTED)
    if connected is not None and connected.status == ConditionStatus.TRUE:
        yield Aspect("Kafka", AspectState.FINE, connected.message)
        return
    why = connected.message if connected else "the operator has not asked Kafka yet"
    since = f" since {utc_time(connected.last_transition_time)}" if connected else ""
    yield Aspect(
        "Kafka", AspectState.UNKNOWN, f"{why}{since}", connected_step(topology, connected.reason if connected else "")
    )


def _topology(topology: RackTopology) -> Iterator[Aspect]:
    """Yield what prevents the operator from acting on the topology."""
    ready = _condition(topology, READY)
    if ready is not None and ready.status != ConditionStatus.TRUE and is_true(topology.status.conditions, CONNECTED):
        step = ready_step(topology, ready.reason)
        yield Aspect("topology", AspectState.WRONG, f"{ready.reason}: {ready.message}", step)


def _brokers(topology: RackTopology) -> Iterator[Aspect]:
    count, offline = topology.status.broker_count, topology.status.offline
    if count is None:
        yield Aspect("brokers", AspectState.FINE, _NOT_KNOWN)
        return
    cordoned = [str(broker.id) for broker in topology.status.brokers if broker.cordoned]
    closed = f"; cordoned in Kafka, so that nothing new is placed there: {few(cordoned)}" if cordoned else ""
    if offline is None or not offline.count:
        yield Aspect("brokers", AspectState.FINE, f"{plural(count, 'broker')} online{closed}")
        return
    online = _condition(topology, BROKERS_ONLINE)
    known = AspectState.WRONG if online is None or online.status != ConditionStatus.UNKNOWN else AspectState.UNKNOWN
    ids = [*map(str, offline.brokers[:_BROKERS_NAMED])]
    more = f" and {offline.count - len(ids):,} more" if offline.count > len(ids) else ""
    away = ", ".join(ids) + more
    message = f"{count - offline.count:,} of {plural(count, 'broker')} online; offline: {away}{closed}"
    # Drain all together: while one is offline, the drain of another finds no place for replicas that need it.
    who, they_are = ("broker", "it is") if offline.count == 1 else ("brokers", "they are")
    drained = "ID..." if more else " ".join(ids)
    step = (
        f"start {who} {away}; only if {they_are} gone for good: rackspan drain {drained} --topology {topology.key}; "
        f"rackspan check --topology {topology.key} shows what has no leader"
    )
    yield Aspect("brokers", known, message, step)


def _racks(topology: RackTopology) -> Iterator[Aspect]:
    racks, drift = _condition(topology, RACKS_IN_SYNC), topology.status.drift
    fine = Aspect("racks", AspectState.FINE, topology.status.domain_summary or _NOT_KNOWN)
    if racks is None or racks.status != ConditionStatus.FALSE:
        yield fine
        return
    if topology.status.only_lacks_racks:
        yield fine
        step = "set broker.rack of each of these brokers to the rack of its node, and restart it"
        yield Aspect("broker.rack", AspectState.WRONG, racks.message, step)
        return
    wrong = "where the label of a node, spec.rackAliases or broker.rack is wrong"
    step = f"{wrong}, correct it first: then no replica has to move"
    plan = topology.status.plan
    if drift is not None and drift.topics is not None and plan is not None and plan.moves:
        step += f"; where the nodes are right, plan {plan.hash} {_cost(topology, plan)}"
    yield Aspect("racks", AspectState.WRONG, racks.message, step)


def _plan(topology: RackTopology) -> Iterator[Aspect]:
    plan, reassigned = topology.status.plan, _condition(topology, REASSIGNED)
    is_held = reassigned is not None and reassigned.status != ConditionStatus.TRUE
    if plan is None and not is_held:
        yield Aspect("plan", AspectState.FINE, reassigned.message if reassigned else _NOT_KNOWN)
        return
    cost = f"plan {plan.hash} {_cost(topology, plan)}; " if plan else ""
    # Until the operator has checked all topics, the condition is about the previous plan.
    if plan is None or reassigned is None or not is_held:
        yield Aspect("plan", AspectState.GOES_ON, f"{cost}it is being made")
        return
    waits = _WAITS.get(reassigned.reason, f"{reassigned.reason}: {reassigned.message}")
    state, step = AspectState.GOES_ON, None
    if reassigned.reason not in PLAN_GOES_ON:
        how = approve_topology(topology.key, plan.hash)
        state, step = AspectState.WRONG, f"look at it: rackspan plan --topology {topology.key}; {how}"
    yield Aspect("plan", state, f"{cost}{waits}", step)


def _cost(topology: RackTopology, plan: TopologyPlanStatus) -> str:
    """Return what a plan copies in replicas and bytes, how long that takes under the throttle, and what it removes."""
    throttle = topology.spec.reassignment.throttle
    bytes_ = size(plan.bytes, "an unknown number of bytes")
    copies = (
        f"{plural(plan.moves, 'replica')}, {bytes_}{time_to_copy(plan.bytes, throttle)}" if plan.moves else "nothing"
    )
    return f"copies {copies}{removing(plan.removals or 0)}"


def _drains(topology: RackTopology) -> Iterator[Aspect]:
    drains = topology.status.drains
    if not drains and not (topology.spec.drain_brokers or topology.spec.drain_racks):
        return
    left = [one for one in drains if one.drained is not True]
    if drains and not left:
        yield Aspect("drains", AspectState.FINE, f"{topology.status.drain_summary}: Kafka shows no replica there")
        return
    words = "; ".join(map(in_words, left[:_NAMED])) or "the operator has not observed them yet"
    unknown = {one.target for one in left if one.reason in (Reason.UNKNOWN_BROKER, Reason.UNKNOWN_RACK)}
    stuck = [one for one in left if staying([one], topology.spec)]
    step = None
    if unknown:
        drained = Drains.of(topology.spec)
        back = " ".join(word for word, name in zip(drained.arguments, drained.targets, strict=True) if name in unknown)
        step = (
            "correct spec.drainBrokers or spec.drainRacks, or take what does not exist off: "
            f"rackspan uncordon {back} --topology {topology.key}"
        )
    elif stuck:
        step = ways_out(never_moved(stuck, topology.spec))
    yield Aspect("drains", AspectState.WRONG if step else AspectState.GOES_ON, words, step)


def _deletions(topology: RackTopology) -> Iterator[Aspect]:
    held = _condition(topology, DELETIONS_HELD)
    if held is not None and held.status == ConditionStatus.TRUE:
        step = (
            "confirm the deletions with the kubectl annotate command in the message; to keep a topic, set "
            "spec.deletionPolicy: Retain in its KafkaTopic"
        )
        yield Aspect("deletions", AspectState.WRONG, held.message, step)


def _scan(topology: RackTopology) -> Iterator[Aspect]:
    """Yield the last scan and what it found, and why no other has followed if one should have."""
    last, scanned = topology.status.last_scan, _condition(topology, SCANNED)
    found = "" if last is None else _last_scan(last)
    if last is not None and last.state is ScanState.FAILED:
        yield Aspect("scan", AspectState.WRONG, found, scan_step(topology, last.reason))
    elif last is not None and last.finished_at is None:
        yield Aspect("scan", AspectState.GOES_ON, found)
    elif scanned is not None and scanned.status == ConditionStatus.FALSE and scanned.reason == Reason.SCAN_WAITING:
        yield Aspect("scan", AspectState.GOES_ON, scanned.message + (f"; {found}" if found else ""))
    elif scanned is not None and scanned.status == ConditionStatus.FALSE:
        message = f"{scanned.reason}: {scanned.message}" + (f"; {found}" if found else "")
        yield Aspect("scan", AspectState.WRONG, message, scan_step(topology, scanned.reason))
    elif last is not None:
        yield Aspect("scan", AspectState.FINE, found)


def _last_scan(last: LastScan) -> str:
    if last.state is ScanState.FAILED:
        return f"scan {last.scan_id} failed: {last.reason}: {last.message}"
    if last.finished_at is None:
        return f"scan {last.scan_id} runs"
    what = "has no report" if last.findings is None else f"found {plural(last.findings, 'finding')}"
    return f"scan {last.scan_id} of {utc_time(last.finished_at)} {what}"


def _topics(topology: RackTopology, topics: Sequence[KafkaTopic] | None) -> Iterator[Aspect]:
    counts = topology.status.topics
    if topics is None:
        if counts is not None:
            ready = f"{counts.ready:,} of {plural(counts.total, 'KafkaTopic')} ready"
            state = AspectState.FINE if counts.ready == counts.total else AspectState.WRONG
            yield Aspect("topics", state, f"{ready}, {counts.non_compliant:,} not compliant")
        return
    if not topics:
        others = f"topics in Kafka are not judged here, see: rackspan check --topology {topology.key}"
        yield Aspect("topics", AspectState.FINE, f"no KafkaTopics; {others}")
        return
    conditions = [(find_condition(one.status.conditions, READY), one) for one in topics]
    bad = [(ready, one) for ready, one in conditions if ready is None or ready.status != ConditionStatus.TRUE]
    pinned = sum((one.status.compliance.pinned or 0) for one in topics if one.status.compliance)
    hand = f"; {plural(pinned, 'partition')} unfair by an explicit assignment" if pinned else ""
    if not bad:
        yield Aspect("topics", AspectState.FINE, f"{plural(len(topics), 'KafkaTopic')} ready{hand}")
        return
    reasons = Counter(ready.reason if ready else "not reconciled yet" for ready, _ in bad)
    words = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    of = f"{len(topics) - len(bad):,} of {plural(len(topics), 'KafkaTopic')} ready"
    unfair = sum(is_false(one.status.conditions, COMPLIANT) for one in topics)
    message = f"{of}, {unfair:,} not compliant: {words}{hand}"
    wrong = [(ready, one) for ready, one in bad if ready is not None and ready.reason not in _TOPICS_GO_ON]
    if not wrong:
        yield Aspect("topics", AspectState.GOES_ON, message)
        return
    why, such = min(wrong, key=lambda pair: (-reasons[pair[0].reason], pair[1].key))
    step = f"kubectl describe kafkatopic {such.meta.name} --namespace {such.meta.namespace}"
    spread = find_condition(such.status.conditions, COMPLIANT)
    if why.reason in PLAN_REASONS and spread is not None and spread.status != ConditionStatus.TRUE:
        why = spread
    yield Aspect("topics", AspectState.WRONG, f"{message}; such as {such.key}: {why.message}", step)


def _moves(reassignments: Sequence[Reassignment]) -> Iterator[Aspect]:
    going = [one for one in reassignments if not one.ended]
    if not going:
        return
    first = going[0]
    more = f"; {plural(len(going) - 1, 'more Reassignment')} after it" if len(going) > 1 else ""
    why = f"; {first.status.message}" if first.status.message else ""
    state = AspectState.WRONG if first.spec.paused or first.status.failures else AspectState.GOES_ON
    step = f"kubectl describe reassignment {first.meta.name} --namespace {first.meta.namespace}"
    yield Aspect("moves", state, f"{sentence(first)}{why}{more}", step if state is AspectState.WRONG else None)


def _condition(topology: RackTopology, kind: str) -> Condition | None:
    return find_condition(topology.status.conditions, kind)
