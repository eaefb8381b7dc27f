"""Argo CD applies objects from Git, and its Application follows their health by the check of examples/argocd."""

import pytest
from tests.support.objects import TOPOLOGY, condition

KAFKA, ORDERS, SHOP = f"RackTopology/{TOPOLOGY}", "KafkaTopic/orders", "ConfigMap/shop"
ABOVE_LIMIT = {"defaults": {"reassignment": {"approval": "Automatic"}}, "reassignment": {"maxMoves": 1}}
TOPOLOGIES = {"PlanPending": {}, "PlanAboveLimit": ABOVE_LIMIT}
"""What the spec of a topology has whose plans wait for this reason."""
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


def test_an_application_is_healthy_once_the_operator_has_made_the_topic(application, in_git, objects, operator, topics):
    operator.stop()
    revision = application.commit(*in_git(orders={}))
    assert application.until_synced(revision, "Progressing") == {KAFKA: "Progressing", ORDERS: "Progressing"}
    assert not topics.exists(objects.kafka_name("orders"))
    operator.start()
    assert application.until_synced(revision) == {KAFKA: "Healthy", ORDERS: "Healthy"}
    assert topics.exists(objects.kafka_name("orders"))


def test_a_topic_that_cannot_be_as_asked_is_degraded(application, in_git, operator):
    revision = application.commit(*in_git(orders={}, wide={"replicationFactor": 7}))
    application.until_synced(revision, "Degraded")  # as a whole, whatever the others are at that moment
    application.until_health({KAFKA: "Healthy", ORDERS: "Healthy", "KafkaTopic/wide": "Degraded"})
    application.until_synced(application.commit(*in_git(orders={}, wide={"replicationFactor": 6})))


@pytest.mark.parametrize("reason", TOPOLOGIES)
def test_a_plan_suspends_an_application_until_a_commit_approves_it(
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


def test_the_annotation_approves_a_plan_and_its_reassignment_has_a_health(application, in_git, objects, operator):
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
    """Commit what ends the wait of a sync's first wave. Returns the revision, after it was passed over."""
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
def test_a_wave_that_waits_blocks_the_commit_that_ends_the_wait(
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


def test_a_wave_waits_until_the_one_before_is_healthy(application, in_git, objects, operator):
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


def test_a_change_by_hand_is_put_back_once_and_nothing_is_fought_over(application, in_git, objects, operator, topics):
    revision = application.commit(*in_git(orders={"config": {"retention.ms": "86400000"}}))
    application.until_synced(revision)
    generation = objects.change_topic("orders", config={"retention.ms": "1000"})["metadata"]["generation"]
    topics.until_config(objects.kafka_name("orders"), {"retention.ms": "86400000"})
    application.until_synced(revision)
    application.until_looked()
    assert objects.topic("orders")["metadata"]["generation"] == generation + 1


def test_a_field_that_git_does_not_have_belongs_to_who_set_it(application, in_git, objects, operator):
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


def test_a_cascade_deletion_ends_and_follows_the_deletion_policy(application, in_git, objects, operator, topics):
    application.until_synced(application.commit(*in_git(orders={}, old={"deletionPolicy": "Delete"})))
    known = topics.id(objects.kafka_name("orders"))
    application.delete_with_objects()
    assert objects.topics() == []
    assert objects.read("RackTopology", TOPOLOGY) is None
    assert topics.id(objects.kafka_name("orders")) == known
    assert not topics.exists(objects.kafka_name("old"))
