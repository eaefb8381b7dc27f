"""The reassignments of a plan that are its own: which replica lists were requested, and who has changed them since."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from rackspan.core.partitions import TopicPartition
from rackspan.core.reassignment.model import Observed, Waiting, WaitReason
from rackspan.core.reassignment.move_decision import MoveDecision

PASSES_UNTIL_SURE = 3
"""The number of passes after which an apparent change by others counts: metadata may lag behind the controller."""
_SETTLED_RECORDED = 500
"""The number of settled partitions that stay in the record: the next process may ask a broker that lags behind."""

_Lists = dict[TopicPartition, tuple[int, ...]]


class Claims:
    """The partitions for which a plan has requested replica lists. `taken_over` are those that it leaves to others."""

    def __init__(
        self, started: Mapping[TopicPartition, tuple[int, ...]], taken_over: Collection[TopicPartition]
    ) -> None:
        self.started: _Lists = dict(started)
        """Includes settled partitions: metadata that is older than their last step must not start them again."""
        self.asked: _Lists = dict(started)
        """The same, with refused lists: Kafka may have accepted them when they were requested before."""
        self.begun: _Lists = dict(started)
        """The entries of `started` that are not settled."""
        self.taken_over = set(taken_over)
        self._settled: deque[TopicPartition] = deque(maxlen=_SETTLED_RECORDED)
        """The partitions of `started` that were settled last."""
        self._seen: _Lists = {}
        """Requested lists whose reassignment was observed under way."""
        self._missed: Counter[TopicPartition] = Counter()

    @property
    def to_record(self) -> _Lists:
        """The lists that the next process must know."""
        return {at: self.started[at] for at in self._settled} | self.begun

    def request(self, decision: MoveDecision) -> bool:
        """Add the lists that a decision requests. Return whether there is a new one."""
        lists = {at: replicas for at, replicas in decision.alter.items() if replicas is not None}
        self.asked |= lists
        if all(self.started.get(at) == replicas for at, replicas in lists.items()):
            return False
        self.started |= lists
        self.begun |= lists
        return True

    def settle(self, some: Iterable[TopicPartition]) -> None:
        """Handle that partitions have their planned replicas."""
        for at in some:
            if self.begun.pop(at, None) is not None:
                self._settled.append(at)

    def withdraw(self, some: Iterable[TopicPartition]) -> None:
        """Handle that Kafka refused the lists of partitions."""
        for at in some:
            self.started.pop(at, None)
            self.begun.pop(at, None)

    def under_way(self, observed: Observed) -> set[TopicPartition]:
        """Return the partitions that are being reassigned to the list that was last requested."""
        return {
            at
            for at, asked in self.begun.items()
            if (state := observed.partitions.get(at)) is not None
            and state.under_way
            and state.heading_for == frozenset(asked)
        }

    def without_taken_over(
        self, decision: MoveDecision, observed: Observed
    ) -> tuple[MoveDecision, list[TopicPartition]]:
        """Return the decision without partitions that another client has cancelled, and those that are now left to it.

        A list that was under way and would be requested again was cancelled, once metadata cannot just be lagging.
        """
        for at in decision.copying:
            state = observed.partitions.get(at)
            if state is not None and state.under_way:
                self._seen[at] = self.started[at]
        cancelled = [
            at
            for at, replicas in decision.alter.items()
            if replicas is not None and self._seen.get(at) == replicas == self.started.get(at)
        ]
        self._missed = Counter({at: self._missed[at] + 1 for at in cancelled})
        lost = [at for at in cancelled if self._missed[at] >= PASSES_UNTIL_SURE]
        for at in lost:
            self.taken_over.add(at)
            self.begun.pop(at, None)
        alter = {at: replicas for at, replicas in decision.alter.items() if at not in self._missed}
        unsure = (Waiting(at, WaitReason.LIMIT) for at in cancelled if at not in self.taken_over)
        return replace(decision, alter=alter, waiting=(*decision.waiting, *unsure)), lost
