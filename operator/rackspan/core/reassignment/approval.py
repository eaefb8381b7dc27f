"""
Approval: which parts of a plan may begin now, and what the others wait for.

A part may begin if a person has named its hash, or that of the whole plan, or if its topic's policy lets it begin by
itself and all that would begin so is below the limits. Whoever approved it, it begins only while nothing else is under
way and a window is open. A hash is that of a plan that was made from what is there now, so a person never approves
anything that was not looked at.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Hold(StrEnum):
    """What a part of a plan waits for. In the order in which they go before one another."""

    PAUSED = "Paused"
    """The annotation on its topic to go."""
    BUSY = "Busy"
    """The end of what is under way."""
    STALE = "Stale"
    """Approval: somebody has approved another plan than this one."""
    LIMIT = "Limit"
    """Approval: it is above a limit of what begins by itself."""
    APPROVAL = "Approval"
    """Approval."""
    WINDOW = "Window"
    """A window to open."""
    SETTLING = "Settling"
    """The racks, or the plan where it begins by itself, to have been the same for a while."""


class Approver(StrEnum):
    """Who or what has approved a part."""

    PLAN = "Plan"
    """A person, the whole plan."""
    TOPIC = "Topic"
    """A person, this part."""
    POLICY = "Policy"
    """The topic's policy."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """
    One topic's part of a plan that changes something.

    `moves` are replicas to be copied, `bytes` None where their size is not known. `automatic` says whether the topic's
    policy lets it begin by itself, `approved` are hashes that people have approved for this topic.
    """

    hash: str
    moves: int
    bytes: int | None = None
    automatic: bool = False
    approved: frozenset[str] = frozenset()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """
    What holds for all parts.

    `max_moves` and `max_bytes` limit what begins by itself, None for no limit. `busy`: something is under way. `open`:
    it is the time for it. `settled`: the plan has been the same for long enough to begin by itself.
    """

    max_moves: int | None = None
    max_bytes: int | None = None
    busy: bool = False
    open: bool = True
    settled: bool = True
    steady: bool = True
    """Whether all brokers' racks have lasted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    Which parts begin now and by whose approval, and what each of the others waits for, both by topic.

    `stale`: somebody has approved all of another plan than this one, and parts of this one wait for approval.
    """

    approved: Mapping[str, Approver] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    stale: bool = False


def judge_approval(parts: Mapping[str, PlanPart], whole: str, approved_plans: Collection[str], terms: Terms) -> Verdict:
    """Say what may begin of a plan with the hash `whole`; people have approved `approved_plans` for all of it."""
    asked = {topic: _asked(part, whole, approved_plans) for topic, part in parts.items()}
    too_much = _above_limit([parts[topic] for topic, who in asked.items() if who is Approver.POLICY], terms)
    approved, holds = {}, {}
    for topic, who in asked.items():
        hold = _hold(parts[topic], who, terms, too_much=too_much)
        if hold is not None:
            holds[topic] = hold
        elif who is not None:
            approved[topic] = who
    stale = bool(approved_plans) and whole not in approved_plans and Hold.APPROVAL in holds.values()
    return Verdict(approved, holds, stale)


def _asked(part: PlanPart, whole: str, approved_plans: Collection[str]) -> Approver | None:
    if part.paused:
        return None
    if whole in approved_plans:
        return Approver.PLAN
    if part.hash in part.approved:
        return Approver.TOPIC
    return Approver.POLICY if part.automatic else None


def _above_limit(parts: Iterable[PlanPart], terms: Terms) -> bool:
    """Whether what would begin by itself is more than is allowed, or may be."""
    moving = [part for part in parts if part.moves]
    if terms.max_moves is not None and sum(part.moves for part in moving) > terms.max_moves:
        return True
    if terms.max_bytes is None:
        return False
    sizes = [part.bytes for part in moving]
    known = [size for size in sizes if size is not None]
    return len(known) < len(sizes) or sum(known) > terms.max_bytes


def _hold(part: PlanPart, who: Approver | None, terms: Terms, *, too_much: bool) -> Hold | None:
    if part.paused:
        return Hold.PAUSED
    if terms.busy:
        return Hold.BUSY
    if who is None:
        return Hold.STALE if part.approved else Hold.APPROVAL
    if who is Approver.POLICY and part.moves and too_much:
        return Hold.LIMIT
    if not terms.open:
        return Hold.WINDOW
    if not terms.steady or (who is Approver.POLICY and not terms.settled):
        return Hold.SETTLING
    return None
