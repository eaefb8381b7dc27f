"""What a plan waits for, as texts in the conditions of KafkaTopics and RackTopologies. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import ApprovalHold, Need
from rackspan.core.text import be, plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rackspan.api.meta import ObjectKey
    from rackspan.api.policies import TopologyReassignment

REASON_OF: Final = {
    None: Reason.REASSIGNING,
    ApprovalHold.PAUSED: Reason.PAUSED,
    ApprovalHold.DELETING: Reason.DELETING,
    ApprovalHold.BUSY: Reason.REASSIGNING,
    ApprovalHold.STALE: Reason.STALE_APPROVAL,
    ApprovalHold.LIMIT: Reason.PLAN_ABOVE_LIMIT,
    ApprovalHold.APPROVAL: Reason.PLAN_PENDING,
    ApprovalHold.TOPOLOGY_DELETING: Reason.DELETING,
    ApprovalHold.TOPOLOGY_PAUSED: Reason.PAUSED,
    ApprovalHold.WINDOW: Reason.OUTSIDE_WINDOW,
    ApprovalHold.SETTLING: Reason.PLAN_SETTLING,
}
"""The reasons of the condition Ready of a topic with a plan; None is the hold of an approved part that begins."""
_SENTENCES: Final = {
    None: "it is approved, and begins now",
    ApprovalHold.PAUSED: "it waits for the annotation rackspan.dev/paused to go",
    ApprovalHold.DELETING: "it does not begin: the KafkaTopic is being deleted",
    ApprovalHold.SETTLING: "it begins once racks and plan have stayed the same for a while",
}
PLAN_REASONS: Final = frozenset({*REASON_OF.values(), Reason.PLAN_PENDING} - {Reason.PAUSED, Reason.DELETING})
"""The reasons of the condition Ready of topics with a plan."""
SHOW_APPROVAL: Final = frozenset({None, ApprovalHold.TOPOLOGY_PAUSED, ApprovalHold.WINDOW, ApprovalHold.SETTLING})
"""The holds that only approved parts have, so that statuses show the approval; None is that of a part that begins."""
PLAN_SETTLE_SECONDS = 15.0
"""How long a plan has to stay the same before it starts automatically."""


@dataclass(frozen=True, slots=True)
class PlanHold:
    """What a topic's plan waits for, in a sentence, and the Reassignment that the same plan was begun as."""

    reason: Reason
    message: str
    begun: str | None = None


@dataclass(frozen=True, slots=True)
class HoldContext:
    """The data for sentences about holds: the Reassignment under way, when a window opens, and the limits."""

    topology: ObjectKey
    reassignment: TopologyReassignment
    busy: str | None
    opens: datetime | None
    wrong_window: str | None
    begun: Mapping[ObjectKey, str]
    """The ended Reassignments that the same parts were begun as."""
    above: Mapping[str, Need]
    """The needs of namespaces that exceed their shares of the limits."""


def sharing(key: ObjectKey, own: str) -> str:
    """Return the namespace whose share limits a part: for topics without a KafkaTopic, `own`, the topology's."""
    return key.namespace or own


def topic_hold(
    hold: ApprovalHold | None, key: ObjectKey, plan_hash: str, around: HoldContext, *, may_approve: bool
) -> PlanHold:
    """Return what one topic's part waits for; `may_approve` says whether its own object can approve it."""
    how = _approve("kafkatopics.rackspan.dev", key, plan_hash)
    if hold is ApprovalHold.STALE:
        message = f"the approved plan is not the current plan; {how}"
    elif hold is ApprovalHold.APPROVAL and not may_approve:
        message = f"it waits for approval on RackTopology {around.topology}"
    else:
        message = sentence(hold, key, how, around)
    return PlanHold(REASON_OF[hold], message, around.begun.get(key))


def sentence(hold: ApprovalHold | None, key: ObjectKey | None, how: str, around: HoldContext) -> str:
    """Return what a plan waits for, by the hold of the part of `key`; `how` says how to approve it."""
    begun = around.begun.get(key) if key is not None else None
    match hold:
        case _ if hold in _SENTENCES:
            return _SENTENCES[hold]
        case ApprovalHold.TOPOLOGY_DELETING:
            return f"it does not begin: RackTopology {around.topology} is being deleted"
        case ApprovalHold.TOPOLOGY_PAUSED:
            return f"it waits for the annotation rackspan.dev/paused of RackTopology {around.topology} to go"
        case ApprovalHold.BUSY:
            return f"Reassignment {around.busy} is under way; what is left is planned for once it has ended"
        case ApprovalHold.LIMIT:
            return f"it is too large to begin by itself ({_limits(key, around)}); {how}"
        case ApprovalHold.WINDOW if around.wrong_window is not None:
            return f"it waits for a window, and none ever opens: {around.wrong_window}"
        case ApprovalHold.WINDOW:
            when = "at no time" if around.opens is None else f"at {around.opens:%Y-%m-%d %H:%M} UTC"
            return f"it waits for a window, which opens {when}"
        case _ if begun is not None:
            return f"Reassignment {begun} was to carry it out, and ended before; to begin it again, {how}"
        case _:
            return f"it waits for approval; {how}"


def approve_topology(key: ObjectKey, plan_hash: str) -> str:
    """Return how to approve a whole plan."""
    return _approve("racktopologies.rackspan.dev", key, plan_hash)


def _approve(kind: str, key: ObjectKey, plan_hash: str) -> str:
    return (
        f"to approve it: kubectl annotate --overwrite --namespace {key.namespace} {kind} {key.name} "
        f"{APPROVE_PLAN}={plan_hash}"
    )


def _limits(key: ObjectKey | None, around: HoldContext) -> str:
    """Return the limits, and what the namespace of a part needs; other namespaces do not change this text."""
    terms, own = around.reassignment, around.topology.namespace
    name = own if key is None else sharing(key, own)
    need = around.above.get(name, Need())
    phrases = [f"plans of namespace {name} copy {plural(need.moves, 'replica')}"]
    if terms.max_moves is not None:
        phrases.append(f"maxMoves is {terms.max_moves:,} for all namespaces together")
    if terms.max_bytes is not None:
        phrases.append(f"maxBytes is {terms.max_bytes:,}")
        if need.unknown:
            phrases.append(f"how large {plural(need.unknown, 'topic')} {be(need.unknown)} is not known")
    return ", ".join(phrases)
