"""How far a drain is, from the RackTopology's status and its Reassignments. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rackspan.api.conditions import REASSIGNED, ConditionStatus, find_condition
from rackspan.api.racktopology import DrainStatus, RackTopology, RackTopologySpec
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment, ReassignmentState
from rackspan.core.text import plural

_FAILED = (ReassignmentState.FAILED, ReassignmentState.CANCELLED, ReassignmentState.STOPPED)
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """
    One look at a drain.

    `left` are replicas that are still there, None where the operator has not told yet. `failed` is why it will not go
    on, None where it may. `running` is the Reassignment that is under way, or else the next one. `stays` says why
    replicas stay, where only such are left that no plan moves.
    """

    drained: bool
    left: int | None
    sentence: str
    running: Reassignment | None = None
    failed: str | None = None
    stays: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.drained or bool(self.stays) or self.failed is not None


def drain_progress(
    topology: RackTopology,
    generation: int,
    targets: Sequence[str],
    reassignments: Collection[Reassignment],
    followed: Collection[str],
) -> DrainProgress:
    """
    Look at the drain of `targets` (`api.drains.Drains.targets`), asked for with `generation` of the object.

    `followed` are uids of Reassignments of which it matters how they end.
    """
    running = next((one for one in reassignments if not one.ended), None)
    ended = [one for one in reassignments if one.meta.uid in followed and one.status.state in _FAILED]
    if (topology.status.observed_generation or 0) < generation:
        return DrainProgress(False, None, "the operator has not seen the change yet", running)
    told = {one.target: one for one in topology.status.drains}
    entries = [told.get(target) for target in targets]
    known = [one.replicas.total for one in entries if one is not None and one.replicas is not None]
    left = sum(known) if len(known) == len(targets) else None
    waiting = [one for one in entries if one is not None and one.drained is not True]
    missing = [target for target, one in zip(targets, entries, strict=True) if one is None]
    if not waiting and not missing:
        return DrainProgress(True, 0, "no replica is left there", running)
    words = [f"{one.target}: {one.message}" for one in waiting[:_MOST_NAMED]]
    words += [f"{target}: not in the status yet" for target in missing[: _MOST_NAMED - len(words)]]
    more = len(waiting) + len(missing) - len(words)
    words += [f"and {more:,} more"] if more else []
    plan = find_condition(topology.status.conditions, REASSIGNED)
    if plan is not None and plan.status != ConditionStatus.TRUE:
        words.append(plan.message)
    failed = None
    if ended and running is None:
        last = ended[-1]
        failed = (
            f"Reassignment {last.key} has ended as {last.status.state}: {last.status.message or 'no reason is known'}"
        )
    why = frozenset[str]().union(*map(_blocked_by, waiting))
    goes_on = running is not None or topology.status.plan is not None or bool(missing)
    stays = why if not goes_on and why <= _never_planned(topology.spec) else frozenset[str]()
    return DrainProgress(False, left, "; ".join(words), running, failed, stays)


def _blocked_by(entry: DrainStatus) -> set[str]:
    return {block.reason for block in entry.blocks} or {entry.reason}


def _never_planned(spec: RackTopologySpec) -> set[str]:
    """Reasons of replicas that no plan moves as long as specs are what they are."""
    without_object = set() if spec.repairs_unmanaged else {Reason.NOT_MANAGED, Reason.INTERNAL_TOPIC}
    return {Reason.EXPLICIT_ASSIGNMENT, *without_object}


def left_in_words(left: int | None) -> str:
    """How many replicas are left, to begin a sentence with."""
    return "what is left is not known" if left is None else f"{plural(left, 'replica')} left"
