"""
The next step of a single partition: one replica at a time, and never a replica in sync away that is still needed.

A replica is moved in two steps. The new one is added to the list, so that Kafka copies it while all others stay; only
once the ISR has it, an old one is taken off the list. Kafka's own way, both in one call, takes the old one away as soon
as the new one is in sync, whatever has become of the others meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rackspan.core.durability import effective_min_insync
from rackspan.core.partitions import PartitionState
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, Racks, WaitReason


@dataclass(frozen=True, slots=True)
class Settled:
    """The partition is as planned."""


@dataclass(frozen=True, slots=True)
class Copying:
    """A reassignment of ours is under way; `adding` are the brokers that copy."""

    adding: frozenset[int]


@dataclass(frozen=True, slots=True)
class Add:
    """A replica is to be copied to one of `brokers`, the best first; `replicas` gives the list with each of them."""

    brokers: tuple[int, ...]
    replicas: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Arrange:
    """The replica list is to become `replicas`, which copies nothing."""

    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """The preferred leader is to lead."""


@dataclass(frozen=True, slots=True)
class StepHold:
    """Nothing can be done now; the fields are those of `Waiting`."""

    reason: WaitReason
    brokers: tuple[int, ...] = ()
    min_insync: int | None = None


Step: TypeAlias = Settled | Copying | Add | Arrange | Elect | StepHold


@dataclass(frozen=True, slots=True)
class StepContext:
    """
    What a partition's step depends on beside itself.

    `min_insync` is what its topic asks for, as far as the partition has had or shall have so many replicas.
    `recreated` says whether its topic is another one by now, `refused` are brokers to which Kafka moves nothing, and
    `cordoned` those to which it moves nothing now.
    """

    racks: Racks
    online: frozenset[int]
    min_insync: int
    recreated: bool = False
    refused: frozenset[int] = frozenset()
    cordoned: frozenset[int] = frozenset()

    @classmethod
    def of(cls, change: Change, observed: Observed, racks: Racks) -> "StepContext":
        """Take them from what Kafka says."""
        most = max(len(change.before), len(change.replicas))
        least = effective_min_insync(observed.min_insync.get(change.topic, 1), most)
        recreated = change.topic in observed.recreated
        return cls(racks, observed.online, int(least), recreated, observed.refused, observed.cordoned)


def next_step(
    change: Change, state: PartitionState | None, started: tuple[int, ...] | None, around: StepContext
) -> Step:
    """
    Give the next step of a partition; `started` is the replica list that was last asked for, None where none was.

    What was asked for and is not there is asked for again: the call was lost, or what was seen is older than it.
    """
    if state is None:
        return StepHold(WaitReason.RECREATED if around.recreated else WaitReason.GONE)
    if state.under_way:
        ours = started is not None and state.heading_for == frozenset(started)
        return _under_way(state, around) if ours else StepHold(WaitReason.REASSIGNED_BY_OTHERS)
    current, planned, before = frozenset(state.replicas), frozenset(change.replicas), frozenset(change.before)
    if not before & planned <= current <= before | planned:
        return StepHold(WaitReason.CHANGED_BY_OTHERS)
    if state.replicas == change.replicas:
        return _leadership(change, state, around)
    if state.leader is None:
        return without_leader(state, around)
    # A planned replica that is not in the list that was asked for is somebody else's, and as good as one of ours.
    if started is not None and state.replicas != started and not (current & planned).difference(started):
        return _asked_again(state, started, planned, around)
    if current == planned:
        return Arrange(change.replicas)
    removals = removable(state, planned, around)
    if removals:
        return Arrange(_arranged(change, [broker for broker in state.replicas if broker not in removals]))
    return _addition(change, state, planned, around) or _why_nothing_goes(state, planned, around)


def without_leader(state: PartitionState, around: StepContext) -> StepHold:
    """Wait for the replicas that may lead: those in the ISR, or all where Kafka names none (KIP-966)."""
    able = state.in_sync or frozenset(state.replicas)
    return _away(able, state, around) or StepHold(WaitReason.BROKER_OFFLINE, tuple(sorted(able)))


def removable(state: PartitionState, wanted: frozenset[int], around: StepContext) -> frozenset[int]:
    """
    Give the replicas outside `wanted` that may go now, so that no more than as many as `wanted` has are left.

    What stays in sync is in as many domains of each level, and as many brokers, as now or as `wanted` is, whichever is
    less; and no fewer than min.insync.replicas, unless fewer are now.
    """
    gone: set[int] = set()
    unneeded = [broker for broker in state.replicas if broker not in wanted]
    while len(state.replicas) - len(gone) > len(wanted):
        able = [one for one in unneeded if one not in gone and not why_needed(state, wanted, gone | {one}, around)]
        if not able:
            break
        # Out of sync first, then where most domains stay, then the end of the list, as its head leads.
        gone.add(
            max(
                able,
                key=lambda one: (
                    one not in state.in_sync,
                    around.racks.spread(state.in_sync - gone - {one}),
                    state.replicas.index(one),
                ),
            )
        )
    return frozenset(gone)


def why_needed(state: PartitionState, wanted: frozenset[int], gone: set[int], around: StepContext) -> WaitReason | None:
    """Why not all of `gone` may go, None where they may."""
    left = state.in_sync - gone
    if left == state.in_sync:
        return None
    if state.leader is None:
        return WaitReason.BROKER_OFFLINE
    now, after, shall = around.racks.spread(state.in_sync), around.racks.spread(left), around.racks.spread(wanted)
    if any(one < min(two, three) for one, two, three in zip(after, now, shall, strict=True)):
        return WaitReason.NOT_IN_SYNC
    return WaitReason.MIN_INSYNC if len(left) < min(len(state.in_sync), around.min_insync) else None


def _away(brokers: frozenset[int], state: PartitionState, around: StepContext) -> StepHold | None:
    """Wait for those of some brokers that are away, or whose disk is; None where none is."""
    online = around.online - state.offline
    away = brokers - online
    reason = WaitReason.DISK_OFFLINE if away <= around.online else WaitReason.BROKER_OFFLINE
    return StepHold(reason, tuple(sorted(away))) if away else None


def _under_way(state: PartitionState, around: StepContext) -> Step:
    """A copy to a broker that is away takes nothing. Kafka takes no replica off where no other one is in sync."""
    if state.leader is None:
        return without_leader(state, around)
    adding = state.adding - state.in_sync
    if not adding and not state.in_sync - state.removing:
        return StepHold(WaitReason.NOT_IN_SYNC, _behind(state, state.heading_for))
    away = _away(adding, state, around)
    return away if away and adding.issubset(away.brokers) else Copying(adding)


def _addition(change: Change, state: PartitionState, planned: frozenset[int], around: StepContext) -> Step | None:
    missing = [broker for broker in change.replicas if broker not in state.replicas]
    if not missing:
        return None
    able = [broker for broker in missing if broker in around.online - around.refused - around.cordoned]
    if not able and around.refused.issuperset(missing):
        return StepHold(WaitReason.REFUSED, tuple(missing))
    if not able:
        return _not_taken(missing, around)
    kept = state.in_sync & planned or state.in_sync
    able.sort(key=lambda broker: around.racks.spread(kept | {broker}), reverse=True)
    # The list keeps its order until the copy is in sync: Kafka goes back to it where the copy is cancelled.
    return Add(tuple(able), {broker: (*state.replicas, broker) for broker in able})


def _not_taken(brokers: list[int], around: StepContext) -> StepHold:
    """Wait for brokers of which none takes a replica now: for those that are cordoned, or else for those away."""
    cordoned = tuple(broker for broker in brokers if broker in around.cordoned & around.online)
    away = tuple(broker for broker in brokers if broker not in around.online)
    return StepHold(WaitReason.CORDONED, cordoned) if cordoned else StepHold(WaitReason.BROKER_OFFLINE, away)


def _arranged(change: Change, replicas: list[int]) -> tuple[int, ...]:
    """Replicas in the planned order as soon as they are the planned ones."""
    return change.replicas if set(replicas) == set(change.replicas) else tuple(replicas)


def _asked_again(state: PartitionState, started: tuple[int, ...], planned: frozenset[int], around: StepContext) -> Step:
    added = [broker for broker in started if broker not in state.replicas]
    # Only planned replicas are ever added: another one that is missing, somebody else has taken off.
    if len(added) > 1 or not planned.issuperset(added) or (added and not set(state.replicas) <= set(started)):
        return StepHold(WaitReason.CHANGED_BY_OTHERS)
    if added:
        if all(broker in around.online - around.cordoned for broker in added):
            return Add(tuple(added), dict.fromkeys(added, started))
        return _not_taken(added, around)
    wrong = why_needed(state, planned, set(state.replicas).difference(started), around)
    return _held(wrong, state, planned, around) if wrong else Arrange(started)


def _why_nothing_goes(state: PartitionState, planned: frozenset[int], around: StepContext) -> StepHold:
    """All planned replicas are there, and one that shall go may not."""
    reasons = [why_needed(state, planned, {one}, around) for one in state.replicas if one not in planned]
    reason = next(filter(None, reasons), WaitReason.NOT_IN_SYNC)
    return _held(reason, state, planned, around)


def _held(reason: WaitReason, state: PartitionState, planned: frozenset[int], around: StepContext) -> StepHold:
    too_high = reason is WaitReason.MIN_INSYNC and around.min_insync > len(planned)
    return StepHold(reason, _behind(state, planned), len(planned) if too_high else None)


def _leadership(change: Change, state: PartitionState, around: StepContext) -> Step:
    preferred = change.replicas[0]
    if preferred in (state.leader, *change.before[:1]):
        return Settled()
    if state.leader is None:
        return without_leader(state, around)
    return Elect() if preferred in state.in_sync else StepHold(WaitReason.NOT_IN_SYNC, (preferred,))


def _behind(state: PartitionState, planned: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(planned - state.in_sync))
