"""Plans on real brokers: shown, refused for a stale hash, carried out after approval or by policy."""

import json
from itertools import cycle

from tests.support.command import cli
from tests.support.moves import REASSIGN, filled
from tests.support.objects import condition
from tests.support.waiting import until

from rackspan.api.labels import APPROVE_PLAN
from rackspan.cli.shared.command_errors import ExitCode

STALE = "0123456789abcdef" * 2
SIZE = 10_000_000
"""Bytes per partition. Kafka copies at least 1 MB per 11 seconds at any throttle: minutes for this size."""


def reassigned(topology, reason):
    return topology.until_condition("RackTopology", "kafka", "Reassigned", "False", reason)


def whole_plan(topology, control_plane, form, *options):
    """Return the plan that the command line prints, even if topics of other tests cannot comply."""
    ran = cli("plan", *of(topology, control_plane), "-o", form, *options)
    assert ran.code in (ExitCode.FINE, ExitCode.BAD_INPUT), ran.err
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


def carried_out(topology, control_plane, approving, plan, done, what):
    """Approve the plan and wait until `done()`. If topics of other tests have changed the plan, approve the new one."""

    def over():
        nonlocal plan
        told = condition(topology.topology(), "Reassigned")
        if told and told["reason"] == "StaleApproval" and plan in told["message"]:
            plan = planned(topology, control_plane)
            approving(topology, plan)
        return done()

    approving(topology, plan)
    until(over, what)


def left(topics, topic, broker):
    """Return whether no replica of the topic is on the broker."""
    return not any(broker in row for row in topics.replicas(topic))


def declare(topology, plan):
    topology.change_topology(reassignment={"approvedPlan": plan})


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
    plan = planned(topology, control_plane)
    carried_out(topology, control_plane, declare, plan, lambda: left(topics, name, drained), "the drain")
    topology.until_ready("orders")
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")

    assert drained in topics.replicas(bare)[0], "a replica without a KafkaTopic left the drained broker"
    at_once = {"maxConcurrentMoves": 1000, "maxConcurrentMovesPerBroker": 1000, "approvedPlan": None}
    internal = [found for found in topics.admin.list_topics(timeout=300).topics if found.startswith("__")]
    topology.change_topology(unmanagedTopics="Repair", internalTopics=internal, reassignment=at_once)
    assert "without a KafkaTopic" in condition(reassigned(topology, "PlanPending"), "Reassigned")["message"]
    plan, what = planned(topology, control_plane), "the topic without a KafkaTopic to leave the broker"
    carried_out(topology, control_plane, approve, plan, lambda: left(topics, bare, drained), what)
    topology.until_condition("RackTopology", "kafka", "Reassigned", "True", "InSync")

    topology.change_topology(drainBrokers=None)
    filling = planned(topology, control_plane, "--rebalance")
    topology.change_topology(rebalance="OnNewBrokers")
    reassigned(topology, "PlanPending")
    assert condition(topology.topic("orders"), "Ready")["status"] == "True"
    what = "the broker that was emptied to be filled"
    carried_out(topology, control_plane, approve, filling, lambda: topics.load()[0].get(drained), what)
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
