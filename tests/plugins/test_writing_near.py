"""The write locality of a producer of Kafka's tools, as brokers measure it, compared with the prediction."""

import pytest
from tests.support.topics import Topics
from tests.support.waiting import until
from tests.support.writes import write_locality

HERE = "/us/us-1a/r1"
"""The rack of broker 0."""
RECORDS, BYTES = 2_000, 200
NOW = [[0, 1], [1, 0], [2, 3], [3, 0]]
OTHER_LEADERS = [[0, 1], [0, 1], [2, 3], [0, 3]]
"""The replicas of `NOW`, with the leaders nearest to the producer."""


@pytest.fixture
def written_near(brokers, kafka_distribution, counted):
    """Return a function that writes to a topic from the rack of broker 0 and returns this broker's share of bytes."""

    def write(topic, *properties):
        alone = ("batch.size=1", "partitioner.adaptive.partitioning.enable=false")  # chooses a partition per record
        settings = (f"bootstrap.servers={brokers.bootstrap()}", f"client.rack={HERE}", *alone, *properties)
        load = ("--num-records", str(RECORDS), "--record-size", str(BYTES), "--throughput", "-1")
        kafka_distribution.run_tool("ProducerPerformance", "--topic", topic, *load, "--producer-props", *settings)
        got = {broker: bytes_of.get(topic, 0) for broker, bytes_of in counted(brokers, "BytesInPerSec").items()}
        assert sum(got.values()) >= RECORDS * BYTES
        return got[0] / sum(got.values())

    return write


def test_measured_write_locality_matches_the_prediction_for_each_remedy(brokers, kafka_distribution, written_near):
    made = Topics(brokers.admin())
    for topic, replicas in (("written", NOW), ("written-by-rack", NOW), ("written-to-others", OTHER_LEADERS)):
        made.create(topic, replicas)

    def all_led():
        found = write_locality(brokers.bootstrap(), "written", HERE)
        return found if found is not None and found.partitions == len(NOW) else None

    expected = until(all_led, "leaders of all partitions")
    assert (expected.near, expected.near_by_rack, expected.could_be_near) == (0.25, 1.0, 0.75)
    assert written_near("written") == pytest.approx(expected.near, abs=0.1)
    assert written_near("written-to-others") == pytest.approx(expected.could_be_near, abs=0.1)
    by_rack = written_near("written-by-rack", "partitioner.rack.aware=true")
    knows_racks = kafka_distribution.version >= "4.4"  # before, the property is ignored
    assert by_rack == (expected.near_by_rack if knows_racks else pytest.approx(expected.near, abs=0.1))
