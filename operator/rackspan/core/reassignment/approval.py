"""
Approval: which parts of a plan may begin now, and what the others wait for.

A part may begin if a person has approved a hash that names it: its own, that of its namespace's parts or that of the
whole plan. Or its topic's policy lets it begin by itself, if it has been the same for a while and its namespace is
within its share of the limits. Whoever approved it, it begins only while nothing else is under way and a window is
open. A hash is that of a plan that was made from what is there now, so a person never approves anything that was not
looked at.

Each part is judged by what is known of itself and its namespace: parts that wait hold up no part of another namespace.

LIMITS
All that begins by itself at one time is within the limits. The first namespace, which is the topology's own, may use
all of them. The others share what is left equally; what a namespace does not need is shared by those that need more. A
namespace gets all that it needs, or nothing: what needs more than its share waits for a person.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ApprovalHold(StrEnum):
    """What a part of a plan waits for. In the order in which they go before one another."""

    PAUSED = "Paused"
    """The annotation on its topic to go."""
    DELETING = "Deleting"
    """Its topic's object to go: it is being deleted."""
    BUSY = "Busy"
    """The end of what is under way."""
    STALE = "Stale"
    """Approval: somebody has approved another plan than this one."""
    LIMIT = "Limit"
    """Approval: its namespace is above its share of the limits of what begins by itself."""
    APPROVAL = "Approval"
    """Approval."""
    TOPOLOGY_DELETING = "TopologyDeleting"
    """The topology to go: it is being deleted."""
    TOPOLOGY_PAUSED = "TopologyPaused"
    """The annotation on the topology to go."""
    WINDOW = "Window"
    """A window to open."""
    SETTLING = "Settling"
    """The racks, or the part where it begins by itself, to have been the same for a while."""


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
    """
    One topic's part of a plan that changes something.

    `hash` is its own, `names` are all hashes that name it on the topology: its own, and those of sets of parts that it
    belongs to. `moves` are replicas to be copied, `bytes` None where their size is not known. `automatic` says whether
    the topic's policy lets it begin by itself, `settled` whether it has been the same for long enough. `approved` are
    hashes that people have approved on the topic's own object, `held` is what the object holds it up for.
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
    """
    What holds for all parts.

    `max_moves` and `max_bytes` limit what begins by itself, None for no limit; the namespace `first` comes before the
    others. `busy`: something is under way. `held` is what the topology holds up all parts for.
    """

    max_moves: int | None = None
    max_bytes: int | None = None
    busy: bool = False
    held: ApprovalHold | None = None
    steady: bool = True
    """Whether all brokers' racks have lasted."""
    first: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """What the parts of a namespace copy by themselves. The size of `unknown` of them is not known."""

    moves: int = 0
    bytes: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class ApprovalOutcome(Generic[K]):
    """
    Which parts begin now and by whose approval, and what each of the others waits for, both by topic.

    `stale` are hashes that somebody has approved on the topology and that name no part, while parts wait for approval.
    `above` says what the namespaces need that are above their shares of the limits.
    """

    approved: Mapping[K, Approver] = field(default_factory=dict)
    holds: Mapping[K, ApprovalHold] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    above: Mapping[str, Need] = field(default_factory=dict)


def judge_approval(parts: Mapping[K, PlanPart], approved_plans: Collection[str], terms: Terms) -> ApprovalOutcome[K]:
    """Say which parts of a plan may begin; people have approved `approved_plans` on the topology."""
    asked = {topic: _asked(part, approved_plans) for topic, part in parts.items()}
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
    """What those namespaces need that are not within their shares of the limits."""
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
    """Whether a namespace needs no more than its share of what is left."""
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
