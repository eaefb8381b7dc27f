"""
`ReassignmentAdmin` over two clients: confluent-kafka, and kafka-python for what that one cannot say.

librdkafka has no AlterPartitionReassignments, no ListPartitionReassignments and no DescribeLogDirs. Both clients take
the same properties. kafka-python's blocks, so it is called in the threads of the other one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    SaslAuthenticationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.errors import KafkaError as PythonKafkaError

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Disk, PartitionState, Setting, SettingKind, TopicPartition
from rackspan.kafka.admin import ConfluentAdmin, client, config_seen
from rackspan.kafka.errors import UNKNOWN_TOPIC, failure_of, is_client_error, is_unknown_topic
from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from rackspan.reconcile.ports import Permit
    from rackspan.reconcile.reassignments.ports import Replicas

T = TypeVar("T")
_AT_ONCE = 1_000
_BROKER_SECONDS, _TOPICS_SECONDS = 5.0, 10.0
"""How long one broker may take, and the controller at first: others wait for them meanwhile."""
_CALL_SECONDS = 60.0
_BOOTSTRAP_MS = 10_000
_PREFERRED = 0  # of ElectLeaders' two types
_OWN = {
    SettingKind.TOPIC: client.ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    SettingKind.BROKER: client.ConfigSource.DYNAMIC_BROKER_CONFIG.value,
}
_NO_ANSWER = (PythonKafkaError, OSError, RuntimeError)
_log = logging.getLogger("kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # what matters of it comes back from calls


class KafkaReassignments(ConfluentAdmin):
    """One Kafka cluster's calls that move replicas; implements `ReassignmentAdmin`."""

    def __init__(self, properties: Mapping[str, str | int | bool], permit: Permit | None = None) -> None:
        """Raise FailureError where one of the clients refuses `properties`, which are librdkafka's."""
        try:
            self._python_properties = python_client_properties(properties)
        except UnsupportedPropertyError as error:
            raise FailureError(Failure(Reason.INVALID_SPEC, str(error), Remedy.SPEC)) from error
        except (OSError, ValueError) as error:
            words = f"a certificate or key cannot be used: {getattr(error, 'strerror', None) or error}"
            raise FailureError(Failure(Reason.TLS_FAILED, words, Remedy.ACCESS)) from error
        super().__init__(properties, permit)
        self._python: KafkaAdminClient | None = None
        self._python_lock = threading.Lock()

    async def cluster(self) -> ClusterDescription:
        """The cluster id and the brokers that are alive. Raises FailureError with the cause where none answers."""
        if self._python is None:
            return await super().cluster()  # it tells best what is wrong with a connection

        def call() -> ClusterDescription:
            found = self._ask(lambda python: python.describe_cluster())
            brokers = [
                BrokerDescription(one["broker_id"], f"{one['host']}:{one['port']}", one["rack"])
                for one in found["brokers"]
                if not one.get("is_fenced")
            ]
            return ClusterDescription(found["cluster_id"], tuple(sorted(brokers, key=lambda broker: broker.id)))

        return await self._run("describe_cluster", call)

    async def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Replicas, ISR and leader from metadata; what is under way from the controller, which is asked last.

        Not by librdkafka, which sends such questions to the controller, and for a minute to one that is dead.
        """

        def call() -> Mapping[TopicPartition, PartitionState]:
            names = sorted(topics)
            found: dict[TopicPartition, PartitionState] = {}
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                for topic in self._ask(lambda python, some=some: python.describe_topics(some)):  # type: ignore[misc]
                    found |= _states(topic)
            under_way = self._ask(lambda python: python.list_partition_reassignments())
            for one, lists in under_way.items():
                at = TopicPartition(one.topic, one.partition)
                if at in found:
                    found[at] = PartitionState(
                        tuple(lists["replicas"]),
                        found[at].in_sync,
                        found[at].leader,
                        frozenset(lists["adding_replicas"]),
                        frozenset(lists["removing_replicas"]),
                    )
            return found

        return await self._run("list_partition_reassignments", call)

    async def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Each topic's effective min.insync.replicas, where it can be read."""

        def call() -> Mapping[str, int]:
            wanted = [Setting(SettingKind.TOPIC, topic, "min.insync.replicas") for topic in topics]
            answers = self._of_resources(wanted, self._describe)
            known = {one.name: answers[one.kind, one.name] for one in wanted}
            found = {name: config_seen(one.result()) for name, one in known.items() if one.exception() is None}
            return {name: config.min_insync for name, config in found.items() if config.min_insync is not None}

        return await self._run("describe_configs", call) if topics else {}

    async def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Room on brokers' log directories (KIP-827); those that are offline are no room, and one of them is enough."""

        def call() -> Mapping[int, Disk]:
            found = {}
            for broker in sorted(brokers):
                room = [
                    (directory["total_bytes"], directory["usable_bytes"])
                    for directory in self._log_dirs(broker, {})
                    if directory["error_code"] == 0 and directory.get("total_bytes", -1) >= 0
                ]
                if room:
                    total, usable = min(room, key=lambda one: one[1])
                    found[broker] = Disk(total, usable)
            return found

        return await self._run("describe_log_dirs", call)

    async def sizes(
        self, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        """Bytes of replicas on the given brokers; those that do not tell are left out."""

        def call() -> Mapping[tuple[TopicPartition, int], int]:
            asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
            for at, brokers in partitions.items():
                for broker in brokers:
                    asked[broker][at.topic].append(at.partition)
            return {
                (TopicPartition(topic["name"], one["partition_index"]), broker): one["partition_size"]
                for broker, topics in sorted(asked.items())
                for directory in self._log_dirs(broker, topics)
                for topic in directory["topics"]
                for one in topic["partitions"]
                if not one["is_future_key"]
            }

        return await self._run("describe_log_dirs", call)

    async def alter(self, targets: Mapping[TopicPartition, Replicas | None]) -> Mapping[TopicPartition, Failure | None]:
        """One AlterPartitionReassignments call (KIP-455)."""

        def call() -> Mapping[TopicPartition, Failure | None]:
            self._permit.check()
            wanted = {
                PythonTopicPartition(*at): None if replicas is None else list(replicas)
                for at, replicas in targets.items()
            }
            answers = self._ask(lambda python: python.alter_partition_reassignments(wanted))
            return {
                TopicPartition(one.topic, one.partition): None if error is None else _failure(error())
                for one, error in answers.items()
            }

        return await self._run("alter_partition_reassignments", call)

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Let preferred leaders lead; one that leads already is no failure (KIP-460)."""

        def call() -> Mapping[TopicPartition, Failure | None]:
            self._permit.check()
            wanted: dict[str, list[int]] = defaultdict(list)
            for at in partitions:
                wanted[at.topic].append(at.partition)
            # confluent-kafka has this call too, and 2.16 cannot pass its arguments on.
            answer = self._ask(lambda python: python.elect_leaders(_PREFERRED, wanted, raise_errors=False))
            if error := getattr(answer, "error_code", 0):
                raise FailureError(_failure(for_code(error)()))
            return {
                TopicPartition(topic.topic, one.partition_id): (
                    None
                    if one.error_code in (0, KafkaError.ELECTION_NOT_NEEDED)
                    else _failure(for_code(one.error_code)(one.error_message or ""))
                )
                for topic in answer.replica_election_results
                for one in topic.partition_result
            }

        return await self._run("elect_leaders", call)

    async def settings(self, wanted: Collection[Setting]) -> Mapping[Setting, str | Failure | None]:
        """What is set on brokers and topics themselves; nothing is on a topic that is gone."""

        def call() -> Mapping[Setting, str | Failure | None]:
            answers = self._of_resources(wanted, self._describe)
            return {one: _own_value(one, answers[one.kind, one.name]) for one in wanted}

        return await self._run("describe_configs", call)

    async def set_settings(self, values: Mapping[Setting, str | None]) -> Mapping[Setting, Failure | None]:
        """IncrementalAlterConfigs (KIP-339) of all topics in one call, and of each broker in one that it answers."""

        def call() -> Mapping[Setting, Failure | None]:
            self._permit.check()
            answers = self._of_resources(values, lambda some, seconds: self._change_configs(some, seconds, values))
            outcomes: dict[Setting, Failure | None] = {}
            for one in values:
                error = answers[one.kind, one.name].exception()
                outcomes[one] = None if error is None or is_unknown_topic(error) else failure_of(error)
            return outcomes

        return await self._run("incremental_alter_configs", call)

    async def close(self) -> None:
        """Close both clients; calls under way end with a FailureError."""
        python, self._python = self._python, None
        if python is not None:
            threading.Thread(target=python.close, name="kafka-python-close", daemon=True).start()
        await super().close()

    def _of_resources(
        self,
        settings: Iterable[Setting],
        ask: Callable[[Collection[tuple[SettingKind, str]], float], Mapping[Any, Future[Any]]],
    ) -> Mapping[tuple[SettingKind, str], Future[Any]]:
        """Ask about brokers one by one and topics together, all at the same time.

        librdkafka asks what it takes for the controller, also when that is dead; fresh metadata names another one.
        """
        resources = sorted({(one.kind, one.name) for one in settings})
        topics = [one for one in resources if one[0] is SettingKind.TOPIC]
        answers: dict[tuple[SettingKind, str], Future[Any]] = {}
        for one in resources:
            if one[0] is SettingKind.BROKER:
                answers |= ask([one], _BROKER_SECONDS)
        for start in range(0, len(topics), _AT_ONCE):
            some = topics[start : start + _AT_ONCE]
            found = self._answers(ask(some, _TOPICS_SECONDS))
            if any(is_client_error(one.exception()) for one in found.values()):
                self._metadata()
                found = ask(some, _CALL_SECONDS)
            answers |= found
        return self._answers(answers)

    def _describe(self, some: Collection[tuple[SettingKind, str]], seconds: float) -> Mapping[Any, Future[Any]]:
        resources = [client.ConfigResource(_type(kind), name) for kind, name in some]
        return _by_resource(self._client.describe_configs(resources, request_timeout=seconds))

    def _change_configs(
        self, some: Collection[tuple[SettingKind, str]], seconds: float, values: Mapping[Setting, str | None]
    ) -> Mapping[Any, Future[Any]]:
        entries: dict[tuple[SettingKind, str], list[Any]] = defaultdict(list)
        operation = client.AlterConfigOpType
        for one, value in values.items():
            what = operation.DELETE if value is None else operation.SET
            entries[one.kind, one.name].append(client.ConfigEntry(one.key, value, incremental_operation=what))
        resources = [
            client.ConfigResource(_type(kind), name, incremental_configs=entries[kind, name]) for kind, name in some
        ]
        return _by_resource(self._client.incremental_alter_configs(resources, request_timeout=seconds))

    def _log_dirs(self, broker: int, topics: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
        """Log directories of one broker, none where it does not tell."""
        with contextlib.suppress(FailureError):
            (answer,) = self._ask(lambda python: python.describe_log_dirs(dict(topics), [broker]))
            found: list[dict[str, Any]] = answer["log_dirs"]
            return found
        return []

    def _ask(self, question: Callable[[KafkaAdminClient], T]) -> T:
        """Ask by kafka-python's client. One that failed is given up: it can go on asking a broker that is gone."""
        with self._python_lock:
            try:
                return self._answered(question)
            except _NO_ANSWER as error:
                # The broker that was asked may be gone: once more, by whichever there is.
                if isinstance(error, BrokerResponseError) and not error.retriable:
                    raise FailureError(_failure(error)) from error
            try:
                return self._answered(question)
            except _NO_ANSWER as error:
                raise FailureError(_failure(error)) from error

    def _answered(self, question: Callable[[KafkaAdminClient], T]) -> T:
        try:
            if self._python is None:
                self._python = KafkaAdminClient(**self._python_properties, bootstrap_timeout_ms=_BOOTSTRAP_MS)
            return question(self._python)
        except _NO_ANSWER:
            failed, self._python = self._python, None
            if failed is not None:
                threading.Thread(target=failed.close, name="kafka-python-close", daemon=True).start()
            raise


def _type(kind: SettingKind) -> Any:
    return client.ResourceType.BROKER if kind is SettingKind.BROKER else client.ResourceType.TOPIC


def _by_resource(answers: Mapping[Any, Future[Any]]) -> Mapping[tuple[SettingKind, str], Future[Any]]:
    broker = client.ResourceType.BROKER
    return {
        (SettingKind.BROKER if one.restype == broker else SettingKind.TOPIC, one.name): answer
        for one, answer in answers.items()
    }


def _own_value(setting: Setting, answer: Future[Any]) -> str | Failure | None:
    error = answer.exception()
    if error is not None:
        return None if is_unknown_topic(error) else failure_of(error)
    entry = answer.result().get(setting.key)
    if entry is None or entry.source != _OWN[setting.kind]:
        return None
    return str(entry.value or "") or None


def _states(topic: Mapping[str, Any]) -> Mapping[TopicPartition, PartitionState]:
    """Partitions of a topic in a Metadata response; none where it is gone. Raises FailureError for other errors."""
    code = topic["error_code"]
    if code in UNKNOWN_TOPIC:
        return {}
    if code:
        raise FailureError(_failure(for_code(code)(f"topic {topic['name']}")))
    return {
        TopicPartition(topic["name"], one["partition_index"]): PartitionState(
            tuple(one["replica_nodes"]),
            frozenset(one["isr_nodes"]),
            one["leader_id"] if one["leader_id"] >= 0 else None,
        )
        for one in topic["partitions"]
    }


def _failure(error: BaseException) -> Failure:
    """The Failure that an exception of kafka-python means."""
    words = " ".join(str(error).split()) or type(error).__name__
    code = f"Kafka says {type(error).__name__.removesuffix('Error')}"
    if isinstance(error, AuthorizationError):
        return Failure(Reason.NOT_AUTHORIZED, f"{code}: {words}", Remedy.ACCESS)
    if isinstance(error, SaslAuthenticationFailedError):
        return Failure(Reason.AUTHENTICATION_FAILED, f"Kafka refuses the log-in: {words}", Remedy.ACCESS)
    if isinstance(error, UnknownTopicOrPartitionError):
        return Failure(Reason.KAFKA_REFUSED, f"{code}: {words}", Remedy.RETRY)
    answered = getattr(error, "errno", None) and isinstance(error, BrokerResponseError) and not error.retriable
    reason = Reason.KAFKA_REFUSED if answered else Reason.KAFKA_UNREACHABLE
    return Failure(reason, f"{code}: {words}", Remedy.RETRY)
