"""Carries out a deletion: Kafka's topic goes if, and only if, it is the very one that the object recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.deletion import Farewell, Step, farewell, has_finalizer, retained, without_finalizer
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Announcement

if TYPE_CHECKING:
    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.ports import Cluster, KafkaAdmin, ObjectRef
    from rackspan.reconcile.scene import Scene

_LAG_SECONDS = 0.5
"""Kafka's client deletes by name, and a broker that is behind shows the topic that had the name before."""


async def let_go(
    topic: KafkaTopic,
    ref: ObjectRef,
    scene: Scene | Failure,
    admin: KafkaAdmin | None,
    kube: Cluster,
    *,
    is_owner: bool,
) -> Farewell | None:
    """Delete and release; a Farewell where that has to be tried again, with the reason why."""
    if not has_finalizer(topic):
        return None  # nothing depends on us
    words = retained(topic, is_owner=is_owner) or await _ask_kafka(topic, scene, admin)
    if words.step is Step.HOLD:
        return words
    written = await kube.set_finalizers(ref, without_finalizer(topic), topic.meta.resource_version)
    if written is None:
        return Farewell(Step.AGAIN, "the object changed while it was being let go")
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
    name, topic_id = topic.topic_name, topic.status.topic_id
    try:
        words = await _compare(topic, scene, admin)
        if words.step is Step.DELETE:
            await asyncio.sleep(_LAG_SECONDS)
            words = await _compare(topic, scene, admin)
        if words.step is not Step.DELETE or topic_id is None:
            return words
        refused = (await admin.delete_topics({name: topic_id}))[name]
    except FailureError as error:
        return Farewell(Step.HOLD, error.failure.message)
    return words if refused is None else Farewell(Step.HOLD, refused.message)


async def _compare(topic: KafkaTopic, scene: Scene, admin: KafkaAdmin) -> Farewell:
    seen = (await admin.topics([topic.topic_name]))[topic.topic_name]
    return Farewell(Step.HOLD, seen.message) if isinstance(seen, Failure) else farewell(topic, seen, scene)
