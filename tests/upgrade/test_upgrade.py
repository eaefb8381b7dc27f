"""Upgrade and rollback while a plan runs: the plan completes, and topics outside the plan stay unchanged."""

import json

from tests.support.moves import filled, under_way
from tests.support.objects import condition

from rackspan.api.labels import APPROVE_PLAN

LEVELS = ("--levels", "region,zone,rack")
REASSIGNMENT = "Reassignment"
SIZE = 25_000_000
"""Bytes per partition. A throttled broker fetches about 1 MB per 11 seconds, so the copy takes minutes."""
RESTING = {
    "clicks": {"config": {"retention.ms": "60000"}, "deletionPolicy": "Delete"},
    "pinned": {"partitions": 1, "placement": {"assignment": [[0, 1, 3]]}},
}
"""Topics without a plan."""
GROWING = ("orders", "waiting")
"""Topics with a raised replication factor: the first under the earlier version, the second under this version."""


def approved(objects, topic):
    """Approve the plan that a topic waits for and return its hash."""
    objects.until_not_ready(topic, "PlanPending")
    plan = objects.until_topology("Reassigned", "False", "PlanPending")["status"]["plan"]["hash"]
    objects.patch("RackTopology", "kafka", {"metadata": {"annotations": {APPROVE_PLAN: plan}}})
    return plan


def as_they_are(objects, topics):
    """Return all facts of the topics at rest that must not change: uid, spec, conditions, and their state in Kafka."""
    found = {}
    for name, spec in RESTING.items():
        topic, in_kafka = objects.topic(name), objects.kafka_name(name)
        conditions = {one["type"]: (one["status"], one["reason"]) for one in topic["status"]["conditions"]}
        kept = topic["metadata"]["uid"], topic["spec"], conditions
        found[name] = (
            *kept,
            topics.id(in_kafka),
            topics.replicas(in_kafka, spec.get("partitions", 3)),
            topics.config(in_kafka),
        )
    return found


def seen(objects, name):
    """Wait until the current operator has read the cluster and has created a new topic."""
    objects.create_topic(name)
    objects.until_ready(name)


def test_upgrade_and_rollback_during_a_plan_complete_the_plan_and_keep_other_topics(
    earlier, current, release, objects, kafka, topics, broker_sites, tmp_path
):
    live = ("--bootstrap-server", kafka.bootstrap(), *LEVELS)
    scan = ("scan", *live, "--engine", "local", "--exit-zero", "--history", tmp_path / "history")
    release.install(earlier)
    objects.create_topology(kafka.bootstrap(), reassignment={"throttle": 20_000})
    objects.until_topology()
    growing = {name: {"replicationFactor": 2} for name in GROWING}
    for name, spec in (growing | RESTING).items():
        objects.create_topic(name, **spec)
    for name in (*GROWING, *RESTING):
        objects.until_ready(name)
    orders = objects.kafka_name("orders")
    filled(kafka, orders, 3, SIZE)
    objects.change_topic("orders", replicationFactor=3)
    running = f"kafka-{approved(objects, 'orders')}"
    objects.until(REASSIGNMENT, running, lambda found: found.get("status", {}).get("copying"), "to copy")
    earlier.run(*scan)
    began = objects.read(REASSIGNMENT, running)
    before = as_they_are(objects, topics)

    release.upgrade(current)
    seen(objects, "new")
    assert under_way(kafka, orders)
    assert as_they_are(objects, topics) == before
    objects.change_topology(reassignment={"throttle": 100_000_000})
    done = objects.until(REASSIGNMENT, running, lambda found: found["status"]["state"] == "Succeeded", "to succeed")
    assert done["metadata"]["uid"] == began["metadata"]["uid"]
    objects.until_ready("orders")
    assert {len(replicas) for replicas in topics.replicas(orders, 3)} == {3}
    objects.change_topic("waiting", replicationFactor=3)
    objects.until_not_ready("waiting", "PlanPending")
    current.run(*scan)
    assert as_they_are(objects, topics) == before
    assert condition(objects.topology(), "Ready")["status"] == "True"

    release.roll_back(earlier)
    seen(objects, "newer")
    earlier.run(*scan)
    assert as_they_are(objects, topics) == before
    assert {len(replicas) for replicas in topics.replicas(objects.kafka_name("waiting"), 3)} == {2}
    approved(objects, "waiting")
    objects.until_ready("waiting")
    assert {len(replicas) for replicas in topics.replicas(objects.kafka_name("waiting"), 3)} == {3}
    objects.delete("KafkaTopic", "clicks")
    objects.until_gone("KafkaTopic", "clicks")
    assert not topics.exists(objects.kafka_name("clicks"))
    counted = "SELECT count(*) AS scans, max(sequence) AS latest FROM scans"
    answer = json.loads(current.run("history", "sql", tmp_path / "history", counted, "-o", "json"))
    assert answer["rows"] == [{"scans": 3, "latest": 3}]
