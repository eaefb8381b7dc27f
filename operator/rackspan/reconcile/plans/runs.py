"""The run of the Reassignment whose turn it is: the state that the process keeps in addition to the object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.reassignment import ReassignmentState, ReassignmentStatus
from rackspan.core.reassignment import WaitReason
from rackspan.core.text import plural
from rackspan.reconcile.plans import turns
from rackspan.reconcile.plans.executor import StoppedError
from rackspan.reconcile.plans.reassignment_status import Rate, ended, progress_sentence, waits, with_pass
from rackspan.reconcile.plans.turns import Intent, PlannedBrokers

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.plans.executor import Executor, Pass
    from rackspan.reconcile.plans.turns import MoveRules


_STEP_SECONDS = 1.0
"""The pause after a pass that observed a change: the next step may be due."""
_COPYING_SECONDS = 3.0
_WAITING_SECONDS = 20.0
"""The pause if everything waits for what only others can fix."""
_STATUS_SECONDS = 10.0
"""The time between two writes of progress alone: each write stores a whole object in the API server."""
_RACKS_SECONDS = 30.0
"""How long a broker must be in another rack to stop the plan: a label may change for a short time."""
_GONE_SECONDS = 600.0
"""How long a broker must be missing to stop the plan: it may only be restarting."""
_HELD_SECONDS = 600.0
"""How long a plan may wait for min.insync.replicas alone: all other plans wait meanwhile."""
_HELD = "all that is left waits for a lower min.insync.replicas, and all other plans wait for it"

_STATES = {
    Intent.RUN: ReassignmentState.RUNNING,
    Intent.PAUSE: ReassignmentState.PAUSED,
    Intent.CANCEL: ReassignmentState.CANCELLING,
}
_BEGINS = {
    ReassignmentState.RUNNING: "carried out from now on",
    ReassignmentState.CANCELLING: "the moves under way are cancelled",
}
_STOPPING = "stopping: "


class Run:
    """The passes of one executor, and their results. Times are the event loop's, in seconds."""

    def __init__(self, of: Reassignment, executor: Executor) -> None:
        self.of = replace(of, status=ReassignmentStatus())
        """The Reassignment at the start of the run, without its status; kept after its deletion."""
        self.executor = executor
        self.parked = False
        """Whether it is paused, with nothing under way and no throttle set: nothing is to do until it is resumed."""
        self.told = False
        """Whether the status has the result of the last pass."""
        self.stopping: str | None = None
        """Why the plan does not fit any more, or None. If set, the moves under way are cancelled and the plan ends."""
        self.seen: Pass | None = None
        self.pause = _STEP_SECONDS
        """Seconds until the next pass."""
        self._brokers = PlannedBrokers.of(executor.record)
        self._rate = Rate()
        self._throttle_by = ""
        self._written_at = 0.0
        self._changed_since: dict[object, float] = {}
        """The time since when a change is observed, by the function that checks for it."""

    def is_of(self, one: Reassignment | None) -> bool:
        """Return whether this is the run of `one`, and not of another Reassignment with the same name."""
        return one is not None and one.meta.uid == self.of.meta.uid

    def is_left_alone(self, intent: Intent) -> bool:
        """Return whether it is paused, its status says so, and nothing is left to do in Kafka for the pause."""
        return intent is Intent.PAUSE and self.parked and self.told and self.stopping is None

    def refuse_changed(self, topology: RackTopology, now: float) -> None:
        """Raise StoppedError if racks have changed, or brokers are missing, for too long to be temporary."""
        for look, seconds in ((turns.racks_changed, _RACKS_SECONDS), (turns.brokers_gone, _GONE_SECONDS)):
            why = look(self._brokers, topology)
            if why is None:
                self._changed_since.pop(look, None)
            elif now - self._changed_since.setdefault(look, now) >= seconds:
                raise StoppedError(why)

    def refuse_held(self, intent: Intent, now: float) -> None:
        """Raise StoppedError if the plan has waited too long for min.insync.replicas alone, which tenants may set."""
        if intent is not Intent.RUN or self.seen is None or not _is_held(self.seen):
            self._changed_since.pop(_is_held, None)
        elif now - self._changed_since.setdefault(_is_held, now) >= _HELD_SECONDS:
            raise StoppedError(_HELD)

    async def advance(self, rules: MoveRules, intent: Intent, now: datetime) -> Pass:
        """Run one pass for the intent, by these rules. Raises like the executor."""
        self.executor.adjust(rules.limits, rules.throttle, rules.drained)
        self._throttle_by = rules.throttle_by
        self.parked = self.told = False
        if intent is Intent.CANCEL:
            seen = await self.executor.take_back()
        elif intent is Intent.RUN and turns.racks_changed not in self._changed_since:
            seen = await self.executor.advance()
        else:  # also while a broker seems to be in another rack: copies to it may be wrong
            seen = await self.executor.wind_down()
            self.parked = intent is Intent.PAUSE and not (seen.copying or seen.throttles or seen.finished)
        news = self.seen is None or _signs(self.seen) != _signs(seen) or not (seen.copying or seen.waiting)
        self.pause = _STEP_SECONDS if news else _COPYING_SECONDS if seen.copying else _WAITING_SECONDS
        self.seen = seen
        self._rate.add(now, seen.progress.moved_bytes + seen.partial_bytes)
        return seen

    def state(self, intent: Intent) -> tuple[ReassignmentState, str]:
        """Return the state for an intent, and the message with which it begins."""
        state = _STATES[intent]
        return state, _BEGINS.get(state, "") if self.stopping is None else f"{_STOPPING}{self.stopping}"

    def is_due(self, one: Reassignment, state: ReassignmentState, now: float) -> bool:
        """Return whether the progress has to be written now. If so, it counts as written."""
        if not self.parked and now - self._written_at < _STATUS_SECONDS and one.status.state is state:
            return False
        self._written_at = now
        return True

    def progress(
        self, one: Reassignment, others: Collection[Reassignment], seen: Pass, state: ReassignmentState
    ) -> tuple[ReassignmentStatus, str]:
        """Return the status with the counts of a pass, and a message; `others` are the topology's Reassignments."""
        words = [progress_sentence(seen)]
        if state is ReassignmentState.PAUSED:
            words.insert(0, turns.paused_by(one, others))
        elif self.stopping:
            words.insert(0, f"{_STOPPING}{self.stopping}")
        return self._counted(one, seen), "; ".join(words)

    def ended(self, one: Reassignment, seen: Pass, intent: Intent) -> tuple[ReassignmentStatus, ReassignmentState, str]:
        """Return the status with the last counts, and the final state and message."""
        state, message = ended(seen)
        left = "".join(f"; {why}" for why in (waits(seen.waiting), seen.others) if why)
        if self.stopping is not None:
            state = ReassignmentState.STOPPED
            message = f"stopped: {self.stopping}; the moves under way were cancelled{left}; make a new plan"
        elif intent is Intent.CANCEL and not (state is ReassignmentState.SUCCEEDED and seen.as_planned):
            state = ReassignmentState.CANCELLED
            message = f"cancelled after {seen.progress.moved} of {plural(seen.progress.moves, 'move')}{left}"
        status = self._counted(one, seen)
        return status if seen.throttles else replace(status, record=None), state, message

    def _counted(self, one: Reassignment, seen: Pass) -> ReassignmentStatus:
        return with_pass(one.status, seen, len(self.executor.record.changes), self._rate, self._throttle_by)


def stopped_by(one: Reassignment) -> str | None:
    """Return why an earlier process stopped the plan, from the status; None if it is cancelled for another reason."""
    if one.status.state is not ReassignmentState.CANCELLING or one.spec.cancelled or one.meta.is_deleting:
        return None
    _, _, why = (one.status.message or "").partition(_STOPPING)
    return why.partition("; ")[0] or "the plan did not fit the cluster any more"


def _is_held(seen: Pass) -> bool:
    left = {one.reason for one in seen.waiting if not one.reason.final}
    return not seen.copying and left == {WaitReason.MIN_INSYNC}


def _signs(seen: Pass) -> tuple[int, int, int, int]:
    """Return the values that change when a step is done."""
    return seen.progress.moved, seen.copying, len(seen.waiting), seen.throttles
