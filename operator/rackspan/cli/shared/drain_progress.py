"""The progress of a drain, from the RackTopology's status and its Reassignments. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rackspan.api.conditions import CONNECTED, REASSIGNED, ConditionStatus, find_condition
from rackspan.api.racktopology import DrainBlock, DrainStatus, RackTopology, RackTopologySpec
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment, ReassignmentState
from rackspan.core.text import plural

_MOST_NAMED = 3
_WAYS_OUT = {
    Reason.EXPLICIT_ASSIGNMENT: "take the brokers out of spec.placement.assignment of these topics",
    Reason.NOT_MANAGED: "move topics without a KafkaTopic with rackspan apply --drain-broker, or let the operator "
    "plan for them by spec.unmanagedTopics: Repair",
    Reason.INTERNAL_TOPIC: "move Kafka's own topics with rackspan apply --drain-broker, or list them in "
    "spec.internalTopics, with spec.unmanagedTopics: Repair",
}
"""What makes replicas leave, by the reason why they stay."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The state of a drain at one look.

    `left` is the number of replicas that are still there, None if not known yet. `failed` is why the drain cannot
    continue, None if it can. `running` is the Reassignment under way, else the next one. `stays` are the entries of
    the status if only replicas are left that no plan moves.
    """

    drained: bool
    left: int | None
    sentence: str
    running: Reassignment | None = None
    failed: str | None = None
    stays: tuple[DrainStatus, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.drained or bool(self.stays) or self.failed is not None


def drain_progress(
    topology: RackTopology,
    generation: int,
    targets: Sequence[str],
    reassignments: Collection[Reassignment],
    followed: Collection[str],
) -> DrainProgress:
    """Return the progress of the drain of `targets` (`api.drains.Drains.targets`), set in `generation` of the object.

    `followed` are the uids of Reassignments whose failure is a failure of the drain.
    """
    running = next((one for one in reassignments if not one.ended), None)
    mine = [one for one in reassignments if one.meta.uid in followed]
    ended = [one for one in mine if one.ended and one.status.state is not ReassignmentState.SUCCEEDED]
    if (topology.status.observed_generation or 0) < generation:
        return DrainProgress(False, None, "the operator has not seen the change yet", running)
    connected = find_condition(topology.status.conditions, CONNECTED)
    if connected is not None and connected.status != ConditionStatus.TRUE:  # the entries are as last seen
        return DrainProgress(False, None, f"the operator does not see Kafka: {connected.message}", running)
    by_target = {one.target: one for one in topology.status.drains}
    entries = [by_target.get(target) for target in targets]
    known = [one.replicas.total for one in entries if one is not None and one.replicas is not None]
    left = sum(known) if len(known) == len(targets) else None
    waiting = [one for one in entries if one is not None and one.drained is not True]
    missing = [target for target, one in zip(targets, entries, strict=True) if one is None]
    if not waiting and not missing:
        return DrainProgress(True, 0, "no replica is left there", running)
    words = [in_words(one) for one in waiting[:_MOST_NAMED]]
    words += [f"{target}: not in the status yet" for target in missing[: _MOST_NAMED - len(words)]]
    more = len(waiting) + len(missing) - len(words)
    words += [f"and {more:,} more"] if more else []
    plan = find_condition(topology.status.conditions, REASSIGNED)
    if plan is not None and plan.status != ConditionStatus.TRUE:
        words.append(plan.message)
    failed = None
    # If there is a plan, the ended Reassignments may be older than the drain.
    if ended and running is None and topology.status.plan is None:
        last = ended[-1]
        failed = (
            f"Reassignment {last.key} has ended as {last.state_name}: {last.status.message or 'no reason is known'}"
        )
    goes_on = running is not None or topology.status.plan is not None or bool(missing)
    stays = () if goes_on else staying(waiting, topology.spec)
    return DrainProgress(False, left, "; ".join(words), running, failed, stays)


def in_words(entry: DrainStatus) -> str:
    """Return what the status says about one drain."""
    return f"{entry.target}: {entry.message}"


def staying(waiting: Sequence[DrainStatus], spec: RackTopologySpec) -> tuple[DrainStatus, ...]:
    """Return the entries if no plan moves any of their replicas unless specs change, else an empty tuple."""
    why = frozenset[str]().union(*map(_blocked_by, waiting))
    return tuple(waiting) if why <= _never_planned(spec) else ()


def never_moved(entries: Iterable[DrainStatus], spec: RackTopologySpec) -> Sequence[DrainBlock]:
    """Return the blocks, which are replicas by reason, that no plan moves unless specs change."""
    never = _never_planned(spec)
    return [block for entry in entries for block in entry.blocks if block.reason in never]


def ways_out(blocks: Sequence[DrainBlock]) -> str:
    """Return what makes replicas leave that no plan moves, with their topics. Empty if there are none."""
    sentences = []
    for reason, way in _WAYS_OUT.items():
        mine = [block for block in blocks if block.reason == reason]
        names = sorted({name for block in mine for name in block.samples})
        more = " and others" if any(block.topics > len(block.samples) for block in mine) else ""
        sentences += [f"{way}: {', '.join(names)}{more}"] if names else []
    return "; ".join(sentences)


def _blocked_by(entry: DrainStatus) -> set[str]:
    return {block.reason for block in entry.blocks} or {entry.reason}


def _never_planned(spec: RackTopologySpec) -> set[str]:
    """Return the reasons for which no plan moves a replica unless specs change."""
    without_object = set() if spec.repairs_unmanaged else {Reason.NOT_MANAGED, Reason.INTERNAL_TOPIC}
    return {Reason.EXPLICIT_ASSIGNMENT, *without_object}


def left_in_words(left: int | None) -> str:
    """Return the number of replicas left in words, to begin a sentence with."""
    return "what is left is not known" if left is None else f"{plural(left, 'replica')} left"
