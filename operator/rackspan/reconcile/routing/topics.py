"""KafkaTopics: those that ask for something else than before are queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.topology_loops import TopologyLoops


class TopicHandler:
    """Implements `ResourceHandler`."""

    def __init__(self, cache: Cache, loops: TopologyLoops) -> None:
        self._cache = cache
        self._loops = loops
        self._requests: dict[ObjectKey, _Request] = {}

    def put(self, body: Mapping[str, Any]) -> None:
        """Put a KafkaTopic into the cache. Raises SpecError."""
        self._cache.put_topic(body)

    def changed(self, key: ObjectKey) -> None:
        """Queue it unless only its status changed, or our finalizer was added."""
        topic = self._cache.topics.get(key)
        if topic is None:
            return
        request, before = _request_of(topic), self._requests.get(key)
        self._requests[key] = request
        if before is None or before.asked != request.asked or (before.has_finalizer and not request.has_finalizer):
            self._loops.requeue([topic])

    def drop(self, key: ObjectKey) -> None:
        """Forget a KafkaTopic, and queue those that wait for its name."""
        self._requests.pop(key, None)
        topic = self._cache.drop_topic(key)
        if topic is not None:
            self._loops.topic_gone(topic)


class _Request(NamedTuple):
    """What a KafkaTopic asks for, and whether it has our finalizer."""

    asked: object
    has_finalizer: bool


def _request_of(topic: KafkaTopic) -> _Request:
    """Without the status, so that the operator's own writes queue nothing."""
    meta = topic.meta
    asked = meta.uid, meta.generation, meta.deletion_timestamp, tuple(sorted(meta.annotations.items()))
    return _Request(asked, has_finalizer(meta))
