"""Settings that a RackTopology can have for all of its topics, and a KafkaTopic for itself."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from rackspan.api.codec import ApiStruct


class Approval(StrEnum):
    """Whether moves wait for a person."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class DurabilitySpec(ApiStruct, frozen=True):
    """What a topic shall survive, by the names of levels.

    `min_domains`: domains that hold every write acknowledged with acks=all. `tolerate`: domains that may be lost while
    every partition keeps a leader and accepts such writes.
    """

    min_domains: Mapping[str, int] = field(default_factory=dict)
    tolerate: Mapping[str, int] = field(default_factory=dict)


class ReassignmentSpec(ApiStruct, frozen=True):
    """How replicas of one topic may be moved. None is "as the topology says"."""

    approval: Approval | None = None
    throttle: int | None = None
    max_concurrent_moves: int | None = None


class Reassignment(ApiStruct, frozen=True):
    """How replicas may be moved. `throttle` is in bytes per second and broker; None is no limit."""

    approval: Approval = Approval.MANUAL
    throttle: int | None = None
    max_concurrent_moves: int | None = None

    def overridden_by(self, spec: ReassignmentSpec | None) -> "Reassignment":
        """These settings, with those that the topic sets itself in their place."""
        if spec is None:
            return self
        return Reassignment(
            approval=spec.approval or self.approval,
            throttle=spec.throttle or self.throttle,
            max_concurrent_moves=spec.max_concurrent_moves or self.max_concurrent_moves,
        )
