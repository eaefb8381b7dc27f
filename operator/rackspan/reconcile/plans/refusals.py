"""What Kafka refuses to change. A plan gives up a change that Kafka has refused several times."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Waiting, WaitReason
from rackspan.core.reassignment.claims import PASSES_UNTIL_SURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.core.reassignment import MoveDecision, Observed, TopicPartition
    from rackspan.reconcile.failures import Failure

_CLOSED = "it is drained and cordoned"


class Refusals:
    """The refused changes: by the broker that is to get a replica, or by partition if a change adds no replica."""

    def __init__(self) -> None:
        self._times: Counter[int | TopicPartition] = Counter()
        """How often Kafka has refused each change in a row."""
        self._answers: dict[int | TopicPartition, str] = {}
        """The messages of the last refusals."""

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers to which replicas are not moved any more."""
        return frozenset(one for one in self._given_up if isinstance(one, int))

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that are given up, sorted."""
        return sorted(one for one in self._given_up if not isinstance(one, int))

    @property
    def waiting(self) -> list[Waiting]:
        """The partitions that are given up, with Kafka's messages."""
        return [Waiting(at, WaitReason.REFUSED, answer=self._answers[at]) for at in self.partitions]

    @property
    def _given_up(self) -> Iterable[int | TopicPartition]:
        return (one for one in self._answers if self._times[one] >= PASSES_UNTIL_SURE)

    def forgive(self, brokers: Iterable[int]) -> None:
        """Do not count refusals of cordoned brokers: a cordon is temporary."""
        for broker in brokers:
            self._times.pop(broker, None)

    def learn(
        self,
        decision: MoveDecision,
        outcomes: Mapping[TopicPartition, Failure | None],
        observed: Observed,
        cordons: Mapping[int, bool | None],
    ) -> list[TopicPartition]:
        """Count the outcomes of a decision's changes. Return the partitions whose new replica list Kafka refused.

        `cordons` says whether each broker is cordoned, as far as that was read.
        """
        refused = []
        answers: dict[int | TopicPartition, str] = {}
        for at, replicas in decision.alter.items():
            failure = outcomes.get(at)
            added = () if replicas is None else set(replicas).difference(observed.partitions[at].replicas)
            # A cordoned broker that holds a replica blocks the partition (Kafka 4.4), not the brokers that are added.
            in_the_way = {broker for broker in replicas or () if cordons.get(broker, True)}.difference(added)
            about = at if in_the_way else min(added, default=at)
            if failure is None:
                self._times.pop(about, None)
            elif failure.reason is Reason.KAFKA_REFUSED and replicas is not None:
                answers[about] = failure.message
                refused.append(at)
        self._times.update(answers.keys())
        self._answers |= answers
        return refused

    def with_answer(self, one: Waiting) -> Waiting:
        """Return the reason of a wait, with the message of the broker that refuses it."""
        if one.reason is not WaitReason.REFUSED:
            return one
        return replace(one, answer=next((self._answers.get(broker, _CLOSED) for broker in one.brokers), ""))
