"""What to do about an object that is being deleted: the last guard before data is lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import DeletionPolicy
from rackspan.api.labels import CONFIRM_DELETE, CONFIRM_DELETIONS
from rackspan.api.reasons import Reason
from rackspan.reconcile.runtime.finalizers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import Terminating, TopicDescription

WINDOW = timedelta(minutes=1)
"""Deletions asked for within this time are counted together."""
PATIENCE = timedelta(minutes=10)
"""How long the end of a namespace waits for a person, or for Kafka. Then its objects go and the topics stay."""
_NAMED = 3


class Step(Enum):
    """The next step of a deletion."""

    RELEASE = auto()
    """Take the finalizer away; Kafka's topic stays, or is gone already."""

    DELETE = auto()
    """Delete Kafka's topic, then release."""

    HOLD = auto()
    """Keep the finalizer and say why."""

    AGAIN = auto()
    """Begin anew: the object changed meanwhile."""


@dataclass(frozen=True, slots=True)
class DeletionDecision:
    """A step and the sentence that goes with it."""

    step: Step
    message: str
    reason: Reason = Reason.DELETION_BLOCKED


def deletes(topic: KafkaTopic) -> bool:
    """Whether the end of the object is meant to be the end of Kafka's topic."""
    return topic.spec.deletion_policy == DeletionPolicy.DELETE


def is_confirmed(topic: KafkaTopic, topic_id: str) -> bool:
    """Whether a person has named the id of a topic that was adopted, and that the object's end shall delete."""
    return topic.confirm_delete == topic_id


def takes_topic_along(topic: KafkaTopic) -> bool:
    """Whether the end of the object would be the end of a topic that it has."""
    return has_finalizer(topic.meta) and retained(topic, None) is None


def retained(topic: KafkaTopic, refusal: Failure | None) -> DeletionDecision | None:
    """Why the topic stays whatever Kafka holds; None where Kafka has to be asked.

    `refusal` is why the object is not let near the topic, if it is not: then it holds nobody up either.
    """
    if not deletes(topic):
        return DeletionDecision(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: deletionPolicy is Retain")
    if not topic.status.topic_id:
        return DeletionDecision(
            Step.RELEASE, f"this object never had a topic in Kafka; a topic {topic.topic_name} is not touched"
        )
    if refusal is not None:
        return DeletionDecision(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: {refusal.message}")
    if topic.status.adopted and not is_confirmed(topic, topic.status.topic_id):
        return DeletionDecision(
            Step.RELEASE,
            f"topic {topic.topic_name} is kept in Kafka: it was there before this object, and no annotation "
            f"{CONFIRM_DELETE}={topic.status.topic_id} says to delete it",
        )
    return None


def guarded(topic: KafkaTopic, topology: RackTopology | None, around: Terminating) -> DeletionDecision | None:
    """Why the topic stays because of what ends around its object; None where nothing does that matters."""
    kept = f"topic {topic.topic_name} is kept in Kafka"
    if around.definitions:
        return DeletionDecision(Step.RELEASE, f"{kept}: the definition {around.definitions[0]} is being deleted")
    if topology is None:
        return DeletionDecision(Step.RELEASE, f"{kept}: there is no RackTopology {topic.topology}")
    return None


def held(
    topic: KafkaTopic, topology: RackTopology, around: Terminating, *, confirmed: bool, waits: bool
) -> DeletionDecision | None:
    """Why the topic stays for now, or for good: the last word belongs to a person. None where it may go."""
    ends = topic.meta.namespace in around.namespaces
    if ends and not confirmed and topology.meta.namespace == topic.meta.namespace:
        return DeletionDecision(
            Step.RELEASE,
            f"topic {topic.topic_name} is kept in Kafka: "
            f"namespace {topic.meta.namespace} is being deleted, and RackTopology {topology.key} with it",
        )
    if topic.meta.is_paused:
        why = topic.meta.unclear_pause or "paused: nothing is deleted before the annotation rackspan.dev/paused is gone"
        return DeletionDecision(Step.HOLD, why)
    if waits:
        why = f"namespace {topic.meta.namespace} is being deleted" if ends else "many deletions were asked for at once"
        return DeletionDecision(
            Step.HOLD,
            f"{why}: topic {topic.topic_name} goes once somebody confirms it on RackTopology {topology.key}, whose "
            f"condition DeletionsHeld says how; set deletionPolicy: Retain to let the object go and keep the topic",
            Reason.DELETION_HELD,
        )
    return None


def out_of_patience(topic: KafkaTopic, words: DeletionDecision, around: Terminating, now: datetime) -> DeletionDecision:
    """No namespace hangs for ever: what its end has waited for long enough is given up, and the topic kept."""
    since = around.namespaces.get(topic.meta.namespace)
    if words.step is not Step.HOLD or since is None or now - since < PATIENCE:
        return words
    minutes = int(PATIENCE.total_seconds()) // 60
    return DeletionDecision(
        Step.RELEASE,
        f"topic {topic.topic_name} is kept in Kafka: namespace {topic.meta.namespace} has been waiting "
        f"for {minutes} minutes to be deleted, and this is still so: {words.message}",
    )


def crowded(asked: Mapping[datetime, int], limit: int) -> frozenset[datetime]:
    """At which times deletions were asked for that are among more than `limit` within a minute.

    `asked` has how many at which time.
    """
    times = sorted(asked)
    crowd: set[datetime] = set()
    first = total = 0
    for last, time in enumerate(times):
        total += asked[time]
        while time - times[first] >= WINDOW:
            total -= asked[times[first]]
            first += 1
        if total > limit:
            crowd.update(times[first : last + 1])
    return frozenset(crowd)


def confirmation(topology: RackTopology) -> str | None:
    """What somebody wrote to confirm deletions, if anything."""
    return topology.meta.annotations.get(CONFIRM_DELETIONS)


def decide_deletion(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> DeletionDecision:
    """Whether Kafka's topic is the very one that this object recorded, by topic id and cluster id."""
    known_id, known_cluster = topic.status.topic_id, topic.status.cluster_id
    if known_cluster != state.cluster_id:
        return DeletionDecision(
            Step.HOLD,
            f"topic {topic.topic_name} belongs to Kafka cluster {known_cluster}, "
            f"the topology now leads to {state.cluster_id}; "
            "set deletionPolicy: Retain to let the object go without deleting anything",
        )
    if seen is None:
        return DeletionDecision(Step.RELEASE, f"topic {topic.topic_name} is already gone from Kafka")
    if seen.topic_id != known_id:
        return DeletionDecision(
            Step.RELEASE,
            f"topic {topic.topic_name} is kept in Kafka: it is {seen.topic_id}, recreated by someone else; "
            f"this object's topic was {known_id}",
        )
    return DeletionDecision(Step.DELETE, f"topic {topic.topic_name} ({known_id}) is deleted from Kafka")
