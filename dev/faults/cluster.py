"""What a fault run asks a Kafka cluster, and topics that it breaks things under."""

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import admin as _admin

from dev.stack.kafka_cluster import KafkaCluster
from dev.waiting import eventually
from rackspan.core.reassignment import PartitionState, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka.kafka_reassignments import KafkaReassignments

client: Any = _admin  # its type stubs do not export what its documentation names
PARTITIONS = 2
"""Of each topic of a fault run."""


class FaultError(AssertionError):
    """Something is lost, or left over."""


class Cluster:
    """A cluster, by what Kafka itself says."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.kafka = kafka

    def create(self, topic: str) -> None:
        """Create a topic of three replicas that takes writes while two are in sync."""
        rows = [[number, number + 1, number + 2] for number in range(PARTITIONS)]
        new = client.NewTopic(topic, PARTITIONS, replica_assignment=rows, config={"min.insync.replicas": "2"})
        admin = self.kafka.admin()
        admin.create_topics([new])[topic].result(60)

    def fill(self, topic: str, size: int) -> None:
        """Give each partition some bytes, so that copies take a while under a slow throttle."""
        producer = Producer({**self.kafka.client_config(), "compression.type": "none", "acks": "all"})
        for partition in range(PARTITIONS):
            for _ in range(size // 50_000):
                producer.produce(topic, secrets.token_bytes(50_000), partition=partition)
        if producer.flush(120):
            raise FaultError("the topic could not be filled")

    def states(self, topic: str) -> Mapping[TopicPartition, PartitionState]:
        """A topic's partitions."""
        found: Mapping[TopicPartition, PartitionState] = self.asked(lambda admin: admin.partitions([topic]))
        return found

    def under_way(self, topic: str) -> list[TopicPartition]:
        """Partitions of a topic that are being reassigned."""
        return [at for at, state in self.states(topic).items() if state.under_way]

    def throttles(self, topic: str) -> Mapping[Setting, Any]:
        """What is set of throttles on the brokers that answer, and on a topic."""
        some = [
            *(Setting(SettingKind.BROKER, str(broker), key) for broker in self.kafka.broker_pids() for key in RATES),
            *(Setting(SettingKind.TOPIC, topic, key) for key in (LEADERS, FOLLOWERS)),
        ]
        found = self.asked(lambda admin: admin.settings(some))
        return {one: value for one, value in found.items() if value is not None}

    def nothing_left_in_kafka(self, topic: str) -> None:
        """Raise FaultError where a reassignment or a throttle is left."""
        try:
            eventually(lambda: not self.under_way(topic), "no reassignment under way")
            eventually(lambda: not self.throttles(topic), "no throttle")
        except TimeoutError as error:
            raise FaultError(f"{error}; left: {self.throttles(topic)}") from error

    def led_by_preferred(self, topic: str) -> None:
        """Raise FaultError where another replica than the first one leads a partition."""

        def led() -> bool:
            return all(state.leader == state.replicas[0] for state in self.states(topic).values())

        try:
            eventually(led, "every preferred leader to lead")
        except TimeoutError as error:
            raise FaultError(f"{error}; {self.states(topic)}") from error

    def logs_made(self, topic: str) -> int:
        """How many replicas of a topic brokers say that they have begun, ever: the first ones, and every copy."""
        made = re.compile(rf"Created log for partition {re.escape(topic)}-\d+ in ")
        logs = (self.kafka.process_log(broker) for broker in self.kafka.racks)
        return sum(len(made.findall(log.read_text(errors="replace"))) for log in logs)

    def disk_of(self, broker: int, topic: str) -> Path:
        """The log directory of a broker in which it has a replica of a topic."""
        (one, *_) = self.kafka.node_directory(broker).glob(f"*/{topic}-*")
        return one.parent

    def has_lost_disk(self, broker: int) -> bool:
        """Whether a broker says that one of its log directories is offline."""
        said = self.kafka.process_log(broker).read_text(errors="replace")
        return "Stopping serving logs in dir" in said or "is offline" in said

    def reassigned_by_somebody_else(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Reassign partitions as another tool does."""
        wanted = {at: tuple(replicas) for at, replicas in targets.items()}
        outcomes = self.asked(lambda admin: admin.alter(wanted))
        if any(outcomes.values()):
            raise FaultError(f"somebody else's reassignment was refused: {outcomes}")

    def asked(self, question: Callable[[KafkaReassignments], Any]) -> Any:
        """What a client of its own is answered."""

        async def ask() -> Any:
            admin = KafkaReassignments(self.kafka.client_config())
            try:
                return await question(admin)
            finally:
                await admin.close()

        return asyncio.run(ask())
