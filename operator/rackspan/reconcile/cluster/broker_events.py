"""Which brokers' going and coming back is worth an Event. Pure: the clock is an argument.

A broker that is restarted is away for a while, and a rolling restart does so to all of them: that is no news. What goes
within a minute of each other is told in one Event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.conditions import BROKERS_ONLINE, ConditionStatus, find_condition
from rackspan.api.racktopology import MAX_BROKER_SAMPLES
from rackspan.api.reasons import Reason
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from rackspan.api.racktopology import RackTopologyStatus
    from rackspan.reconcile.ports import ObjectRef

DEBOUNCE_SECONDS = 120.0
"""How long a broker must be away. Longer than a resync, by which one that was taken out of the cluster is forgotten."""
_TOGETHER_SECONDS = 60.0
"""What has been away for so long is told along with what is due."""


class BrokerEvents:
    """The brokers of one topology that are away. `told` are those that an Event has told of."""

    def __init__(self, told: Collection[int] = ()) -> None:
        self._told = set(told)
        self._since: dict[int, float] = {}

    def news(
        self, about: ObjectRef, online: Collection[int], offline: Collection[int], now: float
    ) -> Sequence[KubernetesEvent]:
        """What is to be told at `now`, in seconds of any clock; it counts as told."""
        found = []
        back = self._told.intersection(online)
        self._told.intersection_update(offline)
        self._since = {broker: self._since.get(broker, now) for broker in offline}
        away = {broker: now - since for broker, since in self._since.items() if broker not in self._told}
        if max(away.values(), default=0.0) >= DEBOUNCE_SECONDS:
            gone = {broker for broker, seconds in away.items() if seconds >= _TOGETHER_SECONDS}
            self._told |= gone
            has = "has" if len(gone) == 1 else "have"
            message = f"{named(gone)} {has} been offline for minutes"
            found.append(KubernetesEvent(about, Reason.BROKER_OFFLINE, message, warning=True))
        if back:
            message = f"{named(back)} {'is' if len(back) == 1 else 'are'} online again"
            found.append(KubernetesEvent(about, Reason.BROKERS_ONLINE, message))
        return found


def told_of(status: RackTopologyStatus, now: datetime) -> Collection[int]:
    """Brokers that an operator before this one has told of, by the status that it left."""
    found = find_condition(status.conditions, BROKERS_ONLINE)
    if found is None or found.status != ConditionStatus.FALSE or status.offline is None:
        return ()
    age = (now - found.last_transition_time).total_seconds()
    return status.offline.brokers if age >= DEBOUNCE_SECONDS else ()


def named(brokers: Collection[int]) -> str:
    """Brokers by id: `broker 3`, `brokers 3, 4`; the first hundred at most."""
    ids = ", ".join(map(str, sorted(brokers)[:MAX_BROKER_SAMPLES]))
    more = f" and {len(brokers) - MAX_BROKER_SAMPLES} more" if len(brokers) > MAX_BROKER_SAMPLES else ""
    return f"broker{'' if len(brokers) == 1 else 's'} {ids}{more}"
