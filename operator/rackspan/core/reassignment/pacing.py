"""The adaptive rate of copies: it rises slowly while no replica falls behind, and is halved at once if one does.

The Admin API shows that a broker is overloaded only by followers that leave the ISR, on the broker or of its leaders,
after replica.lag.time.max.ms (30 seconds by default). The rate is then halved, as TCP does after a lost packet
(additive increase, multiplicative decrease: Chiu and Jain, 1989). It is not halved again before that time has passed,
because replicas that fall behind until then do so because of the earlier rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rackspan.core.partitions import PartitionState, TopicPartition

_STEPS = 20
"""The number of increases from the floor to the ceiling."""
STEP_SECONDS = 10.0
"""The time between two increases: the rate needs more than three minutes from the floor to the ceiling."""
CUT_SECONDS = 30.0
"""The time between two cuts: the default of replica.lag.time.max.ms."""
HELD_SECONDS = 300.0
"""How long replicas that fell behind and stay behind hold the rate. After that, something else is the cause."""


class Replica(NamedTuple):
    """A partition's replica on a broker."""

    partition: TopicPartition
    broker: int


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The bounds of an adaptive throttle, in bytes per second and broker."""

    floor: int = 5_000_000
    ceiling: int = 200_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(f"a floor of {self.floor} and a ceiling of {self.ceiling} are not bounds of a rate")


class PaceReason(StrEnum):
    """The reason for the current rate."""

    START = "Start"
    """The rate starts at the floor."""
    CALM = "Calm"
    """No replica falls behind: the rate rises."""
    FELL_BEHIND = "FellBehind"
    """Replicas have just fallen behind: the rate is halved."""
    STILL_BEHIND = "StillBehind"
    """Replicas that fell behind are still behind: the rate stays the same."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The current rate, in bytes per second and broker, and the state behind it. Times are seconds of any clock.

    `behind` are the replicas that were behind at the last check, `fallen` those of them that fell behind since START.
    """

    rate: int
    behind: frozenset[Replica]
    changed_at: float
    cut_at: float = float("-inf")
    fallen: frozenset[Replica] = field(default=frozenset())
    reason: PaceReason = PaceReason.START


def replicas_behind(partitions: Mapping[TopicPartition, PartitionState], online: frozenset[int]) -> frozenset[Replica]:
    """Return the replicas on online brokers that are out of sync, without replicas that are being added."""
    return frozenset(
        Replica(at, broker)
        for at, state in partitions.items()
        if len(state.in_sync) < len(state.replicas)
        for broker in state.replicas
        if broker in online and broker not in state.in_sync and broker not in state.adding
    )


def first_pace(bounds: Adaptive, behind: frozenset[Replica], now: float) -> Pace:
    """Return the first pace, at the floor. Replicas that are behind already have other causes."""
    return Pace(bounds.floor, behind, now)


def next_pace(pace: Pace, bounds: Adaptive, behind: frozenset[Replica], now: float) -> Pace:
    """Return the next pace, given the replicas that are behind now."""
    new = behind - pace.behind
    fallen = (pace.fallen & behind) | new
    rate, changed_at, cut_at = min(max(pace.rate, bounds.floor), bounds.ceiling), pace.changed_at, pace.cut_at
    reason = PaceReason.CALM
    if new:
        reason = PaceReason.FELL_BEHIND
        if now - cut_at >= CUT_SECONDS:
            rate, changed_at, cut_at = max(bounds.floor, rate // 2), now, now
    elif fallen and now - cut_at < HELD_SECONDS:
        reason = PaceReason.STILL_BEHIND
    elif now - changed_at >= STEP_SECONDS:
        step = -(-(bounds.ceiling - bounds.floor) // _STEPS)
        rate, changed_at = min(bounds.ceiling, rate + step), now
    return Pace(rate, behind, changed_at, cut_at, fallen, reason)
