"""The condition Restarting and `status.restarts` of a RackTopology. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.conditions import RESTARTING, ConditionStatus, remove_condition, set_condition
from rackspan.api.racktopology import RestartsStatus

if TYPE_CHECKING:
    from datetime import datetime

    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.racks.restart_decision import Hold


@dataclass(frozen=True, slots=True)
class RestartFacts:
    """What is known of the restarts of one topology's brokers; `hold` is why nothing more is done now."""

    topology_uid: str
    restarts: RestartsStatus = field(default_factory=RestartsStatus)
    hold: Hold | None = None


def with_restarts(
    topology: RackTopology, status: RackTopologyStatus, facts: RestartFacts | None, now: datetime
) -> RackTopologyStatus:
    """`status` with the restarts, and with the condition Restarting while there is one to do. Ready stays as it is.

    True while a broker's restart is under way, False while one is needed and waits.
    """
    if facts is None or facts.topology_uid != topology.meta.uid:
        return status
    restarts, hold = facts.restarts, facts.hold
    if hold is None and restarts.current is None:
        conditions = remove_condition(status.conditions, RESTARTING)
    else:
        under_way = ConditionStatus.FALSE if restarts.current is None else ConditionStatus.TRUE
        reason, message = (hold.reason, hold.message) if hold else ("Restarting", f"pod {_pod(restarts)} was evicted")
        conditions = set_condition(
            status.conditions, RESTARTING, under_way, reason, message, generation=topology.meta.generation, now=now
        )
    return replace(status, restarts=None if restarts == RestartsStatus() else restarts, conditions=conditions)


def _pod(restarts: RestartsStatus) -> str:
    return restarts.current.pod if restarts.current else ""
