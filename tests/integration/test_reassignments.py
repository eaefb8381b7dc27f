"""The operator carries plans out on real brokers: throttled, killed on the way, and cancelled."""

import asyncio
import secrets

import pytest
from kubernetes import client
from tests.integration.test_apply import filled, throttles
from tests.support.objects import condition
from tests.support.waiting import until

from rackspan.api.racktopology import RackTopology
from rackspan.core.planning import Change
from rackspan.core.rack_path import parse_rack
from rackspan.kafka.reassignments import KafkaReassignments
from rackspan.reconcile.reassignment_ports import ApprovedPlan
from rackspan.reconcile.reassignments.plans import reassignments_of

KIND = "Reassignment"
SIZE = 5_000_000
"""Of a partition: it is copied for most of a minute, however slow those are who look at it meanwhile."""
BEFORE, PLANNED = ((0, 1, 2), (1, 2, 0)), ((3, 1, 2), (1, 2, 4))


@pytest.fixture
def topic(topics):
    name = f"operator-moves-{secrets.token_hex(4)}"
    topics.create(name, [list(row) for row in BEFORE])
    yield name
    topics.admin.delete_topics([name])[name].result(30)


def approved(topology, kafka, topic, before, planned, **own):
    """Make what an approval makes, by hand, with settings of its `own`; the Reassignment's name."""
    described = asyncio.run(asked(kafka, lambda admin: admin.cluster()))
    found = RackTopology.from_object(topology.topology())
    racks = {broker.id: parse_rack(broker.rack) for broker in found.status.brokers}
    changes = [Change(topic, number, new, old) for number, (old, new) in enumerate(zip(before, planned, strict=True))]
    plan = ApprovedPlan(
        described.cluster_id,
        secrets.token_hex(8),
        changes,
        racks,
        {broker.id: broker.rack for broker in described.brokers},
        "a test",
    )
    (body,) = reassignments_of(found, plan)
    body["spec"] |= own
    return topology.create(body)["metadata"]["name"]


async def asked(kafka, question):
    admin = KafkaReassignments(kafka.client_config())
    try:
        return await question(admin)
    finally:
        await admin.close()


def under_way(kafka, topic):
    states = asyncio.run(asked(kafka, lambda admin: admin.partitions([topic])))
    return [at for at, state in states.items() if state.under_way]


def in_state(topology, name, *states):
    return topology.until(KIND, name, lambda found: found.get("status", {}).get("state") in states, f"in {states}")


def test_a_plan_runs_throttled_survives_the_operators_death_and_a_deleted_one_is_taken_back(
    topology, kafka, topics, topic, operator, kubectl
):
    filled(kafka, topic, 2, SIZE)
    topology.change_topology(reassignment={"throttle": 20_000})
    name = approved(topology, kafka, topic, BEFORE, PLANNED)
    topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    running = in_state(topology, name, "Running")
    assert condition(running, "Reconciling")["reason"] == "Moving"
    assert running["status"]["throttles"] > 0
    until(lambda: len(throttles(kafka, topic)) == running["status"]["throttles"], what="brokers to know of throttles")
    shown = kubectl("get", "rra", name, f"--namespace={topology.namespace}")
    assert "Running" in shown
    assert "0/2" in shown
    topology.until_event(name, "ReassignmentStarted")
    label = f"{topology.namespace}/kafka"
    until(lambda: operator.metric("rackspan_reassignment_moves", topology=label) == 2, what="the metric")

    operator.kill()
    topology.change_topology(reassignment={"throttle": 100_000_000})
    operator.start()
    done = in_state(topology, name, "Succeeded", "Failed", "Stopped")
    assert done["status"]["state"] == "Succeeded", done["status"]
    assert done["status"]["progress"]["moves"] == "2/2"
    until(lambda: topics.replicas(topic, 2) == PLANNED, what="the planned replicas")
    until(lambda: not under_way(kafka, topic), what="nothing under way")
    until(lambda: not throttles(kafka, topic), what="no throttle")
    until(lambda: not topology.read(KIND, name)["metadata"].get("finalizers"), what="the finalizer to be gone")
    topology.until_event(name, "ReassignmentCompleted")

    back = approved(topology, kafka, topic, PLANNED, BEFORE, throttle=20_000)
    topology.until(KIND, back, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    topology.delete(KIND, back)
    topology.until_gone(KIND, back)
    until(lambda: topics.replicas(topic, 2) == PLANNED, what="what was under way to be taken back")
    assert not under_way(kafka, topic)
    until(lambda: not throttles(kafka, topic), what="no throttle")


def test_with_its_topology_a_reassignment_stops_and_goes(topology, kafka, topics, topic, operator, api_client):
    filled(kafka, topic, 2, SIZE)
    name = approved(topology, kafka, topic, BEFORE, PLANNED, throttle=20_000)
    topology.until(KIND, name, lambda found: found.get("status", {}).get("copying", 0) == 2, "to copy")
    topology.delete("RackTopology", "kafka")
    topology.until_gone("RackTopology", "kafka")
    topology.until_gone(KIND, name)  # as its owner is
    until(lambda: not throttles(kafka, topic), what="no throttle")
    core = client.CoreV1Api(api_client)

    def announced():
        return {event.reason for event in core.list_namespaced_event(topology.namespace).items}

    until(lambda: "ReassignmentStopped" in announced(), what="an Event")
    until(lambda: not under_way(kafka, topic), what="what was under way to end, without a throttle")
