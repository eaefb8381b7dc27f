"""Alerts on the metrics of the operator report an unreachable Kafka."""

from dev.stack.nodes import SIX_BROKERS
from tests.support.alerting import lasting, refuted
from tests.support.operators import samples_of
from tests.support.waiting import until

NOBODY = "127.0.0.1:1"
CONNECTED = "rackspan_topology_connected"
LAST_PASS = "rackspan_last_successful_pass_timestamp_seconds"


def by_state(operator, name, label):
    return {dict(labels)["state"]: value for labels, value in samples_of(operator, label).get(name, {}).items()}


def until_disconnected(operator, label):
    until(lambda: list(samples_of(operator, label).get(CONNECTED, {}).values()) == [0], "no connection to be told")


def test_connected_topology_that_loses_kafka_raises_an_alert(topology, operator, promtool):
    label = f"{topology.namespace}/kafka"
    topology.create_topic("orders")
    topology.until_ready("orders")
    until(lambda: by_state(operator, "rackspan_topics", label).get("ready") == 1, "the topic to be counted")
    well = samples_of(operator, label)
    assert list(well[CONNECTED].values()) == [1]
    assert by_state(operator, "rackspan_brokers", label) == {"online": len(SIX_BROKERS), "offline": 0, "unknown": 0}
    assert refuted(promtool, lasting(well, 30, *well), {30: ()}) == ""

    topology.change_topology(kafka={"bootstrapServers": NOBODY})
    until_disconnected(operator, label)
    until(lambda: by_state(operator, "rackspan_topics", label).get("unknown") == 1, "the topic to be unknown")
    lost = samples_of(operator, label)
    assert by_state(operator, "rackspan_brokers", label) == {"online": 0, "offline": 0, "unknown": len(SIX_BROKERS)}
    failures = operator.metric("rackspan_errors_total", topology=label, reason="KafkaUnreachable")
    until(
        lambda: operator.metric("rackspan_errors_total", topology=label, reason="KafkaUnreachable") > failures,
        "another look to fail",
    )
    assert samples_of(operator, label)[LAST_PASS] == lost[LAST_PASS], "a pass succeeded without Kafka"
    assert refuted(promtool, lasting(lost, 30, *lost), {4: (), 30: ["RackspanKafkaUnreachable"]}) == ""


def test_topology_that_never_connected_raises_an_alert(objects, operator, promtool):
    label = f"{objects.namespace}/kafka"
    objects.create_topology(NOBODY)
    until_disconnected(operator, label)
    found = samples_of(operator, label)
    assert found.get(LAST_PASS, {}) == {}
    assert refuted(promtool, lasting(found, 30, *found), {30: ["RackspanKafkaUnreachable"]}) == ""
