"""Settings that a RackTopology can have for all of its topics, and a KafkaTopic for itself."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from rackspan.api.codec import ApiStruct
from rackspan.core.reassignment import Adaptive

_BOUNDS = Adaptive()


class Approval(StrEnum):
    """Whether moves wait for the approval of a person."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class Granted(StrEnum):
    """Which KafkaTopics may do something: those in the topology's namespace, all allowed, or none."""

    OWN = "Own"
    ALLOWED = "Allowed"
    NEVER = "Never"

    def to(self, namespace: str, own: str) -> bool:
        """Return whether KafkaTopics of `namespace` may do it. `own` is the topology's namespace."""
        return self is Granted.ALLOWED or (self is Granted.OWN and namespace == own)


class DurabilitySpec(ApiStruct, frozen=True):
    """The failures that a topic has to survive, by the names of levels.

    `min_domains`: domains that hold every write acknowledged with acks=all. `tolerate`: domains that may be lost while
    every partition keeps a leader and accepts such writes.
    """

    min_domains: Mapping[str, int] = field(default_factory=dict)
    tolerate: Mapping[str, int] = field(default_factory=dict)


class TopicReassignmentSpec(ApiStruct, frozen=True):
    """Whether a topic's replicas may be moved. None means the setting of the topology.

    `approved_plan` is the hash of the topic's part of a plan that a person has approved.
    """

    approval: Approval | None = None
    reorders: Approval | None = None
    approved_plan: str | None = None


class ReassignmentDefaults(ApiStruct, frozen=True):
    """Whether replicas of topics without their own setting may be moved.

    `reorders` is for plans that copy nothing and remove nothing. None means the value of `approval`.
    """

    approval: Approval = Approval.MANUAL
    reorders: Approval | None = None

    def overridden_by(self, spec: TopicReassignmentSpec | None) -> "ReassignmentDefaults":
        """Return these settings, replaced by those that the topic sets itself."""
        if spec is None:
            return self
        reorders = spec.reorders or (None if spec.approval else self.reorders)
        return ReassignmentDefaults(spec.approval or self.approval, reorders)

    def of(self, *, reorders_only: bool) -> Approval:
        """Return the setting for a plan that only changes preferred leaders, or for any other plan."""
        return (self.reorders or self.approval) if reorders_only else self.approval


class MaintenanceWindow(ApiStruct, frozen=True):
    """A time at which replicas may be moved: `schedule` is a cron expression, `duration` like `4h` or `1h30m`."""

    schedule: str
    duration: str
    time_zone: str | None = None


class AdaptiveThrottle(ApiStruct, frozen=True):
    """The bounds of an adaptive throttle, in bytes per second and broker."""

    floor: int = _BOUNDS.floor
    ceiling: int = _BOUNDS.ceiling


def throttle_of(fixed: int | None, adaptive: AdaptiveThrottle | None) -> int | Adaptive | None:
    """Return the throttle of a spec, or None if there is no throttle."""
    return fixed if adaptive is None else Adaptive(adaptive.floor, max(adaptive.floor, adaptive.ceiling))


class TopologyReassignment(ApiStruct, frozen=True):
    """How replicas of a cluster are moved.

    `approved_plan` is the hash of a plan that a person has approved. `max_moves` and `max_bytes` limit the plans that
    begin without approval. `throttle` is in bytes per second and broker, None for no throttle or an adaptive one.
    """

    approved_plan: str | None = None
    topic_approval: Granted = Granted.OWN
    max_moves: int | None = None
    max_bytes: int | None = None
    windows: tuple[MaintenanceWindow, ...] = ()
    throttle: int | None = None
    adaptive_throttle: AdaptiveThrottle | None = None
    max_concurrent_moves: int = 20
    max_concurrent_moves_per_broker: int = 5
