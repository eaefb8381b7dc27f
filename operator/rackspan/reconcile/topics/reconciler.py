"""Works through the KafkaTopics of one topology: batches from the queue, a status for each, and when to come back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from rackspan.api.conditions import COMPLIANT, READY, STALLED, ConditionStatus, find_condition, is_true
from rackspan.api.kafkatopic import KIND, KafkaTopic
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.metrics import QUEUE_DEPTH, RECONCILE_SECONDS, RECONCILED, count_error
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.batching import batches
from rackspan.reconcile.runtime.finalizers import finalizers_for
from rackspan.reconcile.runtime.threads import in_thread
from rackspan.reconcile.runtime.workqueue import WorkQueue
from rackspan.reconcile.topics.batch import reconcile_topics
from rackspan.reconcile.topics.decision import Decision, has_to_claim
from rackspan.reconcile.topics.deletion import Step
from rackspan.reconcile.topics.events import condition_events
from rackspan.reconcile.topics.finalizer import TopicFinalizer, hold_failure
from rackspan.reconcile.topics.limits import PORTION, cost, too_large
from rackspan.reconcile.topics.ownership import TopicClaim, owner, refusal, rival
from rackspan.reconcile.topics.placement import third_party_placer
from rackspan.reconcile.topics.plan import Plans
from rackspan.reconcile.topics.status import failed_status, topic_status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopicStatus
    from rackspan.api.racktopology import DeletionsStatus
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.topics.batch import Outcome

R = TypeVar("R")
_log = logging.getLogger("rackspan.reconcile")

_BATCH = 500
_LINGER_SECONDS = 0.2
_PATIENCE_SECONDS = 0.6
"""How long a batch may grow while topics keep coming: each call costs brokers more than a topic in it does."""
_SUSPICION_SECONDS = 3.0
"""How long what should be there must be missing before that is told: brokers learn of a topic one after the other."""
_TURNED_AWAY = frozenset(
    {
        Reason.TOPOLOGY_NOT_FOUND,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.TOPIC_NAME_NOT_ALLOWED,
        Reason.INTERNAL_TOPIC,
        Reason.TOPIC_CONFLICT,
    }
)
"""Reasons that no longer hold for a topic that a topology has admitted."""


@dataclass(frozen=True, slots=True)
class _Concluded:
    """The status to write, None where the last one still holds, or why there is none."""

    fingerprint: int
    status: KafkaTopicStatus | Exception | None


class ObservedCluster(Protocol):
    """What is known of a topology, and the client to act through; `wake` has it looked at again."""

    @property
    def state(self) -> ClusterState | Failure: ...  # noqa: D102
    @property
    def admin(self) -> KafkaAdmin | None: ...  # noqa: D102
    @property
    def epoch(self) -> int: ...  # noqa: D102
    def wake(self) -> None: ...  # noqa: D102


class TopicsReconciler:
    """Several batches may be worked on side by side; the queue keeps one object from being worked on twice at once.

    `topology` is None for topics whose topology is not there; they give no series of metrics.
    """

    def __init__(
        self,
        topology: ObjectKey | None,
        observer: ObservedCluster,
        dependencies: Dependencies,
        record: Callable[[], Awaitable[None]],
    ) -> None:
        self._name = "" if topology is None else str(topology)
        self._observer = observer
        self._dependencies = dependencies
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._suspects: dict[tuple[ObjectKey, Reason], float] = {}
        self._settled: dict[ObjectKey, int] = {}
        self._plans = Plans()
        self._finalizer = TopicFinalizer(topology or ObjectKey("", ""), dependencies, self._refusals, record)

    def add(self, keys: Iterable[ObjectKey]) -> None:
        """Look at these topics soon."""
        self._queue.add(keys)
        self._measure_queue()

    def look_anew(self, key: ObjectKey) -> None:
        """Conclude and write its status again, whatever was written last."""
        self._settled.pop(key, None)
        self.add([key])

    def drop(self, key: ObjectKey) -> None:
        """This KafkaTopic is no more."""
        self._queue.remove(key)
        self._settled.pop(key, None)
        self._plans.forget(key)
        self._trust(key)

    async def take(self) -> Sequence[ObjectKey]:
        """Wait for the next batch. Its keys are nobody else's before `see_through` has ended."""
        keys = await self._queue.get_batch(_BATCH, _LINGER_SECONDS, _PATIENCE_SECONDS)
        self._measure_queue()
        return keys

    async def see_through(self, keys: Sequence[ObjectKey]) -> None:
        """Work on one batch; whatever goes wrong, its topics come back later."""
        if not keys:
            return  # another worker was quicker
        try:
            with RECONCILE_SECONDS.time():
                await self._reconcile(keys)
        except FailureError as error:
            count_error(self._name, error.failure.remedy, error.failure.reason)
            self._retry(keys)
            self._observer.wake()  # is Kafka still there?
        except Exception:
            count_error(self._name, Remedy.RETRY, Reason.UNEXPECTED_ERROR)
            _log.exception("topology %s: unexpected error over %d topics", self._name, len(keys))
            self._retry(keys)
        else:
            if self._name:
                RECONCILED.labels(self._name).inc(len(keys))
        finally:
            self._queue.done(keys)

    def _measure_queue(self) -> None:
        if self._name:
            QUEUE_DEPTH.labels(self._name).set(len(self._queue))

    def _retry(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._queue.add_rate_limited(key)

    async def _reconcile(self, keys: Sequence[ObjectKey]) -> None:
        """One pass over some topics. Raises FailureError where Kafka answered for none of them."""
        topics = [topic for key in keys if (topic := self._dependencies.cache.topics.get(key)) is not None]
        leaving = [topic for topic in topics if topic.meta.is_deleting]
        staying = [topic for topic in topics if not topic.meta.is_deleting]
        await self._let_go(leaving)
        refusal_of = self._refusals()
        refusals = {topic.key: failure for topic in staying if (failure := refusal_of(topic)) is not None}
        for key in refusals:
            self._settled.pop(key, None)  # should it be admitted again, its status has to be concluded anew
        refused = [topic for topic in staying if topic.key in refusals]
        await self._each(refused, lambda topic: self._tell(topic, failed_status(topic, refusals[topic.key], _now())))
        admitted = [topic for topic in staying if topic.key not in refusals]
        state, admin = self._observer.state, self._observer.admin
        if isinstance(state, Failure) or admin is None:
            await self._wait(admitted, state)
        elif admitted:
            await self._bring_to_spec(admitted, state, admin, self._observer.epoch)

    async def _each(self, topics: Iterable[KafkaTopic], act: Callable[[KafkaTopic], Awaitable[R]]) -> list[R | None]:
        """What `act` gives for each topic, side by side; None where it failed, which is told and is no other's.

        All have ended when this returns, so that nothing is under way for a key that is handed out again.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._alone(topic, act)) for topic in topics]
        return [task.result() for task in tasks]

    async def _alone(self, topic: KafkaTopic, act: Callable[[KafkaTopic], Awaitable[R]]) -> R | None:
        found = await _attempted(topic, act)
        if not isinstance(found, Failure):
            return found
        count_error(self._name, found.remedy, found.reason)
        self._queue.add_rate_limited(topic.key)
        self._settled.pop(topic.key, None)
        try:
            await self._tell(topic, failed_status(topic, found, _now()))
        except Exception:
            _log.exception("KafkaTopic %s: unexpected error over its status", topic.key)
        return None

    def _refusals(self) -> Callable[[KafkaTopic], Failure | None]:
        """What tells why a topic is not looked after, as things are now: to be used before anything changes.

        Who decides about a Kafka topic is found once, however many objects there are for it.
        """
        owners: dict[tuple[ObjectKey, str], KafkaTopic | None] = {}

        def refused(topic: KafkaTopic) -> Failure | None:
            claim = self._claim_of(topic)
            if claim is None:
                return None  # the state says that there is no topology
            known = refusal(claim) or self._too_late(topic)
            if known is not None:
                return known
            about = topic.topology, topic.topic_name
            if about not in owners:
                owners[about] = self._owner(topic)
            return rival(topic, owners[about])

        return refused

    def _too_late(self, topic: KafkaTopic) -> Failure | None:
        """A topology that goes lets nothing new hold it up."""
        topology = self._dependencies.cache.topologies.get(topic.topology)
        if topology is None or not topology.meta.is_deleting or topic.status.topic_id is not None:
            return None
        return Failure(Reason.TOPOLOGY_NOT_FOUND, f"RackTopology {topic.topology} is being deleted", Remedy.SPEC)

    def _claim_of(self, topic: KafkaTopic) -> TopicClaim | None:
        cache = self._dependencies.cache
        topology = cache.topologies.get(topic.topology)
        if topology is None:
            return None
        return TopicClaim(topic, topology, cache.namespaces.get(topic.meta.namespace, {}))

    def _owner(self, topic: KafkaTopic) -> KafkaTopic | None:
        """Who decides about the topic. An object that its topology does not admit keeps nobody from doing so."""
        claims = map(self._claim_of, self._dependencies.cache.claims(topic))
        return owner(claim for claim in claims if claim is not None and refusal(claim) is None)

    # --- while the topology is not fit to act on ---------------------------------------------------------------------

    async def _wait(self, topics: Iterable[KafkaTopic], state: ClusterState | Failure) -> None:
        """Only objects that nobody has judged in their present form are told; the others keep their last good status.

        Nobody comes back for them: the first state that is fit to act on hands out all topics anew.
        """
        if not isinstance(state, Failure) or state.reason == Reason.WAITING:
            return
        lost = state.reason == Reason.TOPOLOGY_NOT_FOUND
        chosen = [
            topic
            for topic in topics
            # Applied together, topics often arrive a moment before their topology: no reason to cry wolf.
            if (not self._is_only_suspected(topic.key, state.reason) if lost else not _is_judged(topic))
        ]
        known = state if lost else Failure(Reason.TOPOLOGY_NOT_READY, f"{state.reason}: {state.message}", Remedy.RETRY)

        def told(topic: KafkaTopic) -> Failure:
            return known if self._name else not_found(topic)

        await self._each(chosen, lambda topic: self._tell(topic, failed_status(topic, told(topic), _now())))

    # --- while it is -------------------------------------------------------------------------------------------------

    async def _bring_to_spec(
        self, topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin, epoch: int
    ) -> None:
        ready = await self._each(topics, self._with_finalizer)
        with_third_party: list[KafkaTopic] = []
        others: list[KafkaTopic] = []
        for topic in filter(None, ready):
            asks = third_party_placer(topic.spec, topic.status.partitions or 0, state) is not None
            (with_third_party if asks else others).append(topic)
        ends = await asyncio.gather(
            *(self._pass(some, state, admin, epoch) for some in (others, with_third_party) if some),
            return_exceptions=True,
        )
        for error in filter(None, ends):
            raise error

    async def _pass(self, topics: Sequence[KafkaTopic], state: ClusterState, admin: KafkaAdmin, epoch: int) -> None:
        outcomes = await reconcile_topics(
            topics, state, admin, partial(self._claim, state), self._dependencies.third_party
        )
        await self._plan(outcomes, state)
        concluded = await self._conclude(outcomes, state, epoch)
        by_key = {outcome.topic.key: outcome for outcome in outcomes}
        await self._each(
            [outcome.topic for outcome in outcomes],
            lambda topic: self._close(by_key[topic.key], concluded[topic.key]),
        )

    async def _conclude(
        self, outcomes: Sequence[Outcome], state: ClusterState, epoch: int
    ) -> Mapping[ObjectKey, _Concluded]:
        """The statuses, computed off the event loop, a portion at a time so that other topologies get their turn."""
        found: dict[ObjectKey, _Concluded] = {}
        for some in batches(outcomes, lambda outcome: cost(outcome.topic, outcome.seen, state), PORTION):
            settled = {outcome.topic.key: self._settled.get(outcome.topic.key) for outcome in some}
            found |= await in_thread(partial(_all_concluded, some, state, epoch, settled))
        return found

    async def _claim(self, state: ClusterState, outcomes: Sequence[Outcome]) -> None:
        """Record which topics are about to be made, wherever it would matter after a crash whose they are."""
        await asyncio.gather(*(self._record(outcome) for outcome in outcomes if has_to_claim(outcome.topic, state)))

    async def _record(self, outcome: Outcome) -> None:
        claimed = replace(outcome.topic, status=replace(outcome.topic.status, creating=True))
        known = await _attempted(outcome.topic, partial(self._recorded, claimed))
        if isinstance(known, KafkaTopic):
            outcome.topic, outcome.new_claim = claimed, True
            return
        outcome.decision = Decision()  # it is gone, or nothing can be recorded now: nothing is made
        if known is not None:
            outcome.failures.append(known)

    async def _recorded(self, claimed: KafkaTopic, before: KafkaTopic) -> KafkaTopic | None:
        written = await self._dependencies.statuses.write(
            _ref(before), before.status.to_dict(), claimed.status.to_dict()
        )
        return self._dependencies.cache.put_answer(written) if written is not None else None

    async def _plan(self, outcomes: Sequence[Outcome], state: ClusterState) -> None:
        seen = [
            (outcome.topic, outcome.seen)
            for outcome in outcomes
            if outcome.seen is not None and not outcome.is_foreign and not too_large(outcome.topic, outcome.seen, state)
        ]
        plans = await self._plans.of(seen, state)
        for outcome in outcomes:
            outcome.plan = plans.get(outcome.topic.key)

    async def _with_finalizer(self, topic: KafkaTopic) -> KafkaTopic | None:
        """The topic with the finalizers it should have, before anything is made that they guard."""
        if finalizers_for(topic.meta) is None:
            return topic
        written = await self._dependencies.finalizers.add(KIND, topic.meta)
        if written is None:
            self._queue.add_after(topic.key, _SUSPICION_SECONDS)  # it changed meanwhile: its event is on the way
            return None
        known = self._dependencies.cache.put_answer(written)
        return known if known is not None and not known.meta.is_deleting else None

    async def _close(self, outcome: Outcome, concluded: _Concluded) -> None:
        """Status, Events and, where something is still to come, the next time."""
        topic, problem = outcome.topic, outcome.problem
        if (
            problem is not None
            and problem.reason == Reason.TOPIC_VANISHED
            and self._is_only_suspected(topic.key, problem.reason)
        ):
            return
        if outcome.seen is not None:
            self._trust(topic.key)
        if outcome.is_half_seen and outcome.decision.idle and not outcome.failures:
            self._queue.add_rate_limited(topic.key)  # the last status, if there is one, is better than half of one
            return
        if isinstance(concluded.status, Exception):
            raise concluded.status
        if concluded.status is None:
            return
        if not await self._tell(topic, concluded.status, outcome):
            return
        if (problem is not None and problem.remedy is not Remedy.SPEC) or not outcome.settled:
            self._queue.add_rate_limited(topic.key)
        elif _is_unfinished(outcome):
            self._queue.add_after(topic.key, 0)
        else:
            self._queue.forget(topic.key)
            self._settled[topic.key] = concluded.fingerprint

    def _trust(self, key: ObjectKey) -> None:
        for reason in (Reason.TOPOLOGY_NOT_FOUND, Reason.TOPIC_VANISHED):
            self._suspects.pop((key, reason), None)

    def _is_only_suspected(self, key: ObjectKey, reason: Reason) -> bool:
        now = asyncio.get_running_loop().time()
        age = now - self._suspects.setdefault((key, reason), now)
        if age >= _SUSPICION_SECONDS:
            return False
        self._queue.add_after(key, _SUSPICION_SECONDS - age + 0.1)
        return True

    async def _tell(self, topic: KafkaTopic, status: KafkaTopicStatus, outcome: Outcome | None = None) -> bool:
        """Write a status if it changed, and announce what is new in it; False where it has to be tried again."""
        cache, ref = self._dependencies.cache, _ref(topic)
        try:
            written = await self._dependencies.statuses.write(ref, topic.status.to_dict(), status.to_dict())
        except FailureError:
            self._settled.pop(topic.key, None)
            self._queue.add_rate_limited(topic.key)
            # A topic id that is known but not written yet must not be taken for somebody else's in the next pass, and
            # one that is to be forgotten counts until that is written.
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

    def deletions(self) -> tuple[DeletionsStatus | None, Collection[ObjectKey]]:
        """What there is to tell of deletions, and which objects wait for a person."""
        return self._finalizer.review()

    def users(self) -> Collection[KafkaTopic]:
        """The objects whose end would be the end of their topics."""
        return self._finalizer.dependents()

    async def _let_go(self, topics: Sequence[KafkaTopic]) -> None:
        again = await self._finalizer.process(topics, self._observer.state, self._observer.admin)
        held = [topic for topic in topics if topic.key in again and again[topic.key].step is Step.HOLD]
        await self._each(
            held, lambda topic: self._tell(topic, failed_status(topic, hold_failure(again[topic.key]), _now()))
        )
        self._retry(again)


async def _attempted(topic: KafkaTopic, act: Callable[[KafkaTopic], Awaitable[R]]) -> R | Failure:
    """What `act` gives for the topic, or what befell it there."""
    try:
        return await act(topic)
    except FailureError as error:
        return error.failure
    except Exception:
        _log.exception("KafkaTopic %s: unexpected error", topic.key)
        return UNEXPECTED


def not_found(topic: KafkaTopic) -> Failure:
    """That the topic's RackTopology is not there."""
    return Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {topic.topology}", Remedy.SPEC)


def _all_concluded(
    outcomes: Iterable[Outcome], state: ClusterState, epoch: int, settled: Mapping[ObjectKey, int | None]
) -> dict[ObjectKey, _Concluded]:
    """A defect over one topic is told with that one alone."""
    return {outcome.topic.key: _concluded(outcome, state, epoch, settled[outcome.topic.key]) for outcome in outcomes}


def _concluded(outcome: Outcome, state: ClusterState, epoch: int, settled: int | None) -> _Concluded:
    try:
        fingerprint = hash((epoch, _fingerprint(outcome)))
        if settled == fingerprint and outcome.decision.idle:
            return _Concluded(fingerprint, None)
        return _Concluded(fingerprint, topic_status(outcome, state, _now()))
    except Exception as error:  # it is told where the status would be written
        return _Concluded(0, error)


def _fingerprint(outcome: Outcome) -> int:
    """What the last status was concluded from, the state aside. While it is the same, so is the status."""
    meta, config = outcome.topic.meta, outcome.config
    return hash(
        (
            meta.uid,
            meta.generation,
            tuple(sorted(meta.annotations.items())),
            outcome.seen,
            (config.min_insync, *sorted(config.own.items())) if config else None,
            outcome.problem,
            outcome.plan and outcome.plan.hash,
        )
    )


def _is_unfinished(outcome: Outcome) -> bool:
    """Whether there is more to do at once.

    A very large topic has only got its first partitions so far; of one that Kafka placed, min.insync.replicas can only
    be derived now that it is known where it lies.
    """
    done = outcome.decision.create or outcome.decision.grow
    if done is None or outcome.seen is None:
        return False
    return len(outcome.seen.replicas) < outcome.topic.spec.partitions or done.assignment is None


def _is_judged(topic: KafkaTopic) -> bool:
    """Whether the status speaks of this generation, and says more than that the topology was not fit to act on."""
    status = topic.status
    ready = find_condition(status.conditions, READY)
    if status.observed_generation != topic.meta.generation or ready is None or ready.reason in _TURNED_AWAY:
        return False
    return (
        ready.status == ConditionStatus.TRUE
        or is_true(status.conditions, STALLED)
        or find_condition(status.conditions, COMPLIANT) is not None
    )


def _ref(topic: KafkaTopic) -> ObjectRef:
    return ObjectRef(KIND, topic.key, topic.meta.uid)


def _now() -> datetime:
    return datetime.now(UTC)
