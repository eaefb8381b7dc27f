"""A producer with `acks=all` that never pauses, and a consumer that misses nothing of what was acknowledged."""

import itertools
import threading
from collections.abc import Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_SECONDS = 120
"""How long a message may take to be acknowledged, whatever happens to brokers meanwhile."""


class TrafficError(RuntimeError):
    """A message was refused, or one that was acknowledged is not where Kafka said."""


class Traffic:
    """Messages to every partition of a topic until the block ends; what was acknowledged is then read back."""

    def __init__(self, client_config: Mapping[str, str], topic: str, partitions: int) -> None:
        self._config = dict(client_config)
        self._topic = topic
        self._partitions = partitions
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._errors: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="traffic")

    def __enter__(self) -> Self:
        """Begin to produce."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Produce no more, and wait until all is acknowledged."""
        self._ended.set()
        self._thread.join()

    def _produce(self) -> None:
        producer = Producer(
            {
                **self._config,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": _SECONDS * 1000,
            }
        )
        for number in itertools.count():
            if self._ended.wait(0.005):
                break
            key, at = str(number), number % self._partitions
            producer.produce(self._topic, key, key=key, partition=at, on_delivery=self._delivered)
            producer.poll(0)
        if left := producer.flush(_SECONDS):
            self._errors.append(f"{left} messages were not acknowledged within {_SECONDS} seconds")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None:
            self._errors.append(str(error))
        elif partition is not None and offset is not None and value is not None:
            self._acknowledged[partition, offset] = value

    def check(self) -> int:
        """Read all of it back, and give how many messages were acknowledged. Raises TrafficError."""
        if self._errors:
            raise TrafficError(f"{len(self._errors)} messages were refused: {self._errors[0]}")
        consumer = Consumer({**self._config, "group.id": "traffic", "enable.auto.commit": False})
        try:
            found = self._read(consumer)
        finally:
            consumer.close()
        if lost := self._acknowledged.items() - found.items():
            raise TrafficError(f"{len(lost)} of {len(self._acknowledged)} acknowledged messages are lost")
        return len(self._acknowledged)

    def _read(self, consumer: Consumer) -> dict[tuple[int, int], bytes]:
        found: dict[tuple[int, int], bytes] = {}
        starts = [TopicPartition(self._topic, partition, 0) for partition in range(self._partitions)]
        ends = {at.partition: consumer.get_watermark_offsets(at, timeout=30)[1] for at in starts}
        ends = {partition: end for partition, end in ends.items() if end}
        consumer.assign(starts)
        while ends:
            message = consumer.poll(30)
            if message is None or message.error() is not None:
                why = "nothing comes any more" if message is None else message.error()
                raise TrafficError(f"{self._topic} cannot be read to its end: {why}")
            partition, offset, value = message.partition(), message.offset(), message.value()
            if partition is None or offset is None:
                continue
            found[partition, offset] = value or b""
            if offset + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
        return found
