"""A producer that must not lose a message, and a consumer that reads each offset, while other code runs."""

import contextlib
import itertools
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from dev.waiting import eventually

_SECONDS = 300
"""The timeout for the acknowledgement of a message, despite failures of brokers."""
_QUIET_SECONDS = 120
"""How long the consumer waits for the next acknowledged message at the end."""
_KEY = b"traffic"


class TrafficError(RuntimeError):
    """A message was rejected, lost, duplicated, or has another offset than acknowledged."""


class Traffic:
    """Sends messages to every partition of a topic until the block ends, idempotent, `acks=all`, and reads them once.

    For messages of other producers in the topic, only the offsets are checked.
    """

    def __init__(self, client_config: Mapping[str, str], topic: str, partitions: int, rate: float = 200) -> None:
        """`rate` is the number of messages per second."""
        self._config = dict(client_config)
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / rate
        self._lock = threading.Lock()
        self._acknowledged: dict[int, int | None] = {}
        """The offsets of messages that are not read yet. `_read` has those that are not acknowledged yet."""
        self._read: dict[int, int] = {}
        self._latencies: list[float] = []
        self._errors: list[str] = []
        self._ended = threading.Event()
        self._producing = threading.Thread(target=self._produce, name="producer")
        self._consuming = threading.Thread(target=self._consume, name="consumer")
        self._consumer = Consumer({**self._config, "group.id": "traffic", "enable.auto.commit": False})
        self._next_offset: dict[int, int] = {}
        self._next_number = {partition: partition for partition in range(partitions)}
        self.acknowledged = self.matched = 0

    def __enter__(self) -> Self:
        """Start to produce, and to read from the current end of the topic.

        The first group of a cluster makes Kafka create `__consumer_offsets`, whose replicas count in every plan. This
        topic exists before the block begins.
        """
        for partition in range(self._partitions):
            eventually(partial(self._find_end, partition), f"the end of partition {partition}")
        one = [TopicPartition(self._topic, 0)]
        asked = partial(self._consumer.committed, one, timeout=30)
        eventually(asked, "the coordinator of the group", retry_on=KafkaException)
        self._producing.start()
        self._consuming.start()
        return self

    def _find_end(self, partition: int) -> bool:
        """Return whether the end of a partition is known. The queried broker may not know a new topic yet."""
        at = TopicPartition(self._topic, partition)
        with contextlib.suppress(KafkaException):
            self._next_offset[partition] = self._consumer.get_watermark_offsets(at, timeout=30)[1]
        return partition in self._next_offset

    def __exit__(self, *_: object) -> None:
        """Stop to produce, and wait until all messages are acknowledged and read."""
        self._ended.set()
        self._producing.join()
        self._consuming.join()

    def check(self) -> int:
        """After the block, return the number of messages that were acknowledged and read. Raises TrafficError."""
        if self._errors:
            raise TrafficError(f"{len(self._errors)} errors, of which the first: {self._errors[0]}")
        if self.matched != self.acknowledged:
            raise TrafficError(f"{self.acknowledged} messages were acknowledged, and {self.matched} of them read")
        return self.matched

    def latencies(self) -> list[float]:
        """Return the seconds until the acknowledgement of each message since the last call."""
        with self._lock:
            taken, self._latencies = self._latencies, []
        return taken

    def _produce(self) -> None:
        safe = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": _SECONDS * 1000}
        producer = Producer({**self._config, **safe})
        for number in itertools.count():
            if self._ended.wait(self._pause):
                break
            sent = time.monotonic()
            producer.produce(
                self._topic,
                str(number),
                _KEY,
                number % self._partitions,
                on_delivery=lambda error, message, sent=sent: self._delivered(error, message, sent),  # type: ignore[misc]
            )
            producer.poll(0)
        if left := producer.flush(_SECONDS):
            self._errors.append(f"{left} messages were not acknowledged within {_SECONDS} seconds")

    def _delivered(self, error: KafkaError | None, message: Any, sent: float) -> None:
        if error is not None:
            self._errors.append(f"a message was rejected: {error}")
            return
        with self._lock:
            self._latencies.append(time.monotonic() - sent)
            self.acknowledged += 1
            number = int(message.value())
            self._acknowledged[number] = message.offset()
            self._match(number)

    def _consume(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, *start) for start in self._next_offset.items()])
        quiet_since = time.monotonic()
        while self._producing.is_alive() or self._acknowledged:
            message: Any = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                quiet_since = time.monotonic()
                self._see(message)
            elif not self._producing.is_alive() and time.monotonic() > quiet_since + _QUIET_SECONDS:
                self._errors.append(f"{len(self._acknowledged)} acknowledged messages cannot be read")
                break
        self._consumer.close()

    def _see(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        if offset != self._next_offset[partition]:
            self._errors.append(f"partition {partition}: offset {offset} follows {self._next_offset[partition] - 1}")
        self._next_offset[partition] = offset + 1
        if message.key() != _KEY:
            return
        number = int(message.value())
        if number != self._next_number[partition]:
            self._errors.append(f"partition {partition}: message {number}, not {self._next_number[partition]}")
        self._next_number[partition] = number + self._partitions
        with self._lock:
            self._read[number] = offset
            self._match(number)

    def _match(self, number: int) -> None:
        """Count a message that is acknowledged and read, and compare the two offsets.

        A message is sent again if its first acknowledgement was lost. Then the broker returns
        DUPLICATE_SEQUENCE_NUMBER, and librdkafka reports the message as delivered without an offset (its pull request
        4438), which is None here.
        """
        if number in self._acknowledged and number in self._read:
            self.matched += 1
            told, read = self._acknowledged.pop(number), self._read.pop(number)
            if told is not None and told != read:
                self._errors.append(f"message {number} is at offset {read}, and was acknowledged at {told}")
