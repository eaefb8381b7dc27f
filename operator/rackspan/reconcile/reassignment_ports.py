"""The seam between who approves plans and who carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rackspan.core.reassignment import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import Change
    from rackspan.core.rack_path import RackPath


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """
    A plan that somebody, or a policy, has said yes to.

    `changes` are of partitions that exist, with sizes where they are known. `racks` are those that the plan was made
    for, `reported_racks` what Kafka told as `broker.rack` then. `throttle` is in bytes per second and broker, None for
    none. `approved_by` says in words who or what approved it.
    """

    cluster_id: str
    plan_hash: str
    changes: Sequence[Change]
    racks: Mapping[int, RackPath | None]
    reported_racks: Mapping[int, str | None]
    throttle: int | None = None
    limits: Limits = field(default_factory=Limits)
    approved_by: str = ""


@dataclass(frozen=True, slots=True)
class ActiveReassignment:
    """A plan that waits for its turn or is carried out: the first Reassignment that has not ended, and its state."""

    name: str
    plan_hash: str
    state: str


class Reassignments(Protocol):
    """Carries out approved plans, one after the other on each topology."""

    async def begin(self, topology: RackTopology, plan: ApprovedPlan) -> str:
        """
        Have an approved plan carried out; the name of its first Reassignment.

        Named after topology and hash, so that asking again changes nothing while it is waiting or under way; one that
        has ended is begun anew. Raises FailureError where the API server does not take it.
        """

    def active(self, topology: ObjectKey) -> ActiveReassignment | None:
        """What is waiting or under way on a topology, None where all has ended."""


class NoReassignments:
    """Where nothing is carried out, as in tests of what only plans; implements `Reassignments`."""

    async def begin(self, topology: RackTopology, plan: ApprovedPlan) -> str:  # noqa: ARG002
        """Do nothing; the plan's hash."""
        return plan.plan_hash

    def active(self, topology: ObjectKey) -> ActiveReassignment | None:  # noqa: ARG002
        """None."""
        return None
