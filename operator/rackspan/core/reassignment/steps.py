"""The next step of a single partition: one replica at a time, without removing an in-sync replica that is still needed.

A replica moves in two steps. First the operator adds the new replica to the list, so that Kafka copies it while all
others stay. The operator removes an old replica from the list only when the ISR contains the new one. Kafka's own way
does both in one call: it removes the old replica as soon as the new one is in sync, whatever the state of the others.

Replicas that leave cordoned brokers move Kafka's own way, because Kafka 4.4 refuses each list that names a cordoned
broker (KIP-1066), even if the broker already holds the replica. Kafka keeps these replicas until all replicas that the
call adds are in sync (KIP-455). A call adds no more replicas than are needed to replace them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rackspan.core.durability import effective_min_insync
from rackspan.core.partitions import PartitionState
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, Racks, Spread, WaitReason


@dataclass(frozen=True, slots=True)
class Settled:
    """The partition is as planned."""


@dataclass(frozen=True, slots=True)
class Copying:
    """A reassignment of the operator is under way; `adding` are the brokers that copy."""

    adding: frozenset[int]


@dataclass(frozen=True, slots=True)
class Add:
    """Replicas have to be copied: `lists` has the replica lists by the brokers that each one adds, the best first.

    A list adds a single broker, or as many as are needed to replace the replicas on cordoned brokers.
    """

    lists: Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Arrange:
    """The replica list has to become `replicas`, which copies nothing."""

    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """The preferred leader has to be elected."""


@dataclass(frozen=True, slots=True)
class StepHold:
    """No step is possible now; the fields are those of `Waiting`."""

    reason: WaitReason
    brokers: tuple[int, ...] = ()
    min_insync: int | None = None


Step: TypeAlias = Settled | Copying | Add | Arrange | Elect | StepHold


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a partition's step depends on, in addition to the partition.

    `min_insync` is the topic's min.insync.replicas, but no more than the larger one of the old and the new number of
    replicas. If it `is_unknown`, `min_insync` is that number, so that no replica is removed that writes may need.
    """

    observed: Observed
    racks: Racks
    min_insync: int
    is_unknown: bool

    @classmethod
    def of(cls, change: Change, observed: Observed, racks: Racks) -> "StepContext":
        """Return the context of a change in the observed state."""
        most = max(len(change.before), len(change.replicas))
        min_insync = observed.min_insync.get(change.topic)
        asked = int(effective_min_insync(most if min_insync is None else min_insync, most))
        return cls(observed, racks, asked, is_unknown=min_insync is None)


def next_step(
    change: Change, state: PartitionState | None, started: tuple[int, ...] | None, around: StepContext
) -> Step:
    """Return the next step of a partition. `started` is the replica list that was last requested, or None.

    If the observed list is not the requested one, it is requested again: either the call was lost, or the observed
    state is older than the call.
    """
    if state is None:
        return StepHold(WaitReason.RECREATED if change.topic in around.observed.recreated else WaitReason.GONE)
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
    # If a planned replica is not in the requested list, another client has added it. It counts like one of ours.
    if started is not None and state.replicas != started and not (current & planned).difference(started):
        return _asked_again(state, started, planned, around)
    if current == planned:
        return Arrange(change.replicas)
    leaving, removals = (current & around.observed.cordoned) - planned, removable(state, planned, around)
    if removals and removals >= leaving:
        return Arrange(_arranged(change, [broker for broker in state.replicas if broker not in removals]))
    if planned <= current:
        return _why_nothing_goes(state, planned, leaving, around)
    return _addition(change, state, leaving, around)


def without_leader(state: PartitionState, around: StepContext) -> StepHold:
    """Return a hold that waits for the replicas that may lead: the ISR, or all if Kafka reports none (KIP-966)."""
    able = state.in_sync or frozenset(state.replicas)
    return _away(able, state, around) or StepHold(WaitReason.BROKER_OFFLINE, tuple(sorted(able)))


def removable(state: PartitionState, wanted: frozenset[int], around: StepContext) -> frozenset[int]:
    """Return the replicas outside `wanted` that may be removed now, until only as many as in `wanted` are left.

    The replicas that stay in sync are in as many domains of each level, and on as many brokers, as now or as `wanted`,
    whichever is less. They are no fewer than min.insync.replicas, unless fewer are in sync now.
    """
    if len(state.replicas) <= len(wanted):
        return frozenset()
    gone: set[int] = set()
    unneeded = {broker: place for place, broker in enumerate(state.replicas) if broker not in wanted}
    staying, least = Spread(around.racks, state.in_sync), _least_spread(state, wanted, around)

    def without(one: int) -> tuple[int, ...]:
        return staying.without(one) if one in state.in_sync else staying.counts

    while len(state.replicas) - len(gone) > len(wanted):
        able = [
            one
            for one in unneeded
            if one not in state.in_sync
            or (state.leader is not None and not _why_too_few(without(one), least, state, around))
        ]
        if not able:
            break
        # Remove cordoned brokers first, because no list may name them. Then replicas that are out of sync, then those
        # without which most domains stay, then the end of the list, because its head leads.
        goes = max(
            able,
            key=lambda one: (
                one in around.observed.cordoned,
                one not in state.in_sync,
                without(one),
                unneeded[one],
            ),
        )
        gone.add(goes)
        del unneeded[goes]
        if goes in state.in_sync:
            staying.leave(goes)
    return frozenset(gone)


def why_needed(
    state: PartitionState,
    wanted: frozenset[int],
    gone: Collection[int],
    around: StepContext,
    added: Collection[int] = (),
) -> WaitReason | None:
    """Return why not all of `gone` may be removed once `added` are in sync, or None if they may."""
    if state.in_sync.isdisjoint(gone):
        return None
    left = state.in_sync.difference(gone).union(added)
    if state.leader is None:
        return WaitReason.BROKER_OFFLINE
    return _why_too_few(around.racks.spread(left), _least_spread(state, wanted, around), state, around)


def _least_spread(state: PartitionState, wanted: frozenset[int], around: StepContext) -> tuple[int, ...]:
    """Return in how many domains of each level, and on how many brokers, in-sync replicas have to stay."""
    return tuple(map(min, around.racks.spread(state.in_sync), around.racks.spread(wanted)))


def _why_too_few(
    left: tuple[int, ...], least: tuple[int, ...], state: PartitionState, around: StepContext
) -> WaitReason | None:
    """Return why a spread of in-sync replicas is less than has to stay, or None if it is not."""
    if any(one < two for one, two in zip(left, least, strict=True)):
        return WaitReason.NOT_IN_SYNC
    return WaitReason.MIN_INSYNC if left[-1] < min(len(state.in_sync), around.min_insync) else None


def _away(brokers: frozenset[int], state: PartitionState, around: StepContext) -> StepHold | None:
    """Return a hold for the brokers that are offline, or whose disk is; None if there are none."""
    online = around.observed.online - state.offline
    away = brokers - online
    reason = WaitReason.DISK_OFFLINE if away <= around.observed.online else WaitReason.BROKER_OFFLINE
    return StepHold(reason, tuple(sorted(away))) if away else None


def _under_way(state: PartitionState, around: StepContext) -> Step:
    """Return Copying, or a hold if nothing is copied: copies to offline brokers take no part of the limits."""
    if state.leader is None:
        return without_leader(state, around)
    adding = state.adding - state.in_sync
    # Kafka removes no replica if no other one is in sync.
    if not adding and not state.in_sync - state.removing:
        return StepHold(WaitReason.NOT_IN_SYNC, _behind(state, state.heading_for))
    away = _away(adding, state, around)
    return away if away and adding.issubset(away.brokers) else Copying(adding)


def _addition(change: Change, state: PartitionState, leaving: frozenset[int], around: StepContext) -> Step:
    """Return the step that copies a planned replica, or enough of them to replace `leaving` in the same call."""
    missing = [broker for broker in change.replicas if broker not in state.replicas]
    takers = around.observed.online - around.observed.refused - around.observed.cordoned
    able = [broker for broker in missing if broker in takers]
    planned, staying = frozenset(change.replicas), state.in_sync - leaving
    kept = staying & planned or staying
    if len(able) > 1:
        able.sort(key=Spread(around.racks, kept).with_broker, reverse=True)
    enough = [some for broker in able if (some := _enough(broker, able, state, planned, leaving, around))]
    if enough:
        fewest = min(map(len, enough))
        stay = [broker for broker in state.replicas if broker not in leaving]
        # The list keeps its order until the copy is in sync, because Kafka restores it if the copy is cancelled.
        return Add({some: (*stay, *some) for some in enough if len(some) == fewest})
    unable = [broker for broker in missing if broker not in able]
    if unable:
        return _not_taken(unable, around)
    wrong = why_needed(state, planned, leaving, around, able) or WaitReason.NOT_IN_SYNC
    return _held(wrong, state, planned, around, able)


def _enough(
    first: int,
    able: list[int],
    state: PartitionState,
    planned: frozenset[int],
    leaving: frozenset[int],
    around: StepContext,
) -> tuple[int, ...]:
    """Return `first` and the other brokers needed so that `leaving` may be removed; empty if all are too few."""
    if state.in_sync.isdisjoint(leaving):
        return (first,)
    added, others = [first], [broker for broker in able if broker != first]
    staying, least = Spread(around.racks, {first, *state.in_sync} - leaving), _least_spread(state, planned, around)
    while _why_too_few(staying.counts, least, state, around):
        if not others:
            return ()
        added.append(max(others, key=staying.with_broker))
        others.remove(added[-1])
        staying.join(added[-1])
    return tuple(added)


def _not_taken(brokers: list[int], around: StepContext) -> StepHold:
    """Return a hold for brokers that take no replica now: it waits for the cordoned ones, or else the offline ones.

    If Kafka refuses all of the brokers, the hold is final.
    """
    if around.observed.refused.issuperset(brokers):
        return StepHold(WaitReason.REFUSED, tuple(brokers))
    cordoned = tuple(broker for broker in brokers if broker in around.observed.cordoned & around.observed.online)
    away = tuple(broker for broker in brokers if broker not in around.observed.online)
    return StepHold(WaitReason.CORDONED, cordoned) if cordoned else StepHold(WaitReason.BROKER_OFFLINE, away)


def _arranged(change: Change, replicas: list[int]) -> tuple[int, ...]:
    """Return the replicas, in the planned order if they are the planned ones."""
    return change.replicas if set(replicas) == set(change.replicas) else tuple(replicas)


def _asked_again(state: PartitionState, started: tuple[int, ...], planned: frozenset[int], around: StepContext) -> Step:
    added = tuple(broker for broker in started if broker not in state.replicas)
    gone = frozenset(state.replicas).difference(started)
    # The operator adds only planned replicas, one at a time: if others are missing, another client has removed them.
    # In the same call it removes only replicas on cordoned brokers: if others are back, another client has added them.
    replaces = gone and gone <= around.observed.replaced - planned
    if not planned.issuperset(added) or (added and not replaces and (gone or len(added) > 1)):
        return StepHold(WaitReason.CHANGED_BY_OTHERS)
    if not around.observed.online - around.observed.cordoned >= frozenset(added):
        return _not_taken(list(added), around)
    wrong = why_needed(state, planned, gone, around, added)
    if wrong:
        return _held(wrong, state, planned, around)
    return Add({added: started}) if added else Arrange(started)


def _why_nothing_goes(
    state: PartitionState, planned: frozenset[int], leaving: frozenset[int], around: StepContext
) -> StepHold:
    """Return the hold of a partition that has all planned replicas, but others that may not be removed yet."""
    unneeded = [leaving, *({one} for one in state.replicas if one not in planned)]
    reasons = [why_needed(state, planned, gone, around) for gone in unneeded]
    reason = next(filter(None, reasons), WaitReason.NOT_IN_SYNC)
    return _held(reason, state, planned, around)


def _held(
    reason: WaitReason,
    state: PartitionState,
    planned: frozenset[int],
    around: StepContext,
    able: Collection[int] = (),
) -> StepHold:
    """Return a hold that waits for planned replicas to be in sync, except `able`, which are copied afterwards."""
    too_high = reason is WaitReason.MIN_INSYNC and around.min_insync > len(planned) and not around.is_unknown
    return StepHold(reason, _behind(state, planned.difference(able)), len(planned) if too_high else None)


def _leadership(change: Change, state: PartitionState, around: StepContext) -> Step:
    preferred = change.replicas[0]
    if preferred in (state.leader, *change.before[:1]):
        return Settled()
    if state.leader is None:
        return without_leader(state, around)
    return Elect() if preferred in state.in_sync else StepHold(WaitReason.NOT_IN_SYNC, (preferred,))


def _behind(state: PartitionState, planned: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(planned - state.in_sync))
