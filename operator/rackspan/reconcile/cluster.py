"""One RackTopology: keeps the scene (Kafka, racks) up to date and works through the topics that name it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rackspan.api import kafkatopic, racktopology
from rackspan.api.conditions import COMPLIANT, READY, STALLED, is_true
from rackspan.api.reasons import Reason
from rackspan.metrics import ERRORS, LAST_PASS, QUEUE_DEPTH, RECONCILE_SECONDS
from rackspan.reconcile.access import not_allowed, rival
from rackspan.reconcile.announce import announcements
from rackspan.reconcile.credentials import read_credentials
from rackspan.reconcile.deletion import (
    Farewell,
    Step,
    farewell,
    finalizers_for,
    retained,
    without_finalizer,
)
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Announcement, Credentials, ObjectRef
from rackspan.reconcile.queue import WorkQueue
from rackspan.reconcile.racks import RackView, rack_view
from rackspan.reconcile.scene import BrokerLoad, Scene
from rackspan.reconcile.topology import Situation, topology_status
from rackspan.reconcile.verdict import conclude, failed
from rackspan.reconcile.worker import Outcome, reconcile_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicStatus
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import KafkaSpec, RackTopology
    from rackspan.core.placement import Placer
    from rackspan.reconcile.inventory import Inventory
    from rackspan.reconcile.ports import Cluster, KafkaAdmin, KafkaConnector, LoadSeen
    from rackspan.reconcile.statuses import StatusWriter

_log = logging.getLogger("rackspan.reconcile")

_WORKERS = 3
_BATCH = 200
_LINGER_SECONDS = 0.05
_POLL_SECONDS = 5.0
"""How often each cluster (not each topic) is asked for its brokers."""
_DEBOUNCE_SECONDS = 0.2
_STATUS_SECONDS = 1.0
_SUSPICION_SECONDS = 3.0
"""How long a topic must be missing before it counts as deleted: brokers learn of a creation one after the other."""
_RETRY_FIRST_SECONDS = 1.0
_RETRY_MAX_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What every topology's loop shares."""

    inventory: Inventory
    kube: Cluster
    kafka: KafkaConnector
    statuses: StatusWriter
    placers: Mapping[str, Placer]
    resync_seconds: float


@dataclass(frozen=True, slots=True)
class _Session:
    """A client, and what it was made from: when either changes, a new one is made."""

    admin: KafkaAdmin
    kafka: KafkaSpec
    credentials: Credentials


class ClusterReconciler:
    """Level-triggered: every pass starts from what is there now, never from what changed."""

    def __init__(self, key: ObjectKey, tools: Tools) -> None:
        self.key = key
        self.queue: WorkQueue[ObjectKey] = WorkQueue()
        self.last_pass: float | None = None
        self._tools = tools
        self._scene: Scene | Failure = Failure(
            Reason.WAITING, f"topology {key} has not been looked at yet", Remedy.RETRY
        )
        self._view: RackView | None = None
        self._session: _Session | None = None
        self._load: LoadSeen | None = None
        self._resynced = 0.0
        self._failures = 0
        self._epoch = 0
        self._suspects: dict[ObjectKey, float] = {}
        self._settled: dict[ObjectKey, int] = {}
        self._look = asyncio.Event()
        self._tell = asyncio.Event()

    # --- what the controller says ------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """The topology, a node or a broker pod changed."""
        self._look.set()

    def topics_changed(self, keys: Iterable[ObjectKey]) -> None:
        """These KafkaTopics changed, or what they depend on did."""
        keys = list(keys)
        for key in keys:
            self._settled.pop(key, None)
        self.queue.add(keys)
        QUEUE_DEPTH.labels(str(self.key)).set(len(self.queue))

    def topic_gone(self, key: ObjectKey) -> None:
        """This KafkaTopic is no more."""
        self.queue.drop(key)
        self._settled.pop(key, None)
        self._suspects.pop(key, None)
        self._tell.set()

    @property
    def connected(self) -> bool:
        """Whether topics can be acted upon."""
        return isinstance(self._scene, Scene)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_scene())
                group.create_task(self._keep_status())
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            await self._disconnect()

    # --- the scene ---------------------------------------------------------------------------------------------------

    async def _keep_scene(self) -> None:
        while True:
            await self._refresh()
            pause = _POLL_SECONDS
            if isinstance(self._scene, Failure):
                pause = min(_RETRY_MAX_SECONDS, _RETRY_FIRST_SECONDS * 2 ** min(self._failures, 5))
            try:
                await asyncio.wait_for(self._look.wait(), pause)
                await asyncio.sleep(_DEBOUNCE_SECONDS)  # a rollout or a relabelled zone is many events
            except TimeoutError:
                pass
            self._look.clear()

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        resync = now - self._resynced >= self._tools.resync_seconds
        before = self._scene
        try:
            self._scene = await self._observe(resync=resync)
            self._failures = 0
        except FailureError as error:
            self._failures += 1
            self._scene = error.failure
            ERRORS.labels(error.failure.remedy, error.failure.reason).inc()
            if before != error.failure:
                _log.warning("topology %s: %s", self.key, error.failure.message)
            if error.failure.remedy is not Remedy.SPEC:
                await self._disconnect()
        except Exception:
            self._failures += 1
            self._scene = Failure(
                Reason.UNEXPECTED_ERROR, "unexpected error; the operator's log has more", Remedy.RETRY
            )
            _log.exception("topology %s: unexpected error", self.key)
        else:
            if resync:
                self._resynced = now
        changed = not self._scene.same_for_topics(before) if isinstance(self._scene, Scene) else self._scene != before
        if changed:
            self._epoch += 1
        if changed or (resync and isinstance(self._scene, Scene)):
            self.queue.add(self._tools.inventory.topics_of(self.key))
        self._passed()
        self._tell.set()

    async def _observe(self, *, resync: bool) -> Scene:
        topology = self._tools.inventory.topologies.get(self.key)
        if topology is None:
            raise FailureError(Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {self.key}", Remedy.SPEC))
        admin = await self._connect(topology, fresh_secrets=resync or self._failures > 0)
        seen = await admin.cluster()
        _guard(topology, seen.cluster_id)
        inventory = self._tools.inventory
        self._view = rack_view(topology, inventory.nodes, inventory.pods.values(), seen.brokers)
        if self._load is None or resync:
            self._load = await admin.load()
            load = BrokerLoad(self._load)
        else:
            load = self._scene.load if isinstance(self._scene, Scene) else BrokerLoad(self._load)
        return Scene(self.key, topology.spec, seen.cluster_id, self._view, load, self._tools.placers)

    async def _connect(self, topology: RackTopology, *, fresh_secrets: bool) -> KafkaAdmin:
        session, kafka = self._session, topology.spec.kafka
        if session is not None and session.kafka == kafka and not (fresh_secrets and kafka.secret_names):
            return session.admin
        credentials = await read_credentials(kafka, self.key.namespace, self._tools.kube)
        if session is not None and session.kafka == kafka and session.credentials == credentials:
            return session.admin
        admin = await self._tools.kafka.connect(kafka, credentials)
        await self._disconnect()
        self._session = _Session(admin, kafka, credentials)
        _log.info("topology %s: connected to %s", self.key, kafka.bootstrap_servers)
        return admin

    async def _disconnect(self) -> None:
        session, self._session, self._load = self._session, None, None
        if session is not None:
            await session.admin.close()

    # --- the topology's own status -----------------------------------------------------------------------------------

    async def _keep_status(self) -> None:
        while True:
            await self._tell.wait()
            self._tell.clear()
            try:
                await self._write_topology_status()
            except FailureError:
                self._tell.set()
            await asyncio.sleep(_STATUS_SECONDS)

    async def _write_topology_status(self) -> None:
        inventory = self._tools.inventory
        topology = inventory.topologies.get(self.key)
        topics = [inventory.topics[key] for key in inventory.topics_of(self.key) if key in inventory.topics]
        situation = Situation(self._scene, self._view, topics)
        situation.measure(str(self.key))
        if topology is None or (isinstance(self._scene, Failure) and self._scene.reason == Reason.WAITING):
            return
        status = topology_status(topology, situation, _now())
        ref = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
        written = await self._tools.statuses.write(ref, topology.status.to_dict(), status.to_dict())
        if written is not None:
            inventory.put_topology(written)
            for announcement in announcements(ref, topology.status.conditions, status.conditions):
                self._tools.kube.announce(announcement)

    # --- the topics --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            keys = await self.queue.take(_BATCH, _LINGER_SECONDS)
            QUEUE_DEPTH.labels(str(self.key)).set(len(self.queue))
            started = loop.time()
            try:
                await self._reconcile(keys)
            except FailureError as error:
                ERRORS.labels(error.failure.remedy, error.failure.reason).inc()
                for key in keys:
                    self.queue.retry(key)
                self._look.set()  # is Kafka still there?
            except Exception:
                ERRORS.labels(Remedy.RETRY, Reason.UNEXPECTED_ERROR).inc()
                _log.exception("topology %s: unexpected error over %d topics", self.key, len(keys))
                for key in keys:
                    self.queue.retry(key)
            finally:
                self.queue.done(keys)
            RECONCILE_SECONDS.observe(loop.time() - started)
            self._passed()
            self._tell.set()

    async def _reconcile(self, keys: Sequence[ObjectKey]) -> None:
        """One pass over some topics. Raises FailureError where Kafka answered for none of them."""
        topics = [topic for key in keys if (topic := self._tools.inventory.topics.get(key)) is not None]
        leaving = [topic for topic in topics if topic.meta.is_deleting]
        staying = [topic for topic in topics if not topic.meta.is_deleting]
        await asyncio.gather(*(self._let_go(topic) for topic in leaving))
        refused = [(topic, failure) for topic in staying if (failure := self._refused(topic)) is not None]
        await asyncio.gather(*(self._tell_topic(topic, failed(topic, failure, _now())) for topic, failure in refused))
        turned_away = {topic.key for topic, _ in refused}
        admitted = [topic for topic in staying if topic.key not in turned_away]
        scene = self._scene
        if isinstance(scene, Failure):
            await self._wait_for_kafka(admitted, scene)
        elif admitted:
            await self._bring_to_spec(admitted, scene, self._epoch)

    def _refused(self, topic: KafkaTopic) -> Failure | None:
        inventory = self._tools.inventory
        topology = inventory.topologies.get(self.key)
        if topology is None:
            return None  # the scene says so
        labels = inventory.namespaces.get(topic.meta.namespace, {})
        return not_allowed(topic, topology, labels) or rival(topic, inventory.owner(topic))

    async def _wait_for_kafka(self, topics: Iterable[KafkaTopic], failure: Failure) -> None:
        """Only objects that nobody has looked at in their present form are told; the others keep their last good status."""
        if failure.reason == Reason.WAITING:
            return  # the scene's first result hands out all topics again
        if failure.reason == Reason.TOPOLOGY_NOT_FOUND:
            told = failure
            chosen = list(topics)
        else:
            told = Failure(Reason.TOPOLOGY_NOT_READY, f"{failure.reason}: {failure.message}", Remedy.RETRY)
            chosen = [topic for topic in topics if topic.status.observed_generation != topic.meta.generation]
            chosen += [topic for topic in topics if topic not in chosen and _waits(topic)]
        await asyncio.gather(*(self._tell_topic(topic, failed(topic, told, _now())) for topic in chosen))

    async def _bring_to_spec(self, topics: Sequence[KafkaTopic], scene: Scene, epoch: int) -> None:
        assert self._session is not None  # a Scene is only made with one
        ready = await asyncio.gather(*(self._with_finalizer(topic) for topic in topics))
        outcomes = await reconcile_topics([topic for topic in ready if topic is not None], scene, self._session.admin)
        await asyncio.gather(*(self._close(outcome, scene, epoch) for outcome in outcomes))

    async def _with_finalizer(self, topic: KafkaTopic) -> KafkaTopic | None:
        """The topic with the finalizers it should have, before anything is made that they guard."""
        wanted = finalizers_for(topic)
        if wanted is None:
            return topic
        written = await self._tools.kube.set_finalizers(_ref(topic), wanted, topic.meta.resource_version)
        if written is None:
            self.queue.add_after(topic.key, _SUSPICION_SECONDS)  # it changed meanwhile: its event is on the way
            return None
        return self._tools.inventory.put_topic(written)

    async def _close(self, outcome: Outcome, scene: Scene, epoch: int) -> None:
        """Status, Events and, where something is still to come, the next time."""
        topic, problem = outcome.topic, outcome.problem
        if problem is not None and problem.reason == Reason.TOPIC_VANISHED and self._only_suspected(topic.key):
            return
        if outcome.seen is not None:
            self._suspects.pop(topic.key, None)
        fingerprint = hash((epoch, _fingerprint(outcome)))
        if self._settled.get(topic.key) == fingerprint and outcome.decision.idle:
            return
        status = conclude(outcome, scene, _now())
        await self._tell_topic(topic, status, outcome)
        if (problem is not None and problem.remedy is not Remedy.SPEC) or not outcome.settled:
            self.queue.retry(topic.key)
        elif _unfinished(outcome):
            self.queue.add_after(topic.key, 0)
        else:
            self.queue.forget(topic.key)
            self._settled[topic.key] = fingerprint

    def _only_suspected(self, key: ObjectKey) -> bool:
        now = asyncio.get_running_loop().time()
        since = self._suspects.setdefault(key, now)
        if now - since >= _SUSPICION_SECONDS:
            return False
        self.queue.add_after(key, _SUSPICION_SECONDS - (now - since) + 0.1)
        return True

    async def _tell_topic(self, topic: KafkaTopic, status: KafkaTopicStatus, outcome: Outcome | None = None) -> None:
        ref = _ref(topic)
        try:
            written = await self._tools.statuses.write(ref, topic.status.to_dict(), status.to_dict())
        except FailureError:
            self._settled.pop(topic.key, None)
            self.queue.retry(topic.key)
            # Remember what was done all the same: it must not be taken for somebody else's doing in the next pass.
            self._remember(replace(topic, status=status))
            return
        if written is not None:
            self._tools.inventory.put_topic(written)
        for announcement in announcements(ref, topic.status.conditions, status.conditions, outcome):
            self._tools.kube.announce(announcement)

    def _remember(self, topic: KafkaTopic) -> None:
        if topic.key in self._tools.inventory.topics:
            self._tools.inventory.keep_topic(topic)

    # --- goodbye -----------------------------------------------------------------------------------------------------

    async def _let_go(self, topic: KafkaTopic) -> None:
        """Deletes Kafka's topic if, and only if, it is the one that the object recorded."""
        if finalizers_for(topic) is None and topic.meta.finalizers == without_finalizer(topic):
            return  # no finalizer of ours: nothing depends on us
        words = retained(topic, is_owner=self._tools.inventory.owner(topic).key == topic.key)
        if words is None:
            words = await self._ask_kafka(topic)
        if words.step is Step.HOLD:
            failure = Failure(Reason.DELETION_BLOCKED, words.message, Remedy.ACCESS)
            await self._tell_topic(topic, failed(topic, failure, _now()))
            self.queue.retry(topic.key)
            return
        written = await self._tools.kube.set_finalizers(
            _ref(topic), without_finalizer(topic), topic.meta.resource_version
        )
        self._tools.kube.announce(
            Announcement(_ref(topic), "Deleted" if words.step is Step.DELETE else "Released", words.message)
        )
        if written is None:
            self.queue.add_after(topic.key, _SUSPICION_SECONDS)

    async def _ask_kafka(self, topic: KafkaTopic) -> Farewell:
        scene, session = self._scene, self._session
        if isinstance(scene, Failure) or session is None:
            why = scene.message if isinstance(scene, Failure) else "not connected"
            return Farewell(
                Step.HOLD,
                f"topic {topic.topic_name} cannot be deleted from Kafka now: {why}; "
                "set deletionPolicy: Retain to let the object go without deleting anything",
            )
        try:
            seen = (await session.admin.topics([topic.topic_name]))[topic.topic_name]
            if isinstance(seen, Failure):
                return Farewell(Step.HOLD, seen.message)
            words = farewell(topic, seen, scene)
            if words.step is Step.DELETE:
                refused = (await session.admin.delete_topics([topic.topic_name]))[topic.topic_name]
                if refused is not None:
                    return Farewell(Step.HOLD, refused.message)
        except FailureError as error:
            return Farewell(Step.HOLD, error.failure.message)
        return words

    def _passed(self) -> None:
        self.last_pass = asyncio.get_running_loop().time()
        LAST_PASS.labels(str(self.key)).set_to_current_time()


def _guard(topology: RackTopology, cluster_id: str) -> None:
    """Refuse another cluster than the one that is named, or else than the one that was met first."""
    named = topology.spec.kafka.cluster_id
    expected = named or topology.status.cluster_id
    if expected and expected != cluster_id:
        how = "spec.kafka.clusterId says" if named else "this topology first met"
        raise FailureError(
            Failure(
                Reason.CLUSTER_ID_MISMATCH,
                f"{topology.spec.kafka.bootstrap_servers} leads to Kafka cluster {cluster_id}, {how} {expected}; "
                "nothing is done there until spec.kafka.clusterId names it",
                Remedy.SPEC,
            )
        )


def _fingerprint(outcome: Outcome) -> int:
    """What the last status was concluded from, the scene aside. While it is the same, so is the status."""
    meta, config = outcome.topic.meta, outcome.config
    return hash(
        (
            meta.uid,
            meta.generation,
            tuple(sorted(meta.annotations.items())),
            outcome.seen,
            (config.min_insync, *sorted(config.own.items())) if config else None,
            outcome.problem,
        )
    )


def _unfinished(outcome: Outcome) -> bool:
    """Whether a very large topic has only got its first partitions so far."""
    done = outcome.decision.create or outcome.decision.grow
    return done is not None and outcome.seen is not None and len(outcome.seen.replicas) < outcome.topic.spec.partitions


def _waits(topic: KafkaTopic) -> bool:
    conditions = topic.status.conditions
    return not is_true(conditions, READY) and not is_true(conditions, STALLED) and not _judged(topic)


def _judged(topic: KafkaTopic) -> bool:
    return any(condition.type == COMPLIANT for condition in topic.status.conditions)


def _ref(topic: KafkaTopic) -> ObjectRef:
    return ObjectRef(kafkatopic.KIND, topic.key, topic.meta.uid)


def _now() -> datetime:
    return datetime.now(UTC)
