"""What `kubectl get racktopologies` shows of a status in one word or line each. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rackspan.api.conditions import (
    CONNECTED,
    DELETIONS_HELD,
    DRAINED,
    RACKS_IN_SYNC,
    READY,
    REASSIGNED,
    SCANNED,
    ConditionStatus,
    find_condition,
    is_true,
)
from rackspan.api.reasons import PLAN_GOES_ON, Reason
from rackspan.core.text import plural

if TYPE_CHECKING:
    from rackspan.api.plans import TopologyPlanStatus
    from rackspan.api.racktopology import RackTopologyStatus

_HASH_SHOWN: Final = 8


def overall_state(status: RackTopologyStatus) -> str:
    """The worst of what is not as it should be, by the reason of its condition; `InSync` where nothing is."""
    offline, topics, plan = status.offline, status.topics, _reason(status, REASSIGNED)
    racks = _reason(status, RACKS_IN_SYNC)
    found = (
        _reason(status, CONNECTED),
        _reason(status, READY),
        Reason.BROKER_OFFLINE if offline is not None and offline.count else None,
        None if status.only_lacks_racks else racks,
        None if plan in PLAN_GOES_ON else plan,
        Reason.DELETION_HELD if is_true(status.conditions, DELETIONS_HELD) else None,
        plan,
        Reason.NOT_COMPLIANT if topics is not None and topics.non_compliant else None,
        "TopicsNotReady" if topics is not None and topics.ready < topics.total else None,
        _reason(status, DRAINED),
        racks,
        _reason(status, SCANNED),
    )
    return next(filter(None, found), Reason.IN_SYNC)


def plan_summary(plan: TopologyPlanStatus | None) -> str | None:
    """The beginning of a plan's hash, and how many replicas it copies and removes."""
    if plan is None:
        return None
    removals = f", {plural(plan.removals, 'removal')}" if plan.removals else ""
    return f"{plan.hash[:_HASH_SHOWN]}, {plural(plan.moves, 'move')}{removals}"


def offline_summary(status: RackTopologyStatus) -> str | None:
    """How many brokers are offline; `?` while Kafka does not say so."""
    if not is_true(status.conditions, CONNECTED):
        return "?"
    return None if status.offline is None else str(status.offline.count)


def _reason(status: RackTopologyStatus, kind: str) -> str | None:
    """Why a condition does not hold; None where it does, or is not there."""
    condition = find_condition(status.conditions, kind)
    return None if condition is None or condition.status == ConditionStatus.TRUE else condition.reason
