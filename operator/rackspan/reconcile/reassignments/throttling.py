"""Throttles set and cleared, so that what others had set comes back whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.core.reassignment import SettingKind, lists_only
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.reassignments.ports import SetThrottle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from rackspan.core.reassignment import Setting
    from rackspan.reconcile.reassignments.ports import ReassignmentAdmin, Record


class Throttles:
    """Sets and clears throttles; what they were is in the record by then, which `save` makes safe."""

    def __init__(self, admin: ReassignmentAdmin, save: Callable[[Record], Awaitable[None]]) -> None:
        self._admin = admin
        self._save = save
        self._confirmed: dict[Setting, str] = {}
        """What this process has set and Kafka has accepted. A record alone may tell of a call that was never made."""

    async def before(
        self, record: Record, settings: Collection[Setting]
    ) -> tuple[dict[Setting, str | None], dict[Setting, Failure]]:
        """What was set before, as recorded or else as Kafka says now; and what cannot be read."""
        known: dict[Setting, str | None] = {
            one: record.throttles[one].before for one in settings if one in record.throttles
        }
        unknown = [one for one in settings if one not in known]
        seen = await self._admin.settings(unknown) if unknown else {}
        failed = {one: value for one, value in seen.items() if isinstance(value, Failure)}
        return known | {one: value for one, value in seen.items() if not isinstance(value, Failure)}, failed

    async def set(
        self, record: Record, wanted: Mapping[Setting, str], before: Mapping[Setting, str | None]
    ) -> tuple[Record, dict[Setting, Failure]]:
        """Set what this process has not set yet, having recorded it. Gives the record, and what failed."""
        throttles = dict(record.throttles)
        values: dict[Setting, str | None] = {}
        for setting, value in wanted.items():
            old = throttles.get(setting)
            if self._confirmed.get(setting) == value or (old is None and before.get(setting, value) == value):
                continue
            values[setting] = value
            if old is None:
                throttles[setting] = SetThrottle(before[setting], (value,))
            elif not lists_only(value, old.ours):
                confirmed = self._confirmed.get(setting)
                possible = old.ours if confirmed is None else (confirmed,)
                throttles[setting] = SetThrottle(old.before, tuple(dict.fromkeys((*possible, value))))
        if not values:
            return record, {}
        if throttles != record.throttles:
            record = replace(record, throttles=throttles)
            await self._save(record)
        failed = _failed(await self._admin.set_settings(values))
        self._confirmed |= {one: value for one, value in values.items() if value is not None and one not in failed}
        return record, failed

    async def clear(
        self, record: Record, some: Collection[Setting], online: Collection[int]
    ) -> tuple[Record, dict[Setting, Failure]]:
        """Give back what was there before, but where somebody else has changed it since; that stays as it is.

        What reads as it was before is written all the same: a broker that has just started may not know better yet.
        Throttles of brokers that are away stay in the record: only they themselves can be told.
        """
        mine = [one for one in some if one in record.throttles and (not _of_broker(one) or int(one.name) in online)]
        if not mine:
            return record, {}
        seen = await self._admin.settings(mine)
        failed = {one: value for one in mine if isinstance(value := seen.get(one), Failure)}
        values = {
            one: record.throttles[one].before
            for one in mine
            if one not in failed and _is_known(seen.get(one), record.throttles[one])
        }
        if values:
            failed |= _failed(await self._admin.set_settings(values))
        cleared = set(mine).difference(failed)
        self._confirmed = {one: value for one, value in self._confirmed.items() if one not in cleared}
        record = replace(
            record, throttles={one: value for one, value in record.throttles.items() if one not in cleared}
        )
        await self._save(record)
        return record, failed


def _is_known(value: str | Failure | None, recorded: SetThrottle) -> bool:
    """Whether nobody else has set it. A broker that is behind may tell of an older and longer list."""
    return value == recorded.before or (isinstance(value, str) and lists_only(value, recorded.ours))


def _of_broker(setting: Setting) -> bool:
    return setting.kind is SettingKind.BROKER


def _failed(outcomes: Mapping[Setting, Failure | None]) -> dict[Setting, Failure]:
    return {one: failure for one, failure in outcomes.items() if failure is not None}
