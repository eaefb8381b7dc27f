"""Taking back what is under way: each partition to the replicas it had before its last step."""

from collections.abc import Iterable, Mapping

from rackspan.core.partitions import TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, Racks, Waiting, WaitReason, of_change
from rackspan.core.reassignment.move_decision import MoveDecision
from rackspan.core.reassignment.steps import StepContext, why_needed, without_leader


def cancel(
    changes: Iterable[Change],
    observed: Observed,
    started: Mapping[TopicPartition, tuple[int, ...]],
    racks: Racks,
) -> MoveDecision:
    """
    Decide how to take back what is under way; partitions that are moved, wholly or in part, stay where they are.

    A reassignment of ours is cancelled. A new replica that is in sync and has not replaced an old one yet is taken off
    again, unless it is needed by now. What somebody else has given other replicas is left as it is. `settled` are those
    at rest.
    """
    alter: dict[TopicPartition, tuple[int, ...] | None] = {}
    waiting: list[Waiting] = []
    settled: set[TopicPartition] = set()
    for change in changes:
        at = of_change(change)
        state = observed.partitions.get(at)
        if state is None or at not in started:
            settled.add(at)
        elif state.under_way:
            if state.heading_for == frozenset(started[at]):
                alter[at] = None
            else:
                waiting.append(Waiting(at, WaitReason.REASSIGNED_BY_OTHERS))
        elif not {*change.before, *change.replicas}.issuperset(state.replicas):
            settled.add(at)
        elif len(state.replicas) > max(len(change.before), len(change.replicas)):
            around, had = StepContext.of(change, observed, racks), frozenset(change.before)
            new = [broker for broker in reversed(state.replicas) if broker not in had]
            why = {broker: why_needed(state, had, {broker}, around) for broker in new}
            extra = next((broker for broker in new if why[broker] is None), None)
            if extra is not None:
                alter[at] = tuple(broker for broker in state.replicas if broker != extra)
            elif state.leader is None:
                held = without_leader(state, around)
                waiting.append(Waiting(at, held.reason, held.brokers))
            else:
                reason = why[new[0]] or WaitReason.NOT_IN_SYNC
                waiting.append(Waiting(at, reason, tuple(sorted(set(state.replicas) - state.in_sync))))
        elif (
            set(state.replicas) == set(change.before)
            and state.replicas not in (change.before, change.replicas)
            and observed.cordoned.isdisjoint(change.before)
        ):
            # A removal that is cancelled leaves the replicas in the order that was asked for. It stays where a broker
            # of the list is cordoned: Kafka 4.4 takes none.
            alter[at] = change.before
        else:
            settled.add(at)
    return MoveDecision(alter, (), {}, tuple(waiting), frozenset(settled))
