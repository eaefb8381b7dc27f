"""Carries out a deletion: Kafka's topic goes if, and only if, it is the very one that the object recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.deletion import Farewell, Step, farewell, has_finalizer, retained, without_finalizer
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Announcement

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.ports import Cluster, KafkaAdmin, ObjectRef
    from rackspan.reconcile.scene import Scene


async def let_go(
    topic: KafkaTopic,
    ref: ObjectRef,
    scene: Scene | Failure,
    admin: KafkaAdmin | None,
    kube: Cluster,
    *,
    is_owner: bool,
) -> Farewell | None:
    """Delete and release; a Farewell where the object has to wait, with the reason why."""
    if not has_finalizer(topic):
        return None  # nothing depends on us
    words = retained(topic, is_owner=is_owner) or await _ask_kafka(topic, scene, admin)
    if words.step is Step.HOLD:
        return words
    written = await kube.set_finalizers(ref, without_finalizer(topic), topic.meta.resource_version)
    if written is None:
        return Farewell(Step.HOLD, "the object changed while it was being let go")
    kube.announce(Announcement(ref, "Deleted" if words.step is Step.DELETE else "Released", words.message))
    return None


def held_back(words: Farewell) -> Failure:
    """What is told while an object waits."""
    return Failure(Reason.DELETION_BLOCKED, words.message, Remedy.ACCESS)


async def _ask_kafka(topic: KafkaTopic, scene: Scene | Failure, admin: KafkaAdmin | None) -> Farewell:
    if isinstance(scene, Failure) or admin is None:
        why = scene.message if isinstance(scene, Failure) else "not connected"
        return Farewell(
            Step.HOLD,
            f"topic {topic.topic_name} cannot be deleted from Kafka now: {why}; "
            "set deletionPolicy: Retain to let the object go without deleting anything",
        )
    name = topic.topic_name
    try:
        seen = (await admin.topics([name]))[name]
        if isinstance(seen, Failure):
            return Farewell(Step.HOLD, seen.message)
        words = farewell(topic, seen, scene)
        refused = (await admin.delete_topics([name]))[name] if words.step is Step.DELETE else None
    except FailureError as error:
        return Farewell(Step.HOLD, error.failure.message)
    return Farewell(Step.HOLD, refused.message) if refused is not None else words
