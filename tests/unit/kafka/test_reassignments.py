"""What the calls that move replicas make of kafka-python's answers, and of a broker that is gone."""

import pytest
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import ClusterAuthorizationFailedError, KafkaConnectionError, NoReassignmentInProgressError

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import PartitionState, TopicPartition
from rackspan.kafka import reassignments
from rackspan.kafka.reassignments import KafkaReassignments
from rackspan.reconcile.failures import FailureError

AT = TopicPartition("orders", 0)


class Client:
    """kafka-python's client, of which the first `broken` ones fail at every call."""

    made: list = []  # noqa: RUF012
    broken = 0
    error: Exception = KafkaConnectionError("gone")

    def __init__(self, **_):
        self.is_broken = len(self.made) < self.broken
        self.made.append(self)

    def close(self):
        pass

    def _answer(self, answer):
        if self.is_broken:
            raise self.error
        return answer

    def describe_topics(self, names):
        partition = {"partition_index": 0, "replica_nodes": [0, 1, 2], "isr_nodes": [0, 1], "leader_id": 0}
        lost = {"partition_index": 1, "replica_nodes": [2], "isr_nodes": [2], "leader_id": -1}
        topics = {
            "orders": {"name": "orders", "error_code": 0, "partitions": [partition, lost]},
            "gone": {"name": "gone", "error_code": 3, "partitions": []},
        }
        return self._answer([topics[name] for name in names])

    def list_partition_reassignments(self):
        lists = {"replicas": [0, 1, 2], "adding_replicas": [2], "removing_replicas": []}
        return self._answer({PythonTopicPartition("orders", 0): lists, PythonTopicPartition("others", 0): lists})

    def alter_partition_reassignments(self, wanted):
        return self._answer({at: NoReassignmentInProgressError if new is None else None for at, new in wanted.items()})

    def describe_log_dirs(self, topics, brokers):
        directories = [(0, 1000, 400), (0, 2000, 300), (56, -1, -1)]
        dirs = [
            {"error_code": code, "total_bytes": total, "usable_bytes": usable, "topics": []}
            for code, total, usable in directories
        ]
        return self._answer([{"broker": brokers[0], "log_dirs": dirs}])

    def describe_cluster(self):
        node = {"host": "h", "port": 9092, "rack": "/a"}
        brokers = [{"broker_id": 1, **node}, {"broker_id": 0, **node}, {"broker_id": 2, "is_fenced": True, **node}]
        return self._answer({"cluster_id": "prod", "brokers": brokers})


@pytest.fixture
async def admin(monkeypatch):
    monkeypatch.setattr(Client, "made", [])
    monkeypatch.setattr(reassignments, "KafkaAdminClient", Client)
    admin = KafkaReassignments({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    yield admin
    await admin.close()


async def test_partitions_are_those_of_metadata_with_what_is_under_way(admin):
    assert await admin.partitions(["orders", "gone"]) == {
        AT: PartitionState((0, 1, 2), frozenset({0, 1}), 0, frozenset({2}), frozenset()),
        TopicPartition("orders", 1): PartitionState((2,), frozenset({2}), None),
    }


async def test_fenced_brokers_are_not_alive_and_the_fullest_directory_counts(admin):
    await admin.partitions(["orders"])
    assert [broker.id for broker in (await admin.cluster()).brokers] == [0, 1]
    disks = await admin.disks([0])
    assert (disks[0].total, disks[0].usable) == (2000, 300)


async def test_each_partition_has_its_own_outcome(admin):
    outcomes = await admin.alter({AT: None, TopicPartition("orders", 1): (1, 2)})
    assert outcomes[TopicPartition("orders", 1)] is None
    assert outcomes[AT].reason is Reason.KAFKA_REFUSED


async def test_a_broker_that_is_gone_costs_one_more_try_by_a_new_client(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 1)
    assert AT in await admin.partitions(["orders"])
    assert len(Client.made) == 2


async def test_a_cluster_that_is_gone_is_told(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 99)
    with pytest.raises(FailureError) as error:
        await admin.partitions(["orders"])
    assert error.value.failure.reason is Reason.KAFKA_UNREACHABLE
    assert await admin.disks([0]) == {}


async def test_what_kafka_refuses_is_not_tried_again(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 99)
    monkeypatch.setattr(Client, "error", ClusterAuthorizationFailedError("no"))
    with pytest.raises(FailureError) as error:
        await admin.alter({AT: (1, 2)})
    assert error.value.failure.reason is Reason.NOT_AUTHORIZED
    assert len(Client.made) == 1
