"""Reassignment: an approved plan, or a part of it, that the operator carries out."""

from enum import StrEnum
from typing import Final

from rackspan.api.codec import ApiStruct, StatusStruct, Time
from rackspan.api.conditions import Condition
from rackspan.api.meta import ApiObject, ObjectKey
from rackspan.api.policies import AdaptiveThrottle

KIND: Final = "Reassignment"
PLURAL: Final = "reassignments"

MAX_PLAN: Final = 400_000
"""Characters of a plan, and of a record, that the API server takes. With both an object stays below etcd's 1.5 MB."""
MAX_MESSAGE: Final = 4096
MAX_SAMPLES: Final = 5
"""Partitions that are named for each reason to wait, and failures."""
MAX_SAMPLE: Final = 512
MAX_FAILURE: Final = 1024


class ReassignmentState(StrEnum):
    """What is done about a Reassignment, or how it ended."""

    QUEUED = "Queued"
    RUNNING = "Running"
    PAUSED = "Paused"
    CANCELLING = "Cancelling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    STOPPED = "Stopped"

    @property
    def ended(self) -> bool:
        """Whether it never goes on."""
        return self in (
            ReassignmentState.SUCCEEDED,
            ReassignmentState.FAILED,
            ReassignmentState.CANCELLED,
            ReassignmentState.STOPPED,
        )


class OwnTopologyRef(ApiStruct, frozen=True):
    """Names a RackTopology of the same namespace."""

    name: str


class ReassignmentSpec(ApiStruct, frozen=True):
    """Which plan it is, and how it is carried out. The plan itself, a long text, is read only where it is needed.

    Throttles and limits that are None are as an earlier part of the plan says, else as the RackTopology does; at most
    one of the two throttles is set. `throttle` is in bytes per second and broker.
    """

    topology_ref: OwnTopologyRef
    plan_hash: str
    part: int = 1
    parts: int = 1
    approved_by: str = ""
    throttle: int | None = None
    adaptive_throttle: AdaptiveThrottle | None = None
    max_concurrent_moves: int | None = None
    max_concurrent_moves_per_broker: int | None = None
    paused: bool = False
    cancelled: bool = False


class ProgressTexts(ApiStruct, frozen=True):
    """How far it is, for people to read."""

    moves: str | None = None
    bytes: str | None = None
    rate: str | None = None


class ThrottleStatus(ApiStruct, frozen=True):
    """The throttle in force, and why it is that."""

    bytes_per_second: int
    why: str | None = None


class WaitingFor(ApiStruct, frozen=True):
    """What some partitions wait for."""

    reason: str
    partitions: int
    samples: tuple[str, ...] = ()


class WaitingStatus(ApiStruct, frozen=True):
    """Partitions that nothing is done about now; `summary` says so in one line."""

    partitions: int
    summary: str | None = None
    reasons: tuple[WaitingFor, ...] = ()


class ReassignmentStatus(StatusStruct, frozen=True):
    """How far it is, and in `record` what Kafka cannot say."""

    observed_generation: int | None = None
    state: ReassignmentState | None = None
    message: str | None = None
    partitions: int | None = None
    moves: int | None = None
    moved: int | None = None
    removals: int | None = None
    bytes: int | None = None
    moved_bytes: int | None = None
    rate: int | None = None
    estimated_end: Time | None = None
    copying: int | None = None
    progress: ProgressTexts | None = None
    waiting: WaitingStatus | None = None
    failures: tuple[str, ...] = ()
    throttles: int | None = None
    throttle: ThrottleStatus | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    record: str | None = None
    conditions: tuple[Condition, ...] = ()


class Reassignment(ApiObject, frozen=True):
    """A Reassignment object."""

    spec: ReassignmentSpec
    status: ReassignmentStatus = ReassignmentStatus()

    @property
    def topology(self) -> ObjectKey:
        """The RackTopology whose cluster it is carried out in."""
        return ObjectKey(self.meta.namespace, self.spec.topology_ref.name)

    @property
    def ended(self) -> bool:
        """Whether it never goes on."""
        return self.status.state is not None and self.status.state.ended
