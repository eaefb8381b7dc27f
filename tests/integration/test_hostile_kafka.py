"""An operator process with one regular Kafka and one that sends invalid responses."""

import pytest
from tests.support.hostile_kafka import NOT_UTF8, HostileKafka, spoiling
from tests.support.objects import Objects, message
from tests.support.waiting import until

ATTACKS = {
    "null-cluster-id": spoiling("Metadata", "cluster_id", None),
    "rack-not-utf8": spoiling("Metadata", "brokers.rack", NOT_UTF8),
    "topic-not-utf8": spoiling("Metadata", "topics.name", NOT_UTF8),
    "null-config": spoiling("DescribeConfigs", "results.configs.name", None),
}


@pytest.fixture
def tenant(api_client, namespace_factory):
    return Objects(api_client, namespace_factory())


def only(*places):
    """Return the flags of an operator that starts no Kafka clients for what other tests leave behind."""
    return [f"--namespace={place.namespace}" for place in places]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_response_that_crashes_the_client_fails_only_its_own_topology(
    attack, operator_factory, objects, tenant, kafka, broker_sites
):
    operator = operator_factory(*only(objects, tenant), trusted=objects.namespace)
    pid = operator.pid
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    with HostileKafka(attack, racks=("/eu/a/1", "/eu/b/1", "/eu/c/1")) as hostile:
        tenant.create_topology(hostile.address, rackSource="Broker", brokers=None)
        stalled = tenant.until_topology("Ready", "False", "KafkaClientFailed")
        assert "the Kafka client" in message(stalled)

        def failures() -> float:
            return operator.metric("rackspan_errors_total", topology=f"{tenant.namespace}/kafka")

        seen = failures()
        until(lambda: failures() > seen, "another try of the tenant's")
        objects.create_topic("orders", partitions=3, replicationFactor=3)
        objects.until_condition("KafkaTopic", "orders", "Ready", "True")
        assert operator.metric("rackspan_kafka_client_failures_total", boundary="") == 0
        assert operator.get("/healthz")[0] == 200
        assert operator.pid == pid
        hostile.mutate = lambda answer: answer
        tenant.until_topology()


def test_null_cluster_id_in_a_trusted_namespace_crashes_the_shared_client_only_once(
    operator_factory, objects, tenant, kafka, broker_sites
):
    operator = operator_factory(*only(objects, tenant))
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    with HostileKafka(ATTACKS["null-cluster-id"]) as hostile:
        tenant.create_topology(hostile.address, rackSource="Broker", brokers=None)
        tenant.until_topology("Ready", "False", "KafkaClientFailed")
        own = f"{tenant.namespace}/kafka"
        until(
            lambda: operator.metric("rackspan_kafka_client_failures_total", boundary=own) >= 2,
            "the topology to fail in a process of its own",
        )
        assert operator.metric("rackspan_kafka_client_failures_total", boundary="") == 1
        objects.create_topic("orders", partitions=3, replicationFactor=3)
        objects.until_condition("KafkaTopic", "orders", "Ready", "True")
