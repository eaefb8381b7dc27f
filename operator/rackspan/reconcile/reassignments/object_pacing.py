"""The rate of copies, by a throttle that adapts itself: who is asked what, how often, for the core to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.core.reassignment import Adaptive, PaceReason, first_pace, next_pace, replicas_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rackspan.core.reassignment import Observed, Pace
    from rackspan.reconcile.reassignments.executor_ports import ReassignmentAdmin

_TOPICS = 1_000
"""Topics beside the plan's that are looked at: of a broker in trouble many are behind, and one Metadata call tells."""
_SECONDS = 5.0
"""Between two looks."""


class Pacer:
    """The rate of one plan's copies."""

    def __init__(self, admin: ReassignmentAdmin, throttle: int | Adaptive | None, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._throttle = throttle
        self._clock = clock
        self._pace: Pace | None = None
        self._sample: Collection[str] = ()
        self._looked_at = float("-inf")

    @property
    def rate(self) -> int | None:
        """In bytes per second and broker, None for no limit."""
        if isinstance(self._throttle, Adaptive):
            return self._throttle.floor if self._pace is None else self._pace.rate
        return self._throttle

    @property
    def reason(self) -> PaceReason | None:
        """Why it is that; None where it does not adapt itself."""
        if not isinstance(self._throttle, Adaptive):
            return None
        return PaceReason.START if self._pace is None else self._pace.reason

    def adjust(self, throttle: int | Adaptive | None) -> None:
        """Go on by this throttle. New bounds are kept at once, and what was learnt stays."""
        if throttle == self._throttle:
            return
        self._throttle = throttle
        self._looked_at = float("-inf")

    async def look(self, observed: Observed) -> None:
        """See what copies that are under way do to others, now and then. Raises FailureError."""
        bounds, now = self._throttle, self._clock()
        if not isinstance(bounds, Adaptive) or now < self._looked_at + _SECONDS:
            return
        if self._pace is None:
            names = sorted(await self._admin.topic_names())
            self._sample = names[:: -(-len(names) // _TOPICS)] if names else ()
        others = await self._admin.partitions(self._sample) if self._sample else {}
        # The same partitions each time: those of the plan come into view and go out of it.
        behind = replicas_behind(others, observed.online)
        before = self._pace
        self._pace = first_pace(bounds, behind, now) if before is None else next_pace(before, bounds, behind, now)
        self._looked_at = now
