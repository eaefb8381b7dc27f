"""What to do about an object that is being deleted: the last guard before data is lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import DeletionPolicy
from rackspan.api.labels import CONFIRM_DELETE, FINALIZER

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import TopicSeen
    from rackspan.reconcile.scene import Scene


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
class Farewell:
    """A step and the sentence that goes with it."""

    step: Step
    message: str


def deletes(topic: KafkaTopic) -> bool:
    """Whether the end of the object is meant to be the end of Kafka's topic."""
    return topic.spec.deletion_policy == DeletionPolicy.DELETE


def finalizers_for(topic: KafkaTopic) -> tuple[str, ...] | None:
    """The finalizers that a living object should have; None where they are right.

    Ours is there under either policy. Put there only once the policy says Delete, it would come too late for an object
    that is deleted right after.
    """
    return None if has_finalizer(topic) else (*topic.meta.finalizers, FINALIZER)


def is_confirmed(topic: KafkaTopic, topic_id: str) -> bool:
    """Whether a person has named the id of a topic that was adopted, and that the object's end shall delete."""
    return topic.confirm_delete == topic_id


def has_finalizer(topic: KafkaTopic) -> bool:
    """Whether the object cannot go before we let it."""
    return FINALIZER in topic.meta.finalizers


def without_finalizer(topic: KafkaTopic) -> tuple[str, ...]:
    """The object's finalizers less ours."""
    return tuple(name for name in topic.meta.finalizers if name != FINALIZER)


def retained(topic: KafkaTopic, refusal: Failure | None) -> Farewell | None:
    """Why the topic stays whatever Kafka holds; None where Kafka has to be asked.

    `refusal` is why the object is not let near the topic, if it is not: then it holds nobody up either.
    """
    if not deletes(topic):
        return Farewell(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: deletionPolicy is Retain")
    if not topic.status.topic_id:
        return Farewell(
            Step.RELEASE, f"this object never had a topic in Kafka; a topic {topic.topic_name} is not touched"
        )
    if refusal is not None:
        return Farewell(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: {refusal.message}")
    if topic.status.adopted and not is_confirmed(topic, topic.status.topic_id):
        return Farewell(
            Step.RELEASE,
            f"topic {topic.topic_name} is kept in Kafka: it was there before this object, and no annotation "
            f"{CONFIRM_DELETE}={topic.status.topic_id} says to delete it",
        )
    if topic.meta.is_paused:
        return Farewell(Step.HOLD, "paused: nothing is deleted before the annotation rackspan.dev/paused is gone")
    return None


def farewell(topic: KafkaTopic, seen: TopicSeen | None, scene: Scene) -> Farewell:
    """Whether Kafka's topic is the very one that this object recorded, by topic id and cluster id."""
    known_id, known_cluster = topic.status.topic_id, topic.status.cluster_id
    if known_cluster != scene.cluster_id:
        return Farewell(
            Step.HOLD,
            f"topic {topic.topic_name} belongs to Kafka cluster {known_cluster}, "
            f"the topology now leads to {scene.cluster_id}; "
            "set deletionPolicy: Retain to let the object go without deleting anything",
        )
    if seen is None:
        return Farewell(Step.RELEASE, f"topic {topic.topic_name} is already gone from Kafka")
    if seen.topic_id != known_id:
        return Farewell(
            Step.RELEASE,
            f"topic {topic.topic_name} is kept in Kafka: it is {seen.topic_id}, recreated by someone else; "
            f"this object's topic was {known_id}",
        )
    return Farewell(Step.DELETE, f"topic {topic.topic_name} ({known_id}) is deleted from Kafka")
