"""`min.insync.replicas` and eligible leader replicas (KIP-966) on real brokers, as modelled in `tests/property`."""

import asyncio

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic, ResourceType
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.kafka_distribution import KafkaToolError
from tests.support.command import cli
from tests.support.waiting import until

from rackspan.kafka.admin import ConfluentAdmin

KEY = "min.insync.replicas"
FEATURE = "eligible.leader.replicas.version"
SEVERAL = "bring back broker 1, or another of its ISR or ELR: those that stopped cleanly have all committed writes"
LAGS = "UnderReplicated"
ONLY = "bring back broker {}: no other replica is sure to have all committed writes"


@pytest.fixture(scope="module")
def _own_kafka(processes, kafka_distribution):
    directory = processes.directory / "min-insync-kafka"
    properties, of_broker = {KEY: "2"}, {0: {KEY: "3"}}
    cluster = KafkaCluster.start(
        directory, processes, kafka_distribution, ["/a", "/b", "/c"], properties=properties, broker_properties=of_broker
    )
    yield cluster
    cluster.destroy()


@pytest.fixture
def own_kafka(_own_kafka):
    """Three brokers that a test may stop and kill. All run at the start of each test, without topics."""
    yield _own_kafka
    _own_kafka.resume()
    admin = _own_kafka.admin()
    for answer in admin.delete_topics(list(admin.list_topics(timeout=300).topics)).values():
        answer.result(120)
    until(lambda: not any(_own_kafka.known_to(broker).topics for broker in _own_kafka.racks), "no topic")


def create(kafka, name, replicas, **config):
    admin = kafka.admin()
    admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas], config=config)])[name].result(120)
    until(lambda: all(name in kafka.known_to(broker).topics for broker in kafka.racks), f"topic {name}")


def written(kafka, topic):
    producer = Producer({**kafka.client_config(), "acks": "all", "message.timeout.ms": 60_000})
    producer.produce(topic, b"kept")
    return producer.flush(90) == 0


def told(kafka):
    """Return the defaults of each broker and of all brokers, and the value of a topic that inherits it."""

    async def asked():
        admin = ConfluentAdmin({"bootstrap.servers": kafka.bootstrap()})
        try:
            defaults = [await admin.default_min_insync(brokers) for brokers in ([0], [1], [2], [0, 1, 2])]
            return {*defaults, (await admin.configs(["plain"]))["plain"].min_insync}
        finally:
            await admin.close()

    return asyncio.run(asked())


def test_min_insync_replicas_of_the_cluster_override_the_properties_of_a_broker(own_kafka):
    """The value of the controller becomes the cluster default at creation, and overrides the properties of brokers."""
    kafka = own_kafka  # first test of this module: later ones may have changed the cluster default
    create(kafka, "plain", [0, 1, 2])
    admin, broker = kafka.admin(), ConfigResource(ResourceType.BROKER, "0")
    (answer,) = admin.describe_configs([broker]).values()
    entry = answer.result()[KEY]
    assert (entry.value, entry.source) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
    assert told(kafka) == {2}

    cluster = ("--bootstrap-server", kafka.bootstrap())
    (topic,) = cli("snapshot", *cluster).json["topics"]
    assert (topic["config"], topic["inherited"]) == ({KEY: "2"}, [KEY])
    checked = cli("check", *cluster, "-o", "json").json["topics"]
    assert [(one["minInsyncReplicas"], one["inherited"]) for one in checked] == [(2, True)]
    assert cli("what-if", *cluster, "--lose", "/c", "-o", "json").json["losses"][0]["notWritable"] == 0
    kafka.stop_broker(2)
    until(lambda: seen(kafka, "plain").isrs == [0, 1], "two replicas in sync")
    assert seen(kafka, "plain").leader == 0
    assert written(kafka, "plain"), "the broker with 3 in its properties refuses a write with two replicas in sync"

    change = ("ConfigCommand", "--alter", "--entity-type", "brokers", "--add-config", f"{KEY}=1")
    with pytest.raises(KafkaToolError, match=f"Broker-level {KEY} cannot be altered while ELR is enabled"):
        kafka.tool(*change, "--entity-name", "0")
    kafka.tool(*change, "--entity-default")
    kafka.start_broker(2)
    until(lambda: told(kafka) == {1}, "the cluster's new default")


def test_check_names_a_crashed_broker_and_after_its_restart_the_one_with_all_writes(own_kafka):
    """Kafka detects a crash when the broker restarts, removes it from the ELR and waits for one with all writes."""
    kafka = without_leader(own_kafka, KafkaCluster.kill_broker)
    until(lambda: named(kafka) == [(1, SEVERAL)], "both to be named")
    kafka.start_broker(1)
    until(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 1 to be off the ELR")
    kafka.start_broker(2)
    until(lambda: seen(kafka).leader == 2, "broker 2 to lead")


def test_check_ignores_earlier_eligible_leaders_after_an_unclean_election(own_kafka):
    kafka = without_leader(own_kafka, KafkaCluster.kill_broker)
    kafka.start_broker(1)
    until(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 1 to be off the ELR")
    kafka.tool("LeaderElectionCommand", "--election-type", "unclean", "--topic", "orders", "--partition", "0")
    until(lambda: seen(kafka).leader == 1, "broker 1 to lead without the write")
    until(lambda: named(kafka) == [], "a leader to be seen")
    until(lambda: named(kafka, LAGS) == [(2, "bring back broker 2, or reduce its load")], "broker 2 to lag")
    (topic,) = cli("snapshot", "--bootstrap-server", kafka.bootstrap()).json["topics"]
    assert "elr" not in topic["partitions"][0]
    kafka.start_broker(2)
    until(lambda: sorted(seen(kafka).isrs) == [1, 2], "broker 2 to follow")
    until(lambda: named(kafka, LAGS) == [], "both to be in sync")


def test_check_uses_the_current_elr_after_the_elr_feature_is_turned_off_and_on(own_kafka):
    """Brokers in the ELR stay in it when the feature is turned off, and may become leader."""
    kafka = without_leader(own_kafka, KafkaCluster.stop_broker)
    until(lambda: named(kafka) == [(1, SEVERAL)], "both to be named")
    kafka.tool("FeatureCommand", "downgrade", "--feature", f"{FEATURE}=0")
    assert named(kafka) == [(1, SEVERAL)]
    kafka.start_broker(2)
    until(lambda: seen(kafka).leader == 2, "another of the ELR to lead")
    until(lambda: named(kafka) == [], "a leader to be seen")
    kafka.stop_broker(2)
    until(lambda: seen(kafka).leader == -1, "no leader again")
    until(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 2 to be named")
    kafka.tool("FeatureCommand", "upgrade", "--feature", f"{FEATURE}=1")
    assert named(kafka) == [(2, ONLY.format(2))]
    kafka.start_broker(2)
    until(lambda: seen(kafka).leader == 2, "the last of the ISR to lead")
    kafka.start_broker(1)
    until(lambda: sorted(seen(kafka).isrs) == [1, 2], "both to be in sync")
    assert written(kafka, "orders")


def without_leader(kafka, end):
    """Create a partition with an acknowledged write on brokers 1 and 2 of three. Stop 2, then end 1 with `end`."""
    create(kafka, "orders", [1, 2], **{KEY: "2"})
    assert written(kafka, "orders")
    kafka.stop_broker(2)
    until(lambda: seen(kafka).isrs == [1], "broker 2 to be out of sync")
    end(kafka, 1)
    until(lambda: seen(kafka).leader == -1, "no leader")
    return kafka


def seen(kafka, topic="orders"):
    """Return the first partition of the topic, as broker 0 knows it."""
    return until(lambda: kafka.known_to(0).topics[topic].partitions[0], f"broker 0 to show {topic}")


def named(kafka, rule="Offline"):
    """Return the broker and the fix of each finding of the rule."""
    findings = cli("check", "--bootstrap-server", kafka.bootstrap(), "-o", "json").json["findings"]
    return [(one["broker"], one["fix"]) for one in findings if one["rule"] == rule]
