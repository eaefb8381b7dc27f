"""Decides what to change in Kafka for one topic, from the object, the topic and the cluster state. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import OnTopicLoss
from rackspan.api.labels import ADOPT_TOPIC_ID
from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.text import have, plural
from rackspan.reconcile.cluster.batching import MAX_PARTITIONS_AT_ONCE
from rackspan.reconcile.failures import Failure, FailureError, Remedy, is_answer
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic
from rackspan.reconcile.specs.ownership import adoption_refused, in_another_cluster, internal
from rackspan.reconcile.specs.placement import Judged, ManagedConfig, managed_config, place, too_large
from rackspan.reconcile.specs.topic_configs import differing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.plans.holds import PlanHold
    from rackspan.reconcile.ports import TopicConfig, TopicDescription


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """The changes to make. They are independent: an infeasible growth does not prevent a configuration change."""

    create: NewTopic | None = None
    grow: NewPartitions | None = None
    configure: ConfigChange | None = None
    problem: Failure | None = None
    foreign: Failure | None = None
    """Why the topic in Kafka is not this object's. Then nothing is changed, and the status describes no topic."""

    judged: Judged | None = None
    """The compliance of the current replicas, or of the new topic's replicas, if the decision needed it."""

    @property
    def idle(self) -> bool:
        """Whether nothing has to be changed in Kafka."""
        return self.create is None and self.grow is None and self.configure is None

    @property
    def summary(self) -> str:
        """The changes as text for conditions and Events, such as `grow to 5 partitions; set retention.ms=1`."""
        steps = []
        if self.create is not None:
            replicas = plural(self.create.replication_factor, "replica")
            steps.append(f"create {plural(self.create.partitions, 'partition')} of {replicas}")
        if self.grow is not None:
            steps.append(f"grow to {plural(self.grow.total, 'partition')}")
        if self.configure is not None:
            steps.append("set " + ", ".join(f"{key}={value}" for key, value in sorted(self.configure.set.items())))
        return "; ".join(steps)


def decide(
    topic: KafkaTopic,
    seen: TopicDescription | None,
    own: Mapping[str, str],
    state: ClusterState,
    above_quota: Failure | None = None,
) -> TopicDecision:
    """Return the changes that fulfil the spec without moving a replica. `own` are the configs set on the topic itself.

    `seen` is None if Kafka has no topic of that name. `above_quota` says why the topic may not get more than it already
    has in Kafka, or is None. Failures are part of the decision and are not raised.
    """
    other = ownership_problem(topic, seen, state)
    if other is not None:
        return TopicDecision(foreign=other)
    large = too_large(topic, seen, state)
    if large is not None:
        return TopicDecision(problem=large)
    if seen is None:
        return _creation(topic, state) if above_quota is None else TopicDecision(problem=above_quota)
    waits = above_quota is not None and _asks_for_more(topic, seen)
    grow, grow_problem = (None, above_quota) if waits else _growth(topic, seen, state)
    try:
        managed, config_problem = managed_config(topic.spec, seen.replicas, state), None
    except FailureError as error:
        managed, config_problem = ManagedConfig(topic.spec.config_values), error.failure
    different = differing(managed.values, own)
    held = _min_insync_held(seen) if MIN_INSYNC in different else None
    if held is not None:
        different = {key: value for key, value in different.items() if key != MIN_INSYNC}
    configure = ConfigChange(topic.topic_name, different) if different else None
    problem = grow_problem or config_problem or held
    return TopicDecision(grow=grow, configure=configure, problem=problem, judged=managed.judged)


def _min_insync_held(seen: TopicDescription) -> Failure | None:
    """Return why min.insync.replicas must not change now, or None if it may.

    When this config changes, Kafka empties the ELR of the topic's partitions (KIP-966). A partition without a leader
    then gets one only by an unclean election, even when all of its brokers are back.
    """
    if not seen.without_isr:
        return None
    return Failure(
        Reason.MIN_INSYNC_HELD,
        f"min.insync.replicas is not changed while {plural(seen.without_isr, 'partition')} of topic {seen.name} "
        f"{have(seen.without_isr)} no leader: Kafka would forget which replicas may lead without a "
        "loss (KIP-966); bring back their brokers, as rackspan check names them",
        Remedy.RETRY,
    )


def ownership_problem(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> Failure | None:
    """Return why the topic in Kafka, or its absence, does not match the object's records, or None if it matches."""
    known_id = topic.status.topic_id
    if topic.status.cluster_id not in (None, state.cluster_id):
        return Failure(Reason.CLUSTER_ID_MISMATCH, in_another_cluster(topic, state.cluster_id), Remedy.SPEC)
    if seen is not None and seen.internal and topic.topic_name not in state.spec.internal_topics:
        return internal(topic.topic_name, state.topology)
    if not known_id:
        made_for_it = seen is None or topic.status.creating
        return None if made_for_it else adoption_refused(topic, state.topology, state.spec.adoption)
    if seen is None:
        lost = f"topic {topic.topic_name} ({known_id}) was deleted in Kafka"
        if topic.spec.on_topic_loss == OnTopicLoss.RECREATE:
            return Failure(Reason.TOPIC_VANISHED, f"{lost}; an empty one takes its place", Remedy.RETRY)
        return Failure(Reason.TOPIC_VANISHED, f"{lost}; set onTopicLoss: Recreate to make an empty one", Remedy.SPEC)
    if seen.topic_id == known_id:
        return None
    refused = adoption_refused(topic, state.topology, state.spec.adoption)
    if seen.topic_id == topic.adopt_topic_id:
        return refused
    helps = refused.message if refused else f"annotate {ADOPT_TOPIC_ID}={seen.topic_id} to accept it"
    return Failure(
        Reason.TOPIC_ID_MISMATCH,
        f"topic {topic.topic_name} was recreated by someone else: it is {seen.topic_id}, "
        f"this object is about {known_id}; {helps}",
        Remedy.SPEC,
    )


def _asks_for_more(topic: KafkaTopic, seen: TopicDescription) -> bool:
    size = topic.spec.replication_factor
    return topic.spec.partitions > len(seen.replicas) or any(len(row) < size for row in seen.replicas)


def _creation(topic: KafkaTopic, state: ClusterState) -> TopicDecision:
    spec = topic.spec
    partitions = min(spec.partitions, MAX_PARTITIONS_AT_ONCE)
    try:
        assignment = place(topic.topic_name, spec, partitions, (), state)
        managed = managed_config(spec, assignment or (), state)
    except FailureError as error:
        return TopicDecision(problem=error.failure)
    create = NewTopic(topic.topic_name, partitions, spec.replication_factor, assignment, managed.values)
    return TopicDecision(create=create, judged=managed.judged)


def _growth(
    topic: KafkaTopic, seen: TopicDescription, state: ClusterState
) -> tuple[NewPartitions | None, Failure | None]:
    spec, have = topic.spec, len(seen.replicas)
    if spec.partitions < have:
        return None, Failure(
            Reason.PARTITIONS_CANNOT_SHRINK,
            f"topic {topic.topic_name} has {plural(have, 'partition')} and Kafka cannot remove any: "
            f"set spec.partitions to {have} or more",
            Remedy.SPEC,
        )
    if spec.partitions == have:
        return None, None
    total = min(spec.partitions, have + MAX_PARTITIONS_AT_ONCE)
    try:
        assignment = place(topic.topic_name, spec, total, seen.replicas, state)
    except FailureError as error:
        return None, error.failure
    return NewPartitions(topic.topic_name, total, assignment and assignment[have:]), None


@dataclass(slots=True)
class Outcome:
    """The result of a pass for one topic: the current state in Kafka, the decision and the failures."""

    topic: KafkaTopic
    seen: TopicDescription | None = None
    config: TopicConfig | None = None
    decision: TopicDecision = field(default_factory=TopicDecision)
    paused_decision: TopicDecision = field(default_factory=TopicDecision)
    """What would be changed if the object were not paused. Empty if it is not paused."""
    plan: TopicPlan | None = None
    """The moves that would make the topic compliant, or None if no plan could be made."""
    hold: PlanHold | None = None
    """What the plan waits for, if that is known."""
    copied_bytes: int | None = None
    """The bytes that the plan copies, if they are known."""
    above_quota: Failure | None = None
    """Why the topic may not get more than it already has in Kafka, or None if it may."""
    failures: list[Failure] = field(default_factory=list)
    settled: bool = True
    """False if Kafka has accepted the change but does not show it yet."""
    superseded: bool = False
    """Whether the object changed before any of its changes was sent to Kafka."""
    new_claim: bool = False
    """Whether this pass recorded that the topic is about to be created."""

    @property
    def problem(self) -> Failure | None:
        """The problem that Ready reports: a refusal by Kafka, else the obstacle to a decision."""
        return next(iter(self.failures), None) or self.decision.foreign or self.decision.problem

    @property
    def is_stale(self) -> bool:
        """Whether a broker responded from outdated metadata.

        The topic existed without its configuration, or had fewer partitions than before, although Kafka removes none.
        """
        seen, known = self.seen, self.topic.status
        if seen is None:
            return False
        return self.config is None or (seen.topic_id == known.topic_id and len(seen.replicas) < (known.partitions or 0))

    @property
    def is_unread(self) -> bool:
        """Whether Kafka did not return the state of the topic and is asked again soon."""
        return self.seen is None and self.decision.idle and any(one.remedy is Remedy.RETRY for one in self.failures)

    @property
    def creating(self) -> bool:
        """Whether a topic of this name that appears later may be one that the operator created for the object.

        It may be after a call without a response. It may not be after a refusal, unless the refusal is retried and an
        earlier pass had claimed the topic: "already exists" may then refer to the topic of that pass.
        """
        if self.decision.create is None:
            return bool(self.topic.status.creating)
        if not self.failures:
            return True
        failure = self.failures[0]
        return not is_answer(failure) or (
            failure.remedy is Remedy.RETRY and bool(self.topic.status.creating) and not self.new_claim
        )

    @property
    def judged(self) -> Judged | None:
        """The compliance that was computed for the decision, if any."""
        return self.decision.judged or self.paused_decision.judged

    @property
    def is_adopted(self) -> bool:
        """Whether the topic in Kafka existed before this object owned it."""
        status = self.topic.status
        if self.seen is not None and self.seen.topic_id == status.topic_id:
            return bool(status.adopted)
        return not self.creating

    @property
    def is_foreign(self) -> bool:
        """Whether the topic of this name in Kafka is not this object's."""
        return self.decision.foreign is not None
