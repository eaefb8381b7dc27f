"""The partitions that a pass checks: at intervals all, otherwise those in progress and the next ones in the queue.

A plan of a hundred thousand partitions has about twenty under way. To read and check all of them every few seconds
would cost the brokers and this process more than the moves do.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from rackspan.core.move_limits import Limits
from rackspan.core.partitions import TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Waiting, WaitReason, of_change
from rackspan.core.reassignment.move_decision import MoveDecision


class Worklist:
    """The partitions of a plan that are left. Most passes check `window` of them, and after `passes` passes one all.

    If no more than `window` are left, each pass checks all.
    """

    def __init__(self, changes: Iterable[Change], window: int, passes: int) -> None:
        self._left = {of_change(change): change for change in changes}
        self._window = window
        self._passes = passes
        self._until_all = 0
        self._is_stirred = False
        """Whether anything was done since the last check of all partitions."""
        self._queue: dict[TopicPartition, None] = {}
        """The partitions that wait only for their turn, the most urgent first."""
        self._waiting: dict[TopicPartition, Waiting] = {}

    @property
    def left(self) -> Collection[Change]:
        """All changes that are not settled, in the plan's order."""
        return self._left.values()

    def is_whole(self, looked_at: Collection[TopicPartition]) -> bool:
        """Return whether the partitions that a pass checks are all that are left."""
        return len(looked_at) == len(self._left)

    def change(self, at: TopicPartition) -> Change | None:
        """Return the change of a partition, or None if the partition is not left."""
        return self._left.get(at)

    @property
    def waiting(self) -> list[Waiting]:
        """The reasons why partitions that are left waited at their last check."""
        return list(self._waiting.values())

    def look_at_all(self) -> dict[TopicPartition, Change]:
        """Return all changes that are left, to check all of them."""
        self._until_all = self._passes
        self._is_stirred = False
        self._queue = {}
        return dict(self._left)

    def look(self, in_hand: Collection[TopicPartition], limits: Limits) -> dict[TopicPartition, Change]:
        """Return the changes to check in a pass; `in_hand` are the partitions for which a step was started."""
        self._until_all -= 1
        if self._until_all < 0 or len(self._left) <= self._window:
            return self.look_at_all()
        chosen = {at: self._left[at] for at in in_hand if at in self._left}
        for at, one in self._waiting.items():
            if len(chosen) >= self._window:
                break
            if one.reason is not WaitReason.LIMIT:
                chosen[at] = self._left[at]
        return chosen | self._next_in_line(limits)

    def learn(self, looked_at: Iterable[TopicPartition], decision: MoveDecision) -> None:
        """Record what a pass has decided. If there is nothing more to do, the next pass checks all partitions."""
        for at in looked_at:
            self._waiting.pop(at, None)
            self._queue.pop(at, None)
        for at in decision.settled:
            self._left.pop(at, None)
        queue = [*decision.postponed]
        for one in decision.waiting:
            self._waiting[one.partition] = one
            if one.reason is WaitReason.LIMIT:
                queue.append(one.partition)
        # The checked partitions came from the head of the queue.
        self._queue = dict.fromkeys(queue) | self._queue
        if not decision.idle:
            self._is_stirred = True
        elif self._is_stirred or all(one.reason.final for one in self._waiting.values()):
            self._until_all = 0

    def leave(self, some: Iterable[TopicPartition]) -> None:
        """Forget partitions that are left to other clients."""
        for at in some:
            for kept in (self._left, self._queue, self._waiting):
                kept.pop(at, None)

    def _next_in_line(self, limits: Limits) -> dict[TopicPartition, Change]:
        """Return the changes at the head of the queue, no more per broker than are enough to keep it busy."""
        most = 4 * limits.moves_per_broker
        takers: Counter[int] = Counter()
        found: dict[TopicPartition, Change] = {}
        for at in self._queue:
            change = self._left[at]
            added = change.added
            if added and all(takers[broker] >= most for broker in added):
                continue
            takers.update(added)
            found[at] = change
            if len(found) >= max(self._window, limits.moves):
                break
        return found
