"""Taking back what is under way: each partition to the replicas it had before its last step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rackspan.core.partitions import PartitionState, TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, Racks, Waiting, WaitReason, of_change
from rackspan.core.reassignment.move_decision import AT_ONCE, MoveDecision
from rackspan.core.reassignment.steps import Arrange, Settled, StepContext, StepHold, why_needed, without_leader


@dataclass(frozen=True, slots=True)
class _Undo:
    """The reassignment under way is to be cancelled."""


_StepBack: TypeAlias = Settled | _Undo | Arrange | StepHold


def cancel(
    changes: Iterable[Change],
    observed: Observed,
    started: Mapping[TopicPartition, tuple[int, ...]],
    racks: Racks,
) -> MoveDecision:
    """
    Decide how to take back what is under way; partitions that are moved, wholly or in part, stay where they are.

    A reassignment of ours is cancelled. A new replica that is in sync and has not replaced an old one yet is taken off
    again, unless it is needed by now. What somebody else has given other replicas, or is giving, is left as it is, and
    nothing is changed about a partition without a leader. `settled` are those at rest.

    Brokers that are away may never come back, and no other plan begins before this one has ended: a new replica that is
    needed for nothing but them stays. Kafka's own reassignment is no such thing: it would go on.
    """
    alter: dict[TopicPartition, tuple[int, ...] | None] = {}
    postponed: list[TopicPartition] = []
    waiting: list[Waiting] = []
    settled: set[TopicPartition] = set()
    for change in changes:
        at = of_change(change)
        state = observed.partitions.get(at)
        if state is None or at not in started:
            settled.add(at)
            continue
        around = StepContext.of(change, observed, racks)
        match _step_back(change, state, started[at], around):
            case Settled():
                settled.add(at)
            case StepHold(reason, brokers):
                waiting.append(Waiting(at, reason, brokers))
            case _ if len(alter) >= AT_ONCE:
                postponed.append(at)
            case Arrange(replicas):
                alter[at] = replicas
            case _Undo():
                alter[at] = None
    return MoveDecision(alter, (), {}, tuple(waiting), frozenset(settled), tuple(postponed))


def _step_back(change: Change, state: PartitionState, asked: tuple[int, ...], around: StepContext) -> _StepBack:
    """Give the step that takes back a partition of which the list `asked` was last asked for, by us."""
    if state.under_way:
        if state.heading_for != frozenset(asked):
            return StepHold(WaitReason.CHANGED_BY_OTHERS)
        return _Undo() if state.leader is not None else without_leader(state, around)
    step = _rearranged(change, state, around)
    # Who is in sync is not known without a leader: the new replica may be the one that has all that was written.
    if not isinstance(step, Settled) and state.leader is None:
        step = without_leader(state, around)
    return _given_up(step, state, around) if isinstance(step, StepHold) else step


def _given_up(hold: StepHold, state: PartitionState, around: StepContext) -> StepHold:
    """The same, or an end of it where nothing is waited for but brokers that are away, or their disks."""
    is_away = bool(hold.brokers) and state.offline.union(set(hold.brokers) - around.observed.online) >= {*hold.brokers}
    return StepHold(WaitReason.NOT_TAKEN_BACK, hold.brokers) if is_away else hold


def _rearranged(change: Change, state: PartitionState, around: StepContext) -> Settled | Arrange | StepHold:
    """Give the step that takes back a partition of which no reassignment is under way."""
    if not {*change.before, *change.replicas}.issuperset(state.replicas):
        return Settled()
    if len(state.replicas) > max(len(change.before), len(change.replicas)):
        return _without_new(change, state, around)
    # A removal that is cancelled leaves the replicas in the order that was asked for. It stays where a broker of the
    # list is cordoned: Kafka 4.4 takes none.
    is_reordered = set(state.replicas) == set(change.before) and state.replicas not in (change.before, change.replicas)
    if is_reordered and around.observed.cordoned.isdisjoint(change.before):
        return Arrange(change.before)
    return Settled()


def _without_new(change: Change, state: PartitionState, around: StepContext) -> Arrange | StepHold:
    """Take off a new replica that has not replaced an old one, unless it is needed."""
    had = frozenset(change.before)
    new = [broker for broker in reversed(state.replicas) if broker not in had]
    why = {broker: why_needed(state, had, {broker}, around) for broker in new}
    extra = next((broker for broker in new if why[broker] is None), None)
    if extra is not None:
        return Arrange(tuple(broker for broker in state.replicas if broker != extra))
    reason = why[new[0]] or WaitReason.NOT_IN_SYNC
    return StepHold(reason, tuple(sorted(set(state.replicas) - state.in_sync)))
