"""Events about brokers that go offline and return (debounced), and about drift, with the messages about drift. Pure.

A restart, or a rolling restart of all brokers, is too short for an Event. Brokers that go offline within a minute of
each other share one Event. The clock is an argument.

The condition RacksInSync has an Event when its status changes. `drift_events` yields the others: another broker drifts
as well, or the topics are judged, which happens a moment after the drift is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rackspan.api.conditions import BROKERS_ONLINE, RACKS_IN_SYNC, ConditionStatus, find_condition, is_false
from rackspan.api.racktopology import MAX_BROKER_SAMPLES
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import format_rack, is_within
from rackspan.core.text import be, few, have, plural, shown
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from rackspan.api.racktopology import BrokerStatus, DriftedTopics, RackTopologySpec, RackTopologyStatus
    from rackspan.reconcile.cluster.racks import LocatedBroker, RackView
    from rackspan.reconcile.ports import ObjectRef


DEBOUNCE_SECONDS = 120.0
"""How long a broker must be offline. Longer than a resync, which forgets a decommissioned broker."""
_TOGETHER_SECONDS = 60.0
"""Brokers that have been offline this long are announced together with a broker that is due."""


class BrokerEvents:
    """The offline brokers of one topology. `announced` are the brokers that already have an Event."""

    def __init__(self, announced: Collection[int] = ()) -> None:
        self._announced = set(announced)
        self._offline_since: dict[int, float] = {}

    def due_events(
        self, about: ObjectRef, online: Collection[int], offline: Collection[int], now: float
    ) -> Sequence[KubernetesEvent]:
        """Return the Events that are due at `now`, in seconds of any one clock. Their brokers count as announced."""
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
    """Return the brokers that the operator announced before its restart, according to the status."""
    found = find_condition(status.conditions, BROKERS_ONLINE)
    if found is None or found.status != ConditionStatus.FALSE or status.offline is None:
        return ()
    age = (now - found.last_transition_time).total_seconds()
    return status.offline.brokers if age >= DEBOUNCE_SECONDS else ()


def broker_list(brokers: Collection[int]) -> str:
    """Return broker ids as text, such as `broker 3` or `brokers 3, 4`; the first hundred at most."""
    return f"broker{'' if len(brokers) == 1 else 's'} {few([*map(str, sorted(brokers))], MAX_BROKER_SAMPLES)}"


# --- drift -----------------------------------------------------------------------------------------------------------


REPORTS: Final = ("report another rack than their nodes have", "reports another rack than its node has")
"""The texts for several brokers, and for one broker."""
_NAMED = 5
"""The most brokers that one Event describes."""
_LONGEST = 200
"""The most characters of a rack in a message."""


def both_racks(broker: BrokerStatus) -> str:
    """Return the rack that a broker reports and the rack where it runs, as text."""
    reported = shown(broker.reported_rack or "no rack", _LONGEST)
    return f"broker {broker.id} reports {reported} and runs in {broker.rack or 'nowhere'}"


def topics_affected(topics: DriftedTopics) -> str:
    """Return the effect on topics: `that makes 2 topics not compliant: shop/orders, shop/payments`."""
    others = topics.count - len(topics.samples)
    more = f" and {plural(others, 'other')}" if others else ""
    return f"that makes {plural(topics.count, 'topic')} not compliant: {', '.join(topics.samples)}{more}"


def ways_out(spec: RackTopologySpec, racks: RackView, *, topics: bool) -> str:
    """Return how to end the drift: one sentence per cause, about the first such broker, cheapest cause first.

    `topics`: whether some topics are not compliant because of the drift.
    """
    first: dict[_Way, LocatedBroker] = {}
    for row in racks.drifted:
        first.setdefault(_way(spec, row), row)
    moves = "; where the nodes are right, the topics need the moves of the plan" if topics else ""
    return "; ".join(way(spec, racks, first[way]) for way in _WAYS if way in first) + moves


def _way(spec: RackTopologySpec, row: LocatedBroker) -> _Way:
    reported, path = row.reported_path or (), row.rack or ()
    if not row.reported_rack:
        return _set_rack
    if row.reported_rack in spec.rack_aliases:
        return _correct_alias
    return _correct_label if len(reported) == len(path) or is_within(reported, path) else _add_alias


def _correct_label(spec: RackTopologySpec, _racks: RackView, row: LocatedBroker) -> str:
    path = row.rack or ()
    pairs = enumerate(zip_longest(row.reported_path or (), path))
    level = next((at for at, (reported, found) in pairs if reported != found), 0)
    label, node = spec.levels[level].node_label, f"node {row.node}" if row.node else "the node"
    lost, wrong = f"{node} has lost label {label}, set it again", f"label {label} of {node} is wrong, correct it"
    return (
        f"if {wrong if level < len(path) else lost}: no replica has to move then; if it is right, broker {row.id} "
        f"reports {format_rack(path)} after its next restart"
    )


def _add_alias(spec: RackTopologySpec, racks: RackView, row: LocatedBroker) -> str:
    path, reported = row.rack or (), row.reported_rack or ""
    flat, whole = shown(reported, _LONGEST), format_rack(path)
    wrong = f"broker.rack {flat} is not a path of {plural(len(spec.levels), 'level')}"
    if {one.rack for one in racks.rows if one.reported_rack == reported} != {path}:
        return f"{wrong}, and brokers of several racks report it; set broker.rack to the whole path, such as {whole}"
    if flat != reported:
        return f"{wrong}; set broker.rack to {whole}"
    return f"{wrong}; if it names the same place, set spec.rackAliases: {json.dumps({flat: whole}, ensure_ascii=False)}"


def _correct_alias(spec: RackTopologySpec, _racks: RackView, row: LocatedBroker) -> str:
    reported = row.reported_rack or ""
    return (
        f"spec.rackAliases says that {shown(reported, _LONGEST)} is {spec.rack_aliases[reported]}, and broker {row.id} "
        f"runs in {format_rack(row.rack or ())}: correct the alias, or the labels of its node"
    )


def _set_rack(_spec: RackTopologySpec, racks: RackView, row: LocatedBroker) -> str:
    path, unset = format_rack(row.rack or ()), [one.id for one in racks.drifted if not one.reported_rack]
    if len(unset) == 1:
        return f"broker {row.id} has no broker.rack: set it to {path}, and restart the broker"
    return f"{broker_list(unset)} have no broker.rack: set it, such as to {path} for broker {row.id}, and restart them"


_Way = Callable[["RackTopologySpec", "RackView", "LocatedBroker"], str]
_WAYS: Final[tuple[_Way, ...]] = (_correct_label, _add_alias, _correct_alias, _set_rack)


def drift_events(about: ObjectRef, before: RackTopologyStatus, after: RackTopologyStatus) -> Iterator[KubernetesEvent]:
    """Yield Events if already reported drift has increased, from the statuses before and after a pass."""
    if not _is_reported(before) or not _is_reported(after) or after.drift is None:
        return
    drifted_before = {broker.id for broker in before.brokers if broker.drift}
    new = [broker for broker in after.brokers if broker.drift and broker.id not in drifted_before]
    if new:
        others = len(new) - _NAMED
        more = f" and {plural(others, 'other broker')}" if others > 0 else ""
        message = "; ".join(both_racks(broker) for broker in new[:_NAMED]) + more
        yield KubernetesEvent(about, Reason.RACK_DRIFT, message, warning=True)
    topics = after.drift.topics
    if topics is not None and (before.drift is None or before.drift.topics is None):
        brokers = plural(after.drift.count, "broker")
        message = f"{brokers} {REPORTS[after.drift.count == 1]}; "
        yield KubernetesEvent(about, Reason.RACK_DRIFT, message + topics_affected(topics), warning=True)


def _is_reported(status: RackTopologyStatus) -> bool:
    return is_false(status.conditions, RACKS_IN_SYNC)
