"""Plans on real brokers: shown, refused for a stale hash, carried out after approval or by policy."""

import json
from itertools import cycle

import pytest
from dev.stack.kafka_cluster import PATIENT, KafkaCluster
from dev.stack.nodes import SIX_BROKERS
from tests.support.command import cli
from tests.support.moves import REASSIGN, filled
from tests.support.objects import condition
from tests.support.topics import Topics
from tests.support.waiting import until

from rackspan.api.labels import APPROVE_PLAN
from rackspan.cli.shared.command_errors import ExitCode

STALE = "0123456789abcdef" * 2
SIZE = 10_000_000
"""Bytes per partition. Kafka copies at least 1 MB per 11 seconds at any throttle: minutes for this size."""


@pytest.fixture(scope="module")
def kafka(processes, kafka_distribution):
    """Six brokers without topics of other tests, because plans over a whole cluster depend on all its topics."""
    racks = {site.broker: site.path for site in SIX_BROKERS}
    directory = processes.directory / "approval-kafka"
    cluster = KafkaCluster.start(directory, processes, kafka_distribution, racks, properties=PATIENT)
    yield cluster
    cluster.destroy()


@pytest.fixture(scope="module")
def topics(kafka):
    return Topics(kafka.admin())


def reassigned(topology, reason):
    return topology.until_condition("RackTopology", "kafka", "Reassigned", "False", reason)


def whole_plan(topology, control_plane, form, *options):
    """Return the plan that the command line prints."""
    ran = cli("plan", *of(topology, control_plane), "-o", form, *options)
    assert ran.code == ExitCode.FINE, ran.err
    return ran.json


def planned(topology, control_plane, *options):
    """Return the hash of the plan that the command line prints."""
    return whole_plan(topology, control_plane, "json", *options)["hash"]


def of(topology, control_plane):
    return "--topology", f"{topology.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig


def being_copied(topology, control_plane, moves):
    """Return the partitions of a plan that do not wait in `rackspan watch`. Check that it counts all as copying."""
    told = cli("watch", *of(topology, control_plane), "--once", "-o", "json").json
    waiting = {one for reason in told["waiting"]["reasons"] for one in reason["samples"]}
    rest = {f"{one['topic']}-{one['partition']}" for one in moves["partitions"]} - waiting
    assert (told["moved"], told["copying"]) == (0, len(rest)), told
    return rest


def listed(kafka):
    """Return the partitions that get new replicas according to Kafka's reassignment tool."""
    lines = kafka.tool(REASSIGN, "--list").splitlines()
    return {line.partition(":")[0] for line in lines if "adding:" in line}


def approve(topology, plan):
    topology.patch("RackTopology", "kafka", {"metadata": {"annotations": {APPROVE_PLAN: plan}}})


def carried_out_as_kafkas_tool_sees_it(topology, kafka, control_plane, plan, file):
    """Approve the plan of `orders` and check that Kafka's tool lists the same copies and verifies the same result."""
    moves, name = whole_plan(topology, control_plane, "reassignment"), f"kafka-{plan}"
    filled(kafka, topology.kafka_name("orders"), 4, SIZE)
    topology.change_topology(reassignment={"throttle": 1, "maxConcurrentMoves": 1})
    approve(topology, plan)
    topology.until("Reassignment", name, lambda found: found.get("status", {}).get("copying"), "to copy")
    assert listed(kafka) == being_copied(topology, control_plane, moves)
    topology.patch("Reassignment", name, {"spec": {"throttle": 100_000_000, "maxConcurrentMoves": 20}})
    done = topology.until("Reassignment", name, lambda found: found["status"]["state"] == "Succeeded", "to succeed")
    assert done["status"]["progress"]["moves"] == "4/4"
    file.write_text(json.dumps(moves))
    said = kafka.tool(REASSIGN, "--verify", "--reassignment-json-file", str(file)).splitlines()
    completed = {
        f"Reassignment of partition {one['topic']}-{one['partition']} is completed." for one in moves["partitions"]
    }
    assert {line for line in said if line.startswith("Reassignment of")} == completed
    topology.change_topology(reassignment=None)


def test_plans_run_after_approval_or_by_policy_and_a_drained_broker_becomes_empty(
    topology, kafka, topics, control_plane, tmp_path
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
    assert f"{STALE} was approved, which is not the current plan" in told
    topology.until_event("kafka", "StaleApproval")
    assert [len(row) for row in topics.replicas(name)] == [2, 2, 2, 2]
    right = planned(topology, control_plane)
    topology.until(
        "RackTopology",
        "kafka",
        lambda found: found["status"]["plan"].get("bytes") is not None,
        "to tell the plan's bytes",
    )
    topology.until("KafkaTopic", "orders", lambda found: "bytes" in found["status"].get("plan", {}), "to tell bytes")
    carried_out_as_kafkas_tool_sees_it(topology, kafka, control_plane, right, tmp_path / "moves.json")
    topology.until_ready("orders")
    until(lambda: [len(row) for row in topics.replicas(name)] == [3, 3, 3, 3], "3 replicas")
    topology.until_event("kafka", "PlanApproved")
    topology.until(
        "RackTopology",
        "kafka",
        lambda found: APPROVE_PLAN not in found["metadata"].get("annotations", {}),
        "to have its annotation spent",
    )

    topology.change_topic("orders", replicationFactor=2, reassignment={"approval": "Automatic"})
    topology.until_ready("orders")
    until(lambda: [len(row) for row in topics.replicas(name)] == [2, 2, 2, 2], "2 replicas")

    topology.change_topic("orders", reassignment=None)
    topology.until_ready("orders")
    drained, other = topics.replicas(name)[0]
    bare = topology.kafka_name("bare")
    topics.create(bare, [[drained, other]])
    topology.change_topology(drainBrokers=[drained])
    topology.until_not_ready("orders", "PlanPending")
    topology.change_topology(reassignment={"approvedPlan": planned(topology, control_plane)})
    topology.until_ready("orders")
    until(lambda: drained not in {broker for row in topics.replicas(name) for broker in row}, "the drain")
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")

    assert drained in topics.replicas(bare)[0], "a replica without a KafkaTopic left the drained broker"
    at_once = {"maxConcurrentMoves": 1000, "maxConcurrentMovesPerBroker": 1000, "approvedPlan": None}
    topology.change_topology(unmanagedTopics="Repair", reassignment=at_once)
    assert "without a KafkaTopic" in condition(reassigned(topology, "PlanPending"), "Reassigned")["message"]
    approve(topology, planned(topology, control_plane))
    until(lambda: drained not in topics.replicas(bare)[0], "the topic without a KafkaTopic to leave the broker")
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")

    topology.change_topology(drainBrokers=None)
    filling = planned(topology, control_plane, "--rebalance")
    topology.change_topology(rebalance="OnNewBrokers")
    reassigned(topology, "PlanPending")
    assert condition(topology.topic("orders"), "Ready")["status"] == "True"
    approve(topology, filling)
    until(lambda: topics.load()[0].get(drained), "the broker that was emptied to be filled")
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")


def test_constant_changes_of_a_tenant_topic_do_not_delay_plans_of_other_namespaces(topology, topics, namespace_factory):
    tenant, sizes = topology.elsewhere(namespace_factory()), cycle((3, 4))
    automatic = {"reassignment": {"approval": "Automatic"}}
    topology.change_topology(allowedNamespaces={"from": "All"}, defaults=automatic, reassignment={"maxMoves": 20})
    topology.until_topology()
    tenant.create_topic("restless", partitions=15, replicationFactor=2)
    topology.create_topic("orders", partitions=2, replicationFactor=2)
    tenant.until_ready("restless")
    topology.until_ready("orders")
    topology.change_topic("orders", replicationFactor=3)

    def moved():
        tenant.change_topic("restless", replicationFactor=next(sizes))
        return [len(row) for row in topics.replicas(topology.kafka_name("orders"))] == [3, 3]

    until(moved, "the owner's topic to get its replicas")
    assert len(topics.replicas(tenant.kafka_name("restless"))[0]) == 2
