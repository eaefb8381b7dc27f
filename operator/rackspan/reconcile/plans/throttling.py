"""Throttles and their rate.

The operator sets and clears them so that values of other clients stay, whatever happens in between. An adaptive
throttle depends on which replicas fall behind: `Pacer` reads this from Kafka at intervals, and the core decides.
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
"""The number of passes that rely on values set or read before: each broker needs a request, which takes time."""
_ROUNDS = 3
"""The maximum number of times that values are read again after a write of the record, which takes time."""
_RESTLESS = Failure(Reason.KAFKA_UNREACHABLE, "another client changes it all the time", Remedy.RETRY)
_TOPICS = 1_000
"""The number of topics in the sample, for one Metadata call: if a broker is overloaded, many of them are behind."""
_SECONDS = 5.0
"""The time between two checks."""


class Throttles:
    """Sets and clears throttles. Before a change, `save` stores the record with the values that may then be ours."""

    def __init__(self, admin: ReassignmentAdmin, save: Callable[[Record], Awaitable[None]]) -> None:
        self._admin = admin
        self._save = save
        self._set_to: dict[Setting, str] = {}
        """Values that were as wanted when last read or set: a broker that is too busy to respond stops no copies."""
        self._passes = 0
        self._in_the_way: dict[Setting, str] = {}
        self._replaced: dict[Setting, str] = {}

    @property
    def left_alone(self) -> Mapping[Setting, str]:
        """Values of other clients where a throttle is wanted, or in the place of a throttle that was to be cleared."""
        return self._replaced | self._in_the_way

    async def set(self, record: Record, wanted: Mapping[Setting, str]) -> tuple[Record, dict[Setting, Failure]]:
        """Set the wanted values, but replace none of other clients. Return the record and the failures.

        The record is saved first. Then the values are read, right before the call. Values that were as wanted are read
        again at intervals. If Kafka does not authorize a change, the value was not set and leaves the record. If a
        response is missing, the value may be set.
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
        """Remove the operator's values, and keep those that other clients have set since.

        Values that are read as unset are deleted too: a broker that has just started may not know them yet. Throttles
        of offline brokers stay in the record: only these brokers can remove them.
        """
        known = {one: record.throttles[one] for one in some if one in record.throttles}
        mine = {one: ours for one, ours in known.items() if one.kind is SettingKind.TOPIC or int(one.name) in online}
        if not mine:
            return record, {}
        seen, failed = await self._seen(mine)
        shared = {one: change for one, value in seen.items() for change in mine[one].taken_off(one, value)}
        ours = {one: mine[one].before for one, value in seen.items() if mine[one].is_all_there_is(one, value)}
        failed |= await self._change({**ours, **shared})
        # The names of other clients may have left a list meanwhile, and an empty list stays until it is deleted.
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
        """Return whether there was a throttle when the value was last read."""
        return self._set_to.get(setting) == wanted or setting in self._in_the_way

    async def _seen(self, some: Collection[Setting]) -> tuple[dict[Setting, str | None], dict[Setting, Failure]]:
        answers = await self._admin.settings(list(some)) if some else {}
        failed = {one: value for one, value in answers.items() if isinstance(value, Failure)}
        return {one: value for one, value in answers.items() if not isinstance(value, Failure)}, failed

    async def _change(self, changes: Mapping[Setting, SettingChange]) -> dict[Setting, Failure]:
        outcomes = await self._admin.set_settings(changes) if changes else {}
        return {one: failure for one, failure in outcomes.items() if failure is not None}


def _with(record: Record, some: Mapping[Setting, SetThrottle]) -> dict[Setting, SetThrottle]:
    """Return the throttles of a record, updated by `some`, without those that have no value of the operator."""
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
        """The rate in bytes per second and broker, None for no limit."""
        bounds = self._throttle
        if not isinstance(bounds, Adaptive):
            return bounds
        return bounds.floor if self._pace is None else min(max(self._pace.rate, bounds.floor), bounds.ceiling)

    @property
    def reason(self) -> PaceReason | None:
        """The reason for the rate, None if it is not adaptive."""
        if not isinstance(self._throttle, Adaptive):
            return None
        return PaceReason.START if self._pace is None else self._pace.reason

    def adjust(self, throttle: int | Adaptive | None) -> None:
        """Use this throttle from now on. The next check is due at once."""
        if throttle == self._throttle:
            return
        self._throttle = throttle
        self._looked_at = float("-inf")

    async def look(self, observed: Observed) -> None:
        """Check, at intervals, which replicas fall behind during the copies under way. Raises FailureError."""
        bounds, now = self._throttle, self._clock()
        if not isinstance(bounds, Adaptive) or now < self._looked_at + _SECONDS:
            return
        if self._pace is None:
            names = sorted(await self._admin.topic_names())
            self._sample = names[:: -(-len(names) // _TOPICS)] if names else ()
        others = await self._admin.partitions(self._sample) if self._sample else {}
        # Check the same partitions each time. The plan's partitions would differ from check to check.
        behind = replicas_behind(others, observed.online)
        before = self._pace
        self._pace = first_pace(bounds, behind, now) if before is None else next_pace(before, bounds, behind, now)
        self._looked_at = now
