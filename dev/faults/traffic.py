"""A producer that may lose nothing, and a consumer that reads each offset while all else goes on."""

import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition


class Traffic:
    """Messages to the partitions of a topic until it ends: idempotent, `acks=all`, and each offset is read once."""

    def __init__(self, config: Mapping[str, Any], topic: str, partitions: int, rate: float = 100) -> None:
        self._config = dict(config)
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / rate
        self._lock = threading.Lock()
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        """What is not read yet; and below what is read, and not known to be acknowledged yet."""
        self._read: dict[tuple[int, int], bytes] = {}
        self._next = dict.fromkeys(range(partitions), 0)
        self._latencies: list[float] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        self.errors: list[str] = []
        self.acknowledged = self.matched = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def latencies(self) -> list[float]:
        """Seconds from each message to its acknowledgement, those since it was asked last."""
        with self._lock:
            taken, self._latencies = self._latencies, []
        return taken

    def _produce(self) -> None:
        safe = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 300_000}
        producer = Producer({**self._config, **safe})
        for number in itertools.count():
            if self._ended.wait(self._pause):
                break
            sent = time.monotonic()
            producer.produce(
                self._topic,
                str(number),
                partition=number % self._partitions,
                on_delivery=lambda error, message, sent=sent: self._delivered(error, message, sent),  # type: ignore[misc]
            )
            producer.poll(0)
        if producer.flush(300):
            self.errors.append("not all messages were acknowledged in five minutes")

    def _delivered(self, error: KafkaError | None, message: Any, sent: float) -> None:
        if error is not None:
            self.errors.append(f"a message was not taken: {error}")
            return
        with self._lock:
            self._latencies.append(time.monotonic() - sent)
            self.acknowledged += 1
            self._acknowledged[message.partition(), message.offset()] = message.value()
            self._match((message.partition(), message.offset()))

    def _consume(self) -> None:
        consumer = Consumer({**self._config, "group.id": "faults", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, number, 0) for number in self._next])
        quiet_since = time.monotonic()
        while not (self._ended.is_set() and not self._threads[0].is_alive() and not self._acknowledged):
            message: Any = consumer.poll(0.5)
            if message is None or message.error() is not None:
                if self._ended.is_set() and time.monotonic() > quiet_since + 120:
                    self.errors.append(f"{len(self._acknowledged)} acknowledged messages cannot be read")
                    break
                continue
            quiet_since = time.monotonic()
            partition, offset = message.partition(), message.offset()
            with self._lock:
                if offset != self._next[partition]:
                    self.errors.append(f"partition {partition}: offset {offset} follows {self._next[partition] - 1}")
                self._next[partition] = offset + 1
                self._read[partition, offset] = message.value()
                self._match((partition, offset))
        consumer.close()

    def _match(self, at: tuple[int, int]) -> None:
        if at in self._acknowledged and at in self._read:
            self.matched += 1
            if self._acknowledged.pop(at) != self._read.pop(at):
                self.errors.append(f"offset {at[1]} of partition {at[0]} has another message")
