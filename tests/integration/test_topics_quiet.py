"""The operator writes nothing to objects and Kafka if there is nothing to do, and reports its state."""

import json
import secrets

import pytest
from dev.stack.nodes import SIX_BROKERS
from tests.support.objects import Objects, broker_namespace, condition
from tests.support.operators import private_operators
from tests.support.waiting import until

from rackspan.api.labels import CREATED_FOR

KUBE, KAFKA = "rackspan_kubernetes_request_seconds_count", "rackspan_kafka_request_seconds_count"
READS_OF_KUBE = {"get_secret", "list_metadata", "list_objects", "list_resources"}
LEASE = {"get_lease", "create_lease", "patch_lease"}  # the operator's own Lease, which it renews continuously
READS_OF_KAFKA = {"describe_cluster", "describe_configs", "describe_log_dirs", "describe_topics", "list_topics"}
READS = READS_OF_KUBE | LEASE | READS_OF_KAFKA
ASKED_AGAIN = {"create_topics"}  # repeated at each resync if Kafka refuses; created topics are detected in Kafka


def writes(operator):
    """Return the number of changing calls of the operator by operation."""
    metrics = operator.metrics()
    calls = [item for name in (KUBE, KAFKA) for item in metrics.get(name, {}).items()]
    counted = {dict(labels)["operation"]: count for labels, count in calls}
    return {operation: count for operation, count in counted.items() if operation not in READS | ASKED_AGAIN and count}


def in_kafka(topics, objects):
    """Return the names of the topics in Kafka for this namespace."""
    prefix = objects.kafka_name("")
    return {name for name in topics.admin.list_topics(timeout=300).topics if name.startswith(prefix)}


def versions(objects):
    found = [*objects.topics(), objects.topology()]
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found}


@pytest.fixture(scope="module")
def alone(_turns, api_client, kubectl, crds, kafka):
    """An operator that watches only one namespace, and the objects of that namespace."""
    with (
        broker_namespace(api_client, kubectl, f"test-{secrets.token_hex(4)}") as namespace,
        private_operators(_turns) as factory,
    ):
        yield factory(f"--namespace={namespace}"), Objects(api_client, namespace)


@pytest.fixture(scope="module")
def operator(alone):
    return alone[0]


@pytest.fixture(scope="module")
def all_states(alone, kafka, topics) -> Objects:
    """A topology with topics in every state, after all counts and plans are in the statuses."""
    operator, objects = alone
    objects.create_topology(kafka.bootstrap())
    topics.create(objects.kafka_name("crowded"), [[0, 1, 2]])
    objects.create_topic("good", config={"retention.ms": 60_000}, durability={"minDomains": {"zone": 2}})
    objects.create_topic("going", deletionPolicy="Delete")
    # Other tests create and delete topics in this Kafka: the plan must not depend on the load of brokers.
    only = {"brokers": {"exclude": ["/eu/eu-1a/r1", "/us/us-1a/r2"]}, "leaders": ["/eu/eu-1b"]}
    objects.create_topic("crowded", partitions=1, placement=only)
    objects.create_topic("impossible", replicationFactor=7)
    objects.create_topic("refused", config={"retention.ms": "soon"})
    objects.create_topic("paused", annotations={"rackspan.dev/paused": "true"})
    objects.until_ready("good")
    objects.until_ready("going")
    objects.until_not_ready("crowded", "PlanPending")
    objects.until_stalled("impossible", "Infeasible")
    objects.until_stalled("refused", "InvalidConfig")
    objects.until_not_ready("paused", "Paused")
    at_rest(objects)
    objects.until("RackTopology", "kafka", lambda found: tells_bytes(found["status"]), "to tell the plan's bytes")
    objects.until("KafkaTopic", "crowded", lambda found: tells_bytes(found["status"]), "to tell the plan's bytes")
    operator.after_passes(2, objects.label)
    return objects


def tells_bytes(status):
    """Return whether the status has the bytes of the plan, which the operator reads from brokers after planning."""
    return (status.get("plan") or {}).get("bytes") is not None


def at_rest(objects):
    """Wait until the topology has counted its topics, and return the counts."""
    conditions = [
        {item["type"]: item["status"] for item in topic["status"]["conditions"]} for topic in objects.topics()
    ]
    wanted = {
        "total": len(conditions),
        "ready": sum(found.get("Ready") == "True" for found in conditions),
        "nonCompliant": sum(found.get("Compliant") == "False" for found in conditions),
        "stalled": sum(found.get("Stalled") == "True" for found in conditions),
        "pinned": 0,
    }
    objects.until("RackTopology", "kafka", lambda found: found.get("status", {}).get("topics") == wanted, f"{wanted}")
    return wanted


def test_operator_writes_nothing_while_nothing_changes(all_states, operator, topics):
    def at_rest_for_a_pass():
        earlier = writes(operator)
        operator.after_passes(1)
        return writes(operator) == earlier

    until(at_rest_for_a_pass, "the last write of the earlier changes")
    before, written, there = versions(all_states), writes(operator), in_kafka(topics, all_states)
    operator.after_passes(3, all_states.label)
    assert versions(all_states) == before
    assert writes(operator) == written
    assert in_kafka(topics, all_states) == there


def test_restarted_operator_writes_nothing_if_everything_is_in_place(all_states, operator, topics):
    at_rest(all_states)
    before, there = versions(all_states), in_kafka(topics, all_states)
    operator.stop()
    operator.start()
    operator.after_passes(3, all_states.label)
    assert versions(all_states) == before
    assert writes(operator) == {}
    assert in_kafka(topics, all_states) == there


def test_changes_during_a_stop_of_the_operator_are_applied_after_its_start(all_states, operator, topics):
    all_states.create_topic("grows")
    all_states.create_topic("goes", deletionPolicy="Delete")
    all_states.until_ready("grows")
    all_states.until_ready("goes")
    operator.stop()
    all_states.change_topic("grows", partitions=5)
    all_states.create_topic("late")
    all_states.delete("KafkaTopic", "goes")
    operator.start()
    all_states.until_ready("grows")
    all_states.until_ready("late")
    all_states.until_gone("KafkaTopic", "goes")
    until(lambda: not topics.exists(all_states.kafka_name("goes")), "the topic to be gone")
    assert len(topics.replicas(all_states.kafka_name("grows"), 5)) == 5


def test_objects_have_no_annotations_or_finalizers_of_kopf(all_states):
    for item in (*all_states.topics(), all_states.topology()):
        metadata = item["metadata"]
        expected = {"rackspan.dev/paused"} if metadata["name"] == "paused" else set()
        annotations = metadata.get("annotations", {})
        assert set(annotations) - {CREATED_FOR} == expected
        assert annotations.get(CREATED_FOR, metadata["uid"]).partition("/")[0] == metadata["uid"]
        assert metadata.get("finalizers", []) == ["rackspan.dev/finalizer"]


def test_metrics_count_topics_by_state(all_states, operator):
    label, counts = f"{all_states.namespace}/kafka", at_rest(all_states)
    assert counts.pop("pinned") == 0
    assert min(counts.values()) > 0
    pending = counts["total"] - counts["ready"] - counts["stalled"]
    wanted = {"ready": counts["ready"], "stalled": counts["stalled"], "pending": pending, "unknown": 0}

    def told():
        return {state: operator.metric("rackspan_topics", topology=label, state=state) for state in wanted}

    # The metrics may still count topics of an earlier status with the same totals.
    until(lambda: told() == wanted, f"{wanted} to be told")
    assert operator.metric("rackspan_non_compliant_topics", topology=label) == counts["nonCompliant"]
    assert operator.metric("rackspan_brokers", topology=label, state="online") == len(SIX_BROKERS)
    assert operator.metric("rackspan_moves_needed", topology=label) == 1
    assert operator.metric("rackspan_errors_total", reason="InvalidConfig", remedy="spec", topology=label) >= 1
    assert operator.metric("rackspan_reconcile_seconds_count") > 0
    assert operator.metric("rackspan_last_successful_pass_timestamp_seconds", topology=label) > 0


def test_probes_report_the_last_pass_and_the_connections(all_states, operator):
    label = f"{all_states.namespace}/kafka"

    def passed_lately():
        status, body = operator.get("/healthz")
        assert status == 200
        return json.loads(body)["secondsSinceLastPass"][label] < 10

    until(passed_lately, "a pass of the last seconds")
    status, body = operator.get("/readyz")
    assert status == 200
    assert json.loads(body)["connected"] == {label: True}


def test_operator_of_one_namespace_ignores_other_namespaces(all_states, operator, namespace_factory, topics):
    elsewhere = Objects(all_states.api, namespace_factory(), all_states.namespace)
    all_states.change_topology(allowedNamespaces={"from": "All"})
    elsewhere.create_topic("orders")
    operator.after_passes(3, all_states.label)
    assert elsewhere.topic("orders")["status"] == {"observedGeneration": -1}
    assert not topics.exists(elsewhere.kafka_name("orders"))


def test_operator_ends_on_sigterm_and_writes_json_log_lines_without_errors(all_states, operator):
    operator.stop()
    lines = operator.log
    operator.start()
    assert {"message", "severity", "timestamp"} <= set(lines[0])
    errors = [line for line in lines if line["severity"] == "error"]
    # Kopf logs an error when it tries a request to a busy API server again.
    assert not [line for line in errors if not line["message"].startswith("Request attempt")]


def test_transition_time_of_a_condition_stays_while_its_status_stays(all_states, operator):
    before = condition(all_states.topic("good"), "Ready")
    all_states.change_topic("good", config={"retention.ms": 61_000})
    after = condition(all_states.until_ready("good"), "Ready")
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert after["observedGeneration"] == before["observedGeneration"] + 1
