"""Deletes the topics of KafkaTopics that are being deleted, and removes their finalizers.

A topic is deleted only if its id is the one that the object's status recorded. See `topic_deletion` for the rules.

Deletions take turns: one turn runs at a time, and all batches that request one meanwhile share the next turn.
Finalizers are removed outside of the turns. A turn deletes only topics that were read twice, with a pause in between.
The pauses of several batches overlap.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from rackspan.api import racktopology
from rackspan.api.kafkatopic import KIND
from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.reasons import Reason
from rackspan.metrics import BATCH_TOPICS, count_error
from rackspan.reconcile import audit_log
from rackspan.reconcile.cluster.batching import MAX_RECORDS, CommitGroup, batches
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef, Terminating
from rackspan.reconcile.runtime.writers import has_finalizer
from rackspan.reconcile.specs.ownership import refusals
from rackspan.reconcile.topics.topic_deletion import (
    RETAIN_LETS_GO,
    DeletionDecision,
    DeletionGate,
    DeletionStep,
    agreed,
    decide_deletion,
    given_confirmations,
    held_or_retained,
    released_after_timeout,
    retained_by_spec,
    retained_by_teardown,
    would_delete_topic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import DeletionsStatus, RackTopology
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin

_log = logging.getLogger("rackspan.reconcile")
_LAG_SECONDS = 0.5
"""The minimum time between the first read of a topic and the read that decides.

librdkafka deletes by name, and any broker may respond to a read. After another client has recreated the topic, a
lagging broker may still show the object's topic, or not show it yet. The time counts from the start of a batch, not
again from its turn.
"""
_CHANGED = DeletionDecision(DeletionStep.RETRY, "the object changed while its deletion was decided")
_NOT_LOOKED_AT = Failure(Reason.WAITING, "the operator has not reconciled it yet", Remedy.RETRY)


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A topic for which a turn was requested, and the decision of its first read."""

    topic: KafkaTopic
    first: DeletionDecision
    partitions: int


class TopicFinalizer:
    """Finalizes the KafkaTopics of one topology, in batches.

    `write_topology_status` writes the RackTopology's status and raises FailureError.
    """

    def __init__(
        self, topology: ObjectKey, dependencies: Dependencies, write_topology_status: Callable[[], Awaitable[None]]
    ) -> None:
        self._topology = topology
        self._cache = dependencies.cache
        self._kube = dependencies.kube
        self._finalizers = dependencies.finalizers
        self._write_topology_status = write_topology_status
        self._gate = DeletionGate()
        self._terminating = Terminating()
        self._seen_since: Mapping[tuple[str, datetime | None], float] = {}
        """Since when (by the loop's clock) each namespace is seen to terminate, by name and deletionTimestamp."""
        self._cluster: tuple[ClusterState | Failure, KafkaAdmin | None] = _NOT_LOOKED_AT, None
        """The cluster of the latest batch. A turn uses it even if its batches are older."""
        self._turns: CommitGroup[_Doomed, DeletionDecision] = CommitGroup(self._take_turn, _records, MAX_RECORDS)

    def review(self) -> tuple[DeletionsStatus | None, Collection[ObjectKey]]:
        """Return the RackTopology's `status.deletions`, and the objects whose deletion waits for confirmation."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None:
            return None, ()
        self._review_gate(topology)
        return self._gate.status, self._gate.waiting.keys()

    def dependents(self) -> Collection[KafkaTopic]:
        """Return the admitted objects whose deletion will delete their topics, for which they need the RackTopology."""
        return self._deletable(self._topics())

    def _topics(self) -> list[KafkaTopic]:
        return [self._cache.topics[key] for key in self._cache.topics_of(self._topology)]

    def _deletable(self, topics: Iterable[KafkaTopic]) -> list[KafkaTopic]:
        """Return the admitted objects among these whose deletion deletes their topics."""
        refusal = refusals(self._cache)
        return [topic for topic in topics if would_delete_topic(topic) and refusal(topic) is None]

    async def process(
        self, deleting: Sequence[KafkaTopic], state: ClusterState | Failure, admin: KafkaAdmin | None
    ) -> Mapping[ObjectKey, DeletionDecision]:
        """Delete topics and remove finalizers, as far as possible now. Return the decisions for remaining objects.

        Without an `admin` nothing is deleted in Kafka. Objects without Rackspan's finalizer are skipped.
        """
        due = asyncio.get_running_loop().time() + _LAG_SECONDS
        self._cluster = state, admin
        finalized = [topic for topic in deleting if has_finalizer(topic.meta)]
        refusal = refusals(self._cache)
        decisions = {
            topic.key: known for topic in finalized if (known := retained_by_spec(topic, refusal(topic))) is not None
        }
        decisions |= await self._check_kubernetes([topic for topic in finalized if topic.key not in decisions])
        remaining = [topic for topic in finalized if topic.key not in decisions]
        decisions |= await self._delete_in_kafka(remaining, due)
        decisions = {
            topic.key: released_after_timeout(
                topic, decisions[topic.key], self._terminating, self._seen_for(topic.meta.namespace)
            )
            for topic in finalized
        }
        pending = await asyncio.gather(*(self._release(topic, decisions[topic.key]) for topic in finalized))
        return {topic.key: decision for topic, decision in zip(finalized, pending, strict=True) if decision is not None}

    # --- what Kubernetes says ----------------------------------------------------------------------------------------

    def _seen_for(self, namespace: str) -> timedelta:
        """Return how long this process has seen a namespace terminate."""
        end, now = self._terminating.namespaces.get(namespace), asyncio.get_running_loop().time()
        return timedelta(seconds=now - self._seen_since.get((namespace, end), now))

    async def _check_kubernetes(self, topics: Sequence[KafkaTopic]) -> dict[ObjectKey, DeletionDecision]:
        """Return the decisions that need no response from Kafka."""
        if not topics:
            return {}
        namespaces = {topic.meta.namespace for topic in topics}
        try:
            seen = await self._kube.terminating(namespaces)
        except FailureError as error:
            why = f"it is not known whether more than this object is being deleted: {error.failure.message}"
            return _held(topics, why)
        others = {name: since for name, since in self._terminating.namespaces.items() if name not in namespaces}
        self._terminating = Terminating(seen.definitions, {**others, **seen.namespaces})
        now = asyncio.get_running_loop().time()
        self._seen_since = {end: self._seen_since.get(end, now) for end in self._terminating.namespaces.items()}
        topology = self._cache.topologies.get(self._topology)
        decisions = {
            topic.key: known for topic in topics if (known := self._retained(topic, topology, seen)) is not None
        }
        if topology is None or len(decisions) == len(topics):
            return decisions
        self._review_gate(topology)
        await self._read_confirmation(topology)
        return decisions | self._check_gate(topics, topology)

    def _retained(
        self, topic: KafkaTopic, topology: RackTopology | None, terminating: Terminating
    ) -> DeletionDecision | None:
        unreadable = None if topology is not None or terminating.definitions else self._cache.unreadable(topic)
        if unreadable is not None:  # the RackTopology exists
            return DeletionDecision(DeletionStep.HOLD, unreadable.message)
        return retained_by_teardown(topic, topology, terminating)

    def _check_gate(self, topics: Iterable[KafkaTopic], topology: RackTopology) -> dict[ObjectKey, DeletionDecision]:
        gate, refusal, decisions = self._gate, refusals(self._cache), {}
        for topic in topics:
            current = self._cache.topics.get(topic.key)
            if current is None or not _is_unchanged(topic, current, refusal(current)):
                decisions[topic.key] = _CHANGED
                continue
            confirmed, waits = gate.is_confirmed(current), current.key in gate.waiting
            known = held_or_retained(current, topology, self._terminating, confirmed=confirmed, waits=waits)
            if known is not None:
                decisions[topic.key] = known
        return decisions

    def _review_gate(self, topology: RackTopology) -> None:
        """Pass to the gate all objects whose topics would be deleted, not only those of a batch."""
        topics = self._topics()
        leaving = {topic.meta.namespace for topic in topics if topic.meta.is_deleting}
        # A namespace without objects that are being deleted may be a newer one of the same name.
        ends = {name: since for name, since in self._terminating.namespaces.items() if name in leaving}
        self._terminating = Terminating(self._terminating.definitions, ends)
        chosen = self._deletable(one for one in topics if one.meta.is_deleting or one.meta.namespace in ends)
        self._gate.restore(topology.status.deletions)
        self._gate.review(chosen, ends, topology.spec.max_deletions_per_minute)

    async def _read_confirmation(self, topology: RackTopology) -> None:
        """Confirm deletions of namespaces by the annotation, and remove the confirmations, because each counts once.

        The confirmation of a namespace without waiting deletions is kept until there are some, independent of other
        namespaces.
        """
        given = given_confirmations(topology)
        waiting = {one.namespace for one in self._gate.held()}
        if given is None or not waiting or (given and waiting.isdisjoint(given)):
            return
        used = {namespace: word for namespace, word in given.items() if namespace in waiting}
        kept = [word for namespace, word in given.items() if namespace not in used]
        about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
        try:
            left = ",".join(kept) or None
            written = await self._kube.set_annotation(about, CONFIRM_DELETIONS, left, topology.meta.resource_version)
        except FailureError as error:
            _log.warning("topology %s: a confirmation waits for the API server: %s", self._topology, error)
            return
        if written is None:
            return  # changed meanwhile: its watch event follows
        self._cache.put_topology_answer(written)
        fits = {one.namespace for one in self._gate.held() if one.confirmation == used.get(one.namespace)}
        for namespace in fits:
            self._gate.confirm(namespace)
        refused = used.keys() - fits
        if refused or not given:
            which = f" in namespace {min(refused)}" if refused else ""
            message = (
                f"{CONFIRM_DELETIONS} does not name just the deletions that wait{which}: none was carried out there; "
                "the condition DeletionsHeld says how to confirm them"
            )
            self._kube.record_event(KubernetesEvent(about, Reason.DELETION_HELD, message, warning=True))

    # --- what Kafka says ---------------------------------------------------------------------------------------------

    async def _delete_in_kafka(self, topics: Sequence[KafkaTopic], due: float) -> Mapping[ObjectKey, DeletionDecision]:
        """Read the topics, wait until `due`, and submit those that Kafka responded about to a turn."""
        if not topics:
            return {}
        state, admin = self._cluster
        if isinstance(state, Failure) or admin is None:
            return _not_connected(topics, state)
        try:
            first, sizes = await _compare_ids(topics, state, admin)
        except FailureError as error:
            return _held(topics, error.failure.message)
        answered = [topic for topic in topics if first[topic.key].step is not DeletionStep.HOLD]
        if not answered:
            return first
        await asyncio.sleep(max(due - asyncio.get_running_loop().time(), 0))
        doomed = [_Doomed(topic, first[topic.key], sizes[topic.topic_name]) for topic in answered]
        answers: dict[str, DeletionDecision] = {}
        for batch in batches(doomed, _records):  # each turn makes one call, so all is checked just before each call
            answers |= await self._turns.submit({one.topic.topic_name: one for one in batch})  # admitted: one per name
        return first | {topic.key: answers[topic.topic_name] for topic in answered}

    async def _take_turn(self, doomed: Sequence[_Doomed]) -> Mapping[str, DeletionDecision]:
        """Check Kubernetes and Kafka again, and delete what may be deleted. Return the decisions by topic name.

        A topic may have waited for its turn. So earlier results count only if they were against deleting.
        """
        topics = [one.topic for one in doomed]
        decisions = await self._check_kubernetes(topics)
        remaining = [one for one in doomed if one.topic.key not in decisions]
        decisions |= await self._delete_unchanged(remaining)
        return {topic.topic_name: decisions[topic.key] for topic in topics}

    async def _delete_unchanged(self, doomed: Sequence[_Doomed]) -> Mapping[ObjectKey, DeletionDecision]:
        topics = [one.topic for one in doomed]
        state, admin = self._cluster
        if isinstance(state, Failure) or admin is None:
            return _not_connected(topics, state)
        try:
            again, sizes = await _compare_ids(topics, state, admin)
            decisions = {
                one.topic.key: agreed(
                    one.topic, one.first, again[one.topic.key], gone=sizes.get(one.topic.topic_name) == 0
                )
                for one in doomed
            }
            decisions |= self._recheck_gate(_to_delete(topics, decisions))
            if to_delete := _to_delete(topics, decisions):
                self._gate.record_deletions(to_delete)
                await self._write_topology_status()  # before deleting, so that a restarted operator counts these too
                decisions |= self._recheck_gate(to_delete)
                decisions |= await _delete(_to_delete(to_delete, decisions), admin)
        except FailureError as error:
            return _held(topics, error.failure.message)
        return decisions

    def _recheck_gate(self, topics: Sequence[KafkaTopic]) -> Mapping[ObjectKey, DeletionDecision]:
        """Return decisions for topics that now have to wait: many deletions may have been requested meanwhile."""
        topology = self._cache.topologies.get(self._topology)
        if topology is None or self._cache.quota.over_quota(self._topology) is not None:
            # Its status is not written any more, so a later operator would not count these deletions.
            return _held(topics, "its RackTopology went, or is not served, since a moment ago")
        self._review_gate(topology)
        return self._check_gate(topics, topology)

    async def _release(self, topic: KafkaTopic, decision: DeletionDecision) -> DeletionDecision | None:
        """Remove the finalizer if the decision allows it. Return the decision that applies if the object remains."""
        if decision.step in (DeletionStep.HOLD, DeletionStep.RETRY):
            return decision
        try:
            written = await self._finalizers.remove(KIND, topic.meta)
        except FailureError as error:
            # Nonexistent topologies share one metric series, because users can name any number of them.
            topology = str(topic.topology) if topic.topology in self._cache.topologies else ""
            count_error(topology, error.failure.remedy, error.failure.reason)
            return DeletionDecision(DeletionStep.HOLD, error.failure.message)
        except Exception:
            _log.exception("KafkaTopic %s: unexpected error", topic.key)
            return DeletionDecision(DeletionStep.HOLD, UNEXPECTED.message)
        if written is None:
            return _CHANGED
        about = ObjectRef(KIND, topic.key, topic.meta.uid)
        reason = "Deleted" if decision.step is DeletionStep.DELETE else "Released"
        self._kube.record_event(KubernetesEvent(about, reason, decision.message))
        return None


def _is_unchanged(topic: KafkaTopic, current: KafkaTopic, refusal: Failure | None) -> bool:
    """Return whether the latest version of the object still requests the deletion. It may have Retain by now."""
    return (
        current.meta.uid == topic.meta.uid
        and current.meta.is_deleting
        and current.status.topic_id == topic.status.topic_id
        and would_delete_topic(current)
        and refusal is None
    )


def _to_delete(topics: Iterable[KafkaTopic], decisions: Mapping[ObjectKey, DeletionDecision]) -> Sequence[KafkaTopic]:
    return [topic for topic in topics if decisions[topic.key].step is DeletionStep.DELETE]


def _held(topics: Iterable[KafkaTopic], why: str) -> dict[ObjectKey, DeletionDecision]:
    return {topic.key: DeletionDecision(DeletionStep.HOLD, why) for topic in topics}


def hold_failure(decision: DeletionDecision) -> Failure:
    """Return the failure that the status reports while an object is held."""
    return Failure(decision.reason, decision.message, Remedy.ACCESS)


def _not_connected(topics: Iterable[KafkaTopic], state: ClusterState | Failure) -> dict[ObjectKey, DeletionDecision]:
    """Return HOLD decisions, or RETRY if the client is only being replaced."""
    hold = DeletionStep.HOLD
    step, why = (hold, state.message) if isinstance(state, Failure) else (DeletionStep.RETRY, "not connected")
    return {
        topic.key: DeletionDecision(
            step,
            f"topic {topic.topic_name} cannot be deleted from Kafka now: {why}; {RETAIN_LETS_GO}",
        )
        for topic in topics
    }


async def _compare_ids(
    topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin
) -> tuple[dict[ObjectKey, DeletionDecision], Mapping[str, int]]:
    """Return decisions from comparing topic ids with Kafka's, and the number of partitions of each topic by name."""
    found = await admin.topics([topic.topic_name for topic in topics])
    decisions: dict[ObjectKey, DeletionDecision] = {}
    sizes: dict[str, int] = {}
    for topic in topics:
        seen = found[topic.topic_name]
        if isinstance(seen, Failure):
            decisions[topic.key] = DeletionDecision(DeletionStep.HOLD, seen.message)
            continue
        decisions[topic.key] = decide_deletion(topic, seen, state)
        sizes[topic.topic_name] = len(seen.replicas) if seen is not None else 0
    return decisions, sizes


def _records(one: _Doomed) -> int:
    return 1 + one.partitions


async def _delete(topics: Sequence[KafkaTopic], admin: KafkaAdmin) -> Mapping[ObjectKey, DeletionDecision]:
    """Delete topics in one call. Return a HOLD for each that Kafka refused."""
    if not topics:
        return {}
    failed: dict[ObjectKey, DeletionDecision] = {}
    ids = {topic.topic_name: topic.status.topic_id or "" for topic in topics}
    entries = {topic.topic_name: audit_log.deletion_of(topic) for topic in topics}
    BATCH_TOPICS.labels("delete_topics").observe(len(ids))
    try:
        refused = await audit_log.audited(entries, lambda: admin.delete_topics(ids))
    except FailureError as error:
        refused = dict.fromkeys(ids, error.failure)
    for topic in topics:
        failure = refused[topic.topic_name]
        if failure is not None:
            count_error(str(topic.topology), failure.remedy, failure.reason)
            failed[topic.key] = DeletionDecision(DeletionStep.HOLD, failure.message)
    return failed
