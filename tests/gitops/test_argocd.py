"""Argo CD applies objects from Git, and the health of its Application follows the check of examples/argocd."""

import pytest
from tests.support.objects import TOPOLOGY, condition

KAFKA, ORDERS, SHOP = f"RackTopology/{TOPOLOGY}", "KafkaTopic/orders", "ConfigMap/shop"
ABOVE_LIMIT = {"defaults": {"reassignment": {"approval": "Automatic"}}, "reassignment": {"maxMoves": 1}}
TOPOLOGIES = {"PlanPending": {}, "PlanAboveLimit": ABOVE_LIMIT}
"""Fields of a topology spec whose plans wait, by the reason of the wait."""
SHOP_IN_GIT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}}
"""An application that needs its topics."""


def in_wave(wave, manifest):
    metadata = {**manifest["metadata"], "annotations": {"argocd.argoproj.io/sync-wave": str(wave)}}
    return {**manifest, "metadata": metadata}


def waiting_plan(objects, reason):
    return objects.until_topology("Reassigned", "False", reason)["status"]["plan"]["hash"]


def approved(topology, plan):
    return {**topology, "reassignment": {**topology.get("reassignment", {}), "approvedPlan": plan}}


def approve_by_annotation(application, objects):
    plan = objects.topology()["status"]["plan"]["hash"]
    objects.patch("RackTopology", TOPOLOGY, {"metadata": {"annotations": {"rackspan.dev/approve-plan": plan}}})


def ready_since(obj):
    return condition(obj, "Ready")["lastTransitionTime"]


def test_application_becomes_healthy_after_the_operator_creates_the_topic(
    application, in_git, objects, operator, topics
):
    operator.stop()
    revision = application.commit(*in_git(orders={}))
    assert application.until_synced(revision, "Progressing") == {KAFKA: "Progressing", ORDERS: "Progressing"}
    assert not topics.exists(objects.kafka_name("orders"))
    operator.start()
    assert application.until_synced(revision) == {KAFKA: "Healthy", ORDERS: "Healthy"}
    assert topics.exists(objects.kafka_name("orders"))


def test_infeasible_topic_degrades_the_application_until_it_is_corrected(application, in_git, operator):
    revision = application.commit(*in_git(orders={}, wide={"replicationFactor": 7}))
    application.until_synced(revision, "Degraded")  # the whole application, while other objects may still progress
    application.until_health({KAFKA: "Healthy", ORDERS: "Healthy", "KafkaTopic/wide": "Degraded"})
    application.until_synced(application.commit(*in_git(orders={}, wide={"replicationFactor": 6})))


@pytest.mark.parametrize("reason", TOPOLOGIES)
def test_waiting_plan_suspends_an_application_until_a_commit_approves_it(
    application, in_git, objects, operator, topics, reason
):
    topology = TOPOLOGIES[reason]
    application.until_synced(application.commit(*in_git(topology, orders={"replicationFactor": 2})))
    revision = application.commit(*in_git(topology, orders={"replicationFactor": 3}))
    assert application.until_synced(revision, "Suspended") == {KAFKA: "Healthy", ORDERS: "Suspended"}
    plan = waiting_plan(objects, reason)
    approval = in_git(approved(topology, plan), orders={"replicationFactor": 3})
    application.until_synced(application.commit(*approval, message=f"Approve plan {plan}"))
    assert {len(row) for row in topics.replicas(objects.kafka_name("orders"), 3)} == {3}


def test_annotation_approves_a_plan_and_its_reassignment_is_healthy(application, in_git, objects, operator):
    application.until_synced(application.commit(*in_git(orders={"replicationFactor": 2})))
    manifests = in_git(orders={"replicationFactor": 3})
    revision = application.commit(*manifests)
    application.until_synced(revision, "Suspended")
    waiting_plan(objects, "PlanPending")
    approve_by_annotation(application, objects)
    application.until_synced(revision)
    (moves,) = application.kubectl.in_namespace(objects.namespace).json("get", "reassignments")["items"]
    name = moves["metadata"]["name"]
    kept = {**moves, "metadata": {"namespace": objects.namespace, "name": name}}
    del kept["status"]
    health = application.until_synced(application.commit(*manifests, kept))
    assert health == {KAFKA: "Healthy", ORDERS: "Healthy", f"Reassignment/{name}": "Healthy"}


def resume_by_annotation(application, objects):
    objects.annotate_topic("orders", {"rackspan.dev/paused": None})


def terminate(application, objects):
    application.terminate()


def terminate_by_patch(application, objects):
    application.terminate_by_patch()


def commit_that_is_passed_over(application, in_git, objects, reason):
    """Commit the end of the wait of a first sync wave. Return the revision, which Argo CD sees but does not sync."""
    if reason == "Paused":
        before, waits, after = in_git(orders={}), in_git(orders={"partitions": 4}), in_git(orders={"partitions": 4})
        waits[1]["metadata"]["annotations"] = {"rackspan.dev/paused": "true"}
    else:
        before, waits = (in_git(TOPOLOGIES[reason], orders={"replicationFactor": factor}) for factor in (2, 3))
    shop = in_wave(1, SHOP_IN_GIT)
    application.until_synced(application.commit(*before))
    running = application.commit(*waits, shop)
    objects.until_stalled("orders", reason)
    if reason != "Paused":
        approval = approved(TOPOLOGIES[reason], waiting_plan(objects, reason))
        after = in_git(approval, orders={"replicationFactor": 3})
    revision = application.commit(*after, shop)
    health = application.until_passed_over(revision, running)
    assert health == {KAFKA: "Healthy", ORDERS: "Suspended", SHOP: "Missing"}
    return revision


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [
        ("PlanPending", terminate),
        ("PlanPending", approve_by_annotation),
        ("PlanAboveLimit", terminate_by_patch),
        ("Paused", terminate),
        ("Paused", resume_by_annotation),
    ],
)
def test_suspended_wave_blocks_the_commit_that_ends_the_wait_until_a_manual_action(
    application, in_git, objects, operator, reason, way_out
):
    revision = commit_that_is_passed_over(application, in_git, objects, reason)
    way_out(application, objects)
    assert application.until_synced(revision) == {KAFKA: "Healthy", ORDERS: "Healthy", SHOP: "none"}


def test_topics_in_the_last_wave_do_not_block_the_commit_that_approves_their_plan(
    application, in_git, objects, operator
):
    def waves(topology, **orders):
        kafka, topic = in_git(topology, orders=orders)
        return kafka, in_wave(1, topic)

    application.until_synced(application.commit(*waves({}, replicationFactor=2)))
    application.until_synced(application.commit(*waves({}, replicationFactor=3)), "Suspended")
    approval = approved({}, waiting_plan(objects, "PlanPending"))
    application.until_synced(application.commit(*waves(approval, replicationFactor=3)))


def test_wave_starts_after_the_previous_wave_is_healthy(application, in_git, objects, operator):
    operator.stop()
    kafka, topic = in_git(orders={})
    revision = application.commit(kafka, in_wave(1, topic), in_wave(2, SHOP_IN_GIT))
    application.until_health({KAFKA: "Progressing", ORDERS: "Missing", SHOP: "Missing"})
    operator.start()
    assert application.until_synced(revision) == {KAFKA: "Healthy", ORDERS: "Healthy", SHOP: "none"}
    shop = application.kubectl.in_namespace(objects.namespace).json("get", "configmap", "shop")
    topic = objects.topic("orders")
    assert ready_since(objects.topology()) <= topic["metadata"]["creationTimestamp"]
    assert ready_since(topic) <= shop["metadata"]["creationTimestamp"]


def test_manual_change_is_reverted_exactly_once(application, in_git, objects, operator, topics):
    revision = application.commit(*in_git(orders={"config": {"retention.ms": "86400000"}}))
    application.until_synced(revision)
    generation = objects.change_topic("orders", config={"retention.ms": "1000"})["metadata"]["generation"]
    topics.until_config(objects.kafka_name("orders"), {"retention.ms": "86400000"})
    application.until_synced(revision)
    application.until_looked()
    assert objects.topic("orders")["metadata"]["generation"] == generation + 1


def test_field_outside_git_stays_with_the_manager_that_set_it(application, in_git, objects, operator):
    revision = application.commit(*in_git(orders={}))
    application.until_synced(revision)
    objects.change_topic("orders", config={"retention.ms": "86400000"})
    application.until_looked()
    application.until_synced(revision)
    topic = objects.topic("orders")
    assert topic["spec"]["config"] == {"retention.ms": "86400000"}
    owned = [one for one in topic["metadata"]["managedFields"] if one["manager"] == "argocd-controller"]
    assert [(one["operation"], "f:config" in one["fieldsV1"]["f:spec"]) for one in owned] == [("Apply", False)]


def test_pruning_follows_the_deletion_policy(application, in_git, objects, operator, topics):
    application.until_synced(application.commit(*in_git(orders={}, clicks={}, old={"deletionPolicy": "Delete"})))
    known = topics.id(objects.kafka_name("clicks"))
    application.until_synced(application.commit(*in_git(orders={})))
    for name in ("clicks", "old"):
        objects.until_gone("KafkaTopic", name)
    assert topics.id(objects.kafka_name("clicks")) == known
    assert not topics.exists(objects.kafka_name("old"))


def test_cascade_deletion_completes_and_follows_the_deletion_policy(application, in_git, objects, operator, topics):
    application.until_synced(application.commit(*in_git(orders={}, old={"deletionPolicy": "Delete"})))
    known = topics.id(objects.kafka_name("orders"))
    application.delete_with_objects()
    assert objects.topics() == []
    assert objects.read("RackTopology", TOPOLOGY) is None
    assert topics.id(objects.kafka_name("orders")) == known
    assert not topics.exists(objects.kafka_name("old"))
