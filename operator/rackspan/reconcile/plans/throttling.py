"""Throttles and their rate.

They are set and cleared so that what others have set stays as it is, whatever happens in between. An adaptive throttle
needs to know which replicas fall behind: `Pacer` asks Kafka now and then, and the core decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Adaptive, PaceReason, SettingKind, first_pace, next_pace, replicas_behind
from rackspan.core.reassignment.throttles import ALL_REPLICAS, NOTHING_SET, RATES
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from rackspan.core.reassignment import Observed, Pace, SetThrottle, Setting, SettingChange
    from rackspan.reconcile.ports import ReassignmentAdmin, Record


_PASSES = 5
"""How many passes rely on what was set or read before: brokers are asked one by one, which takes time."""
_ROUNDS = 3
"""How often at most what is there is read again, because something had to be recorded first, which takes time."""
_RESTLESS = Failure(Reason.KAFKA_UNREACHABLE, "another client changes it all the time", Remedy.RETRY)
_TOPICS = 1_000
"""Topics beside the plan's that are looked at: of a broker in trouble many are behind, as one Metadata call shows."""
_SECONDS = 5.0
"""Between two looks."""


class Throttles:
    """Sets and clears throttles; what may be ours of them is in the record by then, which `save` makes safe."""

    def __init__(self, admin: ReassignmentAdmin, save: Callable[[Record], Awaitable[None]]) -> None:
        self._admin = admin
        self._save = save
        self._set_to: dict[Setting, str] = {}
        """What was as wanted when it was last read or set: a broker with too much to do is no reason to copy less."""
        self._passes = 0
        self._in_the_way: dict[Setting, str] = {}
        self._replaced: dict[Setting, str] = {}

    @property
    def left_alone(self) -> Mapping[Setting, str]:
        """What others have set where a throttle is wanted, or in the place of one that was to be cleared."""
        return self._replaced | self._in_the_way

    async def set(self, record: Record, wanted: Mapping[Setting, str]) -> tuple[Record, dict[Setting, Failure]]:
        """Set what is wanted, but not in the place of what somebody else has set. Gives the record, and what failed.

        It is recorded before, and what is there is read after that, right before the call. What was as wanted is looked
        at again now and then. What Kafka does not allow was not set, and is in the record no longer; what an answer is
        missing for may be set.
        """
        self._passes += 1
        before = record.throttles
        self._in_the_way = {one: value for one, value in self._in_the_way.items() if one in wanted}
        if self._passes % _PASSES:
            wanted = {one: value for one, value in wanted.items() if self._set_to.get(one) != value}
        seen, failed = await self._seen(wanted)
        for _ in range(_ROUNDS):
            known = {
                one: record.throttles.get(one, NOTHING_SET).to_set(one, wanted[one], value)
                for one, value in seen.items()
            }
            changes = {one: ours.changes(one, wanted[one], seen[one]) for one, ours in known.items()}
            recorded = _with(record, known)
            if recorded == record.throttles:
                break
            record = replace(record, throttles=recorded)
            await self._save(record)
            again, wrong = await self._seen([one for one, some in changes.items() if some])
            seen, failed = {**seen, **again}, failed | wrong
        else:
            failed |= {one: _RESTLESS for one, some in changes.items() if some}
        changes = {one: some for one, some in changes.items() if one not in failed}
        failed = {one: why for one, why in failed.items() if not self._is_there(one, wanted[one])}
        for step in range(max(map(len, changes.values()), default=0)):
            due = {one: some[step] for one, some in changes.items() if len(some) > step and one not in failed}
            failed |= await self._change(due)
        for one, value in seen.items():
            self._in_the_way.pop(one, None)
            self._set_to.pop(one, None)
            if value not in (None, wanted[one], ALL_REPLICAS) and known[one].gives_way(one, wanted[one], value):
                self._in_the_way[one] = value
            elif one not in failed:
                self._set_to[one] = wanted[one]
        done = {one: known[one].once_set(one, wanted[one]) for one, some in changes.items() if some}
        left = {one: ours for one, ours in done.items() if one not in failed}
        refused = {one for one, why in failed.items() if one in known and why.reason is Reason.NOT_AUTHORIZED}
        forgotten = _with(record, {one: before.get(one, NOTHING_SET) for one in refused})
        if forgotten != record.throttles:
            record = replace(record, throttles=forgotten)
            await self._save(record)
        return replace(record, throttles=_with(record, left)), failed

    async def clear(
        self, record: Record, some: Collection[Setting], online: Collection[int]
    ) -> tuple[Record, dict[Setting, Failure]]:
        """Take away what is ours; what somebody else has set since stays as it is.

        What reads as if nothing were set is deleted all the same: a broker that has just started may not know better
        yet. Throttles of brokers that are away stay in the record: only they can take them away.
        """
        known = {one: record.throttles[one] for one in some if one in record.throttles}
        mine = {one: ours for one, ours in known.items() if one.kind is SettingKind.TOPIC or int(one.name) in online}
        if not mine:
            return record, {}
        seen, failed = await self._seen(mine)
        shared = {one: change for one, value in seen.items() for change in mine[one].taken_off(one, value)}
        ours = {one: mine[one].before for one, value in seen.items() if mine[one].is_all_there_is(one, value)}
        failed |= await self._change({**ours, **shared})
        # Who else was on a list may have left it meanwhile, and an empty list stays until it is deleted.
        again, wrong = await self._seen([one for one in shared if one not in failed])
        left = {one: mine[one].before for one, value in again.items() if mine[one].is_all_there_is(one, value)}
        failed |= wrong | await self._change(left)
        self._replaced |= {one: value for one, value in seen.items() if value and one.key in RATES and one not in ours}
        self._set_to = {one: value for one, value in self._set_to.items() if one not in mine}
        kept = {one: value for one, value in record.throttles.items() if one not in mine or one in failed}
        record = replace(record, throttles=kept)
        await self._save(record)
        return record, failed

    def _is_there(self, setting: Setting, wanted: str) -> bool:
        """Whether there was a throttle when that could be read last."""
        return self._set_to.get(setting) == wanted or setting in self._in_the_way

    async def _seen(self, some: Collection[Setting]) -> tuple[dict[Setting, str | None], dict[Setting, Failure]]:
        answers = await self._admin.settings(list(some)) if some else {}
        failed = {one: value for one, value in answers.items() if isinstance(value, Failure)}
        return {one: value for one, value in answers.items() if not isinstance(value, Failure)}, failed

    async def _change(self, changes: Mapping[Setting, SettingChange]) -> dict[Setting, Failure]:
        outcomes = await self._admin.set_settings(changes) if changes else {}
        return {one: failure for one, failure in outcomes.items() if failure is not None}


def _with(record: Record, some: Mapping[Setting, SetThrottle]) -> dict[Setting, SetThrottle]:
    """The throttles of a record, some of them as given, without those where nothing may be ours."""
    return {one: ours for one, ours in {**record.throttles, **some}.items() if ours.ours}


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
