"""Outages of Kafka or of one broker: known facts stay in statuses, new topics wait, and no manual restart is needed."""

import threading
import time

import pytest
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.nodes import create_broker_pod, delete_broker_pod, sites
from kubernetes import client
from tests.support.alerting import lasting, refuted
from tests.support.command import cli
from tests.support.moves import LEVELS, ask, under_way
from tests.support.objects import broker_pods, condition, message
from tests.support.operators import samples_of
from tests.support.topics import Topics, create, until_missed
from tests.support.waiting import until

from rackspan.core.reassignment import TopicPartition

STALL_SECONDS = 3
"""Clients wait four seconds for a broker that has answered before."""
FOUR = sites("/eu/eu-1a/r1", "/eu/eu-1b/r1", "/us/us-1a/r1", "/us/us-1b/r1")


@pytest.fixture(scope="module")
def own_kafka(processes, kafka_distribution):
    """Four brokers in four zones that the tests of this module may stop."""
    racks = {site.broker: site.path for site in FOUR}
    cluster = KafkaCluster.start(processes.directory / "faulty-kafka", processes, kafka_distribution, racks)
    yield cluster
    cluster.destroy()


@pytest.fixture
def four_sites(api_client, namespace):
    with broker_pods(client.CoreV1Api(api_client), namespace, FOUR):
        yield


@pytest.fixture
def longest_stall():
    """A function that returns for how many seconds at most the machine has let this process wait during the test."""
    ended, longest = threading.Event(), 0.0

    def measure():
        nonlocal longest
        while not ended.is_set():
            began = time.monotonic()
            ended.wait(0.2)
            longest = max(longest, time.monotonic() - began)

    thread = threading.Thread(target=measure)
    thread.start()
    yield lambda: longest
    ended.set()
    thread.join()


def _online(topology):
    return [broker["id"] for broker in topology["status"]["brokers"] if broker.get("online")]


def _is_told(objects, operator, kubectl, promtool):
    """Check that conditions, status, kubectl columns, metrics and alerts report that broker 3 is offline."""
    topology, label = objects.topology(), f"{objects.namespace}/kafka"
    found = condition(topology, "BrokersOnline")
    assert (found["status"], found["reason"]) == ("False", "BrokerOffline")
    assert "3 of 4 brokers online (broker 3 offline)" in found["message"]
    assert topology["status"]["offline"] == {"count": 1, "brokers": [3]}
    assert condition(topology, "Ready")["reason"] == "BrokerOffline"
    heads, row = kubectl("get", "racktopology", "kafka", f"--namespace={objects.namespace}").splitlines()
    assert "OFFLINE" in heads
    assert "BrokerOffline" in row
    until(lambda: operator.metric("rackspan_brokers", topology=label, state="offline") == 1, "the metric")
    found = samples_of(operator, label)
    assert refuted(promtool, lasting(found, 30, *found), {30: ["RackspanBrokerOffline"]}) == ""


def _is_told_by_the_command_line(kafka, topic):
    """Check that `check` reports broker 3, and `plan` moves its replica of the second partition only with a drain."""
    cluster = ("--bootstrap-server", kafka.bootstrap(), *LEVELS, "--topic", topic)
    checked = cli("check", *cluster, "-o", "json")
    assert checked.code == 1
    assert "warning: broker 3 holds replicas and did not answer" in checked.err
    told = [(one["partition"], one["rule"], one["broker"], one["excess"]) for one in checked.json["findings"]]
    assert told == [(None, "BrokerOffline", 3, 1)]
    refused = cli("plan", *cluster)
    assert (refused.code, refused.out) == (2, "")
    assert "error: broker 3 holds replicas and did not answer\nhint: wait until it is back, or pass" in refused.err
    planned = cli("plan", *cluster, "--drain-broker", 3, "-o", "json")
    assert planned.code == 0
    assert [(one["partition"], sorted(one["replicas"])) for one in planned.json["partitions"]] == [(1, [1, 2])]


def _topologies(objects, kafka):
    """Create so many topologies of one cluster that some clients send requests to broker 3. Return the names."""
    names = [f"kafka-{number}" for number in range(8)]
    for name in names:
        objects.create_topology(kafka.bootstrap(), name, rackSource="Broker")
    for name in names:
        objects.until_topology(name=name)
    return names


@pytest.mark.parametrize("source", ["Nodes", "Broker"])
def test_stopped_broker_is_reported_offline_and_gets_no_new_replicas(
    source, objects, own_kafka, four_sites, operator, promise, promtool, kubectl
):
    objects.create_topology(own_kafka.bootstrap(), rackSource=source)
    objects.create_topic("before", replicationFactor=4)
    objects.create_topic("led", replicationFactor=4, partitions=4, placement={"leaders": ["/us"]})
    before, led = objects.until_complete("before"), objects.until_complete("led")
    objects.until_topology("BrokersOnline")
    unmanaged = objects.kafka_name("unmanaged")
    create(own_kafka, (unmanaged, [[0, 2], [1, 3]]))

    own_kafka.stop_broker(3)
    try:
        objects.until("RackTopology", "kafka", lambda obj: _online(obj) == [0, 1, 2], "to miss broker 3")
        until_missed(own_kafka, 3)  # a broker that another broker still lists has no rack without its pod
        delete_broker_pod(client.CoreV1Api(objects.api), objects.namespace, FOUR[3].pod)  # like a drain of its node
        operator.after_passes(1, objects.label)
        told = objects.topology()
        away = next(broker for broker in told["status"]["brokers"] if broker["id"] == 3)
        assert away["rack"] == FOUR[3].path, "the rack of the offline broker is lost"
        assert condition(told, "Ready")["status"] == "True", "the topology is not ready because of an offline broker"
        objects.create_topic("after")
        objects.until_ready("after")
        now_there = Topics(own_kafka.admin()).replicas(objects.kafka_name("after"))
        assert {broker for row in now_there for broker in row} == {0, 1, 2}
        now = objects.topic("before")
        assert now["status"] == before["status"], "the status of an existing topic has changed"
        operator.after_passes(2, objects.label)
        assert objects.topic("led")["status"] == led["status"], (
            "the status of a topic with an offline preferred leader has changed"
        )
        _is_told(objects, operator, kubectl, promtool)
        _is_told_by_the_command_line(own_kafka, unmanaged)
        objects.create_topic("too-many", replicationFactor=4)
        promise.kept_by(objects.until_stalled("too-many", "Infeasible"))
    finally:
        own_kafka.start_broker(3)
        create_broker_pod(
            client.CoreV1Api(objects.api), objects.namespace, FOUR[3].pod, f"{objects.namespace}-{FOUR[3].node}"
        )
    objects.until("RackTopology", "kafka", lambda obj: _online(obj) == [0, 1, 2, 3], "to see broker 3 again")
    objects.until_ready("too-many")


def test_lost_node_stalls_topology_until_kafka_removes_its_broker(objects, own_kafka, four_sites, operator, promise):
    """The pod may be deleted seconds before Kafka removes the broker."""
    core = client.CoreV1Api(objects.api)
    objects.create_topology(own_kafka.bootstrap())
    objects.create_topic("before", replicationFactor=4)
    before = objects.until_ready("before")
    delete_broker_pod(core, objects.namespace, FOUR[3].pod)
    promise.kept_by(objects.until_topology("Stalled", "True", "MissingRacks"))
    own_kafka.kill_broker(3)
    try:
        told = objects.until("RackTopology", "kafka", lambda obj: _online(obj) == [0, 1, 2], "to miss broker 3")
        away = next(broker for broker in told["status"]["brokers"] if broker["id"] == 3)
        assert away["rack"] == FOUR[3].path, "the rack of the offline broker is lost"
        objects.until_topology()
        objects.create_topic("after")
        objects.until_ready("after")
        assert objects.until_ready("before")["status"]["placement"] == before["status"]["placement"]
    finally:
        own_kafka.start_broker(3)
        create_broker_pod(core, objects.namespace, FOUR[3].pod, f"{objects.namespace}-{FOUR[3].node}")
    objects.until("RackTopology", "kafka", lambda obj: _online(obj) == [0, 1, 2, 3], "to see broker 3 again")


def test_topic_stays_compliant_while_another_client_adds_a_replica_on_a_dead_broker(
    objects, own_kafka, four_sites, operator
):
    """The topic complies with its spec, and the operator plans nothing."""
    objects.create_topology(own_kafka.bootstrap())
    objects.until_topology()
    objects.create_topic("orders", partitions=1, replicationFactor=2)
    objects.until_ready("orders")
    name = objects.kafka_name("orders")
    (before,) = Topics(own_kafka.admin()).replicas(name)
    target = next(broker for broker in range(1, 4) if broker not in before)
    asked = {TopicPartition(name, 0): (*before, target)}
    own_kafka.kill_broker(target)
    try:
        objects.until_topology("BrokersOnline", "False")
        assert set(ask(own_kafka, lambda admin: admin.alter(asked)).values()) == {None}
        until(lambda: len(under_way(own_kafka, name)) == 1, "a reassignment")
        objects.change_topic("orders", config={"retention.ms": "1000000"})
        found = objects.until_ready("orders")
        assert condition(found, "Compliant")["status"] == "True"
        operator.after_passes(3, objects.label)
        objects.until_ready("orders")  # a read of the dead broker may fail once
        objects.until_topology("Reassigned")
    finally:
        own_kafka.start_broker(target)
    until(lambda: not under_way(own_kafka, name), "the reassignment to be complete")
    objects.change_topic("orders", config={"retention.ms": "2000000"})
    objects.until_condition("KafkaTopic", "orders", "Ready", "False")
    objects.until_condition("RackTopology", "kafka", "Reassigned", "False")  # the topic has one replica too many now


def _is_named_by_the_command_line(kafka, name):
    """Check that `check` and `scan` name broker 1 for a partition of brokers 1 to 3, stopped in the order 3, 2, 1.

    The ISR and ELR show who has all writes. Kafka 4.1 and later keep the eligible leaders in the ELR only (KIP-966).
    """
    cluster = ("--bootstrap-server", kafka.bootstrap())
    checked = cli("check", *cluster, "--topic", name, "-o", "json").json["findings"]
    (offline,) = (one for one in checked if one["rule"] == "Offline")
    assert (offline["broker"], offline["fix"]) == (
        1,
        "bring back broker 1, or another of its ISR or ELR: those that stopped cleanly have all committed writes",
    )
    scanned = cli("scan", *cluster, "--engine", "local", "-o", "json").json["findings"]
    assert [one["broker"] for one in scanned if (one["rule"], one["topic"]) == ("Offline", name)] == [1]
    kept = next(one for one in cli("snapshot", *cluster).json["topics"] if one["name"] == name)
    assert (kept["partitions"][0]["isr"], sorted(kept["partitions"][0]["elr"])) == ([], [1, 2])


def test_min_insync_replicas_stay_unchanged_while_a_partition_has_no_leader(objects, own_kafka, operator):
    """A change of min.insync.replicas empties the ELR (KIP-966): then no broker can become leader without data loss."""
    objects.create_topology(own_kafka.bootstrap(), rackSource="Broker")
    placement, config = {"assignment": [[1, 2, 3]]}, {"min.insync.replicas": "2"}
    objects.create_topic("orders", partitions=1, replicationFactor=3, placement=placement, config=config)
    objects.until_ready("orders")
    name = objects.kafka_name("orders")

    def seen():
        return until(lambda: own_kafka.known_to(0).topics[name].partitions[0], "broker 0 to show the partition")

    def config():  # a client that knows the stopped brokers may try them for a long time
        return until(lambda: Topics(own_kafka.admin()).config(name), "a broker that is there to answer")

    for broker in (3, 2, 1):
        own_kafka.stop_broker(broker)
        until(lambda gone=broker: gone not in seen().isrs and seen().leader != gone, f"broker {broker} not to lead")
    try:
        _is_named_by_the_command_line(own_kafka, name)
        objects.change_topic("orders", config={"min.insync.replicas": "1", "retention.ms": "1000000"})
        held = objects.until_not_ready("orders", "MinInsyncHeld")
        assert "while 1 partition of topic" in message(held, "Ready")
        until(lambda: config()["retention.ms"] == "1000000", "what does no harm to be set")
        operator.after_passes(3, objects.label)
        assert config()["min.insync.replicas"] == "2"
        own_kafka.start_broker(3)
        assert seen().leader == -1, "broker 3 leads although it may lack writes"
        own_kafka.start_broker(2)
        until(lambda: seen().leader == 2, "broker 2 to lead: it had all committed writes")
        objects.until_ready("orders")
        assert config()["min.insync.replicas"] == "1"
    finally:
        own_kafka.resume()
    until(lambda: len(seen().isrs) == 3, "all replicas to be in sync")


def test_topologies_stay_connected_while_one_broker_is_down(objects, own_kafka, operator, longest_stall):
    """A client sends requests to the broker in its metadata as controller, even if that broker is down."""
    names = _topologies(objects, own_kafka)
    own_kafka.stop_broker(3)
    try:
        for name in names:
            objects.until("RackTopology", name, lambda obj: _online(obj) == [0, 1, 2], "to miss broker 3")
            objects.create_topic(f"on-{name}", topologyRef={"name": name})
        for name in names:
            objects.until_ready(f"on-{name}")
            assert condition(objects.topology(name), "Connected")["status"] == "True"
    finally:
        own_kafka.start_broker(3)
    _nothing_is_said_of_topologies(operator, objects, longest_stall)


def _nothing_is_said_of_topologies(operator, objects, longest_stall):
    """Check that the log has only new connections of the topologies of a test, unless the whole machine stood still."""
    told = [line["message"] for line in operator.log if f"topology {objects.namespace}/" in line["message"]]
    assert longest_stall() > STALL_SECONDS or [line for line in told if "connected to" not in line] == []


def test_topologies_report_a_hanging_broker_as_offline_and_create_topics_without_it(
    objects, own_kafka, operator, longest_stall
):
    """A client that sends a request to the hanging broker waits only for a short time and then uses another broker."""
    names = _topologies(objects, own_kafka)
    own_kafka.freeze_broker(3)
    try:
        for name in names:  # Kafka takes nine seconds to notice
            objects.until("RackTopology", name, lambda obj: _online(obj) == [0, 1, 2], "to miss broker 3")
        for name in names:
            objects.until_topology(name=name)
            objects.create_topic(f"on-{name}", topologyRef={"name": name})
        for name in names:
            objects.until_ready(f"on-{name}")
    finally:
        own_kafka.thaw_broker(3)
    _nothing_is_said_of_topologies(operator, objects, longest_stall)
    for name in names:
        objects.until("RackTopology", name, lambda obj: _online(obj) == [0, 1, 2, 3], "to see broker 3")


def _nobody_is_there(topology):
    """Return whether no broker can be reached. While brokers stop one by one, other messages may come before."""
    lost = condition(topology, "Connected")["status"] == "False" and condition(topology, "Reconciling") is not None
    return lost and message(topology, "Reconciling").endswith("Connection refused")


def test_kafka_outage_keeps_last_known_facts_and_topics_recover_after_it(
    objects, own_kafka, four_sites, operator, promise
):
    objects.create_topology(own_kafka.bootstrap())
    objects.create_topic("before")
    before = objects.until_complete("before")
    known = objects.until_topology()["status"]
    try:
        own_kafka.stop()
        told = objects.until("RackTopology", "kafka", _nobody_is_there, "to say that nobody is there")
        promise.kept_by(told, "Reconciling")
        # Brokers stop one by one: the operator may have seen some of them offline before it reached none.
        assert told["status"]["clusterId"] == known["clusterId"], "the status lost the cluster id"
        assert [broker["rack"] for broker in told["status"]["brokers"]] == [one["rack"] for one in known["brokers"]]
        objects.create_topic("while-down")
        waiting = objects.until_not_ready("while-down", "TopologyNotReady")
        assert condition(waiting, "Reconciling")["status"] == "True"
        assert condition(waiting, "Stalled") is None, "the topic is stalled during the outage"
        assert operator.get("/healthz")[0] == 200, "the liveness probe fails although a restart cannot help"

        operator.stop()  # within the termination grace period of Kubernetes
        operator.start()
        pid = operator.pid
        objects.create_topic("while-down-at-start")
        objects.until_not_ready("while-down-at-start", "TopologyNotReady")
        assert objects.topic("before")["status"] == before["status"], "the status changed although Kafka is unreachable"
        assert objects.topology()["status"]["brokers"] == told["status"]["brokers"], "the restart changed the brokers"
    finally:
        own_kafka.resume()
    own_topics = Topics(own_kafka.admin())
    for name in ("before", "while-down", "while-down-at-start"):
        ready = objects.until_ready(name)
        until(lambda name=name: own_topics.exists(objects.kafka_name(name)), f"topic {name} to be there")
        assert condition(ready, "Reconciling") is None, f"topic {name} is Ready and Reconciling"
    assert objects.topic("before")["status"]["topicId"] == before["status"]["topicId"]
    objects.until_topology()
    assert operator.pid == pid
