"""Wishes that a RackTopology can set for all of its topics, and a KafkaTopic for itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Approval(StrEnum):
    """Whether moves wait for a person."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


@dataclass(frozen=True, slots=True)
class DurabilitySpec:
    """What a topic shall survive, by the names of levels.

    `min_domains`: domains that hold every write acknowledged with acks=all. `tolerate`: domains that may be lost while
    every partition keeps a leader and accepts such writes.
    """

    min_domains: Mapping[str, int] = field(default_factory=dict)
    tolerate: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReassignmentSpec:
    """How replicas may be moved. None is "not said here". `throttle` is in bytes per second and broker."""

    approval: Approval | None = None
    throttle: int | None = None
    max_concurrent_moves: int | None = None

    def or_else(self, other: "ReassignmentSpec") -> "ReassignmentSpec":
        """This one, with what it does not say taken from another."""
        return ReassignmentSpec(
            approval=self.approval or other.approval,
            throttle=self.throttle or other.throttle,
            max_concurrent_moves=self.max_concurrent_moves or other.max_concurrent_moves,
        )
