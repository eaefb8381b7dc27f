"""The one Reassignment of a topology whose turn it is: what its process knows of it beside its object."""

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
"""After a pass that found something changed: the next step may be due."""
_COPYING_SECONDS = 3.0
_WAITING_SECONDS = 20.0
"""Where everything waits for what only others can fix."""
_STATUS_SECONDS = 10.0
"""How often progress alone is written: each write is a whole object to the API server's store."""
_RACKS_SECONDS = 30.0
"""How long a broker must be seen in another rack: a label that flaps stops nothing."""
_GONE_SECONDS = 600.0
"""How long a broker must be missing: it may only be restarted."""
_HELD_SECONDS = 600.0
"""How long nothing else than somebody's min.insync.replicas may be left: all other plans wait meanwhile."""
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
    """Passes of one executor, and what they add up to. Times of the loop are in seconds."""

    def __init__(self, of: Reassignment, executor: Executor) -> None:
        self.of = replace(of, status=ReassignmentStatus())
        """As it was when the run began, but for its status; kept once it is gone."""
        self.executor = executor
        self.parked = False
        """Paused, with nothing under way and no throttle set: nothing is to be done until that changes."""
        self.told = False
        """Whether the status has what the last pass saw."""
        self.stopping: str | None = None
        """Why the plan does not fit any more: the moves under way are cancelled, and that is its end."""
        self.seen: Pass | None = None
        self.pause = _STEP_SECONDS
        """Seconds until the next pass."""
        self._brokers = PlannedBrokers.of(executor.record)
        self._rate = Rate()
        self._throttle_by = ""
        self._written_at = 0.0
        self._changed_since: dict[object, float] = {}
        """By the function that tells of a change: since when it does."""

    def is_of(self, one: Reassignment | None) -> bool:
        """Whether this is its run, and not that of another one of its name."""
        return one is not None and one.meta.uid == self.of.meta.uid

    def is_left_alone(self, intent: Intent) -> bool:
        """Whether it is paused, as its status says, with nothing left to be done in Kafka for that."""
        return intent is Intent.PAUSE and self.parked and self.told and self.stopping is None

    def refuse_changed(self, topology: RackTopology, now: float) -> None:
        """Raise StoppedError where racks have changed for longer than a label flaps or a broker restarts."""
        for look, seconds in ((turns.racks_changed, _RACKS_SECONDS), (turns.brokers_gone, _GONE_SECONDS)):
            why = look(self._brokers, topology)
            if why is None:
                self._changed_since.pop(look, None)
            elif now - self._changed_since.setdefault(look, now) >= seconds:
                raise StoppedError(why)

    def refuse_held(self, intent: Intent, now: float) -> None:
        """Raise StoppedError where nothing but min.insync.replicas, which a tenant may set, has been left for long."""
        if intent is not Intent.RUN or self.seen is None or not _is_held(self.seen):
            self._changed_since.pop(_is_held, None)
        elif now - self._changed_since.setdefault(_is_held, now) >= _HELD_SECONDS:
            raise StoppedError(_HELD)

    async def advance(self, rules: MoveRules, intent: Intent, now: datetime) -> Pass:
        """Make one pass of what is asked for, by these rules. Raises as the executor does."""
        self.executor.adjust(rules.limits, rules.throttle, rules.drained)
        self._throttle_by = rules.throttle_by
        self.parked = self.told = False
        if intent is Intent.CANCEL:
            seen = await self.executor.take_back()
        elif intent is Intent.RUN and turns.racks_changed not in self._changed_since:
            seen = await self.executor.advance()
        else:  # also while a broker seems to stand in another rack: it may be where nothing should go
            seen = await self.executor.wind_down()
            self.parked = intent is Intent.PAUSE and not (seen.copying or seen.throttles or seen.finished)
        news = self.seen is None or _signs(self.seen) != _signs(seen) or not (seen.copying or seen.waiting)
        self.pause = _STEP_SECONDS if news else _COPYING_SECONDS if seen.copying else _WAITING_SECONDS
        self.seen = seen
        self._rate.add(now, seen.progress.moved_bytes + seen.partial_bytes)
        return seen

    def state(self, intent: Intent) -> tuple[ReassignmentState, str]:
        """The state of what is asked for, and how it begins."""
        state = _STATES[intent]
        return state, _BEGINS.get(state, "") if self.stopping is None else f"{_STOPPING}{self.stopping}"

    def is_due(self, one: Reassignment, state: ReassignmentState, now: float) -> bool:
        """Whether its progress is to be written now; if so, it counts as written."""
        if not self.parked and now - self._written_at < _STATUS_SECONDS and one.status.state is state:
            return False
        self._written_at = now
        return True

    def progress(
        self, one: Reassignment, others: Collection[Reassignment], seen: Pass, state: ReassignmentState
    ) -> tuple[ReassignmentStatus, str]:
        """The counts of a pass, and what they mean; `others` are those of its topology."""
        words = [progress_sentence(seen)]
        if state is ReassignmentState.PAUSED:
            words.insert(0, turns.paused_by(one, others))
        elif self.stopping:
            words.insert(0, f"{_STOPPING}{self.stopping}")
        return self._counted(one, seen), "; ".join(words)

    def ended(self, one: Reassignment, seen: Pass, intent: Intent) -> tuple[ReassignmentStatus, ReassignmentState, str]:
        """The last counts, and how it ended."""
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
    """Why its plan does not fit any more, as an earlier process wrote; None where that is not why it is taken back."""
    if one.status.state is not ReassignmentState.CANCELLING or one.spec.cancelled or one.meta.is_deleting:
        return None
    _, _, why = (one.status.message or "").partition(_STOPPING)
    return why.partition("; ")[0] or "the plan did not fit the cluster any more"


def _is_held(seen: Pass) -> bool:
    left = {one.reason for one in seen.waiting if not one.reason.final}
    return not seen.copying and left == {WaitReason.MIN_INSYNC}


def _signs(seen: Pass) -> tuple[int, int, int, int]:
    """What changes when a step is done."""
    return seen.progress.moved, seen.copying, len(seen.waiting), seen.throttles
