"""Flux applies objects from Git, and its Kustomization with `wait: true` follows their conditions."""

import pytest
from tests.support.objects import TOPOLOGY


@pytest.mark.parametrize("created_before", [False, True], ids=["new", "existing"])
def test_a_kustomization_waits_for_the_operator(flux, in_git, objects, operator, topics, created_before):
    operator.stop()
    manifests = in_git(orders={})
    if created_before:
        for manifest in manifests:
            objects.create(manifest)
    revision = flux.commit(*manifests)
    told = flux.until_failed(revision)
    assert "timeout waiting for" in told
    assert f"KafkaTopic/{objects.namespace}/orders status: 'InProgress'" in told
    assert f"RackTopology/{objects.namespace}/{TOPOLOGY} status: 'InProgress'" in told
    assert not topics.exists(objects.kafka_name("orders"))
    operator.start()
    flux.until_ready(revision)
    assert topics.exists(objects.kafka_name("orders"))


def test_a_kustomization_fails_at_once_with_a_topic_that_cannot_be_as_asked(flux, in_git, objects, operator):
    told = flux.until_failed(flux.commit(*in_git(orders={}, wide={"replicationFactor": 7})))
    assert f"KafkaTopic/{objects.namespace}/wide status: 'Failed'" in told
    assert "orders" not in told
    objects.until_stalled("wide", "Infeasible")
    flux.until_ready(flux.commit(*in_git(orders={}, wide={"replicationFactor": 6})))


def test_a_plan_that_waits_fails_a_kustomization_until_a_commit_approves_it(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={"replicationFactor": 2})))
    told = flux.until_failed(flux.commit(*in_git(orders={"replicationFactor": 3})))
    assert f"KafkaTopic/{objects.namespace}/orders status: 'Failed'" in told
    objects.until_stalled("orders", "PlanPending")
    plan = objects.until_topology("Reassigned", "False", "PlanPending")["status"]["plan"]["hash"]
    approval = {"reassignment": {"approvedPlan": plan}}
    flux.until_ready(flux.commit(*in_git(approval, orders={"replicationFactor": 3}), message=f"Approve plan {plan}"))
    assert {len(row) for row in topics.replicas(objects.kafka_name("orders"), 3)} == {3}


def test_pruning_a_topic_keeps_it_in_kafka(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={}, clicks={})))
    known = topics.id(objects.kafka_name("clicks"))
    flux.until_ready(flux.commit(*in_git(orders={})))
    objects.until_gone("KafkaTopic", "clicks")
    assert topics.id(objects.kafka_name("clicks")) == known
