"""Carries out deletions: a topic of Kafka goes if, and only if, it is the very one that its object recorded."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rackspan.api import racktopology
from rackspan.api.kafkatopic import KIND
from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.reasons import Reason
from rackspan.metrics import BATCH_TOPICS, count_error
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef, Terminating
from rackspan.reconcile.runtime.batching import batches
from rackspan.reconcile.runtime.finalizers import has_finalizer
from rackspan.reconcile.topics import audit
from rackspan.reconcile.topics.deletion import (
    DeletionDecision,
    Step,
    confirmation,
    decide_deletion,
    guarded,
    held,
    out_of_patience,
    retained,
    takes_topic_along,
)
from rackspan.reconcile.topics.deletion_gate import DeletionGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import DeletionsStatus, RackTopology
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin

_log = logging.getLogger("rackspan.reconcile")
_LAG_SECONDS = 0.5
"""Kafka's client deletes by name, and a broker that is behind shows the topic that had the name before."""


class TopicFinalizer:
    """The objects of one topology that are being deleted, a batch at a time.

    `refusals` gives what tells why an object is not let near its topic, if it is not; `record` writes the
    RackTopology's status.
    """

    def __init__(
        self,
        topology: ObjectKey,
        dependencies: Dependencies,
        refusals: Callable[[], Callable[[KafkaTopic], Failure | None]],
        record: Callable[[], Awaitable[None]],
    ) -> None:
        self._topology = topology
        self._cache = dependencies.cache
        self._kube = dependencies.kube
        self._finalizers = dependencies.finalizers
        self._refusals = refusals
        self._record = record
        self._gate = DeletionGate()
        self._around = Terminating()

    def review(self) -> tuple[DeletionsStatus | None, Collection[ObjectKey]]:
        """What there is to tell of deletions, and which objects wait for a person."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None:
            return None, ()
        self._look_around(topology)
        return self._gate.status, self._gate.waiting.keys()

    def users(self) -> Collection[KafkaTopic]:
        """The objects that would take their topics along, and that are let near them."""
        found = (self._cache.topics[key] for key in self._cache.topics_of(self._topology))
        refusal = self._refusals()
        return [topic for topic in found if takes_topic_along(topic) and refusal(topic) is None]

    async def let_go(
        self, leaving: Sequence[KafkaTopic], state: ClusterState | Failure, admin: KafkaAdmin | None
    ) -> Mapping[ObjectKey, DeletionDecision]:
        """Delete and release; what has to be tried again, with the reason why."""
        ours = [topic for topic in leaving if has_finalizer(topic.meta)]  # nothing else depends on us
        refusal = self._refusals()
        words = {topic.key: known for topic in ours if (known := retained(topic, refusal(topic))) is not None}
        words |= await self._guard([topic for topic in ours if topic.key not in words])
        words |= await self._ask_kafka([topic for topic in ours if topic.key not in words], state, admin)
        now = datetime.now(UTC)
        words = {topic.key: out_of_patience(topic, words[topic.key], self._around, now) for topic in ours}
        again = await asyncio.gather(*(self._release(topic, words[topic.key]) for topic in ours))
        return {topic.key: word for topic, word in zip(ours, again, strict=True) if word is not None}

    # --- who may be deleted ------------------------------------------------------------------------------------------

    async def _guard(self, topics: Sequence[KafkaTopic]) -> dict[ObjectKey, DeletionDecision]:
        """Those that Kafka is not even asked about, and why."""
        if not topics:
            return {}
        namespaces = {topic.meta.namespace for topic in topics}
        try:
            seen = await self._kube.terminating(namespaces)
        except FailureError as error:
            why = f"it cannot be told whether more than this object is being deleted: {error.failure.message}"
            return {topic.key: DeletionDecision(Step.HOLD, why) for topic in topics}
        living = {name: since for name, since in self._around.namespaces.items() if name not in namespaces}
        self._around = Terminating(seen.definitions, {**living, **seen.namespaces})
        topology = self._cache.topologies.get(self._topology)
        words = {topic.key: known for topic in topics if (known := guarded(topic, topology, seen)) is not None}
        if topology is None or len(words) == len(topics):
            return words
        self._look_around(topology)
        await self._hear(topology)
        return words | self._held(topics, topology)

    def _held(self, topics: Iterable[KafkaTopic], topology: RackTopology) -> dict[ObjectKey, DeletionDecision]:
        gate, refusal, words = self._gate, self._refusals(), {}
        for topic in topics:
            now = self._cache.topics.get(topic.key)
            if now is None or not _is_still(topic, now, refusal(now)):
                words[topic.key] = DeletionDecision(Step.AGAIN, "the object changed while it was being let go")
                continue
            confirmed, waits = gate.is_confirmed(now), now.key in gate.waiting
            known = held(now, topology, self._around, confirmed=confirmed, waits=waits)
            if known is not None:
                words[topic.key] = known
        return words

    def _look_around(self, topology: RackTopology) -> None:
        """Let the gate see all objects that would take their topics along, not only those of a batch."""
        found = [self._cache.topics[key] for key in self._cache.topics_of(self._topology)]
        # A namespace that ends has objects that are being deleted. One without may be another one of that name.
        ends = {topic.meta.namespace for topic in found if topic.meta.is_deleting} & self._around.namespaces.keys()
        refusal = self._refusals()
        topics = [
            topic
            for topic in found
            if (topic.meta.is_deleting or topic.meta.namespace in ends)
            and takes_topic_along(topic)
            and refusal(topic) is None
        ]
        self._gate.remember(topology.status.deletions)
        self._gate.review(
            [topic for topic in topics if topic.meta.is_deleting],
            [topic for topic in topics if topic.meta.namespace in ends],
            topology.spec.max_deletions_per_minute,
        )

    async def _hear(self, topology: RackTopology) -> None:
        """Open the gate to those whose number somebody confirmed. What was read is taken away: it counts once."""
        said, count = confirmation(topology), len(self._gate.waiting)
        if said is None or not count:
            return
        about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
        fits = said == str(count)
        try:
            written = await self._kube.remove_annotation(about, CONFIRM_DELETIONS, topology.meta.resource_version)
        except FailureError as error:
            _log.warning("topology %s: a confirmation waits for the API server: %s", self._topology, error)
            return
        if written is None:
            return  # it changed meanwhile: its event is on the way
        self._cache.put_topology_answer(written)
        if not fits:
            message = f"{CONFIRM_DELETIONS} does not name the {count} deletions that wait: none was carried out"
            self._kube.record_event(KubernetesEvent(about, Reason.DELETION_HELD, message, warning=True))
        elif len(self._gate.waiting) == count:
            self._gate.confirm()

    # --- what Kafka says ---------------------------------------------------------------------------------------------

    async def _ask_kafka(
        self, topics: Sequence[KafkaTopic], state: ClusterState | Failure, admin: KafkaAdmin | None
    ) -> Mapping[ObjectKey, DeletionDecision]:
        if not topics:
            return {}
        if isinstance(state, Failure) or admin is None:
            why = state.message if isinstance(state, Failure) else "not connected"
            return {
                topic.key: DeletionDecision(
                    Step.HOLD,
                    f"topic {topic.topic_name} cannot be deleted from Kafka now: {why}; "
                    "set deletionPolicy: Retain to let the object go without deleting anything",
                )
                for topic in topics
            }
        try:
            words, _ = await _compare(topics, state, admin)
            going = [topic for topic in topics if words[topic.key].step is Step.DELETE]
            if going:
                await asyncio.sleep(_LAG_SECONDS)
                again, sizes = await _compare(going, state, admin)
                words |= again
                going = [topic for topic in going if words[topic.key].step is Step.DELETE]
                words |= self._at_last(going)
                going = [topic for topic in going if words[topic.key].step is Step.DELETE]
                self._gate.going(going)
                await self._record()  # before, so that a restart does not let as many go once more
                words |= await _delete(going, sizes, admin)
        except FailureError as error:
            return {topic.key: DeletionDecision(Step.HOLD, error.failure.message) for topic in topics}
        return words

    def _at_last(self, topics: Sequence[KafkaTopic]) -> Mapping[ObjectKey, DeletionDecision]:
        """Those that have to wait after all: meanwhile many more may have been asked for."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None:
            return {topic.key: DeletionDecision(Step.HOLD, "its RackTopology went a moment ago") for topic in topics}
        self._look_around(topology)
        return self._held(topics, topology)

    async def _release(self, topic: KafkaTopic, words: DeletionDecision) -> DeletionDecision | None:
        """What has to be tried again, if anything."""
        if words.step in (Step.HOLD, Step.AGAIN):
            return words
        try:
            written = await self._finalizers.remove(KIND, topic.meta)
        except FailureError as error:
            count_error(str(topic.topology), error.failure.remedy, error.failure.reason)
            return DeletionDecision(Step.HOLD, error.failure.message)
        except Exception:
            _log.exception("KafkaTopic %s: unexpected error", topic.key)
            return DeletionDecision(Step.HOLD, UNEXPECTED.message)
        if written is None:
            return DeletionDecision(Step.AGAIN, "the object changed while it was being let go")
        about = ObjectRef(KIND, topic.key, topic.meta.uid)
        reason = "Deleted" if words.step is Step.DELETE else "Released"
        self._kube.record_event(KubernetesEvent(about, reason, words.message))
        return None


def _is_still(topic: KafkaTopic, now: KafkaTopic, refusal: Failure | None) -> bool:
    """Whether the object, as it is known now, still asks for what the gate judged: it may say Retain by now."""
    return (
        now.meta.uid == topic.meta.uid
        and now.meta.is_deleting
        and now.status.topic_id == topic.status.topic_id
        and takes_topic_along(now)
        and refusal is None
    )


def held_back(words: DeletionDecision) -> Failure:
    """What is told while an object waits."""
    return Failure(words.reason, words.message, Remedy.ACCESS)


async def _compare(
    topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin
) -> tuple[dict[ObjectKey, DeletionDecision], Mapping[str, int]]:
    """What is to be done by the topics' ids, and how many partitions each name has."""
    found = await admin.topics([topic.topic_name for topic in topics])
    words: dict[ObjectKey, DeletionDecision] = {}
    sizes: dict[str, int] = {}
    for topic in topics:
        seen = found[topic.topic_name]
        if isinstance(seen, Failure):
            words[topic.key] = DeletionDecision(Step.HOLD, seen.message)
            continue
        words[topic.key] = decide_deletion(topic, seen, state)
        sizes[topic.topic_name] = len(seen.replicas) if seen is not None else 0
    return words, sizes


async def _delete(
    topics: Sequence[KafkaTopic], sizes: Mapping[str, int], admin: KafkaAdmin
) -> Mapping[ObjectKey, DeletionDecision]:
    """Delete these in few calls; what Kafka did not take. One topic that it refuses holds back no other."""
    kept: dict[ObjectKey, DeletionDecision] = {}
    for batch in batches(topics, lambda topic: 1 + sizes[topic.topic_name]):
        ids = {topic.topic_name: topic.status.topic_id or "" for topic in batch}
        BATCH_TOPICS.labels("delete_topics").observe(len(ids))
        try:
            refused = await admin.delete_topics(ids)
        except FailureError as error:
            refused = dict.fromkeys(ids, error.failure)
        for topic in batch:
            failure = refused[topic.topic_name]
            audit.deleted(topic, failure)
            if failure is not None:
                count_error(str(topic.topology), failure.remedy, failure.reason)
                kept[topic.key] = DeletionDecision(Step.HOLD, failure.message)
    return kept
