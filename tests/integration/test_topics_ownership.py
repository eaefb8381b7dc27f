"""Ownership of topics: adoption, pause, two objects for one topic, deletion of objects, quotas, and the audit log."""

from collections import defaultdict

import pytest
from dev.stack.nodes import LEVELS
from tests.support.objects import Objects, a_second_after, condition, message
from tests.support.waiting import until

# -- adoption --------------------------------------------------------------------------------------------------------


def test_existing_topic_is_adopted_with_its_replicas_and_other_configs(shop, topics):
    name = shop.kafka_name("orders")
    replicas = ((0, 3, 2), (3, 1, 2), (5, 2, 0))
    topic_id = topics.create(name, replicas, config={"retention.ms": "5000", "segment.bytes": "2000000"})
    shop.create_topic("orders", config={"retention.ms": 60_000})
    topic = shop.until_ready("orders")
    assert topic["status"]["topicId"] == topic_id == topics.id(name)
    assert topics.replicas(name) == replicas
    topics.until_config(name, {"retention.ms": "60000", "segment.bytes": "2000000"})
    assert topic_id in shop.until_event("orders", "Adopted").message


def test_adopted_topic_that_is_not_compliant_is_reported_and_not_moved(shop, topics):
    name = shop.kafka_name("orders")
    replicas = ((0, 1, 2), (0, 3, 2), (3, 4, 5), (2, 1, 0))  # all but the second in one region
    topics.create(name, replicas)
    shop.create_topic("orders", partitions=4)
    topic = shop.until_not_ready("orders", "PlanPending")
    compliance = topic["status"]["compliance"]
    assert (compliance["partitions"], compliance["nonCompliant"], compliance["moves"]) == (4, 3, 3)
    assert [(item["partition"], item["level"], item["domain"]) for item in compliance["samples"]] == [
        (0, "region", "/eu"),
        (2, "region", "/us"),
        (3, "region", "/eu"),
    ]
    assert condition(topic, "Compliant")["status"] == "False"
    plan = topic["status"]["plan"]
    assert (plan["moves"], plan["lowerBound"], plan["partitions"]) == (3, 3, 3)
    assert [(sample["partition"], tuple(sample["from"])) for sample in plan["samples"]] == [
        (0, (0, 1, 2)),
        (2, (3, 4, 5)),
        (3, (2, 1, 0)),
    ]
    assert message(topic).startswith(
        f"plan {plan['hash']} copies 3 replicas of 3 partitions, and no plan copies fewer; not executed yet: "
        "3 of 4 partitions are not spread as asked"
    )
    assert condition(topic, "Stalled")["reason"] == "PlanPending", "the topic does not wait for approval"
    assert topics.replicas(name) == replicas
    shop.until_event("orders", "NotCompliant")


def test_adopted_topic_that_differs_from_its_assignment_is_reported_and_not_moved(shop, topics):
    topics.create(shop.kafka_name("orders"), ((0, 3), (1, 4)))
    shop.create_topic("orders", partitions=2, replicationFactor=2, placement={"assignment": [[3, 0], [1, 5]]})
    topic = shop.until_not_ready("orders", "PlanPending")
    assert topic["status"]["compliance"]["nonCompliant"] == 2
    assert topic["status"]["compliance"]["moves"] == 1, "a change of the order counts as a move"
    assert "partition 0: replicas are [0, 3], the assignment says [3, 0]" in message(topic)
    assert topics.replicas(shop.kafka_name("orders")) == ((0, 3), (1, 4))


def test_adopted_topic_with_more_partitions_than_the_spec_keeps_them(shop, topics):
    topics.create(shop.kafka_name("orders"), partitions=5)
    shop.create_topic("orders", config={"retention.ms": 60_000})
    topic = shop.until_stalled("orders", "PartitionsCannotShrink")
    assert "set spec.partitions to 5 or more" in message(topic)
    assert topic["status"]["partitions"] == 5
    topics.until_config(shop.kafka_name("orders"), {"retention.ms": "60000"})
    shop.change_topic("orders", partitions=5)

    def accepted(found):  # Kafka placed it, so a plan may have moves
        stalled = condition(found, "Stalled")
        return stalled is None or stalled["reason"] == "PlanPending"

    shop.until("KafkaTopic", "orders", accepted)


# -- pause -----------------------------------------------------------------------------------------------------------

PAUSED = {"rackspan.dev/paused": "true"}
RESUMED = {"rackspan.dev/paused": None}


def test_paused_topic_stays_unchanged_and_reports_the_waiting_changes(shop, topics):
    shop.create_topic("orders", config={"retention.ms": 60_000})
    shop.until_ready("orders")
    shop.annotate_topic("orders", PAUSED)
    shop.until_condition("KafkaTopic", "orders", "Paused", "True")
    assert condition(shop.topic("orders"), "Ready")["status"] == "True", (
        "a paused topic without waiting changes is not ready"
    )
    shop.change_topic("orders", partitions=6, config={"retention.ms": 70_000})
    topic = shop.until_not_ready("orders", "Paused")
    assert message(topic) == "paused; waiting for the annotation to go: grow to 6 partitions; set retention.ms=70000"
    name = shop.kafka_name("orders")
    assert len(topics.replicas(name)) == 3
    topics.until_config(name, {"retention.ms": "60000"})
    shop.annotate_topic("orders", RESUMED)
    topic = shop.until_ready("orders")
    assert condition(topic, "Paused") is None
    assert len(topics.replicas(name, 6)) == 6
    topics.until_config(name, {"retention.ms": "70000"})


def test_invalid_pause_annotation_stalls_the_topic_without_changes(shop, topics, kubectl, promise):
    shop.create_topic("orders", config={"retention.ms": 60_000})
    shop.until_ready("orders")
    shop.annotate_topic("orders", {"rackspan.dev/paused": "until monday"})
    promise.kept_by(shop.until_stalled("orders", "InvalidAnnotation"))
    shop.until_event("orders", "InvalidAnnotation")
    shop.change_topic("orders", config={"retention.ms": 70_000})
    shop.until("KafkaTopic", "orders", lambda found: found["status"]["observedGeneration"] == 2)
    topics.until_config(shop.kafka_name("orders"), {"retention.ms": "60000"})
    shop.annotate_topic("orders", {"rackspan.dev/paused": "off"})
    shop.until_ready("orders")
    topics.until_config(shop.kafka_name("orders"), {"retention.ms": "70000"})
    shop.annotate_topic("orders", {"rackspan.dev/paused": "yes"})
    shop.until_condition("KafkaTopic", "orders", "Ready", "True", "Paused")
    assert "Paused" in kubectl("get", "rst", "orders", f"--namespace={shop.namespace}")


def test_topic_paused_from_the_start_is_created_in_kafka_after_resume(shop, topics):
    shop.create_topic("orders", annotations=PAUSED)
    shop.until_not_ready("orders", "Paused")
    assert not topics.exists(shop.kafka_name("orders"))
    shop.annotate_topic("orders", RESUMED)
    shop.until_ready("orders")


def test_config_drift_of_a_paused_topic_is_reported_and_not_reset(shop, topics):
    shop.create_topic("orders", annotations=PAUSED, config={"retention.ms": 60_000})
    topics.create(shop.kafka_name("orders"), config={"retention.ms": "5"})
    topic = shop.until_not_ready("orders", "Paused")
    topic = shop.until("KafkaTopic", "orders", lambda found: "set retention.ms=60000" in message(found))
    topics.until_config(shop.kafka_name("orders"), {"retention.ms": "5"})
    assert topic["status"]["topicId"] == topics.id(shop.kafka_name("orders"))


# -- two objects for one topic ---------------------------------------------------------------------------------------


def test_older_of_two_objects_manages_the_topic_until_its_deletion(shop, topics, namespace_factory):
    other = shop.elsewhere(namespace_factory())
    name = shop.kafka_name("orders")
    shop.create_topic("orders", config={"retention.ms": 60_000})
    shop.until_ready("orders")
    until(a_second_after(shop.topic("orders")), "another creation timestamp")
    other.create_topic("claim", topicName=name, config={"retention.ms": 70_000})
    loser = other.until_stalled("claim", "TopicConflict")
    assert "a KafkaTopic of another namespace already declares topic" in message(loser, "Stalled")
    assert shop.namespace not in message(loser, "Stalled").replace(name, "")
    topics.until_config(name, {"retention.ms": "60000"})
    assert condition(shop.topic("orders"), "Ready")["status"] == "True"
    topic_id = topics.id(name)
    shop.delete("KafkaTopic", "orders")  # deletionPolicy is Retain
    winner = other.until_ready("claim")
    assert condition(winner, "Stalled") is None
    topics.until_config(name, {"retention.ms": "70000"})
    assert topics.id(name) == topic_id


def test_deletion_of_an_object_in_conflict_keeps_the_topic(shop, topics):
    name = shop.kafka_name("orders")
    shop.create_topic("orders")
    shop.until_ready("orders")
    until(a_second_after(shop.topic("orders")), "another creation timestamp")
    shop.create_topic("claim", topicName=name, deletionPolicy="Delete")
    shop.until_stalled("claim", "TopicConflict")
    shop.delete("KafkaTopic", "claim")
    shop.until_gone("KafkaTopic", "claim")
    assert topics.exists(name)


def test_topics_of_two_topologies_of_one_kafka_conflict_only_if_both_declare_sharing(
    topology, topics, kafka, namespace_factory
):
    stranger = Objects(topology.api, namespace_factory())
    levels = [{"name": name} for name in LEVELS]
    stranger.create_topology(kafka.bootstrap(), levels=levels, rackSource="Broker", brokers=None)
    stranger.until_topology()
    name = topology.kafka_name("orders")
    stranger.create_topic("claim", topicName=name)
    older = stranger.until_ready("claim")
    until(a_second_after(older), "another creation timestamp")
    topology.create_topic("orders")
    topology.until_ready("orders")
    topology.change_topology(sharedWith=[stranger.namespace])
    stranger.change_topology(sharedWith=[topology.namespace])
    told = message(topology.until_stalled("orders", "TopicConflict"))
    assert stranger.namespace not in told
    assert "claim" not in told


# -- deletion --------------------------------------------------------------------------------------------------------


def test_topic_stays_in_kafka_after_deletion_of_its_object_by_default(shop, topics):
    shop.create_topic("orders")
    topic = shop.until_ready("orders")
    assert topic["metadata"]["finalizers"] == ["rackspan.dev/finalizer"], (
        "a topic without finalizer cannot follow a later change of the policy"
    )
    shop.delete("KafkaTopic", "orders")
    shop.until_gone("KafkaTopic", "orders")
    assert topics.id(shop.kafka_name("orders")) == topic["status"]["topicId"]


def test_topic_with_deletion_policy_delete_is_deleted_with_its_object(shop, topics):
    shop.create_topic("orders", deletionPolicy="Delete")
    topic = shop.until_ready("orders")
    assert topic["metadata"]["finalizers"] == ["rackspan.dev/finalizer"]
    shop.delete("KafkaTopic", "orders")
    shop.until_gone("KafkaTopic", "orders")
    until(lambda: not topics.exists(shop.kafka_name("orders")), "the topic to be gone")
    shop.until_event("orders", "Deleted")


def test_recreated_object_with_deletion_policy_delete_gets_a_new_topic(shop, topics):
    ids = []
    for _ in range(4):
        shop.create_topic("orders", deletionPolicy="Delete")
        ids.append(shop.until_ready("orders")["status"]["topicId"])
        until(lambda: topics.id(shop.kafka_name("orders")) == ids[-1], "the new topic to be shown")
        shop.delete("KafkaTopic", "orders")
        shop.until_gone("KafkaTopic", "orders")
    assert len(set(ids)) == 4


def test_topics_are_deleted_even_if_the_policy_changes_just_before_the_deletion(shop, topics):
    """One burst of 100 topics. The finalizers must exist before the change of the policy."""
    names = [f"orders-{number}" for number in range(100)]
    for name in names:
        shop.create_topic(name, partitions=1)
    for name in names:
        shop.until_ready(name)
    for name in names:
        shop.change_topic(name, deletionPolicy="Delete")
        shop.delete("KafkaTopic", name)
    until(lambda: not shop.topics(), "all objects to be gone")
    until(lambda: not topics.existing(map(shop.kafka_name, names)), "all topics to be gone")


def test_topic_changed_back_to_deletion_policy_retain_stays_in_kafka(shop, topics):
    shop.create_topic("orders", deletionPolicy="Delete")
    shop.until_ready("orders")
    shop.change_topic("orders", deletionPolicy="Retain")
    shop.delete("KafkaTopic", "orders")
    shop.until_gone("KafkaTopic", "orders")
    assert topics.exists(shop.kafka_name("orders"))
    assert "deletionPolicy is Retain" in shop.until_event("orders", "Released").message


def test_topic_recreated_by_another_client_is_not_deleted(shop, topics, kafka):
    name = shop.kafka_name("orders")
    shop.create_topic("orders", deletionPolicy="Delete", annotations=PAUSED)
    shop.annotate_topic("orders", RESUMED)
    shop.until_ready("orders")
    topics.delete(name)
    new_id = topics.create(name)
    kafka.wait_until_agreed()
    shop.delete("KafkaTopic", "orders")
    shop.until_gone("KafkaTopic", "orders")
    assert topics.id(name) == new_id
    assert "recreated by someone else" in shop.until_event("orders", "Released").message


def test_paused_topic_is_deleted_only_after_resume(shop, topics):
    shop.create_topic("orders", deletionPolicy="Delete")
    shop.until_ready("orders")
    shop.annotate_topic("orders", PAUSED)
    shop.delete("KafkaTopic", "orders")
    topic = shop.until_condition("KafkaTopic", "orders", "Stalled", "True", "DeletionBlocked")
    assert "paused" in message(topic, "Stalled")
    assert topics.exists(shop.kafka_name("orders"))
    shop.annotate_topic("orders", RESUMED)
    shop.until_gone("KafkaTopic", "orders")
    until(lambda: not topics.exists(shop.kafka_name("orders")), "the topic to be gone")


def test_stalled_object_that_never_had_a_topic_can_be_deleted(shop, topics):
    shop.create_topic("orders", replicationFactor=7, deletionPolicy="Delete")
    shop.until_stalled("orders", "Infeasible")
    topic_id = topics.create(shop.kafka_name("orders"))
    shop.delete("KafkaTopic", "orders")
    try:
        shop.until_gone("KafkaTopic", "orders")
    except TimeoutError:  # an earlier adoption by the operator is fine too
        pytest.fail("the object does not go")
    assert topic_id


# -- limits of a topology for namespaces -----------------------------------------------------------------------------


def test_topic_prefixes_restrict_names_and_internal_topics_are_refused(topology, topics, namespace_factory, promise):
    stranger = topology.elsewhere(namespace_factory())
    topology.change_topology(allowedNamespaces={"from": "All", "topicPrefixes": ["$(namespace).", "shared-"]})
    stranger.create_topic("orders")
    stranger.until_ready("orders")
    taken = topology.kafka_name("orders")
    stranger.create_topic("claim", topicName=taken)
    refused = stranger.until_stalled("claim", "TopicNameNotAllowed")
    assert f"{stranger.namespace}., shared-" in message(refused)
    promise.kept_by(refused)
    internal = f"__{topology.namespace}"
    for objects in (stranger, topology):
        objects.create_topic("internal", topicName=internal)
        promise.kept_by(objects.until_stalled("internal", "InternalTopic"))
    assert not topics.exists(taken)
    assert not topics.exists(internal)
    topology.change_topology(internalTopics=[internal])
    topology.until_ready("internal")
    stranger.until_stalled("internal", "TopicNameNotAllowed")
    topology.create_topic("orders")
    topology.until_ready("orders")


def test_topics_above_the_quota_of_a_namespace_wait(topology, topics, namespace_factory, promise):
    stranger = topology.elsewhere(namespace_factory())
    topology.change_topology(allowedNamespaces={"from": "All", "quota": {"topics": 2, "partitions": 10}})
    topology.until_topology()
    stranger.create_topic("large", partitions=100_000)
    stranger.create_topic("orders", partitions=6)
    stranger.until_ready("orders")
    promise.kept_by(stranger.until_stalled("large", "QuotaExceeded"))
    stranger.change_topic("orders", partitions=11)
    stranger.until_stalled("orders", "QuotaExceeded")
    assert not topics.exists(stranger.kafka_name("large"))
    assert len(topics.replicas(stranger.kafka_name("orders"))) == 6
    topology.create_topic("own", partitions=12)
    topology.until_ready("own")
    topology.change_topology(allowedNamespaces={"from": "All", "quota": {"topics": 2, "partitions": 11}})
    stranger.until_ready("orders")
    assert len(topics.replicas(stranger.kafka_name("orders"), 11)) == 11
    assert not topics.exists(stranger.kafka_name("large"))


def test_only_the_namespace_of_the_topology_adopts_topics_unless_adoption_is_allowed(
    topology, topics, namespace_factory, promise
):
    stranger = topology.elsewhere(namespace_factory())
    topology.change_topology(allowedNamespaces={"from": "All"})
    name = topology.kafka_name("orders")
    topic_id = topics.create(name, ((0, 3, 2), (3, 1, 2), (5, 2, 0)), config={"retention.ms": "5000"})
    stranger.create_topic("claim", topicName=name, config={"retention.ms": 60_000}, deletionPolicy="Delete")
    promise.kept_by(stranger.until_stalled("claim", "AdoptionNotAllowed"))
    stranger.annotate_topic("claim", {"rackspan.dev/adopt-topic-id": topic_id})
    stranger.until_stalled("claim", "AdoptionNotAllowed")
    assert topics.config(name) == {"retention.ms": "5000"}
    topology.change_topology(adoption="Allowed")
    adopted = stranger.until_ready("claim")
    assert adopted["status"]["adopted"] is True
    topics.until_config(name, {"retention.ms": "60000"})
    topology.change_topology(adoption="Never")
    topology.until_topology()  # the operator has seen the change: KafkaTopics arrive through another watch
    stranger.create_topic("new", topicName=f"{name}.new")
    assert "adopted" not in stranger.until_ready("new")["status"], "a topic that the operator created counts as adopted"
    stranger.until_ready("claim")
    stranger.delete("KafkaTopic", "claim")
    stranger.until_gone("KafkaTopic", "claim")
    assert topics.id(name) == topic_id
    assert f"rackspan.dev/confirm-delete={topic_id}" in stranger.until_event("claim", "Released").message
    topology.create_topic("orders")
    topology.until_stalled("orders", "AdoptionNotAllowed")


# -- audit log -------------------------------------------------------------------------------------------------------


def test_audit_log_has_one_line_per_creation_and_deletion_with_the_field_manager(shop, operator, topics):
    names = [f"topic-{number}" for number in range(150)]
    small = {"partitions": 1, "replicationFactor": 1, "deletionPolicy": "Delete"}
    made = {shop.kafka_name(name): shop.create_topic(name, **small)["metadata"] for name in names}

    def ready():
        return all((condition(topic, "Ready") or {}).get("status") == "True" for topic in shop.topics())

    until(ready, "150 topics to be Ready")
    ids = {topic["spec"]["topicName"]: topic["status"]["topicId"] for topic in shop.topics()}
    for name in names:
        shop.delete("KafkaTopic", name)
    until(lambda: not shop.topics(), "150 objects to be gone")
    until(lambda: not topics.existing(made), "every broker that is asked to have seen 150 topics go")
    trail = [
        line for line in operator.log if line.get("audit", {}).get("object", {}).get("namespace") == shop.namespace
    ]
    assert {line["severity"] for line in trail} == {"info"}
    told = defaultdict(list)
    for entry in (line["audit"] for line in trail):
        about = entry["object"]
        told[entry["topic"], entry["operation"], about["uid"], about["generation"]].append(entry["answer"])
    asked = [(topic, metadata["uid"]) for topic, metadata in made.items()]
    # The deletion has another generation, because the API server counts it as a change.
    assert told.keys() == {
        *((topic, "CreateTopic", uid, 1) for topic, uid in asked),
        *((topic, "DeleteTopic", uid, 2) for topic, uid in asked),
    }
    assert len(told) == 300
    for answers in told.values():
        # A change that Kafka answers too late has a line without its answer, and may be asked for again.
        assert set(answers) <= {"ok", "KafkaUnreachable"}
        assert answers.count("ok") <= 1
    for entry in (line["audit"] for line in trail):
        metadata = made[entry["topic"]]
        assert entry["object"]["kind"] == "KafkaTopic"
        assert entry["object"]["name"] == metadata["name"]
        assert entry["manager"] == metadata["managedFields"][0]["manager"]
        assert entry["topology"] == f"{shop.topology_namespace}/kafka"
        if entry["operation"] == "CreateTopic":
            assert (entry["partitions"], entry["replicationFactor"]) == (1, 1)
        else:
            assert entry["topicId"] == ids[entry["topic"]]
