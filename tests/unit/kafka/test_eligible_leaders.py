"""Snapshots have the eligible leader replicas (KIP-966) of partitions without a leader, if Kafka reports them."""

import numpy as np
import pytest
from tests.support.hostile_kafka import HostileKafka

from rackspan.kafka import python_connection
from rackspan.kafka.cluster_snapshot import take_portion, take_snapshot
from rackspan.kafka.command_config import command_properties

_TOPICS = {"logs": [[2]], "orders": [[0, 1, 2], [2, 0, 1]]}
_CLUSTER_AUTHORIZATION_FAILED = 31


def leaderless(answer, *numbers):
    """Remove the leader and the ISR of these partitions of `orders`."""
    if answer.name == "MetadataResponse":
        for one in (one for topic in answer.topics if topic.name == "orders" for one in topic.partitions):
            if one.partition_index in numbers:
                one.leader_id, one.isr_nodes = -1, []
    return answer


def page(answer, name, rows, cursor=None):
    """Set the eligible leaders by partition in a response; `cursor` is the partition at which the next page begins."""
    kind = answer.DescribeTopicPartitionsResponseTopic
    partition = kind.DescribeTopicPartitionsResponsePartition
    answer.topics = [
        kind(
            version=answer.version,
            name=name,
            partitions=[
                partition(
                    version=answer.version,
                    partition_index=number,
                    leader_id=-1,
                    replica_nodes=[],
                    isr_nodes=[],
                    eligible_leader_replicas=elr,
                    offline_replicas=[],
                )
                for number, elr in rows.items()
            ],
        )
    ]
    if cursor is not None:
        answer.next_cursor = answer.Cursor(version=answer.version, topic_name=name, partition_index=cursor)
    return answer


def eligible(partitions):
    """Return the eligible leaders of `orders`, by partition."""
    rows = np.flatnonzero(partitions.topic == partitions.names.index("orders")).tolist()
    return {
        int(partitions.number[row]): partitions.replicas[row][partitions.eligible[row]].tolist()
        for row in rows
        if partitions.eligible[row].any()
    }


def snapshots(mutate):
    with HostileKafka(mutate, topics=_TOPICS) as kafka:
        properties = command_properties(kafka.address)
        whole, portion = take_snapshot(properties), take_portion(properties, ["logs", "orders"])
    assert (whole.warnings, portion.unread) == ((), {})
    return [whole.snapshot.partitions, portion.snapshot.partitions], kafka


def test_eligible_leaders_are_read_in_pages_and_only_if_a_leader_is_missing():
    def mutate(answer):
        if answer.name == "DescribeTopicPartitionsResponse":
            first = kafka_answers.setdefault("pages", 0) % 2 == 0
            kafka_answers["pages"] += 1
            return page(answer, "orders", {0: [1]}, 1) if first else page(answer, "orders", {1: [0, 2], 2: None})
        return leaderless(answer, 0, 1)

    kafka_answers = {}
    found, kafka = snapshots(mutate)
    assert [eligible(one) for one in found] == [{0: [1], 1: [2, 0]}] * 2
    assert kafka.answered["DescribeTopicPartitions"] == 4
    found, kafka = snapshots(leaderless)
    assert [eligible(one) for one in found] == [{}, {}]
    assert kafka.answered["DescribeTopicPartitions"] == 0


def foreign(answer):
    return page(answer, "logs", {0: [2]})


def of_others(answer):
    return page(answer, "orders", {0: [7, 2**31 - 1], 9: [1]})


def endless(answer):
    return page(answer, "orders", {}, 0)


def refused(answer):
    answer = page(answer, "orders", {})
    answer.topics[0].error_code = _CLUSTER_AUTHORIZATION_FAILED
    return answer


@pytest.mark.parametrize(
    "spoiled", [foreign, of_others, endless, refused, lambda _answer: b"\xff", lambda _answer: None]
)
def test_snapshot_has_no_eligible_leaders_after_an_invalid_response(monkeypatch, spoiled):
    """Other topics, brokers without a replica, endless pages, not authorized, not decodable, or no response."""
    monkeypatch.setattr(python_connection, "_ELIGIBLE_SECONDS", 1.0)

    def mutate(answer):
        return spoiled(answer) if answer.name == "DescribeTopicPartitionsResponse" else leaderless(answer, 0)

    found, _ = snapshots(mutate)
    assert [eligible(one) for one in found] == [{}, {}]
    assert [int(one.leader[one.topic == one.names.index("orders")][0]) for one in found] == [-1, -1]
