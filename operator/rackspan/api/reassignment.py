"""Reassignment: an approved plan, or a part of it, that the operator carries out."""

from enum import StrEnum
from typing import ClassVar, Final

from rackspan.api.codec import ApiStruct, StatusStruct, Time
from rackspan.api.conditions import Condition
from rackspan.api.labels import WHOLE_PLAN
from rackspan.api.meta import ApiObject, ObjectKey
from rackspan.api.policies import AdaptiveThrottle

KIND: Final = "Reassignment"
PLURAL: Final = "reassignments"

MAX_PLAN: Final = 400_000
"""Characters of a plan, and of a record, that the API server accepts. An object with both is below etcd's 1.5 MB."""
MAX_MESSAGE: Final = 4096
MAX_SAMPLES: Final = 5
"""Partitions that are named for each reason to wait. The same limit applies to failures."""
MAX_SAMPLE: Final = 512
MAX_FAILURE: Final = 1024


class ReassignmentState(StrEnum):
    """The state of a Reassignment: its progress, or how it ended."""

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
        """Whether the Reassignment has ended and never continues."""
        return self in (
            ReassignmentState.SUCCEEDED,
            ReassignmentState.FAILED,
            ReassignmentState.CANCELLED,
            ReassignmentState.STOPPED,
        )


class OwnTopologyRef(ApiStruct, frozen=True):
    """A reference to a RackTopology in the same namespace."""

    name: str


class ReassignmentSpec(ApiStruct, frozen=True):
    """Which plan to carry out, and how. The text of the plan is long, so it is read only when it is needed.

    A throttle or limit that is None has the value of an earlier part of the plan, else of the RackTopology. At most one
    of the two throttles is set. `throttle` is in bytes per second and broker.
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
    """The progress as texts for people."""

    moves: str | None = None
    bytes: str | None = None
    rate: str | None = None


class ThrottleStatus(ApiStruct, frozen=True):
    """The current throttle, and the reason for its value."""

    bytes_per_second: int
    why: str | None = None


class WaitingFor(ApiStruct, frozen=True):
    """A reason why some partitions wait, and the first of these."""

    reason: str
    partitions: int
    samples: tuple[str, ...] = ()


class WaitingStatus(ApiStruct, frozen=True):
    """The partitions that wait. `summary` is the same in one line."""

    partitions: int
    summary: str | None = None
    reasons: tuple[WaitingFor, ...] = ()


class ReassignmentStatus(StatusStruct, frozen=True):
    """The progress, and in `record` the facts that Kafka does not store."""

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
    list_annotations: ClassVar[tuple[str, ...]] = (WHOLE_PLAN,)

    @property
    def topology(self) -> ObjectKey:
        """The RackTopology of the cluster in which the plan is carried out."""
        return ObjectKey(self.meta.namespace, self.spec.topology_ref.name)

    @property
    def ended(self) -> bool:
        """Whether the Reassignment has ended and never continues, also in a state that only a newer version knows."""
        state = self.status.state
        return self.status.finished_at is not None if state is None else state.ended

    @property
    def state_name(self) -> str:
        """The state as a text. `Unknown` is an end that only a newer version knows."""
        return self.status.state or ("Unknown" if self.ended else ReassignmentState.QUEUED)
