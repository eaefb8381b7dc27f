"""Drains of brokers and racks as in the runbook of docs/operations.md: only empty targets are reported as empty."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dev.stack.kafka_cluster import PATIENT, KafkaCluster
from dev.waiting import eventually
from tests.support.command import cli
from tests.support.objects import condition
from tests.support.topics import Topics

CONFIGS = "ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def own_kafka(processes, kafka_distribution):
    """Three brokers in two zones, without topics of other tests."""
    cluster = KafkaCluster.start(
        processes.directory / "drained-kafka", processes, kafka_distribution, ["/a", "/b", "/b"], properties=PATIENT
    )
    yield cluster
    cluster.destroy()


def _drained(objects, status, reason):
    return objects.until_topology("Drained", status, reason)


def _drain(topology, target):
    return next(drain for drain in topology["status"]["drains"] if drain["target"] == target)


@pytest.fixture
def fleet(objects, own_kafka, operator):
    """One topic of every kind, all on broker 0."""
    topics = Topics(own_kafka.admin())
    objects.create_topology(own_kafka.bootstrap(), rackSource="Broker", brokers=None, levels=[{"name": "zone"}])
    objects.until_topology()
    one = {"partitions": 1, "replicationFactor": 1}
    for name in ("planned", "stuck", "fixed", "bare"):
        topics.create(objects.kafka_name(name), [[0]])
    topics.create("__internal", [[0]])
    objects.create_topic("planned", **one)
    objects.create_topic("stuck", placement={"brokers": {"include": ["0"]}}, **one)
    objects.create_topic("fixed", placement={"assignment": [[0]]}, **one)
    for name in ("planned", "stuck", "fixed"):
        objects.until_ready(name)
    return objects


def test_drain_is_complete_only_when_kafka_has_no_replica_left_on_the_target(
    fleet, own_kafka, operator, kubectl, promise, control_plane, tmp_path
):
    fleet.change_topology(drainBrokers=[77])
    promise.kept_by(_drained(fleet, "False", "UnknownBroker"), "Drained")
    fleet.change_topology(drainBrokers=None, drainRacks=["/eu"])
    promise.kept_by(_drained(fleet, "False", "UnknownRack"), "Drained")

    fleet.change_topology(drainRacks=["/a"], drainBrokers=[0])
    left = {"total": 5, "managed": 2, "explicit": 1, "unmanaged": 1, "internal": 1}
    waits = ["ExplicitAssignment", "Infeasible", "InternalTopic", "NotManaged", "PlanPending"]

    def all_told(found):
        blocks = [block["reason"] for drain in found["status"].get("drains", ()) for block in drain.get("blocks", ())]
        return blocks == 2 * waits

    told = fleet.until("RackTopology", "kafka", all_told, "to tell what each replica waits for")
    for target in ("0", "/a"):
        assert _drain(told, target)["replicas"] == left
        assert _drain(told, target)["observedAt"]
    assert condition(told, "Drained")["reason"] == "Draining"
    assert told["status"]["brokers"][0]["draining"] is True
    assert "draining" not in told["status"]["brokers"][1]
    shown = kubectl("get", "racktopology", "kafka", f"--namespace={fleet.namespace}")
    assert "0 of 2 drained, 10 replicas left" in shown
    holding = fleet.until_not_ready("fixed", "HoldsUpDrain")
    assert condition(holding, "Compliant")["status"] == "False"
    label = f"{fleet.namespace}/kafka"
    assert operator.metric("rackspan_drain_replicas_left", topology=label, domain="/a") == 5

    fleet.change_topic("fixed", placement={"assignment": [[2]]})
    fleet.change_topic("stuck", placement=None)
    for name in ("fixed", "stuck", "planned"):
        fleet.until_not_ready(name, "PlanPending")
    names = [fleet.kafka_name(name) for name in ("planned", "stuck", "fixed", "bare")]
    _move(own_kafka, tmp_path, [*names[:2], *names[3:]])
    told = fleet.until(
        "RackTopology", "kafka", lambda found: _drain(found, "0").get("replicas", {}).get("total") == 2, "to count down"
    )
    assert condition(told, "Drained")["status"] == "False", "the drain is complete although two replicas are left"
    _move(own_kafka, tmp_path, [names[2], "__internal"])
    kubectl("wait", f"--namespace={fleet.namespace}", "--for=condition=Drained", "racktopology/kafka", "--timeout=300s")
    done = fleet.topology()
    assert [drain["drained"] for drain in done["status"]["drains"]] == [True, True]
    assert operator.metric("rackspan_drain_replicas_left", topology=label) == 0
    cluster = ("--topology", f"{fleet.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    proven = cli("drain", "0", *cluster, "--wait", "--bootstrap-server", own_kafka.bootstrap())
    assert proven.code == 0, proven.err
    assert proven.out.splitlines()[-1] == "0: no replica is left, by the operator's word and by Kafka's own"
    assert cli("uncordon", "0", "--rack", "/a", *cluster).code == 0
    fleet.until("RackTopology", "kafka", lambda found: condition(found, "Drained") is None, "to be done with draining")


@pytest.mark.usefixtures("cordons")
def test_operator_cordons_a_broker_during_its_drain_and_keeps_cordons_of_other_clients(objects, own_kafka, operator):
    """The operator is killed during the drain. Kafka's own tool shows the cordons."""

    def alter(broker, *change):
        own_kafka.tool(CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", broker, *change)

    def cordons():
        shown = own_kafka.tool(CONFIGS, "--describe", "--entity-type", "brokers")
        return re.findall(r"configs for broker (\d) are:\n\s+cordoned\.log\.dirs=(\S*)", shown)

    cordoned = {"drain": {"cordon": True}, "levels": [{"name": "zone"}]}
    objects.create_topology(own_kafka.bootstrap(), rackSource="Broker", brokers=None, **cordoned)
    objects.until_topology()
    alter("2", "--add-config", "cordoned.log.dirs=*")
    try:
        objects.change_topology(drainBrokers=[1, 2])
        found = objects.until("RackTopology", "kafka", lambda found: found["status"].get("cordons"), "to cordon 1")
        assert found["status"]["cordons"] == [1]
        eventually(lambda: cordons() == [("1", "*"), ("2", "*")], "both to be cordoned")
        operator.kill()
        operator.start()
        objects.change_topology(drainBrokers=None)
        eventually(lambda: cordons() == [("2", "*")], "the operator's own cordon to be released")
        objects.until("RackTopology", "kafka", lambda found: not found["status"].get("cordons"), "to have no cordon")

        objects.change_topology(drainBrokers=[1])
        eventually(lambda: cordons() == [("1", "*"), ("2", "*")], "both to be cordoned again")
        objects.delete("RackTopology", "kafka")
        objects.until_gone("RackTopology", "kafka")
        assert cordons() == [("2", "*")]
    finally:
        if objects.read("RackTopology", "kafka") is not None:
            objects.change_topology(drainBrokers=None)
        for broker in ("1", "2"):
            alter(broker, "--delete-config", "cordoned.log.dirs")


@pytest.mark.usefixtures("cordons")
def test_cordoned_broker_keeps_its_replicas_and_gets_no_new_ones(objects, own_kafka, operator, tmp_path):
    """Kafka's own tool cordons the broker (KIP-1066)."""
    topics, old, new = Topics(own_kafka.admin()), objects.kafka_name("old"), objects.kafka_name("new")
    topics.create(old, [[1]])
    objects.create_topology(own_kafka.bootstrap(), rackSource="Broker", brokers=None, levels=[{"name": "zone"}])
    objects.until_topology()

    def alter(*change):
        own_kafka.tool(CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", "1", *change)

    def shown(topology):
        return [broker.get("cordoned") for broker in topology["status"].get("brokers", ())]

    alter("--add-config", "cordoned.log.dirs=*")
    try:
        told = objects.until("RackTopology", "kafka", lambda found: shown(found) == [None, True, None], "to tell of it")
        assert "broker 1 is cordoned in Kafka" in condition(told, "BrokersOnline")["message"]
        objects.create_topic("new", partitions=8, replicationFactor=1)
        objects.create_topic("old", partitions=4, replicationFactor=1)
        objects.until_ready("new")
        objects.until_ready("old")
        placed = (*topics.replicas(new, 8), *topics.replicas(old, 4)[1:])
        assert {broker for row in placed for broker in row} == {0, 2}
        assert topics.replicas(old, 4)[0] == (1,), "a replica left the cordoned broker"

        file = tmp_path / "cluster.json"
        file.write_text(cli("snapshot", "--bootstrap-server", own_kafka.bootstrap()).out)
        brokers = {broker["id"]: broker.get("cordoned", False) for broker in json.loads(file.read_text())["brokers"]}
        assert brokers == {0: False, 1: True, 2: False}
        for source in (("--snapshot", file), ("--bootstrap-server", own_kafka.bootstrap())):
            planned = cli("plan", *source, "--topic", f"{old}|{new}", "--rebalance", "-o", "json")
            assert "broker 1 is cordoned in Kafka" in planned.err
            assert not [one for one in planned.json["partitions"] if 1 in set(one["replicas"]) - set(one["from"])]
    finally:
        alter("--delete-config", "cordoned.log.dirs")
    objects.until("RackTopology", "kafka", lambda found: shown(found) == [None] * 3, "to tell that it is over")
    for name in (old, new):
        topics.delete(name)


@pytest.mark.usefixtures("cordons")
def test_drain_empties_a_manually_cordoned_broker_and_keeps_its_cordon(objects, own_kafka, operator, control_plane):
    topics, name = Topics(own_kafka.admin()), objects.kafka_name("orders")
    topics.create(name, [[1, 0], [0, 1]])
    spec = {"drain": {"cordon": True}, "levels": [{"name": "zone"}]}

    def alter(*change):
        own_kafka.tool(CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", "1", *change)

    alter("--add-config", "cordoned.log.dirs=*")
    try:
        objects.create_topology(own_kafka.bootstrap(), rackSource="Broker", brokers=None, **spec)
        objects.create_topic("orders", partitions=2, replicationFactor=2)
        objects.until_ready("orders")
        of_topology = ("--topology", f"{objects.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
        ran = cli("drain", "1", "--approve", "--wait", "--timeout=4m", *of_topology)
        assert ran.code == 0, ran.err
        assert {frozenset(row) for row in topics.replicas(name, 2)} == {frozenset({0, 2})}
        objects.until_ready("orders")
        assert not objects.read("RackTopology", "kafka")["status"].get("cordons")
        assert cli("uncordon", "1", *of_topology).code == 0
        shown = own_kafka.tool(CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1")
        assert "cordoned.log.dirs=*" in shown
    finally:
        alter("--delete-config", "cordoned.log.dirs")
    topics.delete(name)


@pytest.mark.usefixtures("cordons")
def test_kubectl_plugin_drains_and_uncordons_a_broker(objects, own_kafka, operator, kubectl, control_plane):
    topics, name = Topics(own_kafka.admin()), objects.kafka_name("orders")
    topics.create(name, [[1, 0], [0, 1]])
    spec = {"drain": {"cordon": True}, "levels": [{"name": "zone"}]}
    objects.create_topology(own_kafka.bootstrap(), rackSource="Broker", brokers=None, **spec)
    objects.create_topic("orders", partitions=2, replicationFactor=2)
    objects.until_ready("orders")

    def plugin(*arguments):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = [kubectl.binary, "rackspan", *arguments, "--topology", f"{objects.namespace}/kafka"]
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    shown = plugin("drain", "1", "--approve", "--wait", "--timeout=4m", "--bootstrap-server", own_kafka.bootstrap())
    there = r"2 replicas there now: 2 can leave by plan ([0-9a-f]{32}) \(2 moves, .* to copy\)"
    plan = re.fullmatch(there, shown[0])[1]
    what = f"RackTopology {objects.namespace}/kafka: brokers and racks to drain:"
    told = [f"{what} 1", f"plan {plan} is approved"]
    assert shown[1] == "1: 2 replicas left: 2 to move by the plan"
    assert shown[2:4] == told
    assert shown[-1] == "1: no replica is left, by the operator's word and by Kafka's own"
    assert {frozenset(row) for row in topics.replicas(name, 2)} == {frozenset({0, 2})}
    objects.until_ready("orders")
    of_topology = ("--topology", f"{objects.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    stands = eventually(lambda: (ran := cli("status", *of_topology, "-o", "json")).code == 0 and ran.json, "status 0")
    assert (stands["next"], {one["name"]: one["state"] for one in stands["aspects"]}["drains"]) == (None, "FINE")
    objects.until(
        "RackTopology", "kafka", lambda found: found["status"].get("cordons") == [1], "to cordon what is empty"
    )
    # No plan moves the explicitly assigned replicas on broker 0: the output is the same with and without --wait.
    objects.change_topic("orders", placement={"assignment": [list(row) for row in topics.replicas(name, 2)]})
    objects.until_ready("orders")
    ran = [cli("drain", "0", *of_topology, *options) for options in ((), ("--wait", "--timeout=4m"))]
    sentence = "no plan moves what is left: 0: 2 replicas left: 2 assigned there explicitly"
    assert [(one.code, one.error) for one in ran] == [(5, sentence)] * 2
    assert ran[0].hint == ran[1].hint == f"take the brokers out of spec.placement.assignment of these topics: {name}"
    assert plugin("uncordon", "0") == [f"{what} 1"]
    assert plugin("uncordon", "1") == [f"{what} none"]
    objects.until(
        "RackTopology", "kafka", lambda found: condition(found, "Drained") is None, "to be done with draining"
    )
    objects.until("RackTopology", "kafka", lambda found: not found["status"].get("cordons"), "to have released it")
    topics.delete(name)


def _move(kafka, folder, names):
    """Move the only partition of each topic to broker 2 with Kafka's own tool."""
    file = folder / "moves.json"
    rows = [{"topic": name, "partition": 0, "replicas": [2]} for name in names]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    kafka.tool(REASSIGN, "--reassignment-json-file", str(file), "--execute")
