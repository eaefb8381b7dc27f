"""Approval: decides which parts of a plan may start now, and what the other parts wait for.

A part may start if a person has approved a hash that names it: the hash of the part, of all parts in its namespace, or
of the whole plan. A part may also start automatically if its topic's policy allows this, the part has not changed for a
while, and its namespace is within its share of the limits. In each case the part starts only while nothing else is
under way and a window is open. A hash is computed from the plan for the current state, so an approval never applies to
a plan that the person has not seen.

Each part is judged by its own state and by its namespace. Parts that wait do not delay parts of other namespaces.

LIMITS
All parts that start automatically at one time are within the limits together. The first namespace is the topology's
own and may use all of the limits. The other namespaces share the rest equally. If a namespace needs less than its
share, those that need more share the remainder. If a namespace needs more than its share, it gets nothing, and its
parts wait for a person's approval.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ApprovalHold(StrEnum):
    """The reason why a part of a plan waits, in order of precedence."""

    PAUSED = "Paused"
    """An annotation pauses the topic."""
    DELETING = "Deleting"
    """The topic's object is being deleted."""
    BUSY = "Busy"
    """Something else is under way."""
    STALE = "Stale"
    """The part needs approval. A person has approved a different hash on the topic's object."""
    LIMIT = "Limit"
    """The part needs approval. Its namespace exceeds its share of the limits for automatic starts."""
    APPROVAL = "Approval"
    """The part needs approval."""
    TOPOLOGY_DELETING = "TopologyDeleting"
    """The topology is being deleted."""
    TOPOLOGY_PAUSED = "TopologyPaused"
    """An annotation pauses the topology."""
    WINDOW = "Window"
    """No window is open."""
    SETTLING = "Settling"
    """The racks have changed recently, or the part has and would start automatically."""


class Approver(StrEnum):
    """Who or what has approved a part."""

    PLAN = "Plan"
    """A person, on the topology."""
    TOPIC = "Topic"
    """A person, on the topic's object."""
    POLICY = "Policy"
    """The topic's policy."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """One topic's part of a plan, if the part changes something.

    `hash` is its own hash. `names` are all hashes that name the part on the topology: its own, and those of the sets of
    parts that contain it. `moves` is the number of replicas to copy, `bytes` their size, None if unknown. `automatic`
    says whether the topic's policy lets the part start automatically, `settled` whether it has been the same for long
    enough. `approved` are the hashes that people have approved on the topic's object, `held` is that object's hold.
    """

    hash: str
    moves: int
    bytes: int | None = None
    automatic: bool = False
    approved: frozenset[str] = frozenset()
    held: ApprovalHold | None = None
    namespace: str = ""
    names: frozenset[str] = frozenset()
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions that apply to all parts.

    `max_moves` and `max_bytes` limit what starts automatically, None for no limit. The namespace `first` comes before
    the others. `busy` says whether something is under way. `held` is the topology's hold on all parts.
    """

    max_moves: int | None = None
    max_bytes: int | None = None
    busy: bool = False
    held: ApprovalHold | None = None
    steady: bool = True
    """Whether the racks of all brokers have been the same for long enough."""
    first: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """The copies of a namespace's parts that start automatically. The size of `unknown` parts is not known."""

    moves: int = 0
    bytes: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class ApprovalOutcome(Generic[K]):
    """The parts that start now with their approver, and the holds of the other parts, both by topic.

    `stale` are hashes that are approved on the topology but name no part; empty unless a part waits for approval.
    `above` are the needs of the namespaces that exceed their shares of the limits.
    """

    approved: Mapping[K, Approver] = field(default_factory=dict)
    holds: Mapping[K, ApprovalHold] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    above: Mapping[str, Need] = field(default_factory=dict)


def judge_approval(
    parts: Mapping[K, PlanPart],
    approved_plans: Collection[str],
    terms: Terms,
    above: Mapping[str, Need] | None = None,
) -> ApprovalOutcome[K]:
    """Return which parts of a plan may start. `approved_plans` are the hashes that people approved on the topology.

    If these are not all parts of the plan, `above` is that of the outcome for all of them.
    """
    asked = {topic: _asked(part, approved_plans) for topic, part in parts.items()}
    if above is None:
        above = _above_share([parts[topic] for topic, who in asked.items() if who is Approver.POLICY], terms)
    approved, holds = {}, {}
    for topic, who in asked.items():
        hold = _hold(parts[topic], who, terms, above)
        if hold is not None:
            holds[topic] = hold
        elif who is not None:
            approved[topic] = who
    named = frozenset[str]().union(*(part.names for part in parts.values()))
    stale = frozenset(approved_plans) - named if ApprovalHold.APPROVAL in holds.values() else frozenset[str]()
    return ApprovalOutcome(approved, holds, stale, above)


def _asked(part: PlanPart, approved_plans: Collection[str]) -> Approver | None:
    if part.held is not None:
        return None
    if not part.names.isdisjoint(approved_plans):
        return Approver.PLAN
    if part.hash in part.approved:
        return Approver.TOPIC
    return Approver.POLICY if part.automatic else None


def _above_share(parts: Iterable[PlanPart], terms: Terms) -> Mapping[str, Need]:
    """Return the needs of the namespaces that exceed their shares of the limits."""
    needs: dict[str, Need] = {}
    for part in parts:
        if part.moves:
            sofar = needs.get(part.namespace, Need())
            known = part.bytes or 0
            needs[part.namespace] = Need(
                sofar.moves + part.moves, sofar.bytes + known, sofar.unknown + (part.bytes is None)
            )
    left = terms
    if terms.first in needs and _fits(needs[terms.first], left):
        left = _without(left, needs.pop(terms.first))
    sharing = {name for name, need in needs.items() if name != terms.first and _fits(need, left)}
    while within := [name for name in sharing if _fits(needs[name], left, len(sharing))]:
        for name in within:
            left = _without(left, needs.pop(name))
        sharing.difference_update(within)
    return needs


def _fits(need: Need, left: Terms, sharing: int = 1) -> bool:
    """Return whether a namespace needs no more than its share if `sharing` namespaces share what is left."""
    if left.max_moves is not None and need.moves * sharing > left.max_moves:
        return False
    return left.max_bytes is None or (not need.unknown and need.bytes * sharing <= left.max_bytes)


def _without(left: Terms, need: Need) -> Terms:
    moves, size = left.max_moves, left.max_bytes
    return replace(
        left,
        max_moves=None if moves is None else moves - need.moves,
        max_bytes=None if size is None else size - need.bytes,
    )


def _hold(part: PlanPart, who: Approver | None, terms: Terms, above: Collection[str]) -> ApprovalHold | None:
    if part.held is not None:
        return part.held
    if terms.busy:
        return ApprovalHold.BUSY
    if who is None:
        return ApprovalHold.STALE if part.approved else ApprovalHold.APPROVAL
    if who is Approver.POLICY and part.moves and part.namespace in above:
        return ApprovalHold.LIMIT
    if terms.held is not None:
        return terms.held
    if not terms.steady or (who is Approver.POLICY and not part.settled):
        return ApprovalHold.SETTLING
    return None
