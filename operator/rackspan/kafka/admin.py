"""`KafkaAdmin` over confluent-kafka.

librdkafka answers on threads of its own and confluent-kafka hands out concurrent futures. One small pool per cluster
waits for them, so that a batch of many topics costs one hand-over to the event loop, not one per topic.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import admin as _admin

from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.partitions import InSync, TopicPartition, present_replicas
from rackspan.kafka.kafka_errors import (
    connection_failure,
    failure_of,
    is_client_error,
    is_unknown_topic,
    no_answer_in_time,
    no_broker_reachable,
    settings_failure,
)
from rackspan.kafka.oauth_login import without_login
from rackspan.kafka.token_provider import cause, token_provider
from rackspan.reconcile.failures import GIVEN_UP, Failure, FailureError, Remedy
from rackspan.reconcile.ports import (
    AlwaysPermitted,
    BrokerDescription,
    ClusterDescription,
    RemainingReplicas,
    ReplicaCounts,
    TopicConfig,
    TopicDescription,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence

    from rackspan.kafka.python_connection import PythonConnection
    from rackspan.kafka.token_provider import TokenProvider
    from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic, Outcomes, Permit

A = TypeVar("A", bound="ConfluentAdmin")
K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")
client: Any = _admin  # its type stubs do not export what its documentation names
_log = logging.getLogger("rackspan.kafka")
_THREADS = 8
_FIRST_ANSWER_SECONDS = 10.0
_NEXT_ANSWER_SECONDS = 4.0
"""Shorter than the first, because librdkafka keeps asking a dead broker while it takes that one for the controller."""
_READ_SECONDS = (5.0, 10.0, 15.0, 30.0)
"""A broker that ends or hangs while it is asked is waited for until the time is up, and the next try goes to another
one. The tries grow because a large cluster takes long to answer."""
_BROKERS_TO_ASK = 3
_ANSWER_GRACE_SECONDS = 2.0
"""What a request may take beyond its own timeout, before what it has not answered is given up."""
_CLOSE_SECONDS = 0.2
"""A call under way notices so soon that its client was closed."""
_POLL_SECONDS = 0.1
_OTHER_BROKERS_SECONDS = 1.0
"""How long other brokers may still take to answer after one has refused a connection."""
_DELETED_SECONDS = 3600.0
"""A broker that shows a topic so long after its deletion has lost the controller."""
_UNLISTED_SECONDS = 30.0
"""After reassignments could not be listed."""
_MOST_REPLICAS = 2**31 - 1
_CORDONED = "cordoned.log.dirs"
_ALL_DIRECTORIES = "*"
_URL_SAFE = str.maketrans("+/", "-_")


def in_thread(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Let a method that blocks run in a thread of its client. What it raises becomes a FailureError."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self, *args, **kwargs))

    return run


def parts(names: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """The same, at most so many at a time."""
    for start in range(0, len(names), most):
        yield names[start : start + most]


class ConfluentAdmin:
    """One Kafka cluster's Admin API; implements `KafkaAdmin`.

    librdkafka prefers the connection that it has used last, and keeps what it takes for the controller. So where a
    broker hangs, which takes requests and never answers, it goes on asking that one: a new client takes its place.
    """

    def __init__(
        self,
        properties: Mapping[str, str | int | bool],
        permit: Permit | None = None,
        tokens: TokenProvider | None = None,
    ) -> None:
        """Raise FailureError where the properties cannot be used, or give no token. Blocks until there is one."""
        self._permit: Permit = permit or AlwaysPermitted()
        self._servers = str(properties["bootstrap.servers"])
        self._last_error: KafkaError | None = None
        """The latest error of a connection."""
        self._all_down = False
        self._answer_seconds = _FIRST_ANSWER_SECONDS
        self._closed = threading.Event()
        self._deleted: dict[str, float] = {}
        """When, by topic id. A broker that is behind still shows these, and no id ever comes back (KIP-516)."""
        self._properties = properties
        self._python: PythonConnection | None = None
        self._listing = threading.Lock()
        self._unlisted_until = 0.0
        """When reassignments may be listed again."""
        self._tokens = tokens or token_provider(properties)
        own: dict[str, Any] = {**properties, "error_cb": self._on_error, "logger": _ClientLog()}
        if self._tokens is not None:
            self._tokens.token()  # librdkafka would wait for one, and not say why there is none
            own = {**without_login(own), "oauth_cb": self._tokens.for_librdkafka}
        self._new_client = partial(client.AdminClient, own)
        try:
            self._current: Any = self._new_client()
        except (KafkaException, ValueError, TypeError) as error:
            raise FailureError(settings_failure(error)) from error
        self._renewing = threading.Lock()
        self._used = threading.local()
        """The clients that the call of a thread has used: what is freed gives no answer any more."""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka")

    @classmethod
    async def ask_new_client(
        cls, properties: Mapping[str, str | int | bool], question: Callable[[Self], Awaitable[T]]
    ) -> T:
        """Make a client, ask it, and close it. Raises FailureError."""
        admin = cls(properties)
        try:
            return await question(admin)
        finally:
            await admin.close()

    @property
    def _client(self) -> Any:
        self._used.clients = {*getattr(self._used, "clients", ()), current := self._current}
        return current

    def _renew(self, failed: Any) -> None:
        """Put a new client into the place of one that gave no answer in time."""
        with self._renewing:
            if self._current is failed and not self._closed.is_set():
                self._current = self._new_client()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._all_down = True
        else:
            self._last_error = error

    def _forget_errors(self) -> None:
        """Forget errors of connections that librdkafka has reported until now."""
        self._client.poll(0)
        self._last_error, self._all_down = None, False

    @in_thread
    def cluster(self) -> ClusterDescription:
        """The cluster id and the brokers that are alive. Raises FailureError with the cause where none answers."""
        seconds, started = self._answer_seconds, time.monotonic()
        self._forget_errors()
        answers: dict[Any, Future[Any]] = {}
        cause, patience = None, 0.0
        while (now := time.monotonic()) < started + seconds and not self._closed.is_set():
            if now >= started + len(answers) * seconds / _BROKERS_TO_ASK:
                # Where one hangs, others are asked beside it: a slow connection keeps its time.
                asked = self._new_client() if answers else self._client
                answers[asked] = asked.describe_cluster(request_timeout=started + seconds - now)
            # A wrong password or certificate is known long before the call times out. One broker's trouble is not
            # the cluster's, though: the others get their chance to answer.
            for asked, answer in answers.items():
                asked.poll(_POLL_SECONDS / len(answers))
                if answer.done() and not is_client_error(answer.exception()):
                    return self._described_by(asked, answer)
            if cause is None and self._last_error is not None:
                cause = connection_failure(self._last_error)
                if cause is None and self._all_down:
                    cause = no_broker_reachable(self._servers, self._last_error)
                patience = time.monotonic() + _OTHER_BROKERS_SECONDS
            if cause is not None and time.monotonic() > patience:
                break
        raise FailureError(cause or no_answer_in_time(self._servers, seconds, self._last_error))

    def _described_by(self, asked: Any, answer: Future[Any]) -> ClusterDescription:
        """The answer of a client, which is the present one from then on. Raises KafkaException for a refusal."""
        found, self._current = answer.result(), asked
        self._answer_seconds = _NEXT_ANSWER_SECONDS
        brokers = (BrokerDescription(node.id, f"{node.host}:{node.port}", node.rack) for node in found.nodes)
        return ClusterDescription(found.cluster_id, tuple(sorted(brokers, key=lambda broker: broker.id)))

    @in_thread
    def replica_counts(self, without: Collection[str] = ()) -> ReplicaCounts:
        """Replicas and preferred leaders per broker over every topic but these: one Metadata call."""
        left_out = frozenset(without)
        replicas: Counter[int] = Counter()
        leaders: Counter[int] = Counter()
        for topic in (topic for name, topic in self._metadata().items() if name not in left_out):
            for partition in topic.partitions.values():
                replicas.update(partition.replicas)
                leaders.update(partition.replicas[:1])
        return ReplicaCounts(replicas, leaders)

    @in_thread
    def remaining_replicas(self, brokers: Collection[int]) -> RemainingReplicas:
        """What some brokers hold, down or not, from one Metadata call; the time is that of the question."""
        at = datetime.now(UTC).replace(microsecond=0)
        found: dict[int, Counter[str]] = {broker: Counter() for broker in brokers}
        for name, topic in self._metadata().items():
            for partition in topic.partitions.values():
                for broker in found.keys() & set(partition.replicas):
                    found[broker][name] += 1
        return RemainingReplicas(at, found)

    @in_thread
    def hosted(self, broker: int) -> Sequence[InSync]:
        """The partitions with a replica on one broker, with their ISRs, from one Metadata call."""
        return [
            InSync(name, number, tuple(partition.replicas), frozenset(partition.isrs))
            for name, topic in self._metadata().items()
            for number, partition in topic.partitions.items()
            if broker in partition.replicas
        ]

    @in_thread
    def assignments(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """The replicas of all topics, without those that are being added, from one Metadata call.

        A topic without partitions has just come or gone.
        """
        found = {name: topic.partitions for name, topic in self._metadata().items() if topic.partitions}
        adding = self._adding(len(one.isrs) < len(one.replicas) for some in found.values() for one in some.values())
        return {
            name: tuple(present(adding, name, number, some[number].replicas) for number in sorted(some))
            for name, some in found.items()
        }

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """The brokers' min.insync.replicas; None where it cannot be read."""
        try:
            value = await self.broker_setting(brokers, MIN_INSYNC)
            return _replicas(value) if value else None
        except (FailureError, ValueError):
            return None

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Whether all log directories are cordoned (KIP-1066), of the brokers that report it: each knows its own.

        None: the broker's version has no cordons.
        """
        try:
            answers = await self._run(lambda: self._describe_brokers(brokers))
        except FailureError:
            return {}
        return {
            broker: _is_cordoned(answer.result()) for broker, answer in answers.items() if answer.exception() is None
        }

    @in_thread
    def cordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Cordon all log directories; refused where somebody cordons some, as `*` has to stand alone."""
        return self._altered_cordons(brokers, client.AlterConfigOpType.APPEND)

    @in_thread
    def uncordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Delete what `cordon` has set; cordons of another kind stay."""
        answers = self._describe_brokers(brokers)
        found = {broker: _outcome(answer) for broker, answer in answers.items()}
        ours = [broker for broker, refused in found.items() if refused is None and _has_ours(answers[broker])]
        return found | self._altered_cordons(ours, client.AlterConfigOpType.DELETE)

    def _altered_cordons(
        self, brokers: Sequence[int], operation: client.AlterConfigOpType
    ) -> dict[int, Failure | None]:
        entry = client.ConfigEntry(_CORDONED, _ALL_DIRECTORIES, incremental_operation=operation)

        def change(seconds: float) -> Mapping[int, Future[Any]]:
            asked: dict[int, Future[Any]] = {}
            for broker in brokers:  # one call takes one broker
                resource = client.ConfigResource(client.ResourceType.BROKER, str(broker), incremental_configs=[entry])
                (asked[broker],) = self._client.incremental_alter_configs([resource], request_timeout=seconds).values()
            return asked

        return self._changed(change)

    def _describe_brokers(self, brokers: Sequence[int]) -> Mapping[int, Future[Any]]:
        asked: dict[int, Future[Any]] = {}
        for broker in brokers:  # one call takes one broker
            resource = client.ConfigResource(client.ResourceType.BROKER, str(broker))
            (asked[broker],) = self._client.describe_configs([resource], request_timeout=_NEXT_ANSWER_SECONDS).values()
        return self._answers(asked, _NEXT_ANSWER_SECONDS)

    @in_thread
    def broker_setting(self, brokers: Sequence[int], key: str) -> str | None:
        """What brokers are set to, as the first that answers has it; None where that is nothing."""
        error: BaseException | None = None
        for broker in brokers[:_BROKERS_TO_ASK]:
            answer = self._describe_brokers([broker])[broker]
            error = answer.exception()
            if not is_client_error(error):
                entry = answer.result().get(key)
                return None if entry is None else entry.value
        if error is not None:
            raise error
        return None

    @in_thread
    def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """Each named topic: what it is, None where there is none, a Failure where it could not be read.

        Replicas that are being added are left out until all replicas are in sync, where Kafka lists reassignments.
        A connection that is lost says nothing about any topic: FailureError.
        """
        if not names:
            return {}
        answers = self._described(names)
        errors = [answer.exception() for answer in answers.values()]
        if errors[0] is not None and all(map(is_client_error, errors)):
            raise errors[0]
        found = [answer.result() for answer in answers.values() if answer.exception() is None]
        adding = self._adding(len(one.isr) < len(one.replicas) for topic in found for one in topic.partitions)
        return {name: self._without_deleted(_topic(answer, adding)) for name, answer in answers.items()}

    @in_thread
    def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig]:
        """Each topic's configuration; a topic that is gone is left out: the next pass sees it."""
        if not names:
            return {}
        answers = self._configured(names).items()
        return {name: config_seen(answer.result()) for name, answer in answers if answer.exception() is None}

    @in_thread
    def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """One CreateTopics call. Keep its records below Kafka's 10,000 per operation."""
        return self._create_topics(topics)

    @in_thread
    def validate_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """One CreateTopics call that creates nothing."""
        return self._create_topics(topics, validate_only=True)

    def _create_topics(self, topics: Sequence[NewTopic], **options: bool) -> Outcomes:
        wanted = [_new_topic(topic) for topic in topics]
        return self._changed(lambda seconds: self._client.create_topics(wanted, request_timeout=seconds, **options))

    @in_thread
    def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """One CreatePartitions call."""
        wanted = [client.NewPartitions(topic.name, topic.total, **_placed(topic.assignment)) for topic in topics]
        return self._changed(lambda seconds: self._client.create_partitions(wanted, request_timeout=seconds))

    @in_thread
    def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """One IncrementalAlterConfigs call (KIP-339): only the named keys change."""
        return self._alter_configs(changes)

    @in_thread
    def validate_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """One IncrementalAlterConfigs call that changes nothing."""
        return self._alter_configs(changes, validate_only=True)

    def _alter_configs(self, changes: Sequence[ConfigChange], **options: bool) -> Outcomes:
        resources = [
            client.ConfigResource(
                client.ResourceType.TOPIC,
                change.name,
                incremental_configs=[
                    client.ConfigEntry(key, value, incremental_operation=client.AlterConfigOpType.SET)
                    for key, value in change.set.items()
                ],
            )
            for change in changes
        ]
        outcomes = self._changed(
            lambda seconds: self._client.incremental_alter_configs(resources, request_timeout=seconds, **options)
        )
        return {resource.name: outcome for resource, outcome in outcomes.items()}

    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes:
        """One DeleteTopics call for topics by name. The caller has compared their ids just before."""
        outcomes = await self._delete_topics(list(ids))
        now = time.monotonic()
        self._deleted = {one: at for one, at in self._deleted.items() if now - at < _DELETED_SECONDS}
        self._deleted |= {ids[name]: now for name, failure in outcomes.items() if failure is None}
        return outcomes

    @in_thread
    def _delete_topics(self, names: list[str]) -> Outcomes:
        return self._changed(lambda seconds: self._client.delete_topics(names, request_timeout=seconds))

    async def close(self) -> None:
        """Close threads and sockets; calls under way end with a FailureError."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._python is not None:
            self._python.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        threading.Thread(target=self._destroy_client, name="kafka-close", daemon=True).start()

    def _destroy_client(self) -> None:
        """Destroy the client in this thread. That joins its threads, and one that resolves a host name takes seconds.

        Left to the garbage collector, which frees what refers to itself, that would happen at any time, in any thread:
        in the event loop's, where all topologies would wait for it.
        """
        self._pool.shutdown(wait=True)
        del self._current

    def _python_connection(self) -> PythonConnection:
        """kafka-python's client of the same cluster, for what librdkafka does not have."""
        if self._python is None:
            from rackspan.kafka.python_connection import PythonConnection  # noqa: PLC0415 - kafka-python takes 13 MiB

            self._python = PythonConnection(self._properties, self._tokens)
        if self._closed.is_set():  # by `close`, which may not have seen it
            self._python.close()
        return self._python

    def _adding(self, are_behind: Iterable[bool]) -> Mapping[TopicPartition, frozenset[int]]:
        """The replicas that reassignments add, where some are not in sync; none where Kafka does not list them."""
        if not any(are_behind):
            return {}
        with self._listing:
            if time.monotonic() < self._unlisted_until:
                return {}
            try:
                return self._python_connection().adding()
            except MemoryError:
                raise
            except Exception:  # topics are read without it, whatever a broker answers
                self._unlisted_until = time.monotonic() + _UNLISTED_SECONDS
                return {}

    def _without_deleted(self, found: TopicDescription | Failure | None) -> TopicDescription | Failure | None:
        return None if isinstance(found, TopicDescription) and found.topic_id in self._deleted else found

    def _metadata(self) -> Mapping[str, Any]:
        """Every topic's TopicMetadata by its name; blocks."""

        def listed(seconds: float) -> Future[Any]:
            answer: Future[Any] = Future()
            try:
                answer.set_result(self._client.list_topics(timeout=seconds).topics)
            except KafkaException as error:
                answer.set_exception(error)
            return answer

        topics: Mapping[str, Any] = self._read(lambda seconds: {"": listed(seconds)})[""].result()
        return topics

    def _described(self, names: Collection[str]) -> Mapping[str, Future[Any]]:
        """TopicDescriptions by name."""
        topics = TopicCollection(list(names))
        return self._read(lambda seconds: self._client.describe_topics(topics, request_timeout=seconds))

    def _configured(self, names: Collection[str]) -> Mapping[str, Future[Any]]:
        """Topics' ConfigEntries by name."""
        resources = [client.ConfigResource(client.ResourceType.TOPIC, name) for name in names]
        answers = self._read(lambda seconds: self._client.describe_configs(resources, request_timeout=seconds))
        return {resource.name: answer for resource, answer in answers.items()}

    def _read(self, ask: Callable[[float], Mapping[K, Future[Any]]]) -> Mapping[K, Future[Any]]:
        """The answers of a broker, asked within some seconds, else of another one, as long as any is left; blocks."""
        *tries, last = _READ_SECONDS
        for seconds in tries:
            self._forget_errors()
            asked = self._client
            answers = self._answers(ask(seconds), seconds)
            if not _no_broker_answered(answers):
                return answers
            asked.poll(0)  # to hear whether any broker is left
            if self._closed.is_set() or self._all_down:
                return answers
            self._renew(asked)
        return self._answers(ask(last), last)

    def _changed(self, change: Callable[[float], Mapping[K, Future[Any]]]) -> dict[K, Failure | None]:
        """The outcomes of a change, which gets the seconds that it may take. Raises FailureError without a permit.

        Calls wait for threads, so the permit is asked for here, where the call is sent.
        """
        self._permit.check()
        seconds, asked = self._permit.change_timeout_seconds, self._client
        answers = self._answers(change(seconds), seconds)
        if _no_broker_answered(answers):
            self._renew(asked)  # for what is asked next
        return {key: _outcome(answer) for key, answer in answers.items()}

    def _answers(self, answers: Mapping[K, Future[Any]], seconds: float) -> Mapping[K, Future[Any]]:
        """
        Block until all answers to a request of `seconds` are there.

        Raises FailureError when the client is closed meanwhile, and where some never come: librdkafka has none for what
        Kafka's answer leaves out.
        """
        waiting = set(answers.values())
        until = time.monotonic() + seconds + _ANSWER_GRACE_SECONDS
        while waiting := wait(waiting, _CLOSE_SECONDS).not_done:
            if self._closed.is_set():
                raise FailureError(GIVEN_UP)
            if time.monotonic() > until:
                what = (
                    f"the answer of Kafka has nothing about {len(waiting)} of the {len(answers)} that it was asked for"
                )
                raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, what, Remedy.RETRY))
        return answers

    async def _run(self, call: Callable[[], T]) -> T:
        def keeping_clients() -> T:
            try:
                return call()
            finally:
                self._used.clients = set()

        try:
            return await asyncio.wrap_future(self._pool.submit(keeping_clients))
        except MemoryError:
            raise
        except FailureError as error:
            raise FailureError(cause(self._tokens, error.failure)) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed.is_set() and (task is None or not task.cancelling()):
                raise FailureError(GIVEN_UP) from None  # it waited for a thread when the client was closed
            raise
        except Exception as error:
            closed = self._closed.is_set()
            raise FailureError(GIVEN_UP if closed else cause(self._tokens, failure_of(error))) from error


class _ClientLog:
    """librdkafka's own lines, at DEBUG: what matters of them comes back from calls. They name no credentials."""

    def log(self, _: int, message: str, *values: object) -> None:
        _log.debug(message, *values)


def _no_broker_answered(answers: Mapping[Any, Future[Any]]) -> bool:
    return bool(answers) and all(is_client_error(answer.exception()) for answer in answers.values())


def _is_cordoned(entries: Mapping[str, Any]) -> bool | None:
    """Whether a broker's configs cordon all its log directories; None before 4.3, which has no such config."""
    if _CORDONED not in entries:
        return None
    cordoned, several, single = (
        {one.strip() for one in (entry.value or "").split(",")} - {""} if (entry := entries.get(key)) else set()
        for key in (_CORDONED, "log.dirs", "log.dir")
    )
    directories = several or single
    return _ALL_DIRECTORIES in cordoned or (bool(directories) and directories <= cordoned)


def _has_ours(answer: Future[Any]) -> bool:
    """Whether a broker itself is set to cordon all its log directories, as `cordon` does."""
    entry = answer.result().get(_CORDONED)
    own = client.ConfigSource.DYNAMIC_BROKER_CONFIG.value
    return entry is not None and entry.source == own and entry.value == _ALL_DIRECTORIES


def _outcome(answer: Future[None]) -> Failure | None:
    error = answer.exception()
    return None if error is None else failure_of(error)


def present(
    adding: Mapping[TopicPartition, frozenset[int]], topic: str, number: int, replicas: Sequence[int]
) -> tuple[int, ...]:
    """The replicas of a partition, without those that reassignments are `adding`."""
    return present_replicas(replicas, adding.get(TopicPartition(topic, number), ()))


def _topic(answer: Future[Any], adding: Mapping[TopicPartition, frozenset[int]]) -> TopicDescription | Failure | None:
    error = answer.exception()
    if error is not None:
        return None if is_unknown_topic(error) else failure_of(error)
    found = answer.result()
    partitions = sorted(found.partitions, key=lambda partition: partition.id)
    return TopicDescription(
        found.name,
        # librdkafka prints ids in plain base64, Kafka's own tools in its URL-safe alphabet: people compare the two.
        str(found.topic_id).translate(_URL_SAFE),
        tuple(
            present(adding, found.name, partition.id, [node.id for node in partition.replicas])
            for partition in partitions
        ),
        bool(found.is_internal),
        sum(not partition.isr for partition in partitions),
    )


def config_seen(entries: Mapping[str, Any]) -> TopicConfig:
    """A topic's configuration from the entries of one answer."""
    own = client.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    min_insync = entries.get(MIN_INSYNC)
    return TopicConfig(
        # A key that Kafka no longer knows has no value; to whoever wants one there it is as good as not set.
        own={key: entry.value for key, entry in entries.items() if entry.source == own and entry.value is not None},
        min_insync=_replicas(min_insync.value) if min_insync and min_insync.value else None,
    )


def _replicas(text: str) -> int:
    """A value of `min.insync.replicas`, within the bounds that Kafka has for it. Raises ValueError for other words."""
    return max(1, min(int(text), _MOST_REPLICAS))


def _new_topic(topic: NewTopic) -> Any:
    # librdkafka takes one of the two.
    placed = _placed(topic.assignment) or {"replication_factor": topic.replication_factor}
    return client.NewTopic(topic.name, topic.partitions, config=dict(topic.config), **placed)


def _placed(assignment: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """Where the replicas of new partitions are, as an argument; none where Kafka chooses."""
    return {} if assignment is None else {"replica_assignment": [list(replicas) for replicas in assignment]}
