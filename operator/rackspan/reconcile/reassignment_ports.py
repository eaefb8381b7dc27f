"""The seam between who approves plans and who carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import Change
    from rackspan.core.rack_path import RackPath
    from rackspan.core.reassignment import TopicPartition


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """
    A plan that somebody, or a policy, has said yes to.

    `changes` are of partitions that exist, with sizes where they are known. `racks` are those that the plan was made
    for, `reported_racks` what Kafka told as `broker.rack` then. `approved_by` says in words who or what approved it,
    `names` are the hashes of the plan, and of its namespaces' and topics' parts, which this is all of, or some.
    `topic_ids` are those of its topics.
    """

    cluster_id: str
    plan_hash: str
    changes: Sequence[Change]
    racks: Mapping[int, RackPath | None]
    reported_racks: Mapping[int, str | None]
    approved_by: str = ""
    names: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActiveReassignment:
    """A plan that waits for its turn or is carried out: the first Reassignment that has not ended, and its state."""

    name: str
    plan_hash: str
    state: str


@dataclass(frozen=True, slots=True)
class BegunPlan:
    """A plan that was begun: its first Reassignment, and the hashes of the plan and of namespaces' parts then."""

    name: str
    names: frozenset[str]
    succeeded: bool


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

    def begun_last(self, topology: ObjectKey) -> BegunPlan | None:
        """The plan that was begun last on a topology, also before a restart; None where nothing is kept of any."""

    async def held_by_min_insync(self, topology: ObjectKey) -> Sequence[Change]:
        """
        All changes of what is under way, if nothing but min.insync.replicas holds up some of them; else none.

        Raises FailureError.
        """


class ReplicaSizes(Protocol):
    """Tells how large replicas are."""

    async def of(
        self, topology: RackTopology, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[TopicPartition, int]:
        """
        Bytes of one replica of each partition: of the largest that one of the given brokers tells of.

        Partitions of which none tells are left out. Raises FailureError where Kafka does not answer at all.
        """


class NoSizes:
    """Where no size is known, as in tests of what only plans; implements `ReplicaSizes`."""

    async def of(
        self,
        topology: RackTopology,  # noqa: ARG002
        partitions: Mapping[TopicPartition, Collection[int]],  # noqa: ARG002
    ) -> Mapping[TopicPartition, int]:
        """None."""
        return {}


class NoReassignments:
    """Where nothing is carried out, as in tests of what only plans; implements `Reassignments`."""

    async def begin(self, topology: RackTopology, plan: ApprovedPlan) -> str:  # noqa: ARG002
        """Do nothing; the plan's hash."""
        return plan.plan_hash

    def active(self, topology: ObjectKey) -> ActiveReassignment | None:  # noqa: ARG002
        """None."""
        return None

    def begun_last(self, topology: ObjectKey) -> BegunPlan | None:  # noqa: ARG002
        """None."""
        return None

    async def held_by_min_insync(self, topology: ObjectKey) -> Sequence[Change]:  # noqa: ARG002
        """None."""
        return ()
