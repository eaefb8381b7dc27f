"""A producer with `acks=all` that never pauses, and a consumer that misses nothing of what was acknowledged."""

import itertools
import threading

from confluent_kafka import Consumer, Producer, TopicPartition


class Traffic:
    """Messages to every partition of a topic until the block ends; what was acknowledged is then read back."""

    def __init__(self, client_config, topic, partitions):
        self._config = client_config
        self._topic = topic
        self._partitions = partitions
        self._acknowledged = {}
        self._errors = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _produce(self):
        producer = Producer(
            {**self._config, "acks": "all", "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 120_000}
        )
        for number in itertools.count():
            if self._ended.wait(0.005):
                break
            partition = number % self._partitions
            producer.produce(self._topic, str(number), partition=partition, on_delivery=self._delivered)
            producer.poll(0)
        assert producer.flush(120) == 0

    def _delivered(self, error, message):
        if error is not None:
            self._errors.append(str(error))
        else:
            self._acknowledged[message.partition(), message.offset()] = message.value()

    def check(self):
        """Every message that was acknowledged is where Kafka said. Gives how many there were."""
        assert not self._errors
        consumer = Consumer({**self._config, "group.id": "traffic", "enable.auto.commit": False})
        try:
            found, ends = {}, {}
            for partition in range(self._partitions):
                at = TopicPartition(self._topic, partition, 0)
                ends[partition] = consumer.get_watermark_offsets(at, timeout=30)[1]
            consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(self._partitions)])
            while any(partition in ends for partition in range(self._partitions)):
                message = consumer.poll(30)
                assert message is not None, f"nothing comes any more, and {ends} are not reached"
                assert message.error() is None, message.error()
                found[message.partition(), message.offset()] = message.value()
                if message.offset() + 1 >= ends.get(message.partition(), 0):
                    ends.pop(message.partition(), None)
        finally:
            consumer.close()
        assert self._acknowledged.items() <= found.items()
        return len(self._acknowledged)
