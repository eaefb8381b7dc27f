"""What a plan waits for, as conditions of KafkaTopics and RackTopologies tell it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Hold
from rackspan.core.text import be, plural

if TYPE_CHECKING:
    from datetime import datetime

    from rackspan.api.meta import ObjectKey
    from rackspan.api.policies import TopologyReassignment

REASON_OF: Final = {
    None: Reason.REASSIGNING,
    Hold.PAUSED: Reason.PAUSED,
    Hold.BUSY: Reason.REASSIGNING,
    Hold.STALE: Reason.STALE_APPROVAL,
    Hold.LIMIT: Reason.PLAN_ABOVE_LIMIT,
    Hold.APPROVAL: Reason.PLAN_PENDING,
    Hold.WINDOW: Reason.OUTSIDE_WINDOW,
    Hold.SETTLING: Reason.PLAN_SETTLING,
}
"""The reason of Ready of a topic with a plan; None is for one that is approved and begins."""
PLAN_REASONS: Final = frozenset({*REASON_OF.values(), Reason.PLAN_PENDING} - {Reason.PAUSED})
"""Reasons of Ready of topics with a plan."""
GOES_ON: Final = frozenset({Reason.REASSIGNING, Reason.OUTSIDE_WINDOW, Reason.PLAN_SETTLING})
"""Those of them that go on without a person."""
SETTLE_SECONDS = 15.0
"""How long a plan has to have been the same before it begins by itself."""


@dataclass(frozen=True, slots=True)
class PlanHold:
    """What a topic's plan waits for, in a sentence."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What sentences about holds name: the Reassignment under way, when a window opens, and the limits."""

    topology: ObjectKey
    reassignment: TopologyReassignment
    busy: str | None = None
    opens: datetime | None = None
    wrong_window: str | None = None
    begun: str | None = None
    """The Reassignment that this very plan was begun as, and that has ended."""
    without_size: int = 0
    """Topics of which it is not known how many bytes are to be copied."""


def topic_hold(
    hold: Hold | None, key: ObjectKey, plan_hash: str, around: Surroundings, *, may_approve: bool
) -> PlanHold:
    """What one topic's part waits for; `may_approve` tells whether its own object can approve it."""
    if hold is Hold.STALE:
        message = f"another plan was approved than this one, which is there now; {_approve_topic(key, plan_hash)}"
    elif hold is Hold.APPROVAL and not may_approve:
        message = f"it waits for approval on RackTopology {around.topology}"
    else:
        message = sentence(hold, _approve_topic(key, plan_hash), around)
    return PlanHold(REASON_OF[hold], message)


def sentence(hold: Hold | None, how: str, around: Surroundings) -> str:
    """What a plan waits for; `how` says how to approve it."""
    match hold:
        case None:
            return "it is approved, and begins now"
        case Hold.PAUSED:
            return "it waits for the annotation rackspan.dev/paused to go"
        case Hold.BUSY:
            return f"Reassignment {around.busy} is under way; what is left is planned for once it has ended"
        case Hold.LIMIT:
            return f"it is too large to begin by itself ({_limits(around)}); {how}"
        case Hold.WINDOW if around.wrong_window is not None:
            return f"it waits for a window, and none ever opens: {around.wrong_window}"
        case Hold.WINDOW:
            return f"it waits for a window, which opens {_at(around.opens)}"
        case Hold.SETTLING:
            return "it begins once racks and plan have stayed the same for a while"
        case _ if around.begun is not None:
            return f"Reassignment {around.begun} was to carry it out, and ended before; to begin it again, {how}"
        case _:
            return f"it waits for approval; {how}"


def approve_topology(key: ObjectKey, plan_hash: str) -> str:
    """How to approve a whole plan."""
    return _approve("racktopologies.rackspan.dev", key, plan_hash)


def _approve_topic(key: ObjectKey, plan_hash: str) -> str:
    return _approve("kafkatopics.rackspan.dev", key, plan_hash)


def _approve(kind: str, key: ObjectKey, plan_hash: str) -> str:
    return (
        f"to approve it: kubectl annotate --overwrite --namespace {key.namespace} {kind} {key.name} "
        f"{APPROVE_PLAN}={plan_hash}"
    )


def _limits(around: Surroundings) -> str:
    named = {"maxMoves": around.reassignment.max_moves, "maxBytes": around.reassignment.max_bytes}
    told = [f"{name} is {limit:,}" for name, limit in named.items() if limit is not None]
    if named["maxBytes"] is not None and around.without_size:
        told.append(f"how large {plural(around.without_size, 'topic')} {be(around.without_size)} is not known")
    return ", ".join(told)


def _at(moment: datetime | None) -> str:
    return "at no time" if moment is None else f"at {moment:%Y-%m-%d %H:%M} UTC"
