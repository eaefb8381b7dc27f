"""Reconciles the KafkaTopics of one topology in batches from a work queue, and requeues topics that need it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from rackspan.api.conditions import COMPLIANT, READY, STALLED, ConditionStatus, find_condition, is_true
from rackspan.api.kafkatopic import KIND, KafkaTopic
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.metrics import QUEUE_DEPTH, RECONCILE_SECONDS, RECONCILED, count_error, is_served
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.plans.approvals import Approvals
from rackspan.reconcile.plans.topology_plan import TopologyPlan
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.controller import request_version
from rackspan.reconcile.runtime.workqueue import WorkQueue
from rackspan.reconcile.specs.ownership import refusals
from rackspan.reconcile.specs.placement import third_party_placer, too_large
from rackspan.reconcile.specs.topic_quotas import Quotas
from rackspan.reconcile.topics.batch import reconcile_topics
from rackspan.reconcile.topics.creation_claims import is_prepared, prepare
from rackspan.reconcile.topics.topic_deletion import DeletionStep
from rackspan.reconcile.topics.topic_events import condition_events
from rackspan.reconcile.topics.topic_finalizer import TopicFinalizer, hold_failure
from rackspan.reconcile.topics.topic_status import failed_status, status_updates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from rackspan.api.kafkatopic import KafkaTopicStatus
    from rackspan.reconcile.cluster.state import ClusterState, ObservedCluster
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.topics.topic_decision import Outcome
    from rackspan.reconcile.topics.topic_status import StatusUpdate

R = TypeVar("R")
_log = logging.getLogger("rackspan.reconcile")

BATCHES = 8
"""The number of concurrent batches. Most of the time they wait for brokers to show changes."""
_BUSY_BATCHES = 6
"""The most batches of namespaces that already have one, so that other namespaces find a free slot."""
_BATCH = 500
_LINGER_SECONDS = 0.2
_MAX_LINGER_SECONDS = 0.6
"""How long a batch may grow while others are running: each call costs brokers more than one topic in it."""
_ABSENCE_SECONDS = 3.0
"""How long a topology or a topic must be missing before that is reported: watches and brokers may lag."""
_OBSERVATION_SECONDS = 0.3
"""How long topics wait if the RackTopology has changed: about as long as it takes to observe the cluster again."""
_NOT_ADMITTED = frozenset(
    {
        Reason.TOPOLOGY_NOT_FOUND,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.TOPIC_NAME_NOT_ALLOWED,
        Reason.INTERNAL_TOPIC,
        Reason.TOPIC_CONFLICT,
    }
)
"""The Ready reasons that are outdated once a topology has admitted the topic."""


class TopicsReconciler:
    """Reconciles batches concurrently. The queue never gives a key to two batches at the same time.

    `topology` is None for topics whose topology does not exist. They have no metrics. `write_topology_status` writes
    the RackTopology's status and raises FailureError.
    """

    def __init__(
        self,
        topology: ObjectKey | None,
        observer: ObservedCluster,
        dependencies: Dependencies,
        write_topology_status: Callable[[], Awaitable[None]],
    ) -> None:
        key = topology or ObjectKey("", "")
        self._topology = topology
        self._name = "" if topology is None else str(topology)
        self._observer = observer
        self._dependencies = dependencies
        self._queue: WorkQueue[ObjectKey] = WorkQueue(lambda key: key.namespace, _BUSY_BATCHES)
        self._absent_since: dict[ObjectKey, dict[Reason, float]] = {}
        """What KafkaTopics miss, and since when, by key and reason."""
        self._written: dict[ObjectKey, int] = {}
        """The fingerprints of the statuses that were written and need no requeue."""
        self._plans = TopologyPlan(self._queue.add)
        self._quotas = Quotas(key, dependencies.cache)
        self.approvals = Approvals(key, observer, dependencies, self._plans, self._quotas, self._queue)
        self.finalizer = TopicFinalizer(key, dependencies, write_topology_status)

    @property
    def is_idle(self) -> bool:
        """Whether no topic waits, also not for a retry."""
        return self._queue.is_empty

    def add(self, keys: Iterable[ObjectKey]) -> None:
        """Queue these topics."""
        self._queue.add(keys)
        self._measure_queue()

    def rewrite_status(self, key: ObjectKey) -> None:
        """Queue the topic, and compute its status even without changes, because another loop has written it."""
        self._written.pop(key, None)
        self.add([key])

    def drop(self, key: ObjectKey) -> None:
        """Forget a deleted KafkaTopic."""
        self._queue.remove(key)
        self._written.pop(key, None)
        self._plans.forget(key)
        self.approvals.forget(key)
        self.add(self._quotas.forget(key))
        self._absent_since.pop(key, None)

    async def take(self) -> Sequence[ObjectKey]:
        """Wait for the next batch of keys. No other caller gets these keys until `process` has returned for them."""
        keys = await self._queue.get_batch(_BATCH, _LINGER_SECONDS, _MAX_LINGER_SECONDS)
        self._measure_queue()
        return keys

    async def process(self, keys: Sequence[ObjectKey]) -> None:
        """Reconcile one batch. Never raises: failures are logged or written to the status, and topics requeued."""
        since, put_off = self.approvals.moment(), frozenset(keys)
        try:
            with RECONCILE_SECONDS.time():
                put_off = await self._reconcile(keys)
        except FailureError as error:
            count_error(self._name, error.failure.remedy, error.failure.reason)
            self._retry(keys)
            self._observer.wake()  # Kafka may be unreachable
        except Exception:
            count_error(self._name, Remedy.RETRY, Reason.UNEXPECTED_ERROR)
            _log.exception("topology %s: unexpected error over %d topics", self._name, len(keys))
            self._retry(keys)
        else:
            if is_served(self._name):
                RECONCILED.labels(self._name).inc(len(keys))
        finally:
            self.approvals.looked_at(keys, since, put_off)
            for key in keys:
                if self._known(key) is None:
                    self.drop(key)  # it was deleted while it was processed
            self._queue.done(keys)

    def _known(self, key: ObjectKey) -> KafkaTopic | None:
        """Return the KafkaTopic, or None if it is deleted or was recreated for another topology and its cluster."""
        topic = self._dependencies.cache.topics.get(key)
        return topic if topic is not None and self._topology in (None, topic.topology) else None

    def _measure_queue(self) -> None:
        if is_served(self._name):
            QUEUE_DEPTH.labels(self._name).set(len(self._queue))

    def _retry(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._queue.add_rate_limited(key)

    async def _reconcile(self, keys: Sequence[ObjectKey]) -> frozenset[ObjectKey]:
        """Reconcile topics and return those left for later. Raises FailureError if Kafka responded for none."""
        known = [topic for key in keys if (topic := self._known(key)) is not None]
        topics = [topic for topic in known if not self._dependencies.cache.is_left_out(topic)]
        cache = self._dependencies.cache
        deleting = [topic for topic in topics if topic.meta.is_deleting and not cache.has_unreadable_spec(topic)]
        await self._finalize(deleting)
        finalized, refusal_of = {topic.key for topic in deleting}, refusals(cache)
        others = [topic for topic in topics if topic.key not in finalized]
        failures = {
            topic.key: failure
            for topic in others
            if (failure := cache.unreadable(topic) or refusal_of(topic)) is not None
        }
        for key in failures:
            self._written.pop(key, None)  # so that its status is computed again once it is admitted
            self._plans.forget(key)
        refused = [topic for topic in others if topic.key in failures]
        await self._for_each(refused, lambda topic: self._write_failure(topic, failures[topic.key]))
        admitted = [topic for topic in others if topic.key not in failures]
        state, admin = self._observer.state, self._observer.admin
        rested: Sequence[KafkaTopic] = ()
        unread: Collection[ObjectKey] = ()
        if isinstance(state, Failure):
            await self._report_unavailable(admitted, state)
        elif admin is None or not self._is_up_to_date(state):
            self._wait_for_observation(admitted)
        elif rested := self._rested(admitted):
            unread = await self._reconcile_admitted(rested, state, admin, self._observer.epoch)
        left_out = {topic.key for topic in known} - {topic.key for topic in topics}
        return (frozenset(topic.key for topic in admitted) - {topic.key for topic in rested}).union(left_out, unread)

    async def _for_each(
        self, topics: Iterable[KafkaTopic], act: Callable[[KafkaTopic], Awaitable[R]]
    ) -> list[R | None]:
        """Return the results of `act`, run concurrently. None means that it failed, which the topic's status reports.

        All tasks have ended when this returns, because the queue may then give their keys to another batch.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._act_on(topic, act)) for topic in topics]
        return [task.result() for task in tasks]

    async def _act_on(self, topic: KafkaTopic, act: Callable[[KafkaTopic], Awaitable[R]]) -> R | None:
        try:
            return await act(topic)
        except FailureError as error:
            failure = error.failure
        except Exception:
            _log.exception("KafkaTopic %s: unexpected error", topic.key)
            failure = UNEXPECTED
        count_error(self._name, failure.remedy, failure.reason)
        self._queue.add_rate_limited(topic.key)
        self._written.pop(topic.key, None)
        try:
            await self._write_failure(topic, failure)
        except Exception:
            _log.exception("KafkaTopic %s: unexpected error over its status", topic.key)
        return None

    # --- before the cluster was observed -----------------------------------------------------------------------------

    def _is_up_to_date(self, state: ClusterState) -> bool:
        """Return whether the RackTopology's spec is still the one that the state was observed with."""
        topology = self._dependencies.cache.topologies.get(state.topology)
        return topology is None or topology.spec == state.spec

    def _wait_for_observation(self, topics: Iterable[KafkaTopic]) -> None:
        """Requeue topics until the RackTopology's new spec, which may forbid adoption, or its new client is in use."""
        self._observer.wake()
        for topic in topics:
            self._queue.add_after(topic.key, _OBSERVATION_SECONDS)

    # --- without a usable cluster ------------------------------------------------------------------------------------

    async def _report_unavailable(self, topics: Sequence[KafkaTopic], state: Failure) -> None:
        """Write why the topology cannot be used, to topics without a status for their generation. Others keep theirs.

        If the cluster is unreachable for long, topics with Ready=True get Ready=Unknown. No topic is requeued, because
        the next usable state queues all topics of the topology.
        """
        if state.reason == Reason.WAITING:
            return
        if state.reason == Reason.TOPOLOGY_NOT_FOUND:
            # Topics that are applied together with their topology often arrive a moment earlier.
            lost = [topic for topic in topics if not self._is_debounced(topic.key, state.reason)]
            await self._for_each(lost, lambda topic: self._write_failure(topic, _topology_not_found(topic)))
            return
        not_ready = Failure(Reason.TOPOLOGY_NOT_READY, f"{state.reason}: {state.message}", Remedy.RETRY)
        outdated = [topic for topic in topics if not _has_current_status(topic)]
        await self._for_each(outdated, lambda topic: self._write_failure(topic, not_ready))
        if (seconds := self._observer.out_of_sight) is not None:
            unseen = _unseen(state, datetime.now(UTC) - timedelta(seconds=seconds))
            ready = [
                topic for topic in topics if _has_current_status(topic) and is_true(topic.status.conditions, READY)
            ]
            for topic in ready:
                self._written.pop(topic.key, None)  # so that its status is computed again once Kafka responds
            await self._for_each(ready, lambda topic: self._write_failure(topic, unseen, ConditionStatus.UNKNOWN))

    # --- with one ----------------------------------------------------------------------------------------------------

    def _rested(self, topics: Sequence[KafkaTopic]) -> Sequence[KafkaTopic]:
        """Return the topics whose namespaces may be processed now. The others are queued for the time when they may."""
        rest = {name: self._quotas.rest(name) for name in {topic.meta.namespace for topic in topics}}
        for topic in topics:
            if rest[topic.meta.namespace] > 0:
                self._queue.add_after(topic.key, rest[topic.meta.namespace])
        return [topic for topic in topics if rest[topic.meta.namespace] <= 0]

    async def _reconcile_admitted(
        self, topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin, epoch: int
    ) -> Collection[ObjectKey]:
        """Reconcile and return the topics whose state Kafka did not return.

        Topics that need a third-party placer form their own batch, because the placer may be slow.
        """
        with_third_party: list[KafkaTopic] = []
        others: list[KafkaTopic] = []
        for topic in topics:
            calls_third_party = third_party_placer(topic.spec, topic.status.partitions or 0, state) is not None
            (with_third_party if calls_third_party else others).append(topic)
        unread: list[ObjectKey] = []
        results = await asyncio.gather(
            *(self._reconcile_batch(batch, state, admin, epoch) for batch in (others, with_third_party) if batch),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
            unread += result
        return unread

    async def _reconcile_batch(
        self, topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin, epoch: int
    ) -> Collection[ObjectKey]:
        above_quota = self._quotas.take(topics)
        try:
            outcomes = await reconcile_topics(
                topics,
                state,
                admin,
                partial(self._prepare, state),
                self._is_current,
                self._dependencies.third_party,
                above_quota,
            )
            await self._plan(outcomes, state)
            updates = await status_updates(outcomes, state, epoch, self._written)
            by_key = {outcome.topic.key: outcome for outcome in outcomes}
            await self._for_each(
                [outcome.topic for outcome in outcomes],
                lambda topic: self._finish(by_key[topic.key], updates[topic.key]),
            )
            return [outcome.topic.key for outcome in outcomes if outcome.is_unread]
        finally:
            self.add(self._quotas.release([topic.key for topic in topics]))

    async def _plan(self, outcomes: Sequence[Outcome], state: ClusterState) -> None:
        seen = []
        for outcome in outcomes:
            if outcome.seen is None or outcome.is_foreign:
                continue
            if too_large(outcome.topic, outcome.seen, state) is None:
                seen.append((outcome.topic, outcome.seen))
            else:
                self._plans.forget(outcome.topic.key)
        above_quota = {outcome.topic.key for outcome in outcomes if outcome.above_quota is not None}
        plans = await self._plans.of(seen, state.for_plans, above_quota)
        for outcome in outcomes:
            outcome.plan = plans.get(outcome.topic.key)
        planned = [outcome for outcome in outcomes if outcome.plan is not None and not outcome.plan.empty]
        holds = self.approvals.holds_of(outcome.topic for outcome in planned) if planned else {}
        for outcome in planned:
            outcome.hold, outcome.copied_bytes = holds.get(outcome.topic.key, (None, None))

    async def _prepare(self, state: ClusterState, outcomes: Sequence[Outcome]) -> Collection[ObjectKey]:
        """Write what objects need before they are changed in Kafka. Return the objects to be retried.

        These include objects that have changed since their batch began: deletions, placers and writes may take long.
        """
        decided_on = {outcome.topic.key: _version(outcome.topic) for outcome in outcomes}
        unprepared = {outcome.topic.key: outcome for outcome in outcomes if not is_prepared(outcome, state)}

        async def act(topic: KafkaTopic) -> bool:
            prepared = await prepare(self._dependencies, unprepared[topic.key], state)
            if not prepared:
                self._queue.add_after(topic.key, _ABSENCE_SECONDS)  # changed meanwhile: its watch event follows
            return prepared

        done = await self._for_each([outcome.topic for outcome in unprepared.values()], act)
        failed = {key for key, prepared in zip(unprepared, done, strict=True) if not prepared}
        changed = {key for key, version in decided_on.items() if _version(self._known(key)) != version}
        self.add(changed)
        return failed | changed

    def _is_current(self, topic: KafkaTopic) -> bool:
        return _version(self._known(topic.key)) == _version(topic)

    async def _finish(self, outcome: Outcome, update: StatusUpdate) -> None:
        """Write the status and Events of one outcome, and requeue the topic if more has to be done."""
        topic, problem = outcome.topic, outcome.problem
        if (
            problem is not None
            and problem.reason == Reason.TOPIC_VANISHED
            and self._is_debounced(topic.key, problem.reason)
        ):
            return
        if outcome.seen is not None:
            self._absent_since.pop(topic.key, None)
        if outcome.is_foreign:
            self._plans.forget(topic.key)
        if outcome.is_stale and outcome.decision.idle and not outcome.failures:
            self._queue.add_rate_limited(topic.key)  # keep the last status instead of writing an outdated one
            return
        if isinstance(update.status, Exception):
            raise update.status
        if update.status is None:
            return
        if not await self._write_status(topic, update.status, outcome):
            return
        if (problem is not None and problem.remedy is not Remedy.SPEC) or not outcome.settled:
            self._queue.add_rate_limited(topic.key)
        elif _has_more_to_do(outcome):
            self._queue.add_after(topic.key, 0)
        else:
            self._queue.forget(topic.key)
            self._written[topic.key] = update.fingerprint

    def _is_debounced(self, key: ObjectKey, reason: Reason) -> bool:
        """Return whether an absence is too recent to report. If so, requeue the topic for the time when it is not."""
        now = asyncio.get_running_loop().time()
        left = self._absent_since.setdefault(key, {}).setdefault(reason, now) + _ABSENCE_SECONDS - now
        if left <= 0:
            return False
        self._queue.add_after(key, left + 0.1)
        return True

    async def _write_failure(
        self, topic: KafkaTopic, failure: Failure, ready: ConditionStatus = ConditionStatus.FALSE
    ) -> None:
        if self._topology is None and topic.topology in self._dependencies.cache.topologies:
            return  # the topology was created meanwhile, and its loop writes the status
        await self._write_status(topic, failed_status(topic, failure, datetime.now(UTC), ready))

    async def _write_status(self, topic: KafkaTopic, status: KafkaTopicStatus, outcome: Outcome | None = None) -> bool:
        """Write a status if it changed, and record Events about the changes. Return False if the topic is requeued."""
        cache, ref = self._dependencies.cache, ObjectRef(KIND, topic.key, topic.meta.uid)
        try:
            written = await self._dependencies.statuses.write(ref, topic.status.to_dict(), status.to_dict())
        except FailureError:
            self._written.pop(topic.key, None)
            self._queue.add_rate_limited(topic.key)
            # Keep a new topic id in the cache, so that the next pass does not take the topic for another client's. An
            # id that is to be removed stays until its removal is written.
            known = cache.topics.get(topic.key)
            if known and known.meta.uid == topic.meta.uid and (status.topic_id or not topic.status.topic_id):
                cache.keep_topic(replace(known, status=status))
            return False
        if written is not None:
            cache.put_answer(written)
        for event in condition_events(ref, topic.status.conditions, status.conditions, outcome):
            self._dependencies.kube.record_event(event)
        return True

    # --- deletion ----------------------------------------------------------------------------------------------------

    async def _finalize(self, topics: Sequence[KafkaTopic]) -> None:
        pending = await self.finalizer.process(topics, self._observer.state, self._observer.admin)
        held = [topic for topic in topics if topic.key in pending and pending[topic.key].step is DeletionStep.HOLD]
        await self._for_each(held, lambda topic: self._write_failure(topic, hold_failure(pending[topic.key])))
        self._retry(pending)


def _version(topic: KafkaTopic | None) -> object:
    return topic and request_version(topic.meta)


def _topology_not_found(topic: KafkaTopic) -> Failure:
    return Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {topic.topology}", Remedy.SPEC)


def _unseen(state: Failure, since: datetime) -> Failure:
    """Return why the state of topics is unknown now."""
    away = state.reason == Reason.KAFKA_UNREACHABLE
    what = f"not seen in Kafka since {since:%Y-%m-%dT%H:%M:%SZ}; this status may be out of date"
    why = state.message if away else f"{state.reason}: {state.message}"
    return Failure(state.reason if away else Reason.TOPOLOGY_NOT_READY, f"{what}: {why}", Remedy.RETRY)


def _has_more_to_do(outcome: Outcome) -> bool:
    """Return whether to reconcile the topic again immediately.

    A very large topic gets its partitions in several passes. For a topic that Kafka placed, min.insync.replicas can
    only be derived now that its placement is known.
    """
    done = outcome.decision.create or outcome.decision.grow
    if done is None or outcome.seen is None:
        return False
    return len(outcome.seen.replicas) < outcome.topic.spec.partitions or done.assignment is None


def _has_current_status(topic: KafkaTopic) -> bool:
    """Return whether the status is of this generation and says more than that the topology could not be used."""
    status = topic.status
    ready = find_condition(status.conditions, READY)
    if status.observed_generation != topic.meta.generation or ready is None or ready.reason in _NOT_ADMITTED:
        return False
    return (
        ready.status != ConditionStatus.FALSE
        or is_true(status.conditions, STALLED)
        or find_condition(status.conditions, COMPLIANT) is not None
    )
