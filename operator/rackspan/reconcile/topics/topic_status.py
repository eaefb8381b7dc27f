"""Builds a KafkaTopic's status from what a pass observed and did.

`topic_status` and `failed_status` are pure: the clock is an argument. `status_updates` computes the statuses of a batch
off the event loop, and only if their inputs changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from rackspan.api.conditions import COMPLIANT, READY, RECONCILING, Conditions, find_condition
from rackspan.api.kafkatopic import MAX_DOMAINS, DomainPlacement, DurabilityStatus, LevelDurability, PlacementStatus
from rackspan.api.labels import CREATED_FOR
from rackspan.api.plans import MAX_PLAN_SAMPLES, PartitionChange, TopicPlanStatus
from rackspan.api.reasons import PLAN_GOES_ON, Reason
from rackspan.core.durability import write_guarantees
from rackspan.core.placement import Placement
from rackspan.core.rack_path import RackPath, domain_name
from rackspan.reconcile.cluster.batching import batches
from rackspan.reconcile.failures import Failure, Remedy, set_problem
from rackspan.reconcile.runtime.threads import in_thread
from rackspan.reconcile.specs.placement import PORTION, cost, placer_name, too_large
from rackspan.reconcile.topics.topic_conditions import (
    FALSE,
    TRUE,
    UNKNOWN,
    compliance_result,
    invalid_pause,
    not_judged,
    ready_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.conditions import ConditionStatus
    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicStatus
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription
    from rackspan.reconcile.topics.topic_conditions import ConditionValue
    from rackspan.reconcile.topics.topic_decision import Outcome


_PAUSED = "the annotation rackspan.dev/paused leaves the topic alone"


def topic_status(outcome: Outcome, state: ClusterState, now: datetime) -> KafkaTopicStatus:
    """Return the status after a pass that read the topic from Kafka."""
    topic, seen = outcome.topic, outcome.seen
    if seen is None or outcome.is_foreign:
        return _status_without_topic(outcome, state, now)
    large = too_large(topic, seen, state)
    result = compliance_result(outcome, seen, state) if large is None else not_judged(large)
    ready = ready_condition(outcome, seen, result.condition, state)
    conditions = Conditions(topic.status.conditions, topic.meta.generation, now)
    conditions.set(READY, *ready)
    conditions.set(COMPLIANT, *result.condition)
    problem = invalid_pause(topic) if topic.meta.is_paused else outcome.problem
    set_problem(conditions, problem or _problem_of(ready))
    if not outcome.settled:
        conditions.set(RECONCILING, TRUE, Reason.UPDATING, "Kafka has taken the change and does not show it yet")
    conditions.set_paused(topic.meta, _PAUSED)
    return structs.replace(
        topic.status,
        observed_generation=topic.meta.generation,
        topic_name=topic.topic_name,
        topic_id=seen.topic_id,
        adopted=outcome.is_adopted or None,
        creating=None,
        cluster_id=state.cluster_id,
        partitions=len(seen.replicas),
        replication_factor=min(map(len, seen.replicas), default=0),
        min_in_sync_replicas=outcome.config.min_insync if outcome.config else topic.status.min_in_sync_replicas,
        placer=None if topic.spec.placement.assignment else placer_name(topic.spec, state),
        durability=_durability_status(outcome, seen, state) if large is None else None,
        compliance=result.compliance,
        placement=_placement_status(seen.replicas, state) if large is None else None,
        plan=_plan_status(outcome),
        conditions=conditions.all,
    )


def failed_status(
    topic: KafkaTopic, failure: Failure, now: datetime, ready: ConditionStatus = FALSE
) -> KafkaTopicStatus:
    """Return the status if the topic's state in Kafka is unknown: the last facts stay, the conditions give the reason.

    `ready` is the new status of Ready. A failure that is not retried sets Compliant to Unknown, because the operator
    would not notice a later change. Compliant=True becomes Unknown also if an ACL denies a request about the topic, the
    operator has not seen it for long (`ready` is Unknown), or has not compared it with the spec of this generation.
    """
    conditions = Conditions(topic.status.conditions, topic.meta.generation, now)
    conditions.set(READY, ready, failure.reason, failure.message)
    compliant = find_condition(conditions.all, COMPLIANT)
    if compliant is not None:
        is_current = compliant.observed_generation == topic.meta.generation
        is_doubted = failure.reason is Reason.NOT_AUTHORIZED or ready == UNKNOWN or not is_current
        if failure.remedy is Remedy.SPEC or (is_doubted and compliant.status == TRUE):
            conditions.set(COMPLIANT, UNKNOWN, failure.reason, failure.message)
    set_problem(conditions, failure)
    conditions.set_paused(topic.meta, _PAUSED)
    return structs.replace(
        topic.status,
        observed_generation=topic.meta.generation,
        topic_name=topic.topic_name,
        conditions=conditions.all,
    )


def _status_without_topic(outcome: Outcome, state: ClusterState, now: datetime) -> KafkaTopicStatus:
    """Return the status if Kafka has no topic of that name, or has a topic that is not this object's."""
    topic, foreign = outcome.topic, outcome.decision.foreign
    status = failed_status(topic, outcome.problem or _absence(topic), now)
    # The annotation that announces a creation is used up if Kafka has no such topic.
    denied = False if CREATED_FOR in topic.meta.annotations else None
    status = structs.replace(status, creating=outcome.creating or denied)
    if status.topic_id is None:
        cluster_id = (status.cluster_id or state.cluster_id) if status.creating else None
        status = structs.replace(status, cluster_id=cluster_id)
    if foreign is not None:
        status = _without_facts(topic, status, foreign, now)
    return structs.replace(status, topic_id=None, adopted=None) if _is_to_be_recreated(outcome) else status


def _without_facts(topic: KafkaTopic, status: KafkaTopicStatus, why: Failure, now: datetime) -> KafkaTopicStatus:
    """Return the status without facts about a topic in Kafka. The topic id stays, to recognize a returning topic."""
    conditions = Conditions(status.conditions, topic.meta.generation, now)
    conditions.set(COMPLIANT, UNKNOWN, why.reason, why.message)
    return structs.replace(
        status,
        partitions=None,
        replication_factor=None,
        min_in_sync_replicas=None,
        placer=None,
        durability=None,
        compliance=None,
        placement=None,
        plan=None,
        conditions=conditions.all,
    )


def _is_to_be_recreated(outcome: Outcome) -> bool:
    """Return whether to remove the id of a lost topic, so that a later pass creates a new topic.

    The id is removed first. After a crash in between, the new topic would otherwise look like another client's topic.
    """
    problem = outcome.problem
    return (
        problem is not None
        and problem.reason == Reason.TOPIC_VANISHED
        and problem.remedy is Remedy.RETRY
        and not outcome.topic.meta.is_paused
    )


def _absence(topic: KafkaTopic) -> Failure:
    """Return why Kafka has no topic yet although nothing failed."""
    invalid = invalid_pause(topic)
    if invalid is not None:
        return invalid
    if topic.meta.is_paused:
        return Failure(Reason.PAUSED, "paused: the topic is not created before the annotation is gone", Remedy.SPEC)
    return Failure(Reason.CREATING, "Kafka has taken the creation and does not show the topic yet", Remedy.RETRY)


def _plan_status(outcome: Outcome) -> TopicPlanStatus | None:
    plan = outcome.plan
    if plan is None or plan.empty:
        return None
    return TopicPlanStatus(
        hash=plan.hash,
        moves=plan.moves,
        lower_bound=plan.lower_bound,
        reorders=plan.reorders,
        partitions=len(plan.changes),
        bytes=outcome.copied_bytes,
        removals=plan.removals or None,
        reassignment=None if outcome.hold is None else outcome.hold.begun,
        samples=tuple(
            PartitionChange(change.partition, change.before, change.replicas)
            for change in plan.changes[:MAX_PLAN_SAMPLES]
        ),
    )


def _problem_of(ready: ConditionValue) -> Failure | None:
    """Return why the topic is not Ready: an update that continues automatically, or a problem for a user."""
    if ready.status == TRUE:
        return None
    continues = ready.reason in (Reason.UPDATING, Reason.CREATING, Reason.RACKS_SETTLING, *PLAN_GOES_ON)
    return Failure(ready.reason, ready.message, Remedy.RETRY if continues else Remedy.SPEC)


def _placement_status(replicas: Sequence[Sequence[int]], state: ClusterState) -> PlacementStatus:
    """Return replicas and preferred leaders per domain. Above MAX_DOMAINS, the lowest levels are left out."""
    racks = state.racks.known_racks
    replicas_in: Counter[RackPath] = Counter()
    leaders_in: Counter[RackPath] = Counter()
    for row in replicas:
        for position, broker in enumerate(row):
            path = racks.get(broker, ())
            for depth in range(1, len(path) + 1):
                replicas_in[path[:depth]] += 1
                leaders_in[path[:depth]] += position == 0
    by_level = sorted(replicas_in, key=lambda path: (len(path), path))
    while len(by_level) > MAX_DOMAINS:
        by_level = [path for path in by_level if len(path) < len(by_level[-1])]
    return PlacementStatus(
        tuple(DomainPlacement(domain_name(path), replicas_in[path], leaders_in[path]) for path in by_level)
    )


def _durability_status(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> DurabilityStatus | None:
    """Return which losses writes survive now, or None if that is not known, as without the configuration."""
    least = outcome.config.min_insync if outcome.config else None
    if least is None or not seen.replicas:
        return None
    replicas = Placement(seen.replicas).padded
    topic = np.zeros(len(replicas), dtype=np.int64)
    found = write_guarantees(state.racks.tree, replicas, topic, np.array([least]))[0]
    return DurabilityStatus(
        found.sentence,
        tuple(LevelDurability(one.level, one.domains, one.keeps_writes, one.stays_writable) for one in found.levels),
    )


# --- the statuses of a batch ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The status to write, None if the last one is still valid, or the error that computing it raised."""

    fingerprint: int
    """A hash of the status's inputs."""
    status: KafkaTopicStatus | Exception | None


async def status_updates(
    outcomes: Sequence[Outcome], state: ClusterState, epoch: int, written: Mapping[ObjectKey, int]
) -> Mapping[ObjectKey, StatusUpdate]:
    """Return the update of each topic. `written` are the fingerprints of the last statuses, `epoch` is that of `state`.

    Statuses are computed one portion at a time, so that other topologies get their turn.
    """
    found: dict[ObjectKey, StatusUpdate] = {}
    for some in batches(outcomes, lambda outcome: cost(outcome.topic, outcome.seen, state), PORTION):
        known = {outcome.topic.key: written.get(outcome.topic.key) for outcome in some}
        found |= await in_thread(_updates, some, state, epoch, known)
    return found


def _updates(
    outcomes: Iterable[Outcome], state: ClusterState, epoch: int, written: Mapping[ObjectKey, int | None]
) -> dict[ObjectKey, StatusUpdate]:
    return {outcome.topic.key: _update(outcome, state, epoch, written[outcome.topic.key]) for outcome in outcomes}


def _update(outcome: Outcome, state: ClusterState, epoch: int, written: int | None) -> StatusUpdate:
    try:
        fingerprint = hash((epoch, _fingerprint(outcome)))
        if written == fingerprint and outcome.decision.idle:
            return StatusUpdate(fingerprint, None)
        return StatusUpdate(fingerprint, topic_status(outcome, state, datetime.now(UTC)))
    except Exception as error:  # raised again for this topic alone, when its status would be written
        return StatusUpdate(0, error)


def _fingerprint(outcome: Outcome) -> int:
    """Return a hash of the inputs of the status, except the cluster's state."""
    meta, config = outcome.topic.meta, outcome.config
    return hash(
        (
            meta.uid,
            meta.generation,
            tuple(sorted(meta.annotations.items())),
            outcome.seen,
            (config.min_insync, *sorted(config.own.items())) if config else None,
            outcome.problem,
            outcome.plan and outcome.plan.hash,
            outcome.hold,
            outcome.copied_bytes,
        )
    )
