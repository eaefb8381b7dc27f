"""What is told of drift: of its brokers, of what it does to topics, and of what changed since the last status. Pure.

The condition RacksInSync has an Event where its status changes. These are the others: another broker drifts as well,
or the topics have been judged, a moment after the drift was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.conditions import RACKS_IN_SYNC, is_false
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import format_rack
from rackspan.core.text import plural, shown
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rackspan.api.racktopology import BrokerStatus, DriftedTopics, RackTopologyStatus
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.ports import ObjectRef

_NAMED = 5
"""Brokers that one Event tells of in full."""


def both_racks(broker: BrokerStatus) -> str:
    """What a broker reports, and where it runs."""
    return f"broker {broker.id} reports {broker.reported_rack or 'none'} and runs in {broker.rack or 'nowhere'}"


def topics_told(topics: DriftedTopics) -> str:
    """What drift does to topics: `that makes 2 topics not compliant: shop/orders, shop/payments`."""
    others = topics.count - len(topics.samples)
    more = f" and {plural(others, 'other')}" if others else ""
    return f"that makes {plural(topics.count, 'topic')} not compliant: {', '.join(topics.samples)}{more}"


def way_out(racks: RackView, *, topics: bool) -> str:
    """
    What ends the drift of the first broker that drifts, the way that copies nothing first.

    `topics`: some are not compliant because of it.
    """
    row = racks.drifted[0]
    path, reported = row.rack or (), row.reported_rack
    if reported and len(row.reported_path or ()) != len(path):
        flat, whole = shown(reported), format_rack(path)
        told = f"broker.rack {flat} is no path of {plural(len(path), 'level')}, as that of the node is"
        if {one.rack for one in racks.rows if one.reported_rack == reported} == {path}:
            return f"{told}; if it names the same place, set spec.rackAliases: {{{flat}: {whole}}}"
        return f"{told}, and brokers of several racks report it; set broker.rack to the whole path, such as {whole}"
    label = f"the label of node {row.node}" if row.node else "the label of its node"
    moves = ", and the topics need the moves of the plan" if topics else ""
    return (
        f"if {label} is wrong, correct it: no replica has to move then; "
        f"if it is right, the broker reports it after its next restart{moves}"
    )


def drift_events(about: ObjectRef, before: RackTopologyStatus, after: RackTopologyStatus) -> Iterator[KubernetesEvent]:
    """Events about drift that was told already and has become more, from the statuses before and after a pass."""
    if not _is_told(before) or not _is_told(after) or after.drift is None:
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
        one = after.drift.count == 1
        message = f"{brokers} report{'s' * one} another rack than {'its node has' if one else 'their nodes have'}; "
        yield KubernetesEvent(about, Reason.RACK_DRIFT, message + topics_told(topics), warning=True)


def _is_told(status: RackTopologyStatus) -> bool:
    return is_false(status.conditions, RACKS_IN_SYNC)
