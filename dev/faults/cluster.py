"""Requests of a fault run to a Kafka cluster, and its topics."""

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
"""The number of partitions of each topic."""


class FaultError(AssertionError):
    """Something is lost or left over."""


class Cluster:
    """A cluster, as Kafka reports it."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.kafka = kafka

    def create(self, topic: str) -> None:
        """Create a topic with three replicas and min.insync.replicas=2."""
        rows = [[number, number + 1, number + 2] for number in range(PARTITIONS)]
        new = client.NewTopic(topic, PARTITIONS, replica_assignment=rows, config={"min.insync.replicas": "2"})
        admin = self.kafka.admin()
        admin.create_topics([new])[topic].result(60)

    def fill(self, topic: str, size: int) -> None:
        """Write `size` bytes to each partition, so that copies with a slow throttle take a while."""
        producer = Producer({**self.kafka.client_config(), "compression.type": "none", "acks": "all"})
        for partition in range(PARTITIONS):
            for _ in range(size // 50_000):
                producer.produce(topic, secrets.token_bytes(50_000), partition=partition)
        if producer.flush(120):
            raise FaultError("the topic could not be filled")

    def states(self, topic: str) -> Mapping[TopicPartition, PartitionState]:
        """Return the states of the partitions of a topic."""
        found: Mapping[TopicPartition, PartitionState] = self.asked(lambda admin: admin.partitions([topic]))
        return found

    def under_way(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic that are being reassigned."""
        return [at for at, state in self.states(topic).items() if state.under_way]

    def throttles(self, topic: str) -> Mapping[Setting, Any]:
        """Return the throttles that are set on the running brokers and on a topic."""
        some = [
            *(Setting(SettingKind.BROKER, str(broker), key) for broker in self.kafka.broker_pids() for key in RATES),
            *(Setting(SettingKind.TOPIC, topic, key) for key in (LEADERS, FOLLOWERS)),
        ]
        found = self.asked(lambda admin: admin.settings(some))
        return {one: value for one, value in found.items() if value is not None}

    def nothing_left_in_kafka(self, topic: str) -> None:
        """Raise FaultError if a reassignment or a throttle is left."""
        try:
            eventually(lambda: not self.under_way(topic), "no reassignment under way")
            eventually(lambda: not self.throttles(topic), "no throttle")
        except TimeoutError as error:
            raise FaultError(f"{error}; left: {self.throttles(topic)}") from error

    def led_by_preferred(self, topic: str) -> None:
        """Raise FaultError if a preferred leader does not lead its partition."""

        def led() -> bool:
            return all(state.leader == state.replicas[0] for state in self.states(topic).values())

        try:
            eventually(led, "every preferred leader to lead")
        except TimeoutError as error:
            raise FaultError(f"{error}; {self.states(topic)}") from error

    def logs_made(self, topic: str) -> int:
        """Return how many replicas of a topic the brokers have created, including all copies, from their logs."""
        made = re.compile(rf"Created log for partition {re.escape(topic)}-\d+ in ")
        logs = (self.kafka.process_log(broker) for broker in self.kafka.racks)
        return sum(len(made.findall(log.read_text(errors="replace"))) for log in logs)

    def disk_of(self, broker: int, topic: str) -> Path:
        """Return the log directory of a broker that has a replica of a topic."""
        (one, *_) = self.kafka.node_directory(broker).glob(f"*/{topic}-*")
        return one.parent

    def has_lost_disk(self, broker: int) -> bool:
        """Return whether a broker logs that one of its log directories is offline."""
        said = self.kafka.process_log(broker).read_text(errors="replace")
        return "Stopping serving logs in dir" in said or "is offline" in said

    def reassigned_by_somebody_else(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Reassign partitions like another tool."""
        wanted = {at: tuple(replicas) for at, replicas in targets.items()}
        outcomes = self.asked(lambda admin: admin.alter(wanted))
        if any(outcomes.values()):
            raise FaultError(f"the reassignment of the other client was rejected: {outcomes}")

    def asked(self, question: Callable[[KafkaReassignments], Any]) -> Any:
        """Return the result of a call with a new admin client."""

        async def ask() -> Any:
            admin = KafkaReassignments(self.kafka.client_config())
            try:
                return await question(admin)
            finally:
                await admin.close()

        return asyncio.run(ask())
