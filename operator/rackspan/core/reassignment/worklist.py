"""
Which partitions a pass looks at: all now and then, and in between those in hand and those that are next in line.

A plan of a hundred thousand partitions has some twenty under way. To read and judge all of them every few seconds would
cost brokers and this process more than the moves do.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from rackspan.core.move_limits import Limits
from rackspan.core.partitions import TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Waiting, WaitReason, of_change
from rackspan.core.reassignment.move_decision import MoveDecision


class Worklist:
    """The partitions of a plan that are left, `window` of which are looked at in most passes, and all every `passes`.

    A plan of no more than `window` is looked at whole each time.
    """

    def __init__(self, changes: Iterable[Change], window: int, passes: int) -> None:
        self._left = {of_change(change): change for change in changes}
        self._window = window
        self._passes = passes
        self._until_all = 0
        self._is_stirred = False
        """Whether anything was done since all was looked at."""
        self._queue: dict[TopicPartition, None] = {}
        """Those that wait for nothing but their turn, the most urgent first."""
        self._waiting: dict[TopicPartition, Waiting] = {}

    @property
    def left(self) -> Collection[Change]:
        """All that is not settled, in the plan's order."""
        return self._left.values()

    def change(self, at: TopicPartition) -> Change | None:
        """Give what a partition that is left shall become, None where it is not."""
        return self._left.get(at)

    @property
    def waiting(self) -> list[Waiting]:
        """What each partition that is left waited for when it was last looked at."""
        return list(self._waiting.values())

    def look_at_all(self) -> dict[TopicPartition, Change]:
        """Give all that is left."""
        self._until_all = self._passes
        self._is_stirred = False
        self._queue = {}
        return dict(self._left)

    def look(self, in_hand: Collection[TopicPartition], limits: Limits) -> dict[TopicPartition, Change]:
        """Give what to look at in a pass; `in_hand` are those of which a step was begun."""
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
        """Take note of what a pass has decided; where nothing is to do any more, the next one looks at all."""
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
        # What was looked at comes from the head of the queue.
        self._queue = dict.fromkeys(queue) | self._queue
        if not decision.idle:
            self._is_stirred = True
        elif self._is_stirred or all(one.reason.final for one in self._waiting.values()):
            self._until_all = 0

    def leave(self, some: Iterable[TopicPartition]) -> None:
        """Forget partitions that are left to others."""
        for at in some:
            for kept in (self._left, self._queue, self._waiting):
                kept.pop(at, None)

    def _next_in_line(self, limits: Limits) -> dict[TopicPartition, Change]:
        """Those at the head of the queue, no more for a broker than would keep it busy."""
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
