"""The assignor for consumers of kafka-python, with the metadata and messages of that library."""

from types import SimpleNamespace

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

from rackspan.kafka.client_assignors import RackAwareRange

RACKS = {0: "/eu/a", 1: "/eu/b", 2: "/us/a", 3: None}


def over_the_wire(**fields):
    answer = MetadataResponse(throttle_time_ms=0, cluster_id="c", **fields)
    return MetadataResponse.decode(answer.encode(version=7), version=7)


def tell(metadata, replicas):
    """Set the replicas of topics in the metadata of a client, as brokers do."""
    broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    metadata.update_metadata(
        over_the_wire(
            brokers=[broker(node_id=node, host="h", port=9092, rack=rack) for node, rack in RACKS.items()],
            controller_id=0,
            topics=[
                topic(
                    error_code=0,
                    name=name,
                    is_internal=False,
                    partitions=[
                        topic.MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=row[0],
                            leader_epoch=1,
                            replica_nodes=row,
                            isr_nodes=row,
                            offline_replicas=[],
                        )
                        for number, row in enumerate(rows)
                    ],
                )
                for name, rows in replicas.items()
            ],
        )
    )


@pytest.fixture
def cluster():
    """Two topics with the same partitions, and a topic with one partition, on a broker without a rack."""
    metadata, rows = ClusterMetadata(), [[0, 1], [2, 0], [1, 2], [2, 1]]
    tell(metadata, {"left": rows, "right": rows, "lone": [[3]]})
    return metadata


def member(name, rack, *topics, assignor=None, instance=None):
    """Return a member as the group leader sees it, with encoded and decoded metadata."""
    told = (assignor or RackAwareRange(rack)).metadata(topics or ["left", "right"])
    return SimpleNamespace(
        member_id=name, group_instance_id=instance, metadata=ConsumerProtocolSubscription.decode(told.encode())
    )


def assigned(cluster, *members):
    found = RackAwareRange().assign(cluster, members)
    return {name: dict(one.assigned_partitions) for name, one in found.items()}


def both(numbers):
    return {"left": numbers, "right": numbers}


def test_members_read_from_their_rack_with_co_partitioned_topics_together(cluster):
    found = assigned(cluster, member("m1", "/us/a"), member("m2", "/eu/b"))
    assert all(one["left"] == one["right"] for one in found.values())
    assert 1 in found["m1"]["left"]
    assert 0 in found["m2"]["left"]
    assert sorted(found["m1"]["left"] + found["m2"]["left"]) == [0, 1, 2, 3]
    assert len(found["m1"]["left"]) == 2


def test_members_without_a_rack_or_with_the_standard_range_get_an_even_share(cluster):
    old = member("old", None, "left", assignor=RangePartitionAssignor())
    found = assigned(cluster, old, member("none", "", "left"), member("near", "/us/a", "left"))
    assert sorted(len(one["left"]) for one in found.values()) == [1, 1, 2]
    assert len(found["near"]["left"]) == 2
    assert set(found["near"]["left"]) < {1, 2, 3}


def test_assignment_follows_replicas_that_moved_to_other_racks(cluster):
    members = [member("m1", "/us/a"), member("m2", "/eu/b")]
    rows = [[2, 0], [2, 0], [1, 0], [1, 0]]
    tell(cluster, {"left": rows, "right": rows})
    assert assigned(cluster, *members) == {"m1": both([0, 1]), "m2": both([2, 3])}
    tell(cluster, {"left": rows[::-1], "right": rows[::-1]})
    assert assigned(cluster, *members) == {"m1": both([2, 3]), "m2": both([0, 1])}


def test_only_subscriber_gets_the_whole_topic_and_unknown_topics_are_omitted(cluster):
    found = assigned(
        cluster, member("m1", "/us/a", "lone", "gone"), member("m2", "nowhere", "left"), member("m3", None, "gone")
    )
    assert found == {"m1": {"lone": [0]}, "m2": {"left": [0, 1, 2, 3]}, "m3": {}}


def test_static_members_keep_their_partitions_after_their_member_id_changes(cluster):
    before = assigned(cluster, member("x", None, instance="a"), member("y", None, instance="b"))
    after = assigned(cluster, member("y2", None, instance="b"), member("x9", None, instance="a"))
    assert (before["x"], before["y"]) == (after["x9"], after["y2"])


def test_assignment_is_empty_without_members_or_partitions(cluster):
    assert assigned(cluster) == {}
    assert assigned(ClusterMetadata(), member("m1", "/us/a")) == {"m1": {}}


def test_long_subscriptions_are_not_searched_for_each_topic(cluster):
    class Topics(list):
        def __contains__(self, topic):
            raise AssertionError("searches a list")

    one, other = member("m1", "/us/a"), member("m2", "/eu/b", "left")
    found = assigned(cluster, one, other)
    for each in (one, other):
        each.metadata.topics = Topics(each.metadata.topics)
    assert assigned(cluster, one, other) == found


def test_assignment_of_a_cluster_without_racks_is_even(monkeypatch, cluster):
    monkeypatch.setattr(cluster, "brokers", set)
    found = assigned(cluster, member("m1", "/us/a"), member("m2", None))
    assert {name: len(one["left"]) for name, one in found.items()} == {"m1": 2, "m2": 2}
