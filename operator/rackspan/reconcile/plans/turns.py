"""Which topologies are served, and for each Reassignment its obstacles, intent and limits. Pure functions.

The operator writes no throttle and no limit into a Reassignment. If there is one, a person has written it, and it
applies to the later parts of the plan as well. Otherwise the current value of the RackTopology applies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from rackspan.api.policies import throttle_of
from rackspan.api.reassignment import ReassignmentState
from rackspan.core.rack_path import rack_or_none
from rackspan.core.reassignment import Limits
from rackspan.core.text import plural
from rackspan.reconcile.runtime.schedule import is_open
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment, ReassignmentSpec
    from rackspan.core.rack_path import RackPath
    from rackspan.core.reassignment import Adaptive
    from rackspan.reconcile.ports import Record


HISTORY: Final = 10
"""The number of ended plans that are kept for each topology."""
_PARTS_LATE_SECONDS: Final = 60.0
"""How long the creation of a plan's next part may take: each is a call to an API server that may be slow."""


class Intent(Enum):
    """What to do with a Reassignment now."""

    RUN = "run"
    PAUSE = "pause"
    CANCEL = "cancel"


def has_begun(one: Reassignment) -> bool:
    """Return whether the operator may have changed anything in Kafka for a Reassignment."""
    return one.status.started_at is not None or one.status.record is not None


def needs_work(one: Reassignment) -> bool:
    """Return whether anything is left to do: it has not ended, or its throttles or its finalizer are left."""
    return not one.ended or bool(one.status.throttles) or has_finalizer(one.meta)


def intent_of(one: Reassignment, others: Collection[Reassignment], topology: RackTopology, now: datetime) -> Intent:
    """Return what to do with a Reassignment whose turn it is, among `others` of its topology."""
    if one.meta.is_deleting or one.spec.cancelled:
        return Intent.CANCEL
    paused = topology.meta.is_paused or any(spec.paused for spec in _with_earlier(one, others))
    return Intent.PAUSE if paused or not is_open(topology.spec.reassignment.windows, now) else Intent.RUN


def paused_by(one: Reassignment, others: Collection[Reassignment]) -> str:
    """Return who has paused it, in words. A paused part pauses the later parts too, even if it has been moved."""
    paused = next((spec for spec in _with_earlier(one, others) if spec.paused), None)
    if paused is None:
        return "paused with its RackTopology, or outside of its windows"
    return f"paused by {_whose(paused, one)}"


def obstacle(
    one: Reassignment, others: Collection[Reassignment], unchanged_seconds: float
) -> tuple[ReassignmentState, str] | None:
    """Return the new state and why a Reassignment that has not begun cannot begin at its turn, or None if it can.

    `unchanged_seconds` is how long the same parts of its plan have been observed. All parts have to exist before the
    first one begins. Parts that are deleted later count as ended, unless they are missing between the last part that
    has begun and this one.
    """
    spec = one.spec
    plan = {two.spec.part: two for two in others if two.spec.plan_hash == spec.plan_hash}
    for part in range(1, spec.part):
        before = plan.get(part)
        ended = None if before is None else _given_up(before)
        if ended is not None:
            return ended, f"part {part} of the plan was {ended.lower()}, so this one is too"
    if one.status.state is ReassignmentState.PAUSED:
        return None  # it had no obstacle when its turn came
    begun = max((part for part, two in plan.items() if has_begun(two)), default=0)
    needed = range(begun + 1, spec.part) if begun else range(1, spec.parts + 1)
    missing = [part for part in needed if part not in plan]
    if not missing:
        return None
    first = f"part {missing[0]} of {spec.parts} of the plan is not there"
    if unchanged_seconds > _PARTS_LATE_SECONDS:
        return ReassignmentState.STOPPED, f"{first}: approve the plan again"
    return ReassignmentState.QUEUED, f"{first} yet"


def _given_up(part: Reassignment) -> ReassignmentState | None:
    """Return the state of a part that keeps later parts from beginning, or None if they may begin.

    A cancelled part cancels the later parts too, even if it was moved before the operator noticed. A part that ended in
    a state of a newer version may have been cancelled.
    """
    if part.status.state in (ReassignmentState.CANCELLED, ReassignmentState.STOPPED):
        return part.status.state
    if part.ended and part.status.state is None:
        return ReassignmentState.STOPPED
    return ReassignmentState.CANCELLED if part.spec.cancelled else None


@dataclass(frozen=True, slots=True)
class PlannedBrokers:
    """The brokers of a plan: their `racks` when the plan was made, and those `taken`, which get or keep replicas."""

    racks: Mapping[int, RackPath | None]
    taken: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the brokers of a record's plan."""
        taken = frozenset(broker for change in record.changes for broker in change.replicas)
        given = {broker for change in record.changes for broker in change.before}
        return cls({broker: record.racks.get(broker) for broker in sorted(taken | given)}, taken)


def racks_changed(planned: PlannedBrokers, topology: RackTopology) -> str | None:
    """Return a sentence about the first broker of a plan that is in another rack than planned, or None."""
    paths = {rack: rack_or_none(rack) for rack in {broker.rack for broker in topology.status.brokers}}
    now = {broker.id: paths[broker.rack] for broker in topology.status.brokers}
    for broker, then in planned.racks.items():
        found = now.get(broker)
        if then and found and then != found:
            return (
                f"broker {broker} was in rack /{'/'.join(then)} when the plan was made, and is in "
                f"/{'/'.join(found)} now"
            )
    return None


def brokers_gone(planned: PlannedBrokers, topology: RackTopology) -> str | None:
    """Return a sentence about planned brokers that the topology does not know any more, or None if there are none."""
    known = {broker.id for broker in topology.status.brokers}
    gone = sorted(planned.taken - known) if known and topology.status.lists_all_brokers else []
    if not gone:
        return None
    return f"{plural(len(gone), 'broker')} of the plan, such as {gone[0]}, {'is' if len(gone) == 1 else 'are'} gone"


def has_work(objects: Collection[Reassignment]) -> bool:
    """Return whether anything is left to do for the Reassignments of a topology, including deletions of old ones."""
    return any(map(needs_work, objects)) or bool(outlived(objects))


def outlived(objects: Collection[Reassignment]) -> Sequence[Reassignment]:
    """Return the ended Reassignments to delete: those without work left, except of the last and of unfinished plans.

    The last plans are the one that was created last, by the API server's clock, and those that ended last, by the
    operator's. So a plan that has just ended stays even if the operator's clock was set back.
    """
    kept = {one.spec.plan_hash for one in objects if not one.ended}
    ended = [one for one in objects if one.ended and not one.meta.is_deleting]
    created = sorted(ended, key=lambda one: one.meta.age, reverse=True)
    finished = sorted(created, key=lambda one: str(one.status.finished_at or ""), reverse=True)
    kept.update(islice(dict.fromkeys(one.spec.plan_hash for one in (*created[:1], *finished)), HISTORY))
    return [one for one in ended if one.spec.plan_hash not in kept and not needs_work(one)]


@dataclass(frozen=True, slots=True)
class Contender:
    """A topology that has a place or waits for one, and since when. If it `rests`, it has nothing to do now."""

    key: ObjectKey
    since: float
    rests: bool


def in_turn(contenders: Iterable[Contender], places: int) -> Sequence[ObjectKey]:
    """Return the topologies that get a place: one of each namespace, then a second one of each, and so on.

    In a namespace, and among namespaces with equally many, the topology that has waited longest goes first. Topologies
    that rest get the places that are left.
    """
    ranked, before = [], Counter[str]()
    for one in sorted(contenders, key=lambda one: (one.rests, one.since, one.key)):
        ranked.append((one.rests, before[one.key.namespace], one.since, one.key))
        before[one.key.namespace] += 1
    return [key for *_, key in sorted(ranked)[:places]]


@dataclass(frozen=True, slots=True)
class MoveRules:
    """The limits of a Reassignment, and its throttle: bytes per second and broker, adaptive, or None for no limit.

    `throttle_by` says who set the throttle, such as `its spec`. `drained` brokers have to lose all replicas.
    """

    limits: Limits
    throttle: int | Adaptive | None
    throttle_by: str
    drained: frozenset[int]


def rules_of(one: Reassignment, others: Collection[Reassignment], topology: RackTopology) -> MoveRules:
    """Return the rules of a Reassignment among `others` of its topology."""
    policy = topology.spec.reassignment
    parts = _with_earlier(one, others)
    drained = frozenset(broker.id for broker in topology.status.brokers if broker.draining)
    moves = (spec.max_concurrent_moves for spec in parts)
    per_broker = (spec.max_concurrent_moves_per_broker for spec in parts)
    limits = Limits(
        next(filter(None, moves), policy.max_concurrent_moves),
        next(filter(None, per_broker), policy.max_concurrent_moves_per_broker),
    )
    for spec in parts:
        throttle = throttle_of(spec.throttle, spec.adaptive_throttle)
        if throttle is not None:
            return MoveRules(limits, throttle, _whose(spec, one), drained)
    return MoveRules(limits, throttle_of(policy.throttle, policy.adaptive_throttle), "its RackTopology", drained)


def _with_earlier(one: Reassignment, others: Collection[Reassignment]) -> Sequence[ReassignmentSpec]:
    """Return the specs of a part and of the earlier parts of its plan, which also apply to it, the latest first."""
    plan = (two.spec for two in others if two.spec.plan_hash == one.spec.plan_hash and two.spec.part < one.spec.part)
    return [one.spec, *sorted(plan, key=lambda spec: spec.part, reverse=True)]


def _whose(spec: ReassignmentSpec, one: Reassignment) -> str:
    return "its spec" if spec is one.spec else f"the spec of part {spec.part}"
