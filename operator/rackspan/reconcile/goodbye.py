"""Carries out deletions: a topic of Kafka goes if, and only if, it is the very one that its object recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND
from rackspan.api.reasons import Reason
from rackspan.metrics import BATCH_TOPICS, count_error
from rackspan.reconcile.batches import batches
from rackspan.reconcile.deletion import Farewell, Step, farewell, has_finalizer, retained
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Announcement, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.finalizers import Finalizers
    from rackspan.reconcile.ports import Cluster, KafkaAdmin
    from rackspan.reconcile.scene import Scene

_LAG_SECONDS = 0.5
"""Kafka's client deletes by name, and a broker that is behind shows the topic that had the name before."""


class Goodbye:
    """The objects of one topology that are being deleted, a batch at a time."""

    def __init__(self, kube: Cluster, finalizers: Finalizers) -> None:
        self._kube = kube
        self._finalizers = finalizers

    async def let_go(
        self,
        leaving: Sequence[tuple[KafkaTopic, Failure | None]],
        scene: Scene | Failure,
        admin: KafkaAdmin | None,
    ) -> Mapping[ObjectKey, Farewell]:
        """Delete and release; what has to be tried again, with the reason why.

        Each object comes with why it is not let near its topic, if it is not.
        """
        words: dict[ObjectKey, Farewell] = {}
        asked: list[KafkaTopic] = []
        held = [(topic, refusal) for topic, refusal in leaving if has_finalizer(topic)]  # nothing else depends on us
        for topic, refusal in held:
            if (known := retained(topic, refusal)) is not None:
                words[topic.key] = known
            else:
                asked.append(topic)
        words |= await self._ask_kafka(asked, scene, admin)
        again = await asyncio.gather(*(self._release(topic, words[topic.key]) for topic, _ in held))
        return {topic.key: word for (topic, _), word in zip(held, again, strict=True) if word is not None}

    async def _ask_kafka(
        self, topics: Sequence[KafkaTopic], scene: Scene | Failure, admin: KafkaAdmin | None
    ) -> Mapping[ObjectKey, Farewell]:
        if not topics:
            return {}
        if isinstance(scene, Failure) or admin is None:
            why = scene.message if isinstance(scene, Failure) else "not connected"
            return {
                topic.key: Farewell(
                    Step.HOLD,
                    f"topic {topic.topic_name} cannot be deleted from Kafka now: {why}; "
                    "set deletionPolicy: Retain to let the object go without deleting anything",
                )
                for topic in topics
            }
        try:
            words, _ = await _compare(topics, scene, admin)
            going = [topic for topic in topics if words[topic.key].step is Step.DELETE]
            if going:
                await asyncio.sleep(_LAG_SECONDS)
                again, sizes = await _compare(going, scene, admin)
                words |= again
                going = [topic for topic in going if words[topic.key].step is Step.DELETE]
                words |= await _delete(going, sizes, admin)
        except FailureError as error:
            return {topic.key: Farewell(Step.HOLD, error.failure.message) for topic in topics}
        return words

    async def _release(self, topic: KafkaTopic, words: Farewell) -> Farewell | None:
        """What has to be tried again, if anything."""
        if words.step is Step.HOLD:
            return words
        try:
            written = await self._finalizers.take_off(topic)
        except FailureError as error:
            count_error(str(topic.topology), error.failure.remedy, error.failure.reason)
            return Farewell(Step.AGAIN, error.failure.message)
        if written is None:
            return Farewell(Step.AGAIN, "the object changed while it was being let go")
        about = ObjectRef(KIND, topic.key, topic.meta.uid)
        reason = "Deleted" if words.step is Step.DELETE else "Released"
        self._kube.announce(Announcement(about, reason, words.message))
        return None


def held_back(words: Farewell) -> Failure:
    """What is told while an object waits."""
    return Failure(Reason.DELETION_BLOCKED, words.message, Remedy.ACCESS)


async def _compare(
    topics: Sequence[KafkaTopic], scene: Scene, admin: KafkaAdmin
) -> tuple[dict[ObjectKey, Farewell], Mapping[str, int]]:
    """What is to be done by the topics' ids, and how many partitions each name has."""
    found = await admin.topics([topic.topic_name for topic in topics])
    words: dict[ObjectKey, Farewell] = {}
    sizes: dict[str, int] = {}
    for topic in topics:
        seen = found[topic.topic_name]
        if isinstance(seen, Failure):
            words[topic.key] = Farewell(Step.HOLD, seen.message)
            continue
        words[topic.key] = farewell(topic, seen, scene)
        sizes[topic.topic_name] = len(seen.replicas) if seen is not None else 0
    return words, sizes


async def _delete(
    topics: Sequence[KafkaTopic], sizes: Mapping[str, int], admin: KafkaAdmin
) -> Mapping[ObjectKey, Farewell]:
    """Delete these in few calls; what Kafka did not take. One topic that it refuses holds back no other."""
    kept: dict[ObjectKey, Farewell] = {}
    for batch in batches(topics, lambda topic: 1 + sizes[topic.topic_name]):
        ids = {topic.topic_name: topic.status.topic_id or "" for topic in batch}
        BATCH_TOPICS.labels("delete_topics").observe(len(ids))
        try:
            refused = await admin.delete_topics(ids)
        except FailureError as error:
            refused = dict.fromkeys(ids, error.failure)
        for topic in batch:
            failure = refused[topic.topic_name]
            if failure is not None:
                count_error(str(topic.topology), failure.remedy, failure.reason)
                kept[topic.key] = Farewell(Step.HOLD, failure.message)
    return kept
