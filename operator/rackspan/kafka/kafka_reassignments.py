"""`ReassignmentAdmin` over two clients: confluent-kafka for the first connection, kafka-python for moving replicas.

librdkafka does not support AlterPartitionReassignments, ListPartitionReassignments and DescribeLogDirs. It sends
requests for dynamic configs to the broker that it takes for the controller, for minutes if that broker is offline.
Both clients take the same properties. kafka-python blocks, so it runs in the threads of the confluent-kafka client.
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections import defaultdict
from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.errors import for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest, IncrementalAlterConfigsRequest

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.partitions import (
    MOST_BYTES,
    Disk,
    ListChange,
    PartitionState,
    Setting,
    SettingChange,
    SettingKind,
    TopicPartition,
)
from rackspan.kafka.admin import ConfluentAdmin, client, in_thread, parts
from rackspan.kafka.kafka_errors import UNKNOWN_TOPIC
from rackspan.kafka.python_connection import PythonConnection, failure_of
from rackspan.reconcile.failures import Failure, FailureError
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from rackspan.reconcile.ports import Permit, Replicas

T = TypeVar("T")
_AT_ONCE = 1_000
_BROKER_SECONDS, _TOPICS_SECONDS = 5.0, 20.0
"""The time limits of parallel requests to brokers about themselves, and of a request to one broker about topics. A
change ends while the permit is valid."""
_NO_ID = uuid.UUID(int=0)
_OWN = {
    SettingKind.TOPIC: client.ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    SettingKind.BROKER: client.ConfigSource.DYNAMIC_BROKER_CONFIG.value,
}
_TYPES = {SettingKind.TOPIC: ConfigResourceType.TOPIC, SettingKind.BROKER: ConfigResourceType.BROKER}


class KafkaReassignments(ConfluentAdmin):
    """The calls to one Kafka cluster that move replicas; implements `ReassignmentAdmin`."""

    def __init__(self, properties: Mapping[str, str | int | bool], permit: Permit | None = None) -> None:
        """Raise FailureError if one of the clients refuses `properties`, which are librdkafka's."""
        python = PythonConnection(properties)
        super().__init__(properties, permit, python.tokens)
        self._python = python
        self._ask = python.ask

    async def cluster(self) -> ClusterDescription:
        """Return the cluster id and the brokers that are alive. Raises FailureError with the cause if none responds."""
        if not self._python_connection().is_open:
            return await super().cluster()  # librdkafka reports the cause of a failed connection best
        return await self._cluster()

    @in_thread
    def _cluster(self) -> ClusterDescription:
        found = self._ask(lambda python: python.describe_cluster())
        brokers = [
            BrokerDescription(one["broker_id"], f"{one['host']}:{one['port']}", one["rack"])
            for one in found["brokers"]
            if not one.get("is_fenced")
        ]
        return ClusterDescription(found["cluster_id"], tuple(sorted(brokers, key=lambda broker: broker.id)))

    @in_thread
    def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Return replicas, ISR and leader from metadata, and then reassignments under way from the controller.

        Does not use librdkafka, which would send the requests to the controller, for a minute if it is offline.
        """
        found: dict[TopicPartition, PartitionState] = {}
        for names in parts(sorted(topics), _AT_ONCE):
            for topic in self._ask(methodcaller("describe_topics", names)):
                found |= _states(topic)
        under_way = self._ask(lambda python: python.list_partition_reassignments())
        for one, lists in under_way.items():
            at = TopicPartition(one.topic, one.partition)
            if at in found:
                found[at] = replace(
                    found[at],
                    replicas=tuple(lists["replicas"]),
                    adding=frozenset(lists["adding_replicas"]),
                    removing=frozenset(lists["removing_replicas"]),
                )
        return found

    @in_thread
    def topic_names(self) -> Collection[str]:
        """Return the names of all topics that the client can see, including Kafka's internal topics."""
        names: Collection[str] = self._ask(lambda python: python.list_topics())
        return names

    @in_thread
    def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the effective min.insync.replicas of each topic, if it can be read."""
        return {
            one.resource_name: int(entry.value)
            for one in self._settings_seen(Setting(SettingKind.TOPIC, topic, MIN_INSYNC) for topic in topics)
            for entry in one.configs
            if entry.name == MIN_INSYNC and (entry.value or "").isdecimal()
        }

    @in_thread
    def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Return the space of each broker's fullest online log directory (KIP-827), and how many are offline."""
        found = {}
        for broker, directories in self._log_dirs({one: {} for one in brokers}).items():
            room = [
                (one.total_bytes, one.usable_bytes)
                for one in directories
                if one.error_code == 0 and getattr(one, "total_bytes", -1) >= 0
            ]
            if room:
                total, usable = min(room, key=lambda one: one[1])
                lost = sum(one.error_code == KafkaError.KAFKA_STORAGE_ERROR for one in directories)
                found[broker] = Disk(total, usable, lost)
        return found

    @in_thread
    def sizes(self, partitions: Mapping[TopicPartition, Collection[int]]) -> Mapping[tuple[TopicPartition, int], int]:
        """Return the bytes of replicas on the given brokers. Sizes that are not reported are left out.

        If the sum exceeds MOST_BYTES, more than any cluster has, return none: sums of sizes must fit into 64 bits.
        """
        asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, brokers in partitions.items():
            for broker in brokers:
                asked[broker][at.topic].append(at.partition)
        found = {
            (TopicPartition(topic.name, one.partition_index), broker): one.partition_size
            for broker, directories in self._log_dirs(asked).items()
            for directory in directories
            for topic in directory.topics
            for one in topic.partitions
            if not one.is_future_key and one.partition_size >= 0
        }
        return found if sum(found.values()) <= MOST_BYTES else {}

    @in_thread
    def alter(
        self, targets: Mapping[TopicPartition, Replicas | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """Send one AlterPartitionReassignments request (KIP-455) for `same_size` (KIP-860), one for all others."""
        found: dict[TopicPartition, Failure | None] = {}
        for resizing in (False, True):
            some = {at: replicas for at, replicas in targets.items() if (at not in same_size) is resizing}
            if some:
                found |= self._alter(some, resizing=resizing)
        return found

    def _alter(
        self, targets: Mapping[TopicPartition, Replicas | None], *, resizing: bool
    ) -> dict[TopicPartition, Failure | None]:
        wanted = {
            PythonTopicPartition(*at): None if replicas is None else list(replicas) for at, replicas in targets.items()
        }
        answers = self._change(
            lambda python, seconds: python.alter_partition_reassignments(wanted, seconds, resizing=resizing)
        )
        return {
            TopicPartition(one.topic, one.partition): None if error is None else failure_of(error)
            for one, error in answers.items()
        }

    @in_thread
    def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Elect the preferred leaders. If the preferred leader leads already, that is no failure (KIP-460)."""
        wanted: dict[str, list[int]] = defaultdict(list)
        for at in partitions:
            wanted[at.topic].append(at.partition)
        # confluent-kafka has this call too, but version 2.16 cannot pass on its arguments.
        answer = self._change(lambda python, seconds: python.elect_preferred(wanted, seconds))
        return {
            TopicPartition(topic.topic, one.partition_id): (
                None if one.error_code == KafkaError.ELECTION_NOT_NEEDED else _refused(one)
            )
            for topic in answer.replica_election_results
            for one in topic.partition_result
        }

    @in_thread
    def settings(self, wanted: Collection[Setting]) -> Mapping[Setting, str | Failure | None]:
        """Return the configs set directly on brokers and topics. All are None for a topic that does not exist."""
        found: dict[Setting, str | Failure | None] = dict.fromkeys(wanted)
        topics, brokers = _by_resource(wanted)
        for one in self._settings_seen(one for one in wanted if one.kind is SettingKind.TOPIC):
            found |= _own_values(one, SettingKind.TOPIC, topics[one.resource_name])
        for broker, answer in self._of_each(
            brokers, lambda some: _describe(SettingKind.BROKER, some), self._ask
        ).items():
            found |= (
                dict.fromkeys(brokers[broker], answer)
                if isinstance(answer, Failure)
                else _own_values(answer.results[0], SettingKind.BROKER, brokers[broker])
            )
        return found

    @in_thread
    def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Send IncrementalAlterConfigs (KIP-339): one per batch of topics, and one to each broker for itself."""
        outcomes: dict[Setting, Failure | None] = dict.fromkeys(changes)
        topics, brokers = _by_resource(changes)

        def change(kind: SettingKind, some: Mapping[str, Collection[Setting]]) -> Any:
            return IncrementalAlterConfigsRequest(
                resources=[
                    (_TYPES[kind], name, [(one.key, *_operation(changes[one])) for one in sorted(settings)])
                    for name, settings in some.items()
                ],
                validate_only=False,
            )

        changed = self._of_each(brokers, lambda some: change(SettingKind.BROKER, some), self._change)
        for broker, answer in changed.items():
            outcome = answer if isinstance(answer, Failure) else _refused(answer.responses[0])
            outcomes |= dict.fromkeys(brokers[broker], outcome)
        for names in parts(list(topics), _AT_ONCE):
            for one in self._changed_topics(change(SettingKind.TOPIC, {name: topics[name] for name in names})):
                if one.error_code not in UNKNOWN_TOPIC:
                    outcomes |= dict.fromkeys(topics[one.resource_name], _refused(one))
        return outcomes

    def _changed_topics(self, request: Any) -> Iterable[Any]:
        return self._change(lambda python, seconds: python.ask(request, seconds)).responses  # type: ignore[no-any-return]

    def _change(self, change: Callable[[Any, float], T]) -> T:
        """Send a change, which gets its time limit in seconds. Each attempt checks the permit first.

        The limit is half of the permit's time, because a connection takes time, and a second broker may be tried.
        """
        self._permit.check()

        def permitted(python: Any) -> T:
            self._permit.check()
            return change(python, self._permit.change_timeout_seconds / 2)

        return self._ask(permitted)

    def _settings_seen(self, settings: Iterable[Setting]) -> list[Any]:
        """Return the configs of topics from any broker, with one request per batch of topics."""
        topics, _ = _by_resource(settings)
        found: list[Any] = []
        for names in parts(list(topics), _AT_ONCE):
            asked = _describe(SettingKind.TOPIC, {name: topics[name] for name in names})
            found += self._ask(methodcaller("ask", asked, _TOPICS_SECONDS)).results
        return found

    def _of_each(
        self, brokers: Mapping[str, T], request: Callable[[Mapping[str, T]], Any], ask: Callable[..., Any]
    ) -> Mapping[str, Any | Failure]:
        """Return the responses of brokers about themselves, requested in parallel. An offline one has a Failure."""
        if not brokers:
            return {}
        requests = {int(name): request({name: one}) for name, one in brokers.items()}
        answers = ask(lambda python, seconds=_BROKER_SECONDS: python.ask_each(requests, min(seconds, _BROKER_SECONDS)))
        return {
            str(broker): failure_of(answer) if isinstance(answer, BaseException) else answer
            for broker, answer in answers.items()
        }

    def _log_dirs(self, wanted: Mapping[int, Mapping[str, Sequence[int]]]) -> Mapping[int, Sequence[Any]]:
        """Return the log directories of brokers, requested in parallel. Brokers that do not respond are left out."""
        requests = {
            broker: DescribeLogDirsRequest(topics=list(topics.items())) for broker, topics in sorted(wanted.items())
        }
        if not requests:
            return {}
        with contextlib.suppress(FailureError):
            answers = self._ask(lambda python: python.ask_each(requests, _BROKER_SECONDS))
            return {one: answer.results for one, answer in answers.items() if not isinstance(answer, BaseException)}
        return {}


def _by_resource(settings: Iterable[Setting]) -> tuple[dict[str, list[Setting]], dict[str, list[Setting]]]:
    """Return the settings of topics and of brokers, by the name of the topic or broker, sorted."""
    found: dict[SettingKind, dict[str, list[Setting]]] = {kind: defaultdict(list) for kind in SettingKind}
    for one in sorted(settings):
        found[one.kind][one.name].append(one)
    return found[SettingKind.TOPIC], found[SettingKind.BROKER]


def _describe(kind: SettingKind, some: Mapping[str, Iterable[Setting]]) -> Any:
    return DescribeConfigsRequest(
        resources=[(_TYPES[kind], name, [one.key for one in settings]) for name, settings in some.items()],
        include_synonyms=False,
    )


def _operation(change: SettingChange) -> tuple[AlterConfigOp, str | None]:
    if isinstance(change, ListChange):
        return AlterConfigOp[change.operation.name], change.names
    return AlterConfigOp.DELETE if change is None else AlterConfigOp.SET, change


def _own_values(answer: Any, kind: SettingKind, settings: Iterable[Setting]) -> dict[Setting, str | Failure | None]:
    """Return the configs set directly on a topic or broker. All are None for a topic that does not exist."""
    if answer.error_code in UNKNOWN_TOPIC:
        return dict.fromkeys(settings)
    if answer.error_code:
        return dict.fromkeys(settings, _refused(answer))
    entries = {one.name: one.value for one in answer.configs if one.config_source == _OWN[kind]}
    return {one: entries.get(one.key) or None for one in settings}


def _refused(answer: Any) -> Failure | None:
    """Return the Failure in the result of one resource, or None if it succeeded."""
    code = answer.error_code
    return failure_of(for_code(code)(answer.error_message or "")) if code else None


def _states(topic: Mapping[str, Any]) -> Mapping[TopicPartition, PartitionState]:
    """Return a topic's partitions from a Metadata response, none if deleted. Raises FailureError for other errors."""
    code = topic["error_code"]
    if code in UNKNOWN_TOPIC:
        return {}
    if code:
        raise FailureError(failure_of(for_code(code)(f"topic {topic['name']}")))
    return {
        TopicPartition(topic["name"], one["partition_index"]): PartitionState(
            tuple(one["replica_nodes"]),
            frozenset(one["isr_nodes"]),
            one["leader_id"] if one["leader_id"] >= 0 else None,
            offline=frozenset(one["offline_replicas"]),
            topic_id=_topic_id(topic),
        )
        for one in topic["partitions"]
    }


def _topic_id(topic: Mapping[str, Any]) -> str | None:
    """Return a topic's id as Kafka's own tools print it, or None if the broker is older than topic ids."""
    found = topic.get("topic_id")
    known = uuid.UUID(str(found)) if found is not None else _NO_ID
    return None if known == _NO_ID else base64.urlsafe_b64encode(known.bytes).decode().rstrip("=")
