"""What to do about an object that is being deleted: the last guard before data is lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import DeletionPolicy
from rackspan.api.labels import FINALIZER

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
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


def wants_finalizer(topic: KafkaTopic) -> bool:
    """Only an object whose end has consequences in Kafka carries a finalizer."""
    return topic.spec.deletion_policy == DeletionPolicy.DELETE


def finalizers_for(topic: KafkaTopic) -> tuple[str, ...] | None:
    """The finalizers that a living object should have; None where they are right."""
    have = topic.meta.finalizers
    if wants_finalizer(topic) == has_finalizer(topic):
        return None
    return (*have, FINALIZER) if wants_finalizer(topic) else without_finalizer(topic)


def has_finalizer(topic: KafkaTopic) -> bool:
    """Whether the object cannot go before we let it."""
    return FINALIZER in topic.meta.finalizers


def without_finalizer(topic: KafkaTopic) -> tuple[str, ...]:
    """The object's finalizers less ours."""
    return tuple(name for name in topic.meta.finalizers if name != FINALIZER)


def retained(topic: KafkaTopic, *, is_owner: bool) -> Farewell | None:
    """Why the topic stays whatever Kafka holds; None where Kafka has to be asked."""
    known_id = topic.status.topic_id
    if not wants_finalizer(topic):
        return Farewell(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: deletionPolicy is Retain")
    if not known_id:
        return Farewell(
            Step.RELEASE, f"this object never had a topic in Kafka; a topic {topic.topic_name} is not touched"
        )
    if not is_owner:
        return Farewell(Step.RELEASE, f"topic {topic.topic_name} is kept in Kafka: another KafkaTopic stands for it")
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
