"""Share groups on real brokers with the plug-in's assignor, and with Kafka's for comparison."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.plugins.conftest import BY_KAFKA, BY_PLUGIN
from tests.support.topics import Topics
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("share_groups")

RECORDS, BYTES = 200, 2_000
TOPICS = {"shared-us": [[0, 1], [1, 2], [2, 0]], "shared-eu": [[3], [3], [3]]}
"""All replicas of a topic are in one region, so its leaders are in that region."""
RACKS = ["/us/us-1a/r9", "/us/us-1b/r9", "/us/us-1c/r9", "/us/us-1a/r8", *(f"/eu/eu-1a/r{n}" for n in (2, 7, 8, 9))]
"""There are two more members than partitions."""


def java_hash(text):
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code - (code >> 31 << 32)


@pytest.fixture
def group_of(brokers):
    """Return a function that finds the name of a group whose coordinator is one of the given brokers."""

    def name(wanted):
        with_offsets = Consumer({**brokers.client_config(), "group.id": "makes-the-topic-of-offsets"})
        # The first request creates the topic of offsets.
        until(lambda: with_offsets.committed([TopicPartition("any", 0)], timeout=60), "an answer about offsets")
        with_offsets.close()

        def leaders():
            found = brokers.admin().list_topics("__consumer_offsets", timeout=300).topics["__consumer_offsets"]
            known = {number: partition.leader for number, partition in found.partitions.items()}
            return known if known and min(known.values()) >= 0 else None

        leader = until(leaders, "leaders of the topic of offsets")
        names = (f"sharing-{number}" for number in range(1000))
        return next(each for each in names if leader[abs(java_hash(each)) % len(leader)] in wanted)

    return name


def read(java, brokers, group, topics, racks):
    asked = {
        "bootstrap": brokers.bootstrap(),
        "group": group,
        "topics": {topic: len(replicas) for topic, replicas in topics.items()},
        "racks": racks,
        "records": RECORDS,
        "bytes": BYTES,
    }
    return java("ShareReaders", given=asked)


def shares(brokers, topics, found):
    """Return the share of records whose leader is in the region of the reader, and in its zone."""
    near = {1: 0, 2: 0}
    total = 0
    for rack, records in zip(RACKS, found, strict=True):
        for partition, count in records.items():
            topic, _, number = partition.rpartition("-")
            leader = brokers.racks[topics[topic][int(number)][0]]
            total += count
            for steps in near:
                near[steps] += count * (rack.split("/")[: steps + 1] == leader.split("/")[: steps + 1])
    return [near[steps] / total for steps in near]


def test_share_group_reads_only_in_its_region_with_the_plugin_and_not_with_kafkas_assignor(java, brokers, group_of):
    made = Topics(brokers.admin())
    for topic, replicas in TOPICS.items():
        made.create(topic, replicas)
    ours = read(java, brokers, group_of(BY_PLUGIN), TOPICS, RACKS)
    kafkas = read(java, brokers, group_of(BY_KAFKA), TOPICS, RACKS)
    near, by_kafka = shares(brokers, TOPICS, ours), shares(brokers, TOPICS, kafkas)
    told = f"of the region and of the zone: {near}, Kafka's {by_kafka}"
    assert near[0] == 1 > by_kafka[0], told
    for found in (ours, kafkas):
        assert sorted(len(records) for records in found) == [1, 1, 1, 1, 2, 2, 2, 2], told


def test_share_consumer_reads_from_the_leader_despite_a_follower_in_its_rack(java, brokers, group_of, counted):
    """A consumer would read from the follower, because the leader has the selector of the plug-in."""
    topic, leader, follower = "led-far", 2, 3
    Topics(brokers.admin()).create(topic, [[leader, follower]])
    read(java, brokers, group_of(BY_PLUGIN), {topic: [[leader, follower]]}, [brokers.racks[follower]])
    sent = counted(brokers, "BytesOutPerSec")
    assert sent[leader][topic] >= RECORDS * BYTES
    assert sent[follower].get(topic, 0) == 0
