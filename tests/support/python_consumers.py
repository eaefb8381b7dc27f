"""Consumers in Python that bring an assignor of their own."""

from collections.abc import Sequence

from dev.waiting import eventually
from kafka import KafkaConsumer

from rackspan.kafka.client_assignors import RackAwareRange


def python_consumer(
    bootstrap: str, group: str, topics: Sequence[str], assignor: RackAwareRange, rack: str, **config: str
) -> KafkaConsumer:
    """A consumer of kafka-python's that has its topics' metadata before it joins the group.

    Without, it assigns nothing at first and joins again for metadata's sake. kafka-python 3.0.12 never looks at the
    answer to that one if it comes when `poll` has timed out: no more heartbeats, and the group goes on without it.
    """
    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_rack=rack,
        heartbeat_interval_ms=200,
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
        **config,
    )
    eventually(lambda: all(map(consumer.partitions_for_topic, topics)), "the consumer to know its topics")
    return consumer
