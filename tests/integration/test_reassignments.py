"""Plans that the operator carries out on real brokers: throttled, with a killed operator, and cancelled."""

import contextlib
import os
import secrets
import signal

import pytest
from kubernetes import client
from tests.support.moves import Apply, ask, filled, moved_topic, throttles, under_way
from tests.support.objects import condition
from tests.support.waiting import until

from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.racktopology import RackTopology
from rackspan.core.planning import Change
from rackspan.core.rack_path import parse_rack
from rackspan.core.reassignment import Setting, SettingKind
from rackspan.core.reassignment.throttles import RATES
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, reassignments_of

KIND = "Reassignment"
SIZE = 15_000_000
"""Bytes per partition. A throttled broker fetches about 1 MB per 11 seconds, so the copy takes minutes."""
BEFORE, PLANNED = ((0, 1, 2), (1, 2, 0)), ((3, 1, 2), (1, 2, 4))


@pytest.fixture
def topic(topics):
    with moved_topic(topics, BEFORE) as name:
        yield name


def approved(topology, kafka, topic, before, planned, ref="kafka", **own):
    """Create the Reassignment of an approval with the settings `own` and return its name."""
    described = ask(kafka, lambda admin: admin.cluster())
    found = RackTopology.from_object(topology.topology(ref))
    racks = {broker.id: parse_rack(broker.rack) for broker in found.status.brokers}
    changes = [Change(topic, number, new, old) for number, (old, new) in enumerate(zip(before, planned, strict=True))]
    reported, text = {broker.id: broker.rack for broker in described.brokers}, secrets.token_hex(8)
    plan = ApprovedPlan(described.cluster_id, text, changes, racks, reported, approved_by="a test", names=(text,))
    (body,) = reassignments_of(found, plan)
    body["spec"] |= own
    return topology.create(body)["metadata"]["name"]


def raised(topology, kafka, partitions, **reassignment):
    """Raise the replication factor of a KafkaTopic `orders` to 3, approve the plan for it, and return its hash."""
    topology.create_topic("orders", partitions=partitions, replicationFactor=2)
    topology.until_ready("orders")
    filled(kafka, topology.kafka_name("orders"), partitions, SIZE)
    topology.change_topology(reassignment=reassignment)
    topology.change_topic("orders", replicationFactor=3)
    topology.until_not_ready("orders", "PlanPending")
    found = topology.until_condition("RackTopology", "kafka", "Reassigned", "False", "PlanPending")
    plan = found["status"]["plan"]["hash"]
    topology.patch("RackTopology", "kafka", {"metadata": {"annotations": {APPROVE_PLAN: plan}}})
    return plan


def in_state(topology, name, *states):
    return topology.until(KIND, name, lambda found: found.get("status", {}).get("state") in states, f"in {states}")


def test_throttled_plan_survives_an_operator_kill_and_a_deleted_plan_is_reverted(
    topology, kafka, topics, topic, operator, kubectl
):
    filled(kafka, topic, 2, SIZE)
    topology.change_topology(reassignment={"throttle": 20_000})
    topology.until_topology()  # the operator has seen the change: Reassignments arrive through another watch
    name = approved(topology, kafka, topic, BEFORE, PLANNED)
    topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    running = in_state(topology, name, "Running")
    assert condition(running, "Reconciling")["reason"] == "Moving"
    assert running["status"]["throttles"] > 0
    until(lambda: len(throttles(kafka, topic)) == running["status"]["throttles"], "brokers to know of throttles")
    shown = kubectl("get", "rra", name, f"--namespace={topology.namespace}")
    assert "Running" in shown
    assert "0/2" in shown
    topology.until_event(name, "ReassignmentStarted")
    label = f"{topology.namespace}/kafka"
    until(lambda: operator.metric("rackspan_reassignment_moves", topology=label) == 2, "the metric")

    operator.kill()
    topology.change_topology(reassignment={"throttle": 100_000_000})
    operator.start()
    done = in_state(topology, name, "Succeeded", "Failed", "Stopped")
    assert done["status"]["state"] == "Succeeded", done["status"]
    assert done["status"]["progress"]["moves"] == "2/2"
    until(lambda: topics.replicas(topic, 2) == PLANNED, "the planned replicas")
    until(lambda: not under_way(kafka, topic), "nothing under way")
    until(lambda: not throttles(kafka, topic), "no throttle")
    until(lambda: not topology.read(KIND, name)["metadata"].get("finalizers"), "the finalizer to be gone")
    topology.until_event(name, "ReassignmentCompleted")

    back = approved(topology, kafka, topic, PLANNED, BEFORE, throttle=20_000)
    topology.until(KIND, back, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    topology.delete(KIND, back)
    topology.until_gone(KIND, back)
    until(lambda: topics.replicas(topic, 2) == PLANNED, "what was under way to be taken back")
    assert not under_way(kafka, topic)
    until(lambda: not throttles(kafka, topic), "no throttle")


def test_deletion_of_a_topology_stops_and_deletes_its_reassignment(
    topology, kafka, topics, topic, operator, api_client
):
    filled(kafka, topic, 2, SIZE)
    name = approved(topology, kafka, topic, BEFORE, PLANNED, throttle=20_000)
    topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    topology.delete("RackTopology", "kafka")
    topology.until_gone("RackTopology", "kafka")
    topology.until_gone(KIND, name)  # garbage collection: its owner is deleted
    until(lambda: not throttles(kafka, topic), "no throttle")
    core = client.CoreV1Api(api_client)

    def announced():
        return {event.reason for event in core.list_namespaced_event(topology.namespace).items}

    until(lambda: "ReassignmentStopped" in announced(), "an Event")
    until(lambda: not under_way(kafka, topic), "what was under way to end, without a throttle")


def audited(operator, plan):
    """Return the audit log entries for a plan since the last start of the operator."""
    return [line["audit"] for line in operator.log if line.get("audit", {}).get("plan") == plan]


def test_apply_and_operator_keep_the_throttles_of_each_other(topology, kafka, topics, topic, operator, tmp_path):
    filled(kafka, topic, 2, SIZE)
    name = approved(topology, kafka, topic, BEFORE, ((3, 1, 2), (2, 1, 4)), throttle=20_000)
    running = topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    theirs = until(lambda: len(found := throttles(kafka, topic)) == running["status"]["throttles"] and found)

    other = f"{topic}-other"
    topics.create(other, [[0, 1]])
    process = None
    try:
        filled(kafka, other, 1, SIZE)
        moving = Apply(kafka, other, tmp_path)
        drained = ("--drain-broker", "0")
        process = moving.start(*drained, "--approve", moving.plan(*drained)["hash"], "--throttle", "50MB/s")
        until(lambda: under_way(kafka, other), "the command's copy to begin")
        until(lambda: theirs.items() <= throttles(kafka, topic).items(), "the operator's throttles")
        assert any("throttles that others have set are left alone: broker " in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGSTOP)  # the operator started first and finishes first
        topology.patch(KIND, name, {"spec": {"throttle": 100_000_000}})
        done = in_state(topology, name, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        os.killpg(process.pid, signal.SIGCONT)
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        until(lambda: not throttles(kafka, topic), "no throttle of the operator")
        until(lambda: not throttles(kafka, other), "no throttle of the command")
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        topics.admin.delete_topics([other])[other].result(120)
    lines = audited(operator, done["spec"]["planHash"])
    assert {"AlterThrottle", "AlterReplicas", "ElectLeader"} <= {line["operation"] for line in lines}
    assert {(line["approvedBy"], line["object"]["name"]) for line in lines} == {("a test", name)}
    assert {line["topic"] for line in lines if line["operation"] == "AlterReplicas"} == {topic}


def test_plan_of_one_topology_keeps_throttles_of_another_topology_of_the_same_kafka(
    topology, kafka, topics, topic, operator
):
    """Both plans copy to broker 3. First the earlier plan ends last, then the later one."""
    other = f"{topic}-other"
    topics.create(other, [[0, 1]])
    topology.create_topology(kafka.bootstrap(), "twin")
    topology.until_topology(name="twin")
    try:
        filled(kafka, topic, 2, SIZE)
        slow = approved(topology, kafka, topic, BEFORE, PLANNED, throttle=20_000)
        running = topology.until(KIND, slow, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
        first = until(lambda: len(found := throttles(kafka, topic)) == running["status"]["throttles"] and found)

        fast = approved(topology, kafka, other, ((0, 1),), ((3, 1),), "twin", throttle=100_000_000)
        done = in_state(topology, fast, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        until(lambda: topics.replicas(other, 1) == ((3, 1),), "the other topic's replicas")
        until(lambda: throttles(kafka, topic) == first, "the throttles of the first plan alone")

        filled(kafka, other, 1, SIZE)
        back = approved(topology, kafka, other, ((3, 1),), ((0, 1),), "twin", throttle=20_000)
        topology.until(KIND, back, lambda found: found.get("status", {}).get("copying", 0) == 1, "to copy")
        topology.patch(KIND, slow, {"spec": {"throttle": 100_000_000}})
        done = in_state(topology, slow, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        topology.patch(KIND, back, {"spec": {"throttle": 100_000_000}})
        done = in_state(topology, back, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        until(lambda: not throttles(kafka, topic) and not throttles(kafka, other), "no throttle")
    finally:
        topics.delete(other)


def test_throttle_set_by_a_user_during_a_plan_survives_an_operator_kill_and_the_plan(
    topology, kafka, topics, topic, operator
):
    filled(kafka, topic, 2, SIZE)
    name = approved(topology, kafka, topic, BEFORE, PLANNED, throttle=20_000)
    running = topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    until(lambda: len(throttles(kafka, topic)) == running["status"]["throttles"], "throttles")
    persons = Setting(SettingKind.BROKER, "1", RATES[0])
    try:
        assert ask(kafka, lambda admin: admin.set_settings({persons: "90000000"})) == {persons: None}
        until(lambda: throttles(kafka, topic)[persons] == "90000000")
        operator.kill()
        topology.patch(KIND, name, {"spec": {"throttle": 100_000_000}})
        operator.start()
        done = in_state(topology, name, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        until(lambda: throttles(kafka, topic) == {persons: "90000000"}, "the person's throttle alone")
        told = "that others have set are left alone: broker 1 leader.replication.throttled.rate 90000000"
        assert told in done["status"]["message"]
    finally:
        ask(kafka, lambda admin: admin.set_settings({persons: None}))


def test_approved_plan_cancelled_after_a_crash_does_not_start_again(topology, kafka, operator):
    plan = raised(topology, kafka, 2, throttle=20_000)
    made = until(lambda: topology.read(KIND, f"kafka-{plan}"), "the Reassignment")
    operator.kill()

    operator.start()
    topology.patch(KIND, f"kafka-{plan}", {"spec": {"cancelled": True}})
    ended = in_state(topology, f"kafka-{plan}", "Cancelled")
    assert ended["metadata"]["uid"] == made["metadata"]["uid"]
    topology.delete(KIND, f"kafka-{plan}")
    topology.until_gone(KIND, f"kafka-{plan}")
    # The operator computes the same plan again for a newer spec.
    topology.change_topology(reassignment={"throttle": 30_000})
    seen = topology.until_condition("RackTopology", "kafka", "Reassigned", "False", "PlanPending")
    assert seen["status"]["plan"]["hash"] == plan
    assert APPROVE_PLAN not in seen["metadata"].get("annotations", {})
    operator.after_passes(3, topology.label)
    assert topology.read(KIND, f"kafka-{plan}") is None


def test_topic_recreated_during_a_plan_keeps_its_replicas_and_the_plan_fails(topology, kafka, topics, operator):
    """Another client recreates the topic with more replicas while one of its three partitions is copied."""
    running = f"kafka-{raised(topology, kafka, 3, throttle=20_000, maxConcurrentMoves=1)}"
    name = topology.kafka_name("orders")
    topology.until(KIND, running, lambda found: found.get("status", {}).get("copying", 0) == 1, "to copy")
    four = [(0, 1, 2, 3)] * 3
    topics.admin.delete_topics([name])[name].result(300)
    topics.create(name, four)
    done = in_state(topology, running, "Succeeded", "Failed", "Stopped")
    assert done["status"]["state"] == "Failed", done["status"]
    # The operator may look between the deletion and the creation.
    assert any(word in done["status"]["message"] for word in ("Recreated", "Gone")), done["status"]
    assert topics.replicas(name, 3) == tuple(four)
    until(lambda: not under_way(kafka, name), "nothing under way")
    until(lambda: not throttles(kafka, name), "no throttle")
    topology.until_not_ready("orders", "TopicIdMismatch")


def test_single_replica_below_min_insync_is_moved_and_a_move_back_is_cancelled(topology, kafka, topics, operator):
    """A partition with one replica never meets `min.insync.replicas` 2, so no step has to keep that config met."""
    topic = f"operator-moves-{secrets.token_hex(4)}"
    topics.create(topic, [[1]], config={"min.insync.replicas": "2"})
    try:
        filled(kafka, topic, 1, SIZE)
        there = approved(topology, kafka, topic, ((1,),), ((2,),), throttle=100_000_000)
        done = in_state(topology, there, "Succeeded", "Failed", "Stopped")
        assert done["status"]["state"] == "Succeeded", done["status"]
        assert done["status"]["progress"]["moves"] == "1/1"
        until(lambda: topics.replicas(topic, 1) == ((2,),), "the planned replica")

        back = approved(topology, kafka, topic, ((2,),), ((1,),), throttle=20_000)
        topology.until(KIND, back, lambda found: found.get("status", {}).get("copying", 0) == 1, "to copy")
        topology.patch(KIND, back, {"spec": {"cancelled": True}})
        ended = in_state(topology, back, "Cancelled", "Succeeded", "Failed", "Stopped")
        ready = condition(ended, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "Cancelled")
        assert (ended["status"]["message"], ended["status"]["progress"]["moves"]) == (
            "cancelled after 0 of 1 move",
            "0/1",
        )
        assert ended["status"].get("throttles", 0) == 0
        assert not under_way(kafka, topic)
        lines = audited(operator, ended["spec"]["planHash"])
        assert "CancelReassignment" in {line["operation"] for line in lines}
        assert {(line["approvedBy"], line["object"]["name"]) for line in lines} == {("a test", back)}
        until(lambda: topics.replicas(topic, 1) == ((2,),), "the replica to stay")
        until(lambda: not throttles(kafka, topic), "no throttle")
    finally:
        topics.delete(topic)
