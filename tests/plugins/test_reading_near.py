"""The brokers from which real consumers read: with the plug-in, with Kafka's selector, and without a selector."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from dev.waiting import eventually
from tests.support.topics import Topics

MESSAGES, BYTES = 500, 2_000
EU = 3
LEADERS = {"no-selector": 0, "kafkas-selector": 1, "nearest": 2}
"""One topic per selector. Its leader has the selector and is in region us. The follower is the only broker in eu."""


@pytest.fixture
def topics(brokers):
    made = Topics(brokers.admin())
    for topic, leader in LEADERS.items():
        made.create(topic, [[leader, EU]])
    producer = Producer({**brokers.client_config(), "acks": "all"})
    for number in range(MESSAGES):
        for topic in LEADERS:
            producer.produce(topic, b"%2000d" % number)
    assert producer.flush(300) == 0
    return made


def read_all(brokers, rack):
    """Read each topic from beginning to end, as a consumer in `rack`."""
    consumer = Consumer({**brokers.client_config(), "group.id": "reader", "client.rack": rack})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in LEADERS])
    seen = dict.fromkeys(LEADERS, 0)

    def done():
        for message in consumer.consume(MESSAGES, timeout=0.5):
            assert message.error() is None
            seen[message.topic()] += 1
        return set(seen.values()) == {MESSAGES}

    eventually(done, "all messages to be read", interval=0)
    consumer.close()


def test_only_the_plugin_selector_finds_the_replica_in_another_rack_of_the_zone(brokers, topics, counted):
    read_all(brokers, "/eu/eu-1a/r9")
    sent = counted(brokers, "BytesOutPerSec")
    total = MESSAGES * BYTES
    assert {
        topic: [sent[broker].get(topic, 0) >= total for broker in (leader, EU)] for topic, leader in LEADERS.items()
    } == {
        "no-selector": [True, False],
        "kafkas-selector": [True, False],
        "nearest": [False, True],
    }
    assert sent[EU].get("no-selector", 0) == sent[EU].get("kafkas-selector", 0) == 0
    assert sent[LEADERS["nearest"]].get("nearest", 0) == 0, sent
    # A consumer in the rack of the replica gets it from both selectors.
    read_all(brokers, "/eu/eu-1a/r2")
    again = counted(brokers, "BytesOutPerSec")
    assert again[LEADERS["kafkas-selector"]]["kafkas-selector"] == sent[LEADERS["kafkas-selector"]]["kafkas-selector"]
    assert again[EU]["nearest"] >= 2 * total
    assert again[EU]["kafkas-selector"] >= total
