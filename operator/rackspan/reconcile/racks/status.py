"""The condition RacksPublished of a RackTopology. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.conditions import RACKS_PUBLISHED, ConditionStatus, remove_condition, set_condition
from rackspan.api.reasons import Reason
from rackspan.core.text import be, plural
from rackspan.reconcile.failures import Failure

if TYPE_CHECKING:
    from datetime import datetime

    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.racks.publication import RackText

_NAMED = 5


@dataclass(frozen=True, slots=True)
class RackFacts:
    """What is known of the published racks of one topology: the ConfigMaps of that name, or why there are none."""

    topology_uid: str
    published: RackText | Failure
    name: str
    namespaces: tuple[str, ...]


def with_published_racks(
    topology: RackTopology, status: RackTopologyStatus, facts: RackFacts | None, now: datetime
) -> RackTopologyStatus:
    """`status` with the condition RacksPublished, which is absent where nothing is published. Ready stays as it is."""
    if facts is None or facts.topology_uid != topology.meta.uid:
        return replace(status, conditions=remove_condition(status.conditions, RACKS_PUBLISHED))
    conditions = set_condition(
        status.conditions, RACKS_PUBLISHED, *_condition(facts), generation=topology.meta.generation, now=now
    )
    return replace(status, conditions=conditions)


def _condition(facts: RackFacts) -> tuple[ConditionStatus, str, str]:
    found = facts.published
    if isinstance(found, Failure):
        return ConditionStatus.FALSE, found.reason, found.message
    where = ", ".join(facts.namespaces[:_NAMED])
    more = len(facts.namespaces) - _NAMED
    told = f"{where} and {plural(more, 'other')}" if more > 0 else where
    message = f"the racks of {plural(found.nodes, 'node')} are in ConfigMap {facts.name} of {told}"
    if found.unknown:
        message += f"; {plural(found.unknown, 'node')} {be(found.unknown)} left out: {found.example}"
    return ConditionStatus.TRUE, Reason.RACKS_PUBLISHED, message
