"""A topic follows its KafkaTopic: partitions, configs, and min.insync.replicas derived from durability."""

from tests.support.objects import condition, message, reasons
from tests.support.waiting import until


def test_new_partitions_are_placed_and_existing_ones_keep_their_replicas(shop, topics):
    shop.create_topic("orders", partitions=3)
    shop.until_ready("orders")
    before = topics.replicas(shop.kafka_name("orders"))
    shop.change_topic("orders", partitions=9)
    topic = shop.until_ready("orders")
    after = topics.replicas(shop.kafka_name("orders"), 9)
    assert len(after) == 9
    assert after[:3] == before
    assert condition(topic, "Compliant")["status"] == "True"
    assert topic["status"]["compliance"]["partitions"] == 9
    # More Events if Kafka answered late.
    until(lambda: set(reasons(shop.events("orders"))) >= {"Created", "PartitionsAdded"}, "the Events")


def test_explicit_assignment_applies_to_new_partitions(shop, topics):
    shop.create_topic("orders", partitions=1, replicationFactor=2, placement={"assignment": [[0, 3]]})
    shop.until_ready("orders")
    shop.change_topic("orders", partitions=2, placement={"assignment": [[0, 3], [5, 2]]})
    shop.until_ready("orders")
    assert topics.replicas(shop.kafka_name("orders"), 2) == ((0, 3), (5, 2))


def test_configs_are_set_and_changed(shop, topics):
    shop.create_topic("orders", config={"retention.ms": 60_000, "cleanup.policy": "compact,delete"})
    shop.until_ready("orders")
    name = shop.kafka_name("orders")
    topics.until_config(name, {"retention.ms": "60000", "cleanup.policy": "compact,delete"})
    shop.change_topic("orders", config={"retention.ms": "120000", "segment.bytes": 2_000_000})
    shop.until_ready("orders")
    topics.until_config(
        name,
        {
            "retention.ms": "120000",
            "segment.bytes": "2000000",
            "cleanup.policy": "compact,delete",
        },
    )


def test_configs_outside_the_spec_stay_unchanged(shop, topics):
    shop.create_topic("orders", config={"retention.ms": 60_000})
    shop.until_ready("orders")
    name = shop.kafka_name("orders")
    topics.set_config(name, segment_bytes="2000000")
    shop.change_topic("orders", config={"retention.ms": 70_000})
    shop.until_ready("orders")
    topics.until_config(name, {"retention.ms": "70000", "segment.bytes": "2000000"})
    shop.change_topic("orders", config={"retention.ms": None, "retention.bytes": 1_000_000})
    shop.until_ready("orders")
    topics.until_config(name, {"retention.ms": "70000", "segment.bytes": "2000000", "retention.bytes": "1000000"})


def test_config_drift_is_reset_and_reported_as_an_event(shop, topics):
    shop.create_topic("orders", config={"retention.ms": 60_000, "segment.bytes": 2_000_000})
    shop.until_ready("orders")
    name = shop.kafka_name("orders")
    topics.set_config(name, retention_ms="5", max_message_bytes="9999")
    put_back = {"retention.ms": "60000", "segment.bytes": "2000000", "max.message.bytes": "9999"}
    topics.until_config(name, put_back)
    event = shop.until_event("orders", "ConfigUpdated")
    assert event.message.endswith("changed in Kafka, put back: retention.ms=60000")


def test_config_value_in_another_notation_is_not_drift(shop, topics, operator):
    def changes():
        trail = [line["audit"] for line in operator.log if "audit" in line]
        return [one for one in trail if (one["topic"], one["operation"]) == (name, "AlterConfigs")]

    name = shop.kafka_name("orders")
    config = {
        "preallocate": "FALSE",
        "min.cleanable.dirty.ratio": "0.70",
        "retention.ms": "0060000",
        "cleanup.policy": "compact, delete",
    }
    shop.create_topic("orders", config=config)
    shop.until_ready("orders")
    operator.after_passes(3, shop.label)
    assert changes() == []
    assert topics.config(name).keys() == config.keys()


def test_min_insync_replicas_is_derived_from_durability(shop, topics):
    shop.create_topic("two-zones", durability={"minDomains": {"zone": 2}})
    shop.create_topic("any-zone", replicationFactor=4, durability={"tolerate": {"zone": 1}})
    two_zones, any_zone = shop.until_ready("two-zones"), shop.until_ready("any-zone")
    # Three replicas over two regions: one zone may have two of them.
    topics.until_config(shop.kafka_name("two-zones"), {"min.insync.replicas": "3"})
    assert two_zones["status"]["minInSyncReplicas"] == 3
    assert "one replica that lags stops acks=all writes" in message(two_zones)
    # Of four replicas, two are in /us/us-1a and one in each zone of /eu: two remain without the largest zone.
    topics.until_config(shop.kafka_name("any-zone"), {"min.insync.replicas": "2"})
    assert any_zone["status"]["minInSyncReplicas"] == 2


def test_derived_min_insync_replicas_follow_changes_of_the_spec(shop, topics):
    shop.create_topic("orders", replicationFactor=4, durability={"minDomains": {"region": 2}})
    shop.until_ready("orders")
    topics.until_config(shop.kafka_name("orders"), {"min.insync.replicas": "3"})
    shop.change_topic("orders", durability={"minDomains": None, "tolerate": {"region": 1}})
    shop.until_ready("orders")
    topics.until_config(shop.kafka_name("orders"), {"min.insync.replicas": "2"})


def test_min_insync_replicas_compatible_with_durability_is_accepted(shop, topics):
    shop.create_topic(
        "orders", replicationFactor=4, durability={"tolerate": {"zone": 1}}, config={"min.insync.replicas": 1}
    )
    shop.until_ready("orders")
    topics.until_config(shop.kafka_name("orders"), {"min.insync.replicas": "1"})


def test_min_insync_replicas_against_durability_is_refused_before_the_topic_is_created(shop, topics):
    shop.create_topic(
        "orders", replicationFactor=4, durability={"tolerate": {"zone": 1}}, config={"min.insync.replicas": 3}
    )
    topic = shop.until_stalled("orders", "DurabilityUnsatisfiable")
    assert "min.insync.replicas 3 is too large for tolerate zone: 1: lower it to 2" in message(topic)
    assert not topics.exists(shop.kafka_name("orders"))
    shop.change_topic("orders", config={"min.insync.replicas": 2})
    topic = shop.until_ready("orders")
    assert condition(topic, "Stalled") is None


def test_durability_that_the_racks_cannot_provide_is_refused(shop, topics):
    shop.create_topic("orders", durability={"minDomains": {"region": 3}})
    topic = shop.until_stalled("orders", "DurabilityUnsatisfiable")
    assert "needs replicas in 3 domains" in message(topic)
    assert not topics.exists(shop.kafka_name("orders"))


def test_invalid_placement_does_not_block_config_changes(shop, topics):
    shop.create_topic("orders", placement={"brokers": {"include": ["/eu"]}})
    shop.until_ready("orders")
    shop.change_topic(
        "orders", partitions=6, config={"retention.ms": 60_000}, placement={"brokers": {"include": ["9"]}}
    )
    topic = shop.until_stalled("orders", "Infeasible")
    assert '"9" names no broker' in message(topic)
    topics.until_config(shop.kafka_name("orders"), {"retention.ms": "60000"})
    assert len(topics.replicas(shop.kafka_name("orders"))) == 3


def test_partitions_are_added_while_a_replication_factor_change_waits(shop, topics):
    shop.create_topic("orders", partitions=2, replicationFactor=2)
    shop.until_ready("orders")
    shop.change_topic("orders", partitions=4, replicationFactor=3)
    topic = shop.until_not_ready("orders", "PlanPending")
    assert "4 of 4 partitions have 2 replicas, the spec says 3" in message(topic)
    assert [len(row) for row in topics.replicas(shop.kafka_name("orders"), 4)] == [2, 2, 2, 2]


def test_replication_factor_change_waits_for_approval(shop, topics):
    shop.create_topic("orders", partitions=4, replicationFactor=2)
    shop.until_ready("orders")
    before = topics.replicas(shop.kafka_name("orders"))
    shop.change_topic("orders", replicationFactor=3)
    topic = shop.until_not_ready("orders", "PlanPending")
    assert message(topic).startswith(
        f"plan {topic['status']['plan']['hash']} copies 4 replicas of 4 partitions, and no plan copies fewer; "
        "not executed yet: "
        "4 of 4 partitions have 2 replicas, the spec says 3; it waits for approval"
    )
    assert topic["status"]["replicationFactor"] == 2
    assert topics.replicas(shop.kafka_name("orders")) == before
    shop.change_topic("orders", replicationFactor=2)
    shop.until_ready("orders")
