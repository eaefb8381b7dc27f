"""One topic after a pass: what Kafka holds now, what was decided and what failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Remedy
from rackspan.reconcile.topics.topic_decision import TopicDecision

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.plans.holds import PlanHold
    from rackspan.reconcile.ports import TopicConfig, TopicDescription
    from rackspan.reconcile.specs.placement import Judged


@dataclass(slots=True)
class Outcome:
    """One topic after a pass: what Kafka holds now, what was decided and what failed."""

    topic: KafkaTopic
    seen: TopicDescription | None = None
    config: TopicConfig | None = None
    decision: TopicDecision = field(default_factory=TopicDecision)
    paused_decision: TopicDecision = field(default_factory=TopicDecision)
    """What would be done if the object were not paused; empty where it is not."""
    plan: TopicPlan | None = None
    """The moves that would make the topic compliant; None where no plan could be made."""
    hold: PlanHold | None = None
    """What the plan waits for, where that is known."""
    copied_bytes: int | None = None
    """The bytes that the plan copies, where they are known."""
    above_quota: Failure | None = None
    """Why the topic may not get more than Kafka holds of it; None where it may."""
    failures: list[Failure] = field(default_factory=list)
    settled: bool = True
    """False where Kafka has accepted the change but does not show it yet."""
    new_claim: bool = False
    """Whether it was recorded in this pass that the topic is about to be created."""

    @property
    def problem(self) -> Failure | None:
        """What Ready reports: a refusal by Kafka, else what prevented a decision."""
        return next(iter(self.failures), None) or self.decision.foreign or self.decision.problem

    @property
    def is_stale(self) -> bool:
        """Whether a broker answered from outdated metadata.

        The topic was there but not its configuration, or it had fewer partitions than before: Kafka removes none.
        """
        seen, known = self.seen, self.topic.status
        if seen is None:
            return False
        return self.config is None or (seen.topic_id == known.topic_id and len(seen.replicas) < (known.partitions or 0))

    @property
    def is_unread(self) -> bool:
        """Whether Kafka did not say what it holds of the topic, and is asked again soon."""
        return self.seen is None and self.decision.idle and any(one.remedy is Remedy.RETRY for one in self.failures)

    @property
    def creating(self) -> bool:
        """Whether a topic of this name that shows up later may be one that the operator created for the object.

        So it is after a call that got no answer. After a refusal it is not, unless the refusal is retried and an
        earlier pass had claimed the topic: "already exists" may then be about that pass's topic.
        """
        if self.decision.create is None:
            return bool(self.topic.status.creating)
        if not self.failures:
            return True
        failure = self.failures[0]
        unclear = failure.reason == Reason.KAFKA_UNREACHABLE
        return unclear or (failure.remedy is Remedy.RETRY and bool(self.topic.status.creating) and not self.new_claim)

    @property
    def judged(self) -> Judged | None:
        """The compliance that was computed for the decision, if any."""
        return self.decision.judged or self.paused_decision.judged

    @property
    def is_adopted(self) -> bool:
        """Whether the topic that Kafka has existed before it became this object's."""
        status = self.topic.status
        if self.seen is not None and self.seen.topic_id == status.topic_id:
            return bool(status.adopted)
        return not self.creating

    @property
    def is_foreign(self) -> bool:
        """Whether Kafka's topic of this name is not the one that the object is about."""
        return self.decision.foreign is not None
