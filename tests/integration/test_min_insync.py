"""`min.insync.replicas` and eligible leader replicas (KIP-966) on real brokers, as `tests/property` has them."""

import asyncio

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic, ResourceType
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.kafka_distribution import KafkaToolError
from dev.waiting import eventually
from tests.support.command import cli

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
    """Three brokers that a test may stop and kill: all run when it begins, and there is no topic."""
    yield _own_kafka
    _own_kafka.resume()
    admin = _own_kafka.admin()
    for answer in admin.delete_topics(list(admin.list_topics(timeout=300).topics)).values():
        answer.result(120)
    eventually(lambda: not any(_own_kafka.known_to(broker).topics for broker in _own_kafka.racks), "no topic")


def create(kafka, name, replicas, **config):
    admin = kafka.admin()
    admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas], config=config)])[name].result(120)
    eventually(lambda: all(name in kafka.known_to(broker).topics for broker in kafka.racks), f"topic {name}")


def written(kafka, topic):
    producer = Producer({**kafka.client_config(), "acks": "all", "message.timeout.ms": 60_000})
    producer.produce(topic, b"kept")
    return producer.flush(90) == 0


def told(kafka):
    """The default by each broker, by all, and of a topic that inherits it."""

    async def asked():
        admin = ConfluentAdmin({"bootstrap.servers": kafka.bootstrap()})
        try:
            defaults = [await admin.default_min_insync(brokers) for brokers in ([0], [1], [2], [0, 1, 2])]
            return {*defaults, (await admin.configs(["plain"]))["plain"].min_insync}
        finally:
            await admin.close()

    return asyncio.run(asked())


def test_what_a_broker_has_in_its_own_properties_is_used_nowhere(own_kafka):
    """The controller's value becomes the cluster's when the cluster is made, and comes before those of brokers."""
    kafka = own_kafka  # the first test of this module: a later one finds the cluster's own value
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
    eventually(lambda: kafka.known_to(0).topics["plain"].partitions[0].isrs == [0, 1], "two replicas in sync")
    assert kafka.known_to(0).topics["plain"].partitions[0].leader == 0
    assert written(kafka, "plain"), "the broker that has 3 in its properties takes it with two in sync"

    change = ("ConfigCommand", "--alter", "--entity-type", "brokers", "--add-config", f"{KEY}=1")
    with pytest.raises(KafkaToolError, match=f"Broker-level {KEY} cannot be altered while ELR is enabled"):
        kafka.tool(*change, "--entity-name", "0")
    kafka.tool(*change, "--entity-default")
    kafka.start_broker(2)
    eventually(lambda: told(kafka) == {1}, "the cluster's new default")


def test_a_broker_that_crashed_is_named_and_after_it_the_one_that_has_the_write(own_kafka):
    """Kafka finds out about a crash when the broker is back, takes it off the ELR, and waits for one that has all."""
    kafka = without_leader(own_kafka, KafkaCluster.kill_broker)
    eventually(lambda: named(kafka) == [(1, SEVERAL)], "both to be named")
    kafka.start_broker(1)
    eventually(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 1 to be off the ELR")
    kafka.start_broker(2)
    eventually(lambda: seen(kafka).leader == 2, "broker 2 to lead")


def test_after_an_unclean_election_nothing_relies_on_the_eligible_leaders_of_before(own_kafka):
    kafka = without_leader(own_kafka, KafkaCluster.kill_broker)
    kafka.start_broker(1)
    eventually(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 1 to be off the ELR")
    kafka.tool("LeaderElectionCommand", "--election-type", "unclean", "--topic", "orders", "--partition", "0")
    eventually(lambda: seen(kafka).leader == 1, "broker 1 to lead without the write")
    eventually(lambda: named(kafka) == [], "a leader to be seen")
    eventually(lambda: named(kafka, LAGS) == [(2, "bring back broker 2, or reduce its load")], "broker 2 to lag")
    (topic,) = cli("snapshot", "--bootstrap-server", kafka.bootstrap()).json["topics"]
    assert "elr" not in topic["partitions"][0]
    kafka.start_broker(2)
    eventually(lambda: sorted(seen(kafka).isrs) == [1, 2], "broker 2 to follow")
    eventually(lambda: named(kafka, LAGS) == [], "both to be in sync")


def test_a_cluster_that_turns_eligible_leaders_off_and_on_is_judged_by_what_it_has(own_kafka):
    """What is on the list when they are turned off stays on it, and may lead."""
    kafka = without_leader(own_kafka, KafkaCluster.stop_broker)
    eventually(lambda: named(kafka) == [(1, SEVERAL)], "both to be named")
    kafka.tool("FeatureCommand", "downgrade", "--feature", f"{FEATURE}=0")
    assert named(kafka) == [(1, SEVERAL)]
    kafka.start_broker(2)
    eventually(lambda: seen(kafka).leader == 2, "another of the ELR to lead")
    eventually(lambda: named(kafka) == [], "a leader to be seen")
    kafka.stop_broker(2)
    eventually(lambda: seen(kafka).leader == -1, "no leader again")
    eventually(lambda: named(kafka) == [(2, ONLY.format(2))], "broker 2 to be named")
    kafka.tool("FeatureCommand", "upgrade", "--feature", f"{FEATURE}=1")
    assert named(kafka) == [(2, ONLY.format(2))]
    kafka.start_broker(2)
    eventually(lambda: seen(kafka).leader == 2, "the last of the ISR to lead")
    kafka.start_broker(1)
    eventually(lambda: sorted(seen(kafka).isrs) == [1, 2], "both to be in sync")
    assert written(kafka, "orders")


def without_leader(kafka, end):
    """A partition with an acknowledged write, on brokers 1 and 2 of three: 2 was stopped, and then 1 by `end`."""
    create(kafka, "orders", [1, 2], **{KEY: "2"})
    assert written(kafka, "orders")
    kafka.stop_broker(2)
    eventually(lambda: seen(kafka).isrs == [1], "broker 2 to be out of sync")
    end(kafka, 1)
    eventually(lambda: seen(kafka).leader == -1, "no leader")
    return kafka


def seen(kafka):
    return kafka.known_to(0).topics["orders"].partitions[0]


def named(kafka, rule="Offline"):
    """The broker of each finding, and what would fix it."""
    findings = cli("check", "--bootstrap-server", kafka.bootstrap(), "-o", "json").json["findings"]
    return [(one["broker"], one["fix"]) for one in findings if one["rule"] == rule]
