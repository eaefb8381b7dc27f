"""The fake brokers for tests of hostile responses: unchanged responses are valid, and random changes have a seed."""

import socket

import pytest
from kafka.protocol.metadata import MetadataRequest
from tests.support.hostile_kafka import NOT_UTF8, FuzzedKafka, HostileKafka, spoiling

from rackspan.kafka.cluster_snapshot import take_snapshot
from rackspan.kafka.command_config import command_properties
from rackspan.reconcile.failures import FailureError

_TOPICS = {"orders": [[0, 1], [1, 2]], "logs": [[2]]}


def test_unchanged_responses_describe_a_cluster():
    with HostileKafka(topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address)).snapshot
    assert found.cluster_id == "hostile"
    assert [(one.id, one.reported_rack) for one in found.brokers] == [(0, "/a"), (1, "/b"), (2, "/c")]
    assert found.partitions.names == ("logs", "orders")
    assert kafka.answered["DescribeConfigs"] == 1 + 3, "one request for all topics, and one per broker for its cordons"


def test_proxy_with_share_zero_gives_the_same_snapshot():
    with HostileKafka(topics=_TOPICS) as kafka, FuzzedKafka(kafka.address, seed=1, share=0) as proxy:
        through, direct = (take_snapshot(command_properties(one.address)) for one in (proxy, kafka))
        assert str(through) == str(direct)
    assert proxy.answered["DescribeConfigs"] == 1 + 3
    assert not proxy.spoiled


def test_spoiling_changes_the_field_at_its_path():
    with HostileKafka(spoiling("Metadata", "topics.name", NOT_UTF8)) as kafka, pytest.raises(FailureError) as failed:
        take_snapshot(command_properties(kafka.address))
    assert "can't decode byte 0xff" in failed.value.failure.message


def test_proxy_with_the_same_seed_spoils_the_same_responses():
    def spoiled(seed):
        with HostileKafka() as kafka, FuzzedKafka(kafka.address, seed, share=1) as proxy:
            host, port = proxy.address.split(",")[0].split(":")
            with socket.create_connection((host, int(port))) as broker, broker.makefile("rb") as answers:
                for number in range(20):
                    request = MetadataRequest(version=12, topics=None)
                    request.with_header(correlation_id=number)
                    broker.sendall(request.encode(header=True, framed=True))
                    answers.read(int.from_bytes(answers.read(4)))
        return proxy.spoiled

    assert len(spoiled(1)) == 20
    assert spoiled(1) == spoiled(1) != spoiled(2)
