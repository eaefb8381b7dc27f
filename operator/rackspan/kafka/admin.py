"""`KafkaAdmin` over confluent-kafka.

librdkafka completes requests on its own threads, and confluent-kafka returns concurrent futures. One small thread pool
per cluster waits for them, so that a batch of many topics needs one callback in the event loop, not one per topic.
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
client: Any = _admin  # its type stubs do not export all documented names
_log = logging.getLogger("rackspan.kafka")
_THREADS = 8
_FIRST_ANSWER_SECONDS = 10.0
_NEXT_ANSWER_SECONDS = 4.0
"""Shorter than the first, because librdkafka keeps using a dead broker while it takes it for the controller."""
_READ_SECONDS = (5.0, 10.0, 15.0, 30.0)
"""The timeouts of the tries of a read. If a broker stops or hangs during a request, only the timeout ends the try. The
next try uses a new client. The timeouts grow because a large cluster takes long to respond."""
_BROKERS_TO_ASK = 3
_ANSWER_GRACE_SECONDS = 10.0
"""How long a call waits after the timeout of its request, before it gives up the missing results. On a busy machine the
client ends a request seconds after its timeout."""
_CLOSE_SECONDS = 0.2
"""The interval at which a call in progress checks whether its client was closed."""
_POLL_SECONDS = 0.1
_OTHER_BROKERS_SECONDS = 1.0
"""How long other brokers may take to respond after the connection to one broker has failed."""
_DELETED_SECONDS = 3600.0
"""How long a deletion is remembered. A broker that reports the topic after that lost contact with the controller."""
_UNLISTED_SECONDS = 30.0
"""The pause after a failed attempt to list reassignments."""
_MOST_REPLICAS = 2**31 - 1
_CORDONED = "cordoned.log.dirs"
_ALL_DIRECTORIES = "*"
_URL_SAFE = str.maketrans("+/", "-_")


def in_thread(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a blocking method in a thread of its client. Its exceptions, except MemoryError, become FailureErrors."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self, *args, **kwargs))

    return run


def parts(names: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield consecutive slices of `names` with at most `most` items."""
    for start in range(0, len(names), most):
        yield names[start : start + most]


class ConfluentAdmin:
    """The Admin API of one Kafka cluster; implements `KafkaAdmin`.

    librdkafka prefers the connection that it used last, and keeps the broker that it takes for the controller. If that
    broker hangs (accepts requests and never responds), librdkafka keeps using it. So a new client replaces the old one.
    """

    def __init__(
        self,
        properties: Mapping[str, str | int | bool],
        permit: Permit | None = None,
        tokens: TokenProvider | None = None,
    ) -> None:
        """Raise FailureError if the properties are invalid or yield no token. Blocks until the first token."""
        self._permit: Permit = permit or AlwaysPermitted()
        self._servers = str(properties["bootstrap.servers"])
        self._last_error: KafkaError | None = None
        """The latest error of a connection."""
        self._all_down = False
        self._answer_seconds = _FIRST_ANSWER_SECONDS
        self._closed = threading.Event()
        self._deleted: dict[str, float] = {}
        """The deletion times by topic id. A stale broker still reports these topics. Ids are never reused (KIP-516)."""
        self._properties = properties
        self._python: PythonConnection | None = None
        self._listing = threading.Lock()
        self._unlisted_until = 0.0
        """The time from which reassignments may be listed again."""
        self._tokens = tokens or token_provider(properties)
        own: dict[str, Any] = {**properties, "error_cb": self._on_error, "logger": _ClientLog()}
        if self._tokens is not None:
            self._tokens.token()  # librdkafka would wait for a token and not report the error
            own = {**without_login(own), "oauth_cb": self._tokens.for_librdkafka}
        self._new_client = partial(client.AdminClient, own)
        try:
            self._current: Any = self._new_client()
        except (KafkaException, ValueError, TypeError) as error:
            raise FailureError(settings_failure(error)) from error
        self._renewing = threading.Lock()
        self._used = threading.local()
        """The clients that the current call of each thread has used. A freed client never completes its futures."""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka")

    @classmethod
    async def ask_new_client(
        cls, properties: Mapping[str, str | int | bool], question: Callable[[Self], Awaitable[T]]
    ) -> T:
        """Create a client, return the result of `question(client)`, and close the client. Raises FailureError."""
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
        """Replace the client `failed`, which did not respond in time, by a new client."""
        with self._renewing:
            if self._current is failed and not self._closed.is_set():
                self._current = self._new_client()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._all_down = True
        else:
            self._last_error = error

    def _forget_errors(self) -> None:
        """Forget the connection errors that librdkafka has reported so far."""
        self._client.poll(0)
        self._last_error, self._all_down = None, False

    @in_thread
    def cluster(self) -> ClusterDescription:
        """Return the cluster id and the brokers that are alive. Raises FailureError with the cause if none responds."""
        seconds, started = self._answer_seconds, time.monotonic()
        self._forget_errors()
        answers: dict[Any, Future[Any]] = {}
        cause, patience = None, 0.0
        while (now := time.monotonic()) < started + seconds and not self._closed.is_set():
            if now >= started + len(answers) * seconds / _BROKERS_TO_ASK:
                # The broker may hang, so another client also sends the request. A slow connection keeps its time.
                asked = self._new_client() if answers else self._client
                answers[asked] = asked.describe_cluster(request_timeout=started + seconds - now)
            # A wrong password or certificate is known long before the call times out. But the error may affect only
            # one broker, so the other brokers get some time to respond.
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
        """Return the response to `asked`, which becomes the current client. Raises KafkaException if Kafka refused."""
        found, self._current = answer.result(), asked
        self._answer_seconds = _NEXT_ANSWER_SECONDS
        brokers = (BrokerDescription(node.id, f"{node.host}:{node.port}", node.rack) for node in found.nodes)
        return ClusterDescription(found.cluster_id, tuple(sorted(brokers, key=lambda broker: broker.id)))

    @in_thread
    def replica_counts(self, without: Collection[str] = ()) -> ReplicaCounts:
        """Return the replicas and preferred leaders per broker, of all topics except `without` (one Metadata call)."""
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
        """Return the replicas on `brokers`, alive or not (one Metadata call). `at` is the time of the request."""
        at = datetime.now(UTC).replace(microsecond=0)
        found: dict[int, Counter[str]] = {broker: Counter() for broker in brokers}
        for name, topic in self._metadata().items():
            for partition in topic.partitions.values():
                for broker in found.keys() & set(partition.replicas):
                    found[broker][name] += 1
        return RemainingReplicas(at, found)

    @in_thread
    def hosted(self, broker: int) -> Sequence[InSync]:
        """Return the partitions with a replica on `broker`, with their ISRs (one Metadata call)."""
        return [
            InSync(name, number, tuple(partition.replicas), frozenset(partition.isrs))
            for name, topic in self._metadata().items()
            for number, partition in topic.partitions.items()
            if broker in partition.replicas
        ]

    @in_thread
    def assignments(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """Return the replicas of all topics, without replicas that are being added (one Metadata call).

        A topic without partitions is left out: it has just been created or deleted.
        """
        found = {name: topic.partitions for name, topic in self._metadata().items() if topic.partitions}
        adding = self._adding(len(one.isrs) < len(one.replicas) for some in found.values() for one in some.values())
        return {
            name: tuple(present(adding, name, number, some[number].replicas) for number in sorted(some))
            for name, some in found.items()
        }

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """Return the brokers' min.insync.replicas, or None if it cannot be read."""
        try:
            value = await self.broker_setting(brokers, MIN_INSYNC)
            return _replicas(value) if value else None
        except (FailureError, ValueError):
            return None

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Return by broker whether all its log directories are cordoned (KIP-1066). Each broker reports only its own.

        None means that the broker's version has no cordons. Brokers that do not respond are left out.
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
        """Cordon all log directories. Fails if some are cordoned already, because `*` must be the only entry."""
        return self._altered_cordons(brokers, client.AlterConfigOpType.APPEND)

    @in_thread
    def uncordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Delete the cordons that `cordon` has set. Other cordons stay."""
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
        """Return the value of the config `key` from the first broker that responds, or None if it has no value."""
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
        """Return for each name the topic, None if it does not exist, or a Failure if it cannot be read.

        If Kafka lists reassignments, replicas that are being added are left out until all replicas are in sync.
        Raises FailureError if no broker responds, because no topic's state is known then.
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
    def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        """Return the topics' configurations, or why they cannot be read. Topics that do not exist are left out."""
        if not names:
            return {}
        answers = self._configured(names)
        errors = [answer.exception() for answer in answers.values()]
        if errors[0] is not None and all(map(is_client_error, errors)):
            raise errors[0]
        found: dict[str, TopicConfig | Failure] = {}
        for (name, answer), error in zip(answers.items(), errors, strict=True):
            if error is None:
                found[name] = config_seen(answer.result())
            elif not is_unknown_topic(error):
                found[name] = failure_of(error)
        return found

    @in_thread
    def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics (one CreateTopics call). The caller keeps its records below Kafka's 10,000 per operation."""
        return self._create_topics(topics)

    @in_thread
    def validate_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Check whether topics could be created, without creating them (one CreateTopics call)."""
        return self._create_topics(topics, validate_only=True)

    def _create_topics(self, topics: Sequence[NewTopic], **options: bool) -> Outcomes:
        wanted = [_new_topic(topic) for topic in topics]
        return self._changed(lambda seconds: self._client.create_topics(wanted, request_timeout=seconds, **options))

    @in_thread
    def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions (one CreatePartitions call)."""
        wanted = [client.NewPartitions(topic.name, topic.total, **_placed(topic.assignment)) for topic in topics]
        return self._changed(lambda seconds: self._client.create_partitions(wanted, request_timeout=seconds))

    @in_thread
    def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set only the named config keys (one IncrementalAlterConfigs call, KIP-339)."""
        return self._alter_configs(changes)

    @in_thread
    def validate_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Check whether config keys could be set, without setting them (one IncrementalAlterConfigs call)."""
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
        """Delete topics by name (one DeleteTopics call). The caller has compared their ids just before."""
        outcomes = await self._delete_topics(list(ids))
        now = time.monotonic()
        self._deleted = {one: at for one, at in self._deleted.items() if now - at < _DELETED_SECONDS}
        self._deleted |= {ids[name]: now for name, failure in outcomes.items() if failure is None}
        return outcomes

    @in_thread
    def _delete_topics(self, names: list[str]) -> Outcomes:
        return self._changed(lambda seconds: self._client.delete_topics(names, request_timeout=seconds))

    async def close(self) -> None:
        """Close the connections and end the threads. Calls in progress raise FailureError."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._python is not None:
            self._python.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        threading.Thread(target=self._destroy_client, name="kafka-close", daemon=True).start()

    def _destroy_client(self) -> None:
        """Destroy the client in this thread. This joins its threads, for seconds if one is resolving a host name.

        Otherwise the garbage collector, which frees reference cycles, could destroy the client at any time in any
        thread. In the thread of the event loop, that would block all topologies.
        """
        self._pool.shutdown(wait=True)
        del self._current

    def _python_connection(self) -> PythonConnection:
        """Return a kafka-python client of the same cluster, for requests that librdkafka does not support."""
        if self._python is None:
            from rackspan.kafka.python_connection import PythonConnection  # noqa: PLC0415 - kafka-python takes 13 MiB

            self._python = PythonConnection(self._properties, self._tokens)
        if self._closed.is_set():  # `close` may have run before this client was assigned
            self._python.close()
        return self._python

    def _adding(self, are_behind: Iterable[bool]) -> Mapping[TopicPartition, frozenset[int]]:
        """Return the replicas that reassignments add. Return none if all are in sync, or Kafka does not list them."""
        if not any(are_behind):
            return {}
        with self._listing:
            if time.monotonic() < self._unlisted_until:
                return {}
            try:
                return {at: one.adding for at, one in self._python_connection().reassigned().items()}
            except MemoryError:
                raise
            except Exception:  # topics can be read without the list, whatever the error is
                self._unlisted_until = time.monotonic() + _UNLISTED_SECONDS
                return {}

    def _without_deleted(self, found: TopicDescription | Failure | None) -> TopicDescription | Failure | None:
        return None if isinstance(found, TopicDescription) and found.topic_id in self._deleted else found

    def _metadata(self) -> Mapping[str, Any]:
        """Return the TopicMetadata of all topics by name. Blocks."""

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
        """Return futures of TopicDescriptions by topic name."""
        topics = TopicCollection(list(names))
        return self._read(lambda seconds: self._client.describe_topics(topics, request_timeout=seconds))

    def _configured(self, names: Collection[str]) -> Mapping[str, Future[Any]]:
        """Return futures of ConfigEntries by topic name."""
        resources = [client.ConfigResource(client.ResourceType.TOPIC, name) for name in names]
        answers = self._read(lambda seconds: self._client.describe_configs(resources, request_timeout=seconds))
        return {resource.name: answer for resource, answer in answers.items()}

    def _read(self, ask: Callable[[float], Mapping[K, Future[Any]]]) -> Mapping[K, Future[Any]]:
        """Return the results of a read (blocking). Retries with a new client, unless all brokers are down."""
        *tries, last = _READ_SECONDS
        for seconds in tries:
            self._forget_errors()
            asked = self._client
            answers = self._answers(ask(seconds), seconds)
            if not _no_broker_answered(answers):
                return answers
            asked.poll(0)  # calls `_on_error`, which sets `_all_down`
            if self._closed.is_set() or self._all_down:
                return answers
            self._renew(asked)
        return self._answers(ask(last), last)

    def _changed(self, change: Callable[[float], Mapping[K, Future[Any]]]) -> dict[K, Failure | None]:
        """Return the outcomes of `change`, which receives its timeout. Raises FailureError without a permit.

        Calls wait for a thread, so the permit is checked here, just before the request is sent.
        """
        self._permit.check()
        seconds, asked = self._permit.change_timeout_seconds, self._client
        answers = self._answers(change(seconds), seconds)
        if _no_broker_answered(answers):
            self._renew(asked)  # for later calls
        return {key: _outcome(answer) for key, answer in answers.items()}

    def _answers(self, answers: Mapping[K, Future[Any]], seconds: float) -> Mapping[K, Future[Any]]:
        """Return the results of a request with a timeout of `seconds`, after all have arrived. Blocks.

        Raises FailureError if the client is closed meanwhile, or if a result never arrives: librdkafka does not
        complete the futures of resources that Kafka's response leaves out.
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
                raise FailureError(GIVEN_UP) from None  # the call was waiting for a thread when the client was closed
            raise
        except Exception as error:
            closed = self._closed.is_set()
            raise FailureError(GIVEN_UP if closed else cause(self._tokens, failure_of(error))) from error


class _ClientLog:
    """Logs librdkafka's lines at DEBUG, because calls return the important errors. The lines have no credentials."""

    def log(self, _: int, message: str, *values: object) -> None:
        _log.debug(message, *values)


def _no_broker_answered(answers: Mapping[Any, Future[Any]]) -> bool:
    return bool(answers) and all(is_client_error(answer.exception()) for answer in answers.values())


def _is_cordoned(entries: Mapping[str, Any]) -> bool | None:
    """Return whether a broker's configs cordon all its log directories, or None before Kafka 4.3 (no cordons)."""
    if _CORDONED not in entries:
        return None
    cordoned, several, single = (
        {one.strip() for one in (entry.value or "").split(",")} - {""} if (entry := entries.get(key)) else set()
        for key in (_CORDONED, "log.dirs", "log.dir")
    )
    directories = several or single
    return _ALL_DIRECTORIES in cordoned or (bool(directories) and directories <= cordoned)


def _has_ours(answer: Future[Any]) -> bool:
    """Return whether the broker's own dynamic config cordons all log directories, as `cordon` does."""
    entry = answer.result().get(_CORDONED)
    own = client.ConfigSource.DYNAMIC_BROKER_CONFIG.value
    return entry is not None and entry.source == own and entry.value == _ALL_DIRECTORIES


def _outcome(answer: Future[None]) -> Failure | None:
    error = answer.exception()
    return None if error is None else failure_of(error)


def present(
    adding: Mapping[TopicPartition, frozenset[int]], topic: str, number: int, replicas: Sequence[int]
) -> tuple[int, ...]:
    """Return the replicas of a partition without those that reassignments are `adding`."""
    return present_replicas(replicas, adding.get(TopicPartition(topic, number), ()))


def _topic(answer: Future[Any], adding: Mapping[TopicPartition, frozenset[int]]) -> TopicDescription | Failure | None:
    error = answer.exception()
    if error is not None:
        return None if is_unknown_topic(error) else failure_of(error)
    found = answer.result()
    partitions = sorted(found.partitions, key=lambda partition: partition.id)
    return TopicDescription(
        found.name,
        # librdkafka prints ids in plain base64, Kafka's own tools in the URL-safe alphabet. Users compare both.
        str(found.topic_id).translate(_URL_SAFE),
        tuple(
            present(adding, found.name, partition.id, [node.id for node in partition.replicas])
            for partition in partitions
        ),
        bool(found.is_internal),
        sum(not partition.isr for partition in partitions),
    )


def config_seen(entries: Mapping[str, Any]) -> TopicConfig:
    """Return a topic's configuration from its entries."""
    own = client.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    min_insync = entries.get(MIN_INSYNC)
    return TopicConfig(
        # A key that Kafka no longer knows has no value, so it counts as not set.
        own={key: entry.value for key, entry in entries.items() if entry.source == own and entry.value is not None},
        min_insync=_replicas(min_insync.value) if min_insync and min_insync.value else None,
    )


def _replicas(text: str) -> int:
    """Return a value of `min.insync.replicas`, limited to Kafka's range. Raises ValueError if it is not a number."""
    return max(1, min(int(text), _MOST_REPLICAS))


def _new_topic(topic: NewTopic) -> Any:
    # librdkafka accepts either an assignment or a replication factor.
    placed = _placed(topic.assignment) or {"replication_factor": topic.replication_factor}
    return client.NewTopic(topic.name, topic.partitions, config=dict(topic.config), **placed)


def _placed(assignment: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """Return the replica assignment of new partitions as a keyword argument, or no argument if Kafka chooses."""
    return {} if assignment is None else {"replica_assignment": [list(replicas) for replicas in assignment]}
