"""A KafkaTopic that asks for what cannot be: it is told why, nothing happens to it, and nobody waits for it."""

import pytest
from tests.support.objects import condition

ABSENT_BROKER = 77

BROKEN = {
    "unknown-placer": ("UnknownPlacer", {"placement": {"placer": "Astrology"}}),
    "unknown-level": ("UnknownLevel", {"placement": {"spread": [{"level": "building"}]}}),
    "unknown-durability-level": ("UnknownLevel", {"durability": {"tolerate": {"building": 1}}}),
    "replication-factor-above-brokers": ("Infeasible", {"replicationFactor": 7}),
    "absent-broker": ("Infeasible", {"placement": {"assignment": [[0, 1, ABSENT_BROKER]] * 3}}),
    "no-broker-left": ("Infeasible", {"placement": {"brokers": {"include": ["/asia"]}}}),
    "leaders-nowhere": ("Infeasible", {"placement": {"leaders": ["/asia"]}}),
    "impossible-durability": (
        "DurabilityUnsatisfiable",
        {"partitions": 1, "durability": {"tolerate": {"region": 1}, "minDomains": {"region": 2}}},
    ),
    "too-many-replicas": ("TooLarge", {"replicationFactor": 501}),
    "illegal-config-value": ("InvalidConfig", {"config": {"retention.ms": "a while"}}),
    "unknown-config": ("InvalidConfig", {"config": {"retension.ms": 1000}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_topic_says_why_and_holds_nobody_back(name, shop, topics, promise):
    reason, spec = BROKEN[name]
    shop.create_topic("broken", **spec)
    shop.create_topic("good")
    shop.until_ready("good")
    told = shop.until_stalled("broken", reason)
    assert condition(told, "Ready")["status"] == "False"
    assert condition(told, "Reconciling") is None, "nothing goes on before the spec changes"
    assert not topics.exists(shop.kafka_name("broken"))
    promise.kept_by(told)


@pytest.mark.parametrize("name", ["unknown-level", "illegal-config-value", "replication-factor-above-brokers"])
def test_a_broken_topic_is_made_once_it_is_mended(name, shop, topics):
    reason, spec = BROKEN[name]
    shop.create_topic("orders", **spec)
    shop.until_stalled("orders", reason)
    shop.change_topic("orders", replicationFactor=3, placement=None, config=None)
    ready = shop.until_ready("orders")
    assert condition(ready, "Stalled") is None
    assert ready["status"]["topicId"] == topics.id(shop.kafka_name("orders"))


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("unknown-placer", {"partitions": 4, "placement": {"placer": "Astrology"}}),
        ("illegal-config-value", {"config": {"retention.ms": "a while"}}),
        ("unknown-level", {"partitions": 4, "placement": {"spread": [{"level": "building"}]}}),
    ],
)
def test_a_topic_that_is_there_keeps_what_it_has(name, spec, shop, topics):
    shop.create_topic("orders", config={"retention.ms": 86_400_000})
    before = shop.until_ready("orders")
    replicas = topics.replicas(shop.kafka_name("orders"))
    shop.change_topic("orders", **spec)
    after = shop.until_stalled("orders", BROKEN[name][0])
    for fact in ("topicId", "clusterId", "partitions", "replicationFactor"):
        assert after["status"][fact] == before["status"][fact], fact
    assert topics.replicas(shop.kafka_name("orders")) == replicas
    assert topics.config(shop.kafka_name("orders")) == {"retention.ms": "86400000"}


def test_fewer_partitions_than_kafka_has(shop, topics, promise):
    topics.create(shop.kafka_name("orders"), partitions=5)
    shop.create_topic("orders", partitions=3)
    told = shop.until_stalled("orders", "PartitionsCannotShrink")
    assert told["status"]["partitions"] == len(topics.replicas(shop.kafka_name("orders"))) == 5
    promise.kept_by(told)


def test_a_name_that_collides_in_kafka(shop, topics, promise):
    shop.create_topic("first", topicName=f"{shop.namespace}.a_b")
    shop.until_ready("first")
    shop.create_topic("second", topicName=f"{shop.namespace}.a.b")
    shop.create_topic("good")
    told = shop.until_stalled("second", "InvalidTopicName")
    shop.until_ready("good")
    assert not topics.exists(f"{shop.namespace}.a.b")
    promise.kept_by(told)


def test_a_topic_without_its_topology(shop, promise):
    shop.create_topic("orders", topologyRef={"name": "nowhere"})
    shop.create_topic("good")
    shop.until_ready("good")
    told = shop.until_stalled("orders", "TopologyNotFound")
    promise.kept_by(told)


def test_two_objects_for_one_topic(shop, promise):
    shop.create_topic("first", topicName=shop.kafka_name("orders"))
    shop.until_ready("first")
    shop.create_topic("second", topicName=shop.kafka_name("orders"), partitions=9)
    promise.kept_by(shop.until_stalled("second", "TopicConflict"))
    assert shop.until_ready("first")["status"]["partitions"] == 3


def test_a_namespace_that_the_topology_does_not_admit(topology, namespace_factory, promise):
    elsewhere = topology.elsewhere(namespace_factory())
    elsewhere.create_topic("orders")
    promise.kept_by(elsewhere.until_stalled("orders", "NamespaceNotAllowed"))


def test_a_topic_deleted_behind_our_back(shop, topics, promise):
    shop.create_topic("orders")
    before = shop.until_ready("orders")
    topics.delete(shop.kafka_name("orders"))
    told = shop.until_stalled("orders", "TopicVanished")
    assert told["status"]["topicId"] == before["status"]["topicId"], "it is the id that is missed"
    assert condition(told, "Compliant")["status"] == "Unknown"
    assert not {"compliance", "placement", "partitions", "replicationFactor"} & told["status"].keys()
    assert not topics.exists(shop.kafka_name("orders")), "an empty topic in place of a full one would hide the loss"
    promise.kept_by(told)

    shop.change_topic("orders", onTopicLoss="Recreate")
    after = shop.until_ready("orders")
    assert after["status"]["topicId"] == topics.id(shop.kafka_name("orders")) != before["status"]["topicId"]
    assert condition(after, "Stalled") is None


def test_a_topic_that_shall_be_recreated_is(shop, topics):
    shop.create_topic("orders", onTopicLoss="Recreate", config={"retention.ms": 86_400_000})
    before = shop.until_ready("orders")
    topics.delete(shop.kafka_name("orders"))
    lost = before["status"]["topicId"]
    after = shop.until(
        "KafkaTopic", "orders", lambda obj: obj["status"].get("topicId") not in (None, lost), "to be about a new topic"
    )
    assert after["status"]["topicId"] == topics.id(shop.kafka_name("orders"))
    assert condition(after, "Ready")["status"] == "True"
    assert topics.config(shop.kafka_name("orders")) == {"retention.ms": "86400000"}


def test_a_topic_recreated_by_someone_else(shop, topics, operator, promise):
    shop.create_topic("orders", partitions=4, deletionPolicy="Delete")
    before = shop.until_ready("orders")
    name = shop.kafka_name("orders")
    topics.delete(name)
    theirs = topics.create(name, [[0, 2, 3], [3, 4, 2]])
    told = shop.until_stalled("orders", "TopicIdMismatch")
    assert told["status"]["topicId"] == before["status"]["topicId"]
    assert len(topics.replicas(name)) == 2, "somebody else's topic is left alone"
    promise.kept_by(told)

    shop.annotate_topic("orders", {"rackspan.dev/adopt-topic-id": before["status"]["topicId"]})
    operator.after_passes(3)
    shop.until_stalled("orders", "TopicIdMismatch")

    shop.annotate_topic("orders", {"rackspan.dev/adopt-topic-id": theirs})
    after = shop.until_ready("orders")
    assert after["status"]["topicId"] == theirs
    assert len(topics.replicas(name, 4)) == 4, "it is managed again, from where it was"
    assert topics.id(name) == theirs, "and nothing was deleted on the way"


def test_topic_ids_are_written_as_kafkas_own_tools_write_them(shop, kafka):
    names = [f"topic-{number}" for number in range(8)]  # half of all ids have a character in which base64s differ
    for name in names:
        shop.create_topic(name)
    ids = [shop.until_ready(name)["status"]["topicId"] for name in names]
    described = kafka.describe(*map(shop.kafka_name, names))
    assert [id_ for id_ in ids if f"TopicId: {id_}" not in described] == []
