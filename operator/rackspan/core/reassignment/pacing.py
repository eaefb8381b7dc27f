"""
How fast copies may be, from what they do to others: slowly faster while all is calm, at once slower when it is not.

What the Admin API shows of a broker that has too much to do is that followers on it, or of it, fall out of the ISR:
after replica.lag.time.max.ms, 30 seconds by default. So trouble is answered by half the rate, as TCP answers a lost
packet (additive increase, multiplicative decrease: Chiu and Jain, 1989), and not again before that time is over, since
what falls behind until then does so for what was before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rackspan.core.partitions import PartitionState, TopicPartition

_STEPS = 20
"""Increases from the floor to the ceiling."""
STEP_SECONDS = 10.0
"""Between two increases, so that it takes more than three minutes from floor to ceiling."""
CUT_SECONDS = 30.0
"""Between two cuts: the default of replica.lag.time.max.ms."""
HELD_SECONDS = 300.0
"""How long replicas that fell behind and stay so hold the rate where it is: then something else ails them."""


class Replica(NamedTuple):
    """A partition's replica on a broker."""

    partition: TopicPartition
    broker: int


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A throttle that adapts itself, within bounds that are bytes per second and broker."""

    floor: int = 5_000_000
    ceiling: int = 200_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(f"a floor of {self.floor} and a ceiling of {self.ceiling} are not bounds of a rate")


class PaceReason(StrEnum):
    """Why a rate is what it is."""

    START = "Start"
    """It begins at the floor."""
    CALM = "Calm"
    """Nobody falls behind: it rises."""
    FELL_BEHIND = "FellBehind"
    """Replicas have just fallen behind: it is halved."""
    STILL_BEHIND = "StillBehind"
    """Replicas that fell behind are so still: it stays as it is."""


@dataclass(frozen=True, slots=True)
class Pace:
    """
    The rate of the moment, in bytes per second and broker, and what it goes by; times are seconds of any clock.

    `behind` are replicas that were behind when it was last looked, `fallen` those of them that fell behind meanwhile.
    """

    rate: int
    behind: frozenset[Replica]
    changed_at: float
    cut_at: float = float("-inf")
    fallen: frozenset[Replica] = field(default=frozenset())
    reason: PaceReason = PaceReason.START


def replicas_behind(partitions: Mapping[TopicPartition, PartitionState], online: frozenset[int]) -> frozenset[Replica]:
    """Give the replicas on brokers that are alive which are out of sync, but for those that are being added."""
    return frozenset(
        Replica(at, broker)
        for at, state in partitions.items()
        if len(state.in_sync) < len(state.replicas)
        for broker in state.replicas
        if broker in online and broker not in state.in_sync and broker not in state.adding
    )


def first_pace(bounds: Adaptive, behind: frozenset[Replica], now: float) -> Pace:
    """Begin at the floor. Who is behind by now is so for other reasons."""
    return Pace(bounds.floor, behind, now)


def next_pace(pace: Pace, bounds: Adaptive, behind: frozenset[Replica], now: float) -> Pace:
    """Give the pace that follows from who is behind now."""
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
