"""A KafkaTopic becomes a topic in Kafka with the replicas that `rackspan.core` computes."""

import pytest
from tests.support.objects import condition, message, rack_tree, reasons
from tests.support.waiting import until

from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec, seed_for
from rackspan.placers import load_placers


def computed(placer, name, loads, partitions, **spec):
    """Return the replicas that the placer computes for a new topic with this name and three replicas."""
    request = PlacementSpec(partitions, 3, **{"seed": seed_for(name), **spec})
    return load_placers()[placer].place(request, ClusterView(rack_tree(), *loads)).partitions


@pytest.mark.parametrize(
    ("placer", "placement", "spec"),
    [
        ("MultiLevel", {}, {}),
        ("MultiLevel", {"seed": 5, "leaders": ["/eu"]}, {"seed": 5, "leaders": (("eu",),)}),
        ("Simple", {"placer": "Simple", "startIndex": 2, "shift": 2}, {"start_index": 2, "shift": 2}),
        ("Striped", {"placer": "Striped", "startIndex": 0, "shift": 0}, {"start_index": 0, "shift": 0}),
        ("Rings", {"placer": "Rings"}, {}),
    ],
    ids=["by default", "with leaders and a seed", "Simple", "Striped", "Rings"],
)
def test_new_topic_gets_the_replicas_that_its_placer_computes(topology, topics, placer, placement, spec):
    name = topology.kafka_name("orders")
    expected = computed(placer, name, topics.load(), 12, **spec)
    topology.create_topic("orders", partitions=12, placement=placement)
    topic = topology.until_condition("KafkaTopic", "orders", "Compliant", None if not expected else judged(expected))
    assert topics.replicas(name) == expected
    status = topic["status"]
    assert status["placer"] == placer
    assessment = judge(rack_tree(), expected)
    assert status["compliance"]["partitions"] == 12
    assert status["compliance"].get("nonCompliant", 0) == assessment.non_compliant
    assert status["compliance"].get("moves", 0) == assessment.moves


def judged(replicas):
    return "True" if judge(rack_tree(), replicas).compliant else "False"


def test_status_reports_ids_durability_and_placement_of_the_topic_in_kafka(shop, topics, kafka):
    shop.create_topic("orders", partitions=6, config={"min.insync.replicas": 2})
    status = shop.until_ready("orders")["status"]
    name = shop.kafka_name("orders")
    replicas = topics.replicas(name)
    assert {key: status[key] for key in ("topicName", "topicId", "clusterId", "partitions")} == {
        "topicName": name,
        "topicId": topics.id(name),
        "clusterId": kafka.cluster_id,
        "partitions": 6,
    }
    assert (status["replicationFactor"], status["minInSyncReplicas"]) == (3, 2)
    broker = status["durability"]["levels"][-1]
    assert broker == {"level": "broker", "domains": 2, "keepsWrites": True, "staysWritable": True}
    domains = {item["domain"]: item for item in status["placement"]["domains"]}
    in_eu = {0, 1, 2}
    assert domains["/eu"]["replicas"] == sum(broker in in_eu for row in replicas for broker in row)
    assert domains["/eu"]["leaders"] == sum(row[0] in in_eu for row in replicas)
    assert domains["/eu"]["replicas"] + domains["/us"]["replicas"] == 18
    assert domains["/us/us-1a/r2"]["replicas"] == sum(broker in {4, 5} for row in replicas for broker in row)


def test_explicit_assignment_is_used_exactly(shop, topics):
    assignment = [[5, 0], [0, 1], [3, 2]]
    shop.create_topic("orders", replicationFactor=2, placement={"assignment": assignment})
    topic = shop.until_ready("orders")
    assert topics.replicas(shop.kafka_name("orders")) == ((5, 0), (0, 1), (3, 2))
    assert "placer" not in topic["status"]


def test_excluded_brokers_get_no_replicas(shop, topics):
    shop.create_topic("orders", partitions=8, replicationFactor=2, placement={"brokers": {"exclude": ["/us", "1"]}})
    shop.until_ready("orders")
    assert {broker for row in topics.replicas(shop.kafka_name("orders")) for broker in row} == {0, 2}


def test_impossible_spread_is_refused_unless_when_unsatisfiable_is_best(shop, topics):
    spread, four = {"level": "region", "maxSkew": 1}, {"include": ["2", "/us"]}  # one broker in /eu, three in /us
    best = {"spread": [{**spread, "whenUnsatisfiable": "Best"}], "brokers": four}
    shop.create_topic("strict", replicationFactor=4, placement={"spread": [spread], "brokers": four})
    shop.create_topic("relaxed", replicationFactor=4, placement=best)
    assert condition(shop.until_ready("relaxed"), "Compliant")["status"] == "True"
    assert {frozenset(row) for row in topics.replicas(shop.kafka_name("relaxed"))} == {frozenset({2, 3, 4, 5})}
    strict = shop.until_stalled("strict", "Infeasible")
    assert "/eu has 1 eligible broker" in message(strict)
    assert not topics.exists(shop.kafka_name("strict"))


def test_infeasible_topic_is_refused_with_the_smallest_change_that_helps(shop, topics):
    shop.create_topic("orders", replicationFactor=7)
    topic = shop.until_stalled("orders", "Infeasible")
    assert "7 eligible brokers, there are 6: lower it to 6 or add 1 broker" in message(topic)
    assert not topics.exists(shop.kafka_name("orders"))


def test_topics_of_several_namespaces_use_one_open_topology(shop, topics, namespace_factory):
    places = [shop, *(shop.elsewhere(namespace_factory()) for _ in range(3))]
    for place in places:
        place.create_topic("orders")
    for place in places:
        place.until_ready("orders")
        assert len(topics.replicas(place.kafka_name("orders"))) == 3


def test_three_hundred_topics_are_created_in_at_most_four_calls_with_balanced_leaders(
    objects, kafka, broker_sites, topics, operator
):
    names = [f"orders-{number}" for number in range(300)]
    for name in names:
        objects.create_topic(name, partitions=1)

    def reasons_now():
        found = [condition(topic, "Ready") for topic in objects.topics()]
        return [ready and ready["reason"] for ready in found]

    until(lambda: reasons_now() == ["TopologyNotFound"] * 300, "300 topics to wait for their topology")
    calls = operator.metric("rackspan_batch_topics_count", operation="create_topics")
    created = operator.metric("rackspan_batch_topics_sum", operation="create_topics")
    objects.create_topology(kafka.bootstrap())
    until(lambda: reasons_now() == ["InSync"] * 300, "300 topics to be ready")
    # More than 300 if Kafka answered late: the operator asked for these topics again.
    assert operator.metric("rackspan_batch_topics_sum", operation="create_topics") - created >= 300
    assert operator.metric("rackspan_batch_topics_count", operation="create_topics") - calls <= 4
    kafka.wait_until_agreed()
    _, led = topics.load()  # of all topics: the new ones balance the leaders of the topics of other tests
    # A random placement has a difference of about 18. Batches and seeds are random, so the limit is not exact.
    assert max(led.values()) - min(led.values()) <= 10, "leaders are not balanced over topics of one batch"


def test_refused_topic_does_not_fail_other_topics_of_its_batch(shop, topics, operator):
    refused_before = operator.metric("rackspan_errors_total", reason="InvalidConfig")
    for number in range(10):
        shop.create_topic(f"good-{number}", partitions=1)
    shop.create_topic("bad", config={"retention.ms": "soon"})
    for number in range(10, 20):
        shop.create_topic(f"good-{number}", partitions=1)
    bad = shop.until_stalled("bad", "InvalidConfig")
    assert "retention.ms" in message(bad, "Stalled")
    for number in range(20):
        shop.until_ready(f"good-{number}")
    assert not topics.exists(shop.kafka_name("bad"))
    assert operator.metric("rackspan_errors_total", reason="InvalidConfig") > refused_before


def test_topic_creation_is_reported_as_an_event(shop):
    shop.create_topic("orders")
    shop.until_ready("orders")
    events = until(lambda: shop.events("orders"), "an Event, which goes out behind those of other tests")
    assert reasons(events) == ["Created"]
    assert events[0].type == "Normal"
    made = "create 3 partitions of 3 replicas", "was made"  # the latter if Kafka answered the request too late
    assert any(words in events[0].message for words in made)
    assert events[0].involved_object.kind == "KafkaTopic"
