"""How fast a Reassignment may copy, and who says so. Pure.

The operator writes no throttle and no limit into a Reassignment. What stands there was put there by a person, and holds
for the later parts of the plan as well; what stands nowhere is as the RackTopology says at the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.policies import throttle_of
from rackspan.core.reassignment import Limits

if TYPE_CHECKING:
    from collections.abc import Collection

    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.reassignment import Adaptive


@dataclass(frozen=True, slots=True)
class MoveRules:
    """Limits, a throttle in bytes per second and broker, which is None for none or adapts itself, and whose it is."""

    limits: Limits
    throttle: int | Adaptive | None
    throttle_by: str
    """In words, such as `its spec`."""


def rules_of(one: Reassignment, others: Collection[Reassignment], topology: RackTopology) -> MoveRules:
    """The rules of one among `others` of its topology."""
    plan = (two for two in others if two.spec.plan_hash == one.spec.plan_hash and two.spec.part < one.spec.part)
    earlier = sorted(plan, key=lambda two: two.spec.part, reverse=True)
    policy = topology.spec.reassignment
    parts = [one.spec, *(two.spec for two in earlier)]
    moves = (spec.max_concurrent_moves for spec in parts)
    per_broker = (spec.max_concurrent_moves_per_broker for spec in parts)
    limits = Limits(
        next(filter(None, moves), policy.max_concurrent_moves),
        next(filter(None, per_broker), policy.max_concurrent_moves_per_broker),
    )
    for spec in parts:
        throttle = throttle_of(spec.throttle, spec.adaptive_throttle)
        if throttle is not None:
            whose = "its spec" if spec is one.spec else f"the spec of part {spec.part}"
            return MoveRules(limits, throttle, whose)
    return MoveRules(limits, throttle_of(policy.throttle, policy.adaptive_throttle), "its RackTopology")
