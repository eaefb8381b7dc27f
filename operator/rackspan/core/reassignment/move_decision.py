"""One pass over a plan: decides the next calls, within the limits, for the partitions in the fewest domains first."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from rackspan.core.move_limits import Limits
from rackspan.core.partitions import PartitionState, TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, Racks, Waiting, WaitReason, of_change
from rackspan.core.reassignment.steps import (
    Add,
    Arrange,
    Copying,
    Elect,
    Settled,
    StepContext,
    StepHold,
    next_step,
)

AT_ONCE = 1_000
"""The maximum number of replica lists changed, or leaders elected, in a pass: far below the 10,000 records that one
operation of a controller may have."""


@dataclass(frozen=True, slots=True)
class MoveDecision:
    """What to do now.

    `alter` are new replica lists, None to cancel the reassignment under way, in the order of their importance.
    `copying` are the brokers that copy a partition now, or as soon as `alter` is done. The `postponed` partitions wait
    for the next pass only because this pass is full.
    """

    alter: Mapping[TopicPartition, tuple[int, ...] | None]
    elect: tuple[TopicPartition, ...]
    copying: Mapping[TopicPartition, frozenset[int]]
    waiting: tuple[Waiting, ...]
    settled: frozenset[TopicPartition]
    postponed: tuple[TopicPartition, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do and nothing under way: the plan is finished, except for what is `waiting`."""
        return not (self.alter or self.elect or self.copying or self.postponed)


@dataclass(frozen=True, slots=True)
class Progress:
    """The copies of a plan: the number of all, the number in sync, and the same in bytes if sizes are known.

    `removals` is the number of replicas by which partitions shrink, `unsized` that of copies left of unknown size.
    """

    moves: int
    moved: int
    bytes: int
    moved_bytes: int
    removals: int = 0
    unsized: int = 0

    @property
    def known_bytes(self) -> int | None:
        """The bytes of all copies, or None while the size of one that is left is not known."""
        return None if self.unsized else self.bytes


def decide(
    changes: Iterable[Change],
    observed: Observed,
    started: Mapping[TopicPartition, tuple[int, ...]],
    limits: Limits,
    racks: Racks,
) -> MoveDecision:
    """Return what to do about some changes of a plan. `started` are the replica lists that were last requested.

    Each call continues from the observed state: only `started` is remembered.
    """
    made = _Pass(observed, limits)
    additions: list[tuple[bool, tuple[int, ...], TopicPartition, PartitionState, Add]] = []
    for change in changes:
        at = of_change(change)
        state = observed.partitions.get(at)
        match next_step(change, state, started.get(at), StepContext.of(change, observed, racks)):
            case Settled():
                made.settled.add(at)
            case Copying(adding) if state is not None:
                made.under_way(at, state, adding)
            case Arrange(replicas):
                made.arrange(at, replicas)
            case Elect():
                made.lead(at)
            case StepHold(reason, brokers, min_insync):
                made.waiting.append(Waiting(at, reason, brokers, min_insync))
            case Add() as add if state is not None:
                asked_before = started.get(at) in add.lists.values()
                additions.append((not asked_before, racks.spread(state.in_sync), at, state, add))
    # Lists that were requested before come first: Kafka may be copying already while its metadata lags behind. Then
    # come the partitions in the fewest domains, compared from the top level down.
    for *_, at, state, add in sorted(additions, key=lambda one: one[:3]):
        made.add(at, state, add)
    return made.decision()


class Tally:
    """The progress of a plan, updated by the partitions that each pass has checked."""

    def __init__(self, changes: Iterable[Change], sizes: Mapping[TopicPartition, int]) -> None:
        """Take the bytes of one replica from `sizes`, which may be filled later, or else from its change."""
        self._sizes = sizes
        self._new: dict[TopicPartition, frozenset[int]] = {}
        self._size: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._moves = self._moved = self._bytes = self._moved_bytes = 0
        self._removals = 0
        self._unsized: dict[TopicPartition, int] = {}
        """The number of copies left, of each partition whose size is not known."""
        for change in changes:
            self._removals += change.removed
            if not change.copied:
                continue
            at = of_change(change)
            self._new[at] = change.added
            self._moves += len(self._new[at])
            size = sizes.get(at, change.size_bytes)
            if size is None:
                self._unsized[at] = len(self._new[at])
            self._weigh(at, size or 0)

    def settle(self, some: Iterable[TopicPartition]) -> None:
        """Count partitions that are as planned."""
        for at in some:
            if at in self._new:
                self._count(at, len(self._new[at]))

    def see(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Count the copies in sync of partitions that are not settled."""
        for at, state in partitions.items():
            if at in self._new:
                if at in self._sizes:
                    self._unsized.pop(at, None)
                self._weigh(at, self._sizes.get(at, self._size[at]))
                self._count(at, len(self._new[at] & state.in_sync))

    @property
    def progress(self) -> Progress:
        """The current progress."""
        return Progress(
            self._moves, self._moved, self._bytes, self._moved_bytes, self._removals, sum(self._unsized.values())
        )

    def _count(self, at: TopicPartition, done: int) -> None:
        more = done - self._done.get(at, 0)
        if more:
            self._done[at] = done
            self._moved += more
            self._moved_bytes += more * self._size[at]
            if at in self._unsized:
                self._unsized[at] -= more

    def _weigh(self, at: TopicPartition, size: int) -> None:
        more = size - self._size.get(at, 0)
        if not more and at in self._size:
            return
        self._size[at] = size
        self._bytes += more * len(self._new[at])
        self._moved_bytes += more * self._done.get(at, 0)


class _Pass:
    """The decision of a pass so far, and how much of the limits it uses."""

    def __init__(self, observed: Observed, limits: Limits) -> None:
        self._observed = observed
        self._limits = limits
        self._moves = 0
        self._per_broker: Counter[int] = Counter()
        self._taken_bytes: Counter[int] = Counter()
        self._postponed: list[TopicPartition] = []
        self.alter: dict[TopicPartition, tuple[int, ...] | None] = {}
        self.elect: list[TopicPartition] = []
        self.copying: dict[TopicPartition, frozenset[int]] = {}
        self.waiting: list[Waiting] = []
        self.settled: set[TopicPartition] = set()

    def under_way(self, at: TopicPartition, state: PartitionState, adding: frozenset[int]) -> None:
        """Count a reassignment that the operator has started."""
        self.copying[at] = adding
        for broker in adding & self._observed.online - state.offline:
            self._count(at, state.leader, broker)

    def arrange(self, at: TopicPartition, replicas: tuple[int, ...]) -> None:
        """Change a list without a copy."""
        if len(self.alter) < AT_ONCE:
            self.alter[at] = replicas
        else:
            self._postponed.append(at)

    def lead(self, at: TopicPartition) -> None:
        """Elect the preferred leader."""
        if len(self.elect) < AT_ONCE:
            self.elect.append(at)
        else:
            self._postponed.append(at)

    def add(self, at: TopicPartition, state: PartitionState, add: Add) -> None:
        """Start a copy by the first list that the limits allow."""
        wrong = WaitReason.LIMIT
        for added, replicas in add.lists.items():
            if not all(self._has_room(at, broker) for broker in added):
                wrong = WaitReason.DISK_FULL
            elif self._within_limits(state.leader, added) and len(self.alter) < AT_ONCE:
                self.alter[at] = replicas
                self.copying[at] = frozenset(added)
                for broker in added:
                    self._count(at, state.leader, broker)
                return
            else:
                wrong = WaitReason.LIMIT
        brokers = tuple(dict.fromkeys(chain(*add.lists)))
        self.waiting.append(Waiting(at, wrong, brokers if wrong is WaitReason.DISK_FULL else ()))

    def decision(self) -> MoveDecision:
        """Return the decision."""
        return MoveDecision(
            self.alter,
            tuple(self.elect),
            self.copying,
            tuple(self.waiting),
            frozenset(self.settled),
            tuple(self._postponed),
        )

    def _within_limits(self, leader: int | None, added: Collection[int]) -> bool:
        """Return whether copies may start. A list that needs more copies than the limits allow starts alone."""
        copies, limits, busy = len(added), self._limits, self._per_broker
        return (
            limits.moves > 0
            and self._moves + copies <= max(limits.moves, copies)
            and all(busy[broker] < limits.moves_per_broker for broker in added)
            and (leader is None or busy[leader] + copies <= max(limits.moves_per_broker, copies))
        )

    def _count(self, at: TopicPartition, leader: int | None, broker: int) -> None:
        self._moves += 1
        self._per_broker[broker] += 1
        if leader is not None:
            self._per_broker[leader] += 1
        self._taken_bytes[broker] += self._observed.sizes.get(at, 0)

    def _has_room(self, at: TopicPartition, broker: int) -> bool:
        disk = self._observed.disks.get(broker)
        if disk is None:
            return True
        left = disk.usable - self._taken_bytes[broker] - self._observed.sizes.get(at, 0)
        return left >= self._limits.free_disk * disk.total
