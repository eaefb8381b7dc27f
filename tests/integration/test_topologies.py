"""A RackTopology follows the labels of nodes, and its topics follow the RackTopology."""

import pytest
from dev.stack.nodes import LEVELS, RACK_LABEL, ZONE_LABEL, relabel_node
from kubernetes import client
from tests.support.objects import a_second_after, condition, message, rack_tree, reasons
from tests.support.waiting import until

from rackspan.core.placement import ClusterView, PlacementSpec, seed_for
from rackspan.core.placement.multilevel import MultiLevel


@pytest.fixture
def relabel(api_client, namespace):
    """A function that changes labels of the node of a broker: `relabel(2, {ZONE_LABEL: "eu-1a"})`."""
    core = client.CoreV1Api(api_client)
    return lambda broker, labels: relabel_node(core, f"{namespace}-node-{broker}", labels)


def brokers(topology):
    return {broker["id"]: broker for broker in topology["status"]["brokers"]}


def test_status_reports_the_nodes_and_racks_of_brokers(topology, kafka, namespace):
    found = topology.until_topology()
    status = found["status"]
    assert status["clusterId"] == kafka.cluster_id
    assert status["brokerCount"] == 6
    assert status["domains"] == [
        {"level": "region", "count": 2},
        {"level": "zone", "count": 3},
        {"level": "rack", "count": 5},
    ]
    assert brokers(found)[4] == {
        "id": 4,
        "host": kafka.bootstrap().split(",")[4],
        "pod": "kafka-4",
        "node": f"{namespace}-node-4",
        "rack": "/us/us-1a/r2",
        "reportedRack": "/us/us-1a/r2",
        "online": True,
        "drift": False,
    }
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    # Reassigned appears after the operator has evaluated all topics.
    assert conditions.keys() - {"Reassigned"} == {"Ready", "Connected", "RacksInSync", "BrokersOnline"}
    assert set(conditions.values()) == {"True"}


def test_status_counts_topics_by_state(topology, topics):
    topology.create_topic("good")
    topology.create_topic("impossible", replicationFactor=7)
    topics.create(topology.kafka_name("crowded"), [[0, 1, 2]])
    topology.create_topic("crowded", partitions=1)
    wanted = {"total": 3, "ready": 1, "nonCompliant": 1, "stalled": 2, "pinned": 0}
    topology.until("RackTopology", "kafka", lambda found: found["status"].get("topics") == wanted, f"to count {wanted}")


def test_relabelled_node_is_reported_as_rack_drift_until_its_label_is_restored(topology, topics, relabel):
    topology.create_topic("orders", partitions=2, replicationFactor=2, placement={"brokers": {"include": ["0", "3"]}})
    topology.until_ready("orders")
    before = topics.replicas(topology.kafka_name("orders"))
    relabel(3, {LEVELS["region"]: "eu", ZONE_LABEL: "eu-1c"})
    found = topology.until_topology("RacksInSync", "False", "RackDrift")
    assert brokers(found)[3]["rack"] == "/eu/eu-1c/r1"
    assert brokers(found)[3]["reportedRack"] == "/us/us-1a/r1"
    assert brokers(found)[3]["drift"] is True
    assert found["status"]["drift"] == {"count": 1, "brokers": [3]}
    assert "broker 3 reports /us/us-1a/r1 and runs in /eu/eu-1c/r1" in message(found, "RacksInSync")
    assert condition(found, "Ready")["status"] == "True", (
        "the topology is not ready because of drift, which is only a warning"
    )
    domains = topology.until("KafkaTopic", "orders", lambda topic: "/us" not in str(topic["status"]["placement"]))
    assert {item["domain"]: item["replicas"] for item in domains["status"]["placement"]["domains"]}["/eu"] == 4
    relabel(3, {LEVELS["region"]: "us", ZONE_LABEL: "us-1a"})
    topology.until_topology("RacksInSync", "True")
    topology.until("KafkaTopic", "orders", lambda topic: "/us" in str(topic["status"]["placement"]))
    assert topics.replicas(topology.kafka_name("orders")) == before
    until(lambda: {"RackDrift", "RacksInSync"} <= set(reasons(topology.events("kafka"))), "the Events")


def test_relabelled_nodes_make_topics_non_compliant_without_moving_replicas(topology, topics, relabel):
    # Other tests use this Kafka. With these lists, one plan is possible, whatever replicas a broker has: 3 and 4 to 5.
    before = ((0, 2, 3), (2, 3, 0), (0, 2, 4), (2, 4, 0))
    topics.create(topology.kafka_name("orders"), before)
    topology.create_topic("orders", partitions=4)
    topology.until_ready("orders")
    for broker in (3, 4):
        relabel(broker, {LEVELS["region"]: "eu", ZONE_LABEL: "eu-1c", RACK_LABEL: "r1"})
    topology.until_not_ready("orders", "PlanPending")

    def planned(found):  # the plan changes when the operator sees the second label
        compliance, plan = found["status"]["compliance"], found["status"].get("plan") or {}
        return plan.get("moves") == plan.get("lowerBound") == compliance["moves"] == compliance["nonCompliant"] == 4

    topic = topology.until("KafkaTopic", "orders", planned, "to have a plan for both labels")
    assert condition(topic, "Compliant")["status"] == "False"
    plan = topic["status"]["plan"]
    assert condition(topic, "Ready")["reason"] == "PlanPending"
    assert message(topic).startswith(f"plan {plan['hash']} copies {plan['moves']} replica")
    drifted = {"count": 1, "samples": [f"{topology.namespace}/orders"]}
    topology.until("RackTopology", "kafka", lambda found: found["status"]["drift"].get("topics") == drifted)
    told = f"that makes 1 topic not compliant: {topology.namespace}/orders"
    until(lambda: any(told in event.message for event in topology.events("kafka")), f"an Event: {told}")

    def tells_of_the_topics_plan(found):
        plan = topology.topic("orders")["status"]["plan"]
        told = {"topic": f"{topology.namespace}/orders", "hash": plan["hash"], "moves": plan["moves"]}
        return (found["status"].get("plan") or {}).get("samples") == [told]

    topology.until("RackTopology", "kafka", tells_of_the_topics_plan)
    for broker, rack in ((3, "r1"), (4, "r2")):
        relabel(broker, {LEVELS["region"]: "us", ZONE_LABEL: "us-1a", RACK_LABEL: rack})
    topic = topology.until_ready("orders")
    assert topic["status"]["compliance"].get("nonCompliant", 0) == 0
    assert "plan" not in topic["status"]
    assert topics.replicas(topology.kafka_name("orders")) == before


def test_changed_levels_reevaluate_the_compliance_of_topics(topology, topics):
    topics.create(topology.kafka_name("orders"), [[0, 1, 2]])
    topology.create_topic("orders", partitions=1)
    topology.until_not_ready("orders", "PlanPending")
    levels = topology.topology()["spec"]["levels"]
    topology.change_topology(levels=[{"name": "rack", "nodeLabel": RACK_LABEL}])
    topology.until_ready("orders")  # racks r1 and r2: two of three replicas in one rack are compliant
    topology.until("RackTopology", "kafka", lambda found: found["status"]["domainSummary"] == "2 racks")
    topology.change_topology(levels=levels)
    topology.until_not_ready("orders", "PlanPending")


@pytest.mark.parametrize("drain", [{"drainBrokers": [0]}, {"drainRacks": ["/eu/eu-1a/r1"]}], ids=["broker", "rack"])
def test_replicas_on_a_draining_broker_are_reported_and_new_topics_avoid_it(topology, topics, drain):
    topology.create_topic("old", partitions=1, replicationFactor=2, placement={"brokers": {"include": ["0", "3"]}})
    topology.until_ready("old")
    topology.change_topology(**drain)
    topic = topology.until_not_ready("old", "NotCompliant")
    assert topic["status"]["compliance"]["samples"][0]["domain"] == "0"
    assert "broker 0 may not hold it; no plan: replicationFactor 2 needs 2 eligible brokers" in message(topic)
    assert "drain 1 fewer" in message(topic)
    topology.create_topic("new", partitions=6)
    topology.until_ready("new")
    assert all(0 not in row for row in topics.replicas(topology.kafka_name("new")))
    topology.change_topology(drainBrokers=None, drainRacks=None)
    topology.until_ready("old")


# -- allowed namespaces ----------------------------------------------------------------------------------------------


def test_topology_is_open_to_its_own_namespace_and_to_allowed_namespaces(topology, topics, namespace_factory, kubectl):
    own, plain, labelled = topology, namespace_factory(), namespace_factory(team="shop")
    strangers = {name: topology.elsewhere(name) for name in (plain, labelled)}
    own.create_topic("orders")
    own.until_ready("orders")
    for stranger in strangers.values():
        stranger.create_topic("orders")
        topic = stranger.until_stalled("orders", "NamespaceNotAllowed")
        assert f"is not open to namespace {stranger.namespace}" in message(topic)
        assert not topics.exists(stranger.kafka_name("orders"))

    selector = {"matchLabels": {"team": "shop"}}
    topology.change_topology(allowedNamespaces={"from": "Selector", "selector": selector})
    strangers[labelled].until_ready("orders")
    strangers[plain].until_stalled("orders", "NamespaceNotAllowed")

    kubectl("label", "namespace", plain, "team=shop")
    strangers[plain].until_ready("orders")
    kubectl("label", "namespace", plain, "team-")
    strangers[plain].until_stalled("orders", "NamespaceNotAllowed")
    assert topics.exists(strangers[plain].kafka_name("orders")), "the topic was deleted"
    kubectl("label", "namespace", plain, "team=shop")
    strangers[plain].until_ready("orders")

    topology.change_topology(allowedNamespaces={"from": "Same", "selector": None})
    strangers[plain].until_stalled("orders", "NamespaceNotAllowed")
    topology.change_topology(allowedNamespaces={"from": "All"})
    strangers[plain].until_ready("orders")
    own.until_ready("orders")


# -- sources of racks ------------------------------------------------------------------------------------------------


def test_racks_are_read_from_kafka_with_aliases(objects, kafka, topics, operator):
    levels = [{"name": name} for name in LEVELS]
    aliases = {"/us/us-1a/r1": "/asia/asia-1a/r9"}
    objects.create_topology(kafka.bootstrap(), levels=levels, rackSource="Broker", brokers=None, rackAliases=aliases)
    found = objects.until_topology()
    assert {broker: row["rack"] for broker, row in brokers(found).items()} == {
        **{broker: rack for broker, rack in kafka.racks.items() if broker != 3},
        3: "/asia/asia-1a/r9",
    }
    assert brokers(found)[3]["reportedRack"] == "/us/us-1a/r1"
    assert condition(found, "RacksInSync")["status"] == "True", "an alias counts as drift"
    objects.create_topic("orders", partitions=6)
    objects.until_ready("orders")
    regions = {0: "eu", 1: "eu", 2: "eu", 3: "asia", 4: "us", 5: "us"}
    for row in topics.replicas(objects.kafka_name("orders")):
        assert {regions[broker] for broker in row} == {"eu", "asia", "us"}


def test_broker_rack_with_more_steps_than_levels_is_reported(objects, kafka, operator):
    objects.create_topology(kafka.bootstrap(), levels=[{"name": "region"}], rackSource="Broker", brokers=None)
    objects.create_topic("orders")
    found = objects.until_topology("Ready", "False", "InvalidRack")
    assert "broker 0: broker.rack '/eu/eu-1a/r1' has 3 steps, the topology has 1 level" in message(found)
    topic = objects.until_stalled("orders", "MissingRacks")
    assert "no broker's rack is known" in message(topic)


def test_missing_rack_label_stops_placement_and_names_the_broker(topology, topics, relabel):
    topics.create(topology.kafka_name("old"), [[0, 2, 3], [4, 3, 1]])
    topology.create_topic("old", partitions=2)
    topics.create(topology.kafka_name("there"), [[0, 2, 3], [0, 2, 5]])
    topology.create_topic("there", partitions=2)
    for name in ("old", "there"):
        topology.until_ready(name)
    relabel(5, dict.fromkeys(LEVELS.values()))
    found = topology.until_topology("Ready", "False", "MissingRacks")
    assert found["status"]["missingRacks"] == {"count": 1, "brokers": [5]}
    assert "node-5 has no label topology.kubernetes.io/region" in message(found)
    topology.create_topic("new")
    topic = topology.until_stalled("new", "MissingRacks")
    assert "broker 5 has no rack id while others have one" in message(topic)
    assert not topics.exists(topology.kafka_name("new"))
    there = topology.until_not_ready("there", "MissingRacks")
    assert condition(there, "Compliant")["status"] == "Unknown"
    assert message(there, "Compliant") == "1 partition cannot be judged: no rack is known of brokers 5"
    old = topology.until_ready("old")
    assert condition(old, "Compliant")["status"] == "True", "a topic without a replica on that broker is not compliant"
    relabel(5, {LEVELS["region"]: "us", ZONE_LABEL: "us-1a", RACK_LABEL: "r2"})
    topology.until_ready("new")
    topology.until_topology()


def test_no_topic_is_placed_while_no_rack_is_known(objects, kafka, broker_sites, topics, operator):
    objects.create_topology(kafka.bootstrap(), brokers={"podSelector": {"matchLabels": {"app": "kafak"}}})
    objects.create_topic("orders")
    topic = objects.until_stalled("orders", "MissingRacks")
    assert "no pod of spec.brokers.podSelector has this broker id" in message(topic)
    assert not topics.exists(objects.kafka_name("orders"))
    objects.change_topology(brokers={"podSelector": {"matchLabels": {"app": "kafka"}}})
    objects.until_ready("orders")


def test_missing_rack_policy_ignore_places_topics_without_racks(
    objects, kafka, broker_sites, topics, relabel, operator
):
    relabel(5, dict.fromkeys(LEVELS.values()))
    objects.create_topology(kafka.bootstrap(), missingRackPolicy="Ignore")
    objects.until_topology()

    def lacks_a_rack(found):
        return found["status"].get("missingRacks", {}).get("brokers") == [5]

    objects.until("RackTopology", "kafka", lacks_a_rack, "to have no rack of broker 5")
    name = objects.kafka_name("orders")
    request = PlacementSpec(12, 3, seed=seed_for(name))
    expected = MultiLevel().place(request, ClusterView(rack_tree().without_racks(), *topics.load()))
    objects.create_topic("orders", partitions=12)
    topic = objects.until_ready("orders")
    assert condition(topic, "Compliant")["status"] == "True"
    assert topics.replicas(name) == expected.partitions


# -- order of creation and deletion ----------------------------------------------------------------------------------


def test_topic_created_before_its_topology_waits_for_it(objects, kafka, broker_sites, topics, operator):
    objects.create_topic("orders")
    topic = objects.until_not_ready("orders", "TopologyNotFound")
    assert f"there is no RackTopology {objects.namespace}/kafka" in message(topic)
    objects.create_topology(kafka.bootstrap())
    objects.until_ready("orders")


def test_topics_stay_in_kafka_and_are_not_ready_after_deletion_of_their_topology(topology, kafka, topics, operator):
    topology.create_topic("orders")
    before = topology.until_ready("orders")["status"]
    label = f"{topology.namespace}/kafka"
    until(lambda: operator.metric("rackspan_topics", topology=label) == 1, "the topic's count")
    topology.delete("RackTopology", "kafka")
    topic = topology.until_not_ready("orders", "TopologyNotFound")
    assert topics.exists(topology.kafka_name("orders"))
    assert topic["status"]["topicId"] == before["topicId"], "the status lost the topic id"
    topology.create_topology(kafka.bootstrap())
    topic = topology.until_ready("orders")
    assert topic["status"]["topicId"] == before["topicId"]


def test_deletion_of_a_topic_without_kafka_waits_until_its_policy_is_retain(topology, topics):
    topology.create_topic("orders", deletionPolicy="Delete")
    topology.until_ready("orders")
    topology.change_topology(kafka={"bootstrapServers": "127.0.0.1:1"})
    topology.until_topology("Connected", "False")
    topology.delete("KafkaTopic", "orders")
    topic = topology.until_stalled("orders", "DeletionBlocked")
    assert "set deletionPolicy: Retain to let the object go" in message(topic)
    topology.change_topic("orders", deletionPolicy="Retain")
    topology.until_gone("KafkaTopic", "orders")
    assert topics.exists(topology.kafka_name("orders"))


def test_metrics_of_a_deleted_topology_are_removed(topology, operator):
    label = f"{topology.namespace}/kafka"

    def series():
        return [name for name, samples in operator.metrics().items() for key in samples if ("topology", label) in key]

    assert set(series()) >= {"rackspan_topics", "rackspan_brokers"}
    topology.delete("RackTopology", "kafka")
    until(lambda: not series(), "its series to go")


def test_object_of_a_disallowed_namespace_does_not_block_a_topic_name(topology, topics, namespace_factory):
    stranger = topology.elsewhere(namespace_factory())
    name = topology.kafka_name("orders")
    stranger.create_topic("squatter", topicName=name)
    older = stranger.until_stalled("squatter", "NamespaceNotAllowed")
    until(a_second_after(older), "another creation timestamp")
    topology.create_topic("orders")
    topology.until_ready("orders")
    topology.change_topology(allowedNamespaces={"from": "All"})
    stranger.until_stalled("squatter", "TopicConflict")
    topology.until_ready("orders")


def test_operator_stops_without_hung_tasks(objects, kafka, broker_sites, operator_factory):
    own = operator_factory("--log-level=debug")
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    with own.connected() as scraper, own.connected():
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert scraper.recv(1)
        own.stop()
    assert "Hung tasks stopping is skipped" in own.output, "kopf waits 5 s for remaining tasks"
