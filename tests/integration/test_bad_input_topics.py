"""A KafkaTopic with an impossible spec gets a reason, its topic in Kafka stays unchanged, and others do not wait."""

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
def test_invalid_topic_stalls_with_a_reason_and_does_not_delay_other_topics(name, shop, topics, promise):
    reason, spec = BROKEN[name]
    shop.create_topic("broken", **spec)
    shop.create_topic("good")
    shop.until_ready("good")
    told = shop.until_stalled("broken", reason)
    assert condition(told, "Ready")["status"] == "False"
    assert condition(told, "Reconciling") is None, "the operator retries before the spec changes"
    assert not topics.exists(shop.kafka_name("broken"))
    promise.kept_by(told)


@pytest.mark.parametrize("name", ["unknown-level", "illegal-config-value", "replication-factor-above-brokers"])
def test_invalid_topic_is_created_after_its_spec_is_corrected(name, shop, topics):
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
def test_existing_topic_stays_unchanged_after_an_invalid_change_of_its_spec(name, spec, shop, topics):
    shop.create_topic("orders", config={"retention.ms": 86_400_000})
    before = shop.until_ready("orders")
    replicas = topics.replicas(shop.kafka_name("orders"))
    shop.change_topic("orders", **spec)
    after = shop.until_stalled("orders", BROKEN[name][0])
    for fact in ("topicId", "clusterId", "partitions", "replicationFactor"):
        assert after["status"][fact] == before["status"][fact], fact
    assert topics.replicas(shop.kafka_name("orders")) == replicas
    assert topics.config(shop.kafka_name("orders")) == {"retention.ms": "86400000"}


def test_adopted_topic_with_fewer_partitions_than_in_kafka_stalls(shop, topics, promise):
    topics.create(shop.kafka_name("orders"), partitions=5)
    shop.create_topic("orders", partitions=3)
    told = shop.until_stalled("orders", "PartitionsCannotShrink")
    assert told["status"]["partitions"] == len(topics.replicas(shop.kafka_name("orders"))) == 5
    promise.kept_by(told)


def test_topic_name_that_collides_in_kafka_stalls(shop, topics, promise):
    shop.create_topic("first", topicName=f"{shop.namespace}.a_b")
    shop.until_ready("first")
    shop.create_topic("second", topicName=f"{shop.namespace}.a.b")
    shop.create_topic("good")
    told = shop.until_stalled("second", "InvalidTopicName")
    shop.until_ready("good")
    assert not topics.exists(f"{shop.namespace}.a.b")
    promise.kept_by(told)


def test_topic_with_an_unknown_topology_stalls(shop, promise):
    shop.create_topic("orders", topologyRef={"name": "nowhere"})
    shop.create_topic("good")
    shop.until_ready("good")
    told = shop.until_stalled("orders", "TopologyNotFound")
    promise.kept_by(told)


def test_second_object_for_one_kafka_topic_stalls_with_topic_conflict(shop, promise):
    shop.create_topic("first", topicName=shop.kafka_name("orders"))
    shop.until_ready("first")
    shop.create_topic("second", topicName=shop.kafka_name("orders"), partitions=9)
    promise.kept_by(shop.until_stalled("second", "TopicConflict"))
    assert shop.until_ready("first")["status"]["partitions"] == 3


def test_topic_of_a_namespace_that_the_topology_does_not_allow_stalls(topology, namespace_factory, promise):
    elsewhere = topology.elsewhere(namespace_factory())
    elsewhere.create_topic("orders")
    promise.kept_by(elsewhere.until_stalled("orders", "NamespaceNotAllowed"))


def test_topic_deleted_in_kafka_stalls_and_is_recreated_only_on_request(shop, topics, promise):
    shop.create_topic("orders")
    before = shop.until_ready("orders")
    topics.delete(shop.kafka_name("orders"))
    told = shop.until_stalled("orders", "TopicVanished")
    assert told["status"]["topicId"] == before["status"]["topicId"], "the status lost the id of the deleted topic"
    assert condition(told, "Compliant")["status"] == "Unknown"
    assert not {"compliance", "placement", "partitions", "replicationFactor"} & told["status"].keys()
    assert not topics.exists(shop.kafka_name("orders")), "an empty topic hides the loss of the old one"
    promise.kept_by(told)

    shop.change_topic("orders", onTopicLoss="Recreate")
    after = shop.until_ready("orders")
    assert after["status"]["topicId"] == topics.id(shop.kafka_name("orders")) != before["status"]["topicId"]
    assert condition(after, "Stalled") is None


def test_topic_with_recreate_on_loss_is_recreated_after_its_deletion_in_kafka(shop, topics):
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


def test_topic_recreated_by_another_client_stalls_until_its_id_is_adopted(shop, topics, operator, promise):
    shop.create_topic("orders", partitions=4, deletionPolicy="Delete")
    before = shop.until_ready("orders")
    name = shop.kafka_name("orders")
    topics.delete(name)
    theirs = topics.create(name, [[0, 2, 3], [3, 4, 2]])
    told = shop.until_stalled("orders", "TopicIdMismatch")
    assert told["status"]["topicId"] == before["status"]["topicId"]
    assert len(topics.replicas(name)) == 2, "the topic of the other client was changed"
    promise.kept_by(told)

    shop.annotate_topic("orders", {"rackspan.dev/adopt-topic-id": before["status"]["topicId"]})
    operator.after_passes(3, shop.label)
    shop.until_stalled("orders", "TopicIdMismatch")

    shop.annotate_topic("orders", {"rackspan.dev/adopt-topic-id": theirs})
    after = shop.until_ready("orders")
    assert after["status"]["topicId"] == theirs
    assert len(topics.replicas(name, 4)) == 4, "the adopted topic did not get its partitions"
    assert topics.id(name) == theirs, "the topic was deleted during adoption"


def test_topic_ids_in_status_match_the_output_of_kafka_tools(shop, kafka):
    names = [
        f"topic-{number}" for number in range(8)
    ]  # half of all ids contain a character that differs between base64 alphabets
    for name in names:
        shop.create_topic(name)
    ids = [shop.until_ready(name)["status"]["topicId"] for name in names]
    described = kafka.describe(*map(shop.kafka_name, names))
    assert [id_ for id_ in ids if f"TopicId: {id_}" not in described] == []
