"""Parsing of the output of `kafka-topics --describe`."""

from dev.demo.describe import configs_by_topic, replicas_by_topic

PRINTED = (
    "Topic: a.b\tTopicId: 5ukoOova6QVu_myIXHt-oKg\tPartitionCount: 2\tReplicationFactor: 3\t"
    "Configs: min.insync.replicas=1,segment.bytes=16777216\n"
    "\tTopic: a.b\tPartition: 1\tLeader: none\tReplicas: 7,4,8\tIsr: 4\tElr: \tLastKnownElr: \n"
    "\tTopic: a.b\tPartition: 0\tLeader: 5\tReplicas: 0,5,3\tIsr: 0,5,3\tElr: \tLastKnownElr: \n"
    "Topic: empty\tTopicId: JVHM_3RoQu2H8gdK_WnAxg\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
    "\tTopic: empty\tPartition: 0\tLeader: 12\tReplicas: 12\tIsr: 12\tElr: \tLastKnownElr: \n"
)


def test_replicas_are_in_partition_order_with_the_preferred_leader_first():
    assert replicas_by_topic(PRINTED) == {"a.b": ((0, 5, 3), (7, 4, 8)), "empty": ((12,),)}


def test_configs_are_grouped_by_topic():
    assert configs_by_topic(PRINTED) == {"a.b": {"min.insync.replicas": "1", "segment.bytes": "16777216"}, "empty": {}}


def test_empty_output_has_no_topics():
    assert replicas_by_topic("") == {}
