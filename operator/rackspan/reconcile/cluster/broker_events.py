"""Events about brokers that go offline and come back, debounced. Pure: the clock is an argument.

A restart, or a rolling restart of all brokers, is too short for an Event. Brokers that go offline within a minute of
each other share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.conditions import BROKERS_ONLINE, ConditionStatus, find_condition
from rackspan.api.racktopology import MAX_BROKER_SAMPLES
from rackspan.api.reasons import Reason
from rackspan.core.text import be, few, have
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from rackspan.api.racktopology import RackTopologyStatus
    from rackspan.reconcile.ports import ObjectRef

DEBOUNCE_SECONDS = 120.0
"""How long a broker must be offline. Longer than a resync, at which a decommissioned broker is forgotten."""
_TOGETHER_SECONDS = 60.0
"""Brokers that have been offline this long are announced together with one that is due."""


class BrokerEvents:
    """The offline brokers of one topology; `announced` are those that an Event has been recorded about."""

    def __init__(self, announced: Collection[int] = ()) -> None:
        self._announced = set(announced)
        self._offline_since: dict[int, float] = {}

    def due_events(
        self, about: ObjectRef, online: Collection[int], offline: Collection[int], now: float
    ) -> Sequence[KubernetesEvent]:
        """The Events that are due at `now`, in seconds of any one clock; their brokers count as announced."""
        found = []
        back = self._announced.intersection(online)
        self._announced.intersection_update(offline)
        self._offline_since = {broker: self._offline_since.get(broker, now) for broker in offline}
        seconds_offline = {
            broker: now - since for broker, since in self._offline_since.items() if broker not in self._announced
        }
        if max(seconds_offline.values(), default=0.0) >= DEBOUNCE_SECONDS:
            due = {broker for broker, seconds in seconds_offline.items() if seconds >= _TOGETHER_SECONDS}
            self._announced |= due
            message = f"{broker_list(due)} {have(len(due))} been offline for minutes"
            found.append(KubernetesEvent(about, Reason.BROKER_OFFLINE, message, warning=True))
        if back:
            message = f"{broker_list(back)} {be(len(back))} online again"
            found.append(KubernetesEvent(about, Reason.BROKERS_ONLINE, message))
        return found


def announced_brokers(status: RackTopologyStatus, now: datetime) -> Collection[int]:
    """Brokers that the operator announced before its restart, by the status that it left."""
    found = find_condition(status.conditions, BROKERS_ONLINE)
    if found is None or found.status != ConditionStatus.FALSE or status.offline is None:
        return ()
    age = (now - found.last_transition_time).total_seconds()
    return status.offline.brokers if age >= DEBOUNCE_SECONDS else ()


def broker_list(brokers: Collection[int]) -> str:
    """Brokers by id: `broker 3`, `brokers 3, 4`; the first hundred at most."""
    return f"broker{'' if len(brokers) == 1 else 's'} {few([*map(str, sorted(brokers))], MAX_BROKER_SAMPLES)}"
