"""Plans on real brokers: shown, refused by a stale hash, carried out by the right one or by a policy."""

import json

import pytest
from tests.support.command import cli
from tests.support.objects import condition

from rackspan.api.labels import APPROVE_PLAN

STALE = "0123456789abcdef"


def reassigned(topology, reason):
    return topology.until_condition("RackTopology", "kafka", "Reassigned", "False", reason)


def planned(topology, control_plane):
    """The hash that the command line prints."""
    ran = cli(
        "plan", "--topology", f"{topology.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig, "-o", "json"
    )
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["hash"]


def approve(topology, plan):
    topology.patch("RackTopology", "kafka", {"metadata": {"annotations": {APPROVE_PLAN: plan}}})


@pytest.mark.timeout(600)
def test_plans_are_carried_out_by_approval_and_by_policy_and_a_drained_broker_ends_empty(
    topology, topics, control_plane
):
    name = topology.kafka_name("orders")
    topology.create_topic("orders", partitions=4, replicationFactor=2)
    topology.until_ready("orders")

    topology.change_topic("orders", replicationFactor=3)
    topology.until_not_ready("orders", "PlanPending")
    told = condition(reassigned(topology, "PlanPending"), "Reassigned")["message"]
    assert "copies 4 replicas for 1 topic, and no plan copies fewer; it waits for approval; to approve it: " in told
    approve(topology, STALE)
    told = condition(reassigned(topology, "StaleApproval"), "Reassigned")["message"]
    assert f"{STALE} was approved, which is another plan" in told
    topology.until_event("kafka", "StaleApproval")
    assert [len(row) for row in topics.replicas(name)] == [2, 2, 2, 2]
    right = planned(topology, control_plane)
    approve(topology, right)
    topology.until_ready("orders", timeout=180)
    assert [len(row) for row in topics.replicas(name)] == [3, 3, 3, 3]
    topology.until_event("kafka", "PlanApproved")
    topology.until(
        "RackTopology",
        "kafka",
        lambda found: APPROVE_PLAN not in found["metadata"].get("annotations", {}),
        "to have its annotation spent",
    )

    topology.change_topic("orders", replicationFactor=2, reassignment={"approval": "Automatic"})
    topology.until_ready("orders", timeout=180)
    assert [len(row) for row in topics.replicas(name)] == [2, 2, 2, 2]

    topology.change_topic("orders", reassignment=None)
    topology.until_ready("orders")
    drained = topics.replicas(name)[0][0]
    topology.change_topology(drainBrokers=[drained])
    topology.until_not_ready("orders", "PlanPending")
    topology.change_topology(reassignment={"approvedPlan": planned(topology, control_plane)})
    topology.until_ready("orders", timeout=180)
    assert drained not in {broker for row in topics.replicas(name) for broker in row}
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")
