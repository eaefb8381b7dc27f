"""Python consumers with a custom assignor."""

from collections.abc import Sequence

from dev.waiting import eventually
from kafka import KafkaConsumer

from rackspan.kafka.client_assignors import RackAwareRange


def python_consumer(
    bootstrap: str, group: str, topics: Sequence[str], assignor: RackAwareRange, rack: str, **config: str
) -> KafkaConsumer:
    """Return a kafka-python consumer that has the metadata of its topics before it joins the group.

    Without metadata, it first assigns nothing and joins again. If the response to this second join arrives after `poll`
    has timed out, kafka-python 3.0.12 ignores it, sends no more heartbeats and is removed from the group.
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
