"""Cancellation of a plan: returns each partition to the replicas that it had before its last step."""

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
    """The reassignment under way has to be cancelled."""


_StepBack: TypeAlias = Settled | _Undo | Arrange | StepHold


def cancel(
    changes: Iterable[Change],
    observed: Observed,
    started: Mapping[TopicPartition, tuple[int, ...]],
    racks: Racks,
) -> MoveDecision:
    """Return how to undo the steps under way. Partitions that have been moved, wholly or partly, stay where they are.

    The operator cancels its own reassignments. It removes an added replica that has not replaced an old one yet, unless
    the replica is needed by now. It does not touch partitions whose replicas another client has changed or is changing,
    or partitions without a leader. `settled` are the partitions with nothing to undo.

    Offline brokers may never return, and no other plan starts before this one has ended. So an added replica stays if
    only offline brokers prevent its removal. A reassignment under way does not stay: Kafka would continue it.
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
    """Return the step that undoes a partition's last step. `asked` is the list that the operator last requested."""
    if state.under_way:
        if state.heading_for != frozenset(asked):
            return StepHold(WaitReason.CHANGED_BY_OTHERS)
        return _Undo() if state.leader is not None else without_leader(state, around)
    step = _rearranged(change, state, around)
    # Without a leader, it is unknown which replicas are in sync: only the new replica may have all records.
    if not isinstance(step, Settled) and state.leader is None:
        step = without_leader(state, around)
    return _given_up(step, state, around) if isinstance(step, StepHold) else step


def _given_up(hold: StepHold, state: PartitionState, around: StepContext) -> StepHold:
    """Return the hold, or a final one if it waits only for brokers that are offline or whose disks are offline."""
    is_away = bool(hold.brokers) and state.offline.union(set(hold.brokers) - around.observed.online) >= {*hold.brokers}
    return StepHold(WaitReason.NOT_TAKEN_BACK, hold.brokers) if is_away else hold


def _rearranged(change: Change, state: PartitionState, around: StepContext) -> Settled | Arrange | StepHold:
    """Return the step that undoes a partition's last step while no reassignment is under way."""
    if not {*change.before, *change.replicas}.issuperset(state.replicas):
        return Settled()
    if len(state.replicas) > max(len(change.before), len(change.replicas)):
        return _without_new(change, state, around)
    # After a cancelled removal, the replicas keep the requested order. It stays if a broker of the list is cordoned,
    # because Kafka 4.4 refuses lists that name a cordoned broker.
    is_reordered = set(state.replicas) == set(change.before) and state.replicas not in (change.before, change.replicas)
    if is_reordered and around.observed.cordoned.isdisjoint(change.before):
        return Arrange(change.before)
    return Settled()


def _without_new(change: Change, state: PartitionState, around: StepContext) -> Arrange | StepHold:
    """Return the step that removes a new replica that has not replaced an old one, or a hold if it is needed."""
    had = frozenset(change.before)
    new = [broker for broker in reversed(state.replicas) if broker not in had]
    why = {broker: why_needed(state, had, {broker}, around) for broker in new}
    extra = next((broker for broker in new if why[broker] is None), None)
    if extra is not None:
        return Arrange(tuple(broker for broker in state.replicas if broker != extra))
    reason = why[new[0]] or WaitReason.NOT_IN_SYNC
    return StepHold(reason, tuple(sorted(set(state.replicas) - state.in_sync)))
