"""Topics in Kafka, through its admin client."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from tests.support.waiting import until

from rackspan.core.reassignment import TopicPartition
from rackspan.kafka.kafka_reassignments import KafkaReassignments


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a cluster, read and changed without Rackspan."""

    admin: AdminClient
    _gone: set[str] = field(default_factory=set)

    def create(
        self,
        name: str,
        assignment: Sequence[Sequence[int]] | None = None,
        *,
        partitions: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic and return its id. Without an `assignment`, Kafka places 3 replicas."""
        if assignment is None:
            new = NewTopic(name, partitions, 3, config=dict(config or {}))
        else:
            rows = [list(row) for row in assignment]
            new = NewTopic(name, len(rows), replica_assignment=rows, config=dict(config or {}))
        self.admin.create_topics([new])[name].result(120)
        self.replicas(name, len(assignment) if assignment is not None else partitions)
        return self.id(name)

    def exists(self, name: str) -> bool:
        return self._describe(name) is not None

    def existing(self, names: Iterable[str]) -> list[str]:
        """Return the names for which Kafka has a topic."""
        answers = self.admin.describe_topics(TopicCollection(list(names)))
        return [name for name, answer in answers.items() if _known(answer) is not None]

    def id(self, name: str) -> str:
        """Return the topic id as Kafka's tools print it. Wait, because not all brokers know a new topic at once."""
        return _id(until(lambda: self._describe(name), f"topic {name} to be described"))

    def replicas(self, name: str, partitions: int = 1) -> tuple[tuple[int, ...], ...]:
        """Return the broker ids per partition, the preferred leader first, once there are at least `partitions`.

        One broker may know a change that the next queried broker does not know yet.
        """

        def found() -> list[Any] | None:
            topic = self._describe(name)
            return topic.partitions if topic is not None and len(topic.partitions) >= partitions else None

        rows = sorted(until(found, f"topic {name} to show {partitions} partitions"), key=lambda row: row.id)
        return tuple(tuple(node.id for node in row.replicas) for row in rows)

    def until_config(self, name: str, expected: Mapping[str, str]) -> None:
        """Wait until the configs of the topic itself equal `expected`."""
        until(lambda: self.config(name) == expected, f"topic {name} to have just {dict(expected)}")

    def config(self, name: str) -> dict[str, str]:
        """Return the configs of the topic itself, without inherited ones."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = until(lambda: self._configs(resource), f"topic {name} to show")
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {key: entry.value for key, entry in entries.items() if entry.source == own}

    def set_config(self, name: str, **config: str) -> None:
        """Set configs. `_` in a keyword means a dot."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(120)

    def delete(self, name: str) -> None:
        gone = self.id(name)
        self.admin.delete_topics([name])[name].result(120)
        self._gone.add(gone)

    def load(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the replicas and the preferred leaders per broker, over all topics."""
        replicas: dict[int, int] = {}
        leaders: dict[int, int] = {}
        for topic in self.admin.list_topics(timeout=300).topics.values():
            for partition in topic.partitions.values():
                leaders[partition.replicas[0]] = leaders.get(partition.replicas[0], 0) + 1
                for broker in partition.replicas:
                    replicas[broker] = replicas.get(broker, 0) + 1
        return replicas, leaders

    def _describe(self, name: str) -> Any:
        """Return the description, or None, also for a topic deleted here that a broker still shows (ids are unique)."""
        found = _known(self.admin.describe_topics(TopicCollection([name]))[name])
        return None if found is None or _id(found) in self._gone else found

    def _configs(self, resource: ConfigResource) -> Any:
        return _known(self.admin.describe_configs([resource])[resource])


def create(cluster, *topics):
    """Create topics from names and replica lists, and wait until every broker knows them."""
    made = [NewTopic(name, len(lists), replica_assignment=[list(row) for row in lists]) for name, lists in topics]
    admin = cluster.admin()
    for answer in admin.create_topics(made).values():
        answer.result(120)
    names = {name for name, _ in topics}

    def known():
        return all(names <= cluster.known_to(broker).topics.keys() for broker in cluster.racks)

    until(known, f"every broker to know {names}")


def until_missed(cluster, broker):
    """Wait until no other broker lists this broker, which is stopped. A client may query any of them."""
    others = [one for one in cluster.racks if one != broker]
    until(
        lambda: all(broker not in cluster.known_to(one).brokers for one in others), f"brokers {others} to miss {broker}"
    )


def move(cluster, topic, replicas):
    """Move partitions of a topic, by number, to these replicas, and wait until the moves are complete."""

    async def alter():
        admin = KafkaReassignments(cluster.client_config())
        try:
            answers = await admin.alter({TopicPartition(topic, number): tuple(row) for number, row in replicas.items()})
        finally:
            await admin.close()
        assert set(answers.values()) == {None}

    asyncio.run(alter())
    topics = Topics(cluster.admin())

    def there():
        rows = topics.replicas(topic)
        return all(sorted(rows[number]) == sorted(row) for number, row in replicas.items())

    until(there, f"replicas of {topic} to be moved")


def _id(described: Any) -> str:
    return str(described.topic_id).translate(str.maketrans("+/", "-_"))


def _known(answer: Any) -> Any:
    """Return the result for a topic, or None if Kafka does not know the topic."""
    try:
        return answer.result(120)
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            return None
        raise
