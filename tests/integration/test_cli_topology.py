"""`--topology`: the command line computes the same plan as the operator, from the same objects."""

import itertools
import json
import re

import pytest
from dev.stack.nodes import LEVELS, ZONE_LABEL, relabel_node
from kubernetes import client
from tests.support.command import cli
from tests.support.waiting import until

from rackspan.api.drains import Drains
from rackspan.api.plans import topology_hash
from rackspan.cli.shared.topology_access import ask_topology

LISTS = {"orders": [[3, 0, 2], [2, 3, 1], [0, 4, 2]], "payments": [[1, 2, 3], [4, 0, 2]]}
"""Broker 3 has the only /us replica of some partitions. Of six brokers, 0 to 2 are in /eu and 3 to 5 in /us."""


@pytest.fixture
def adopted(topology, topics):
    """KafkaTopics for compliant topics, and one with an explicit assignment that no placer would choose."""
    for name, lists in LISTS.items():
        topics.create(topology.kafka_name(name), lists)
        topology.create_topic(name, partitions=len(lists))
    topology.create_topic("own", partitions=1, placement={"assignment": [[0, 1, 2]]})
    for name in (*LISTS, "own"):
        topology.until_ready(name)
    return topology


def own_warnings(ran):
    """Return the lines of standard error, except those about reassignments that other tests have left over."""
    return [line for line in ran.err.splitlines() if "being reassigned" not in line]


def test_cli_plan_has_the_hash_and_replica_lists_of_the_operator_plan(adopted, api_client, control_plane):
    core, zones = client.CoreV1Api(api_client), itertools.count()
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    assert cli("plan", *cluster, "-o", "json").json["topics"] == []
    known: set[str] = set()

    def told():
        """Return the plans of the statuses once they follow from the new label and the topology sums them up."""
        plans = {name: adopted.topic(name)["status"].get("plan") for name in LISTS}
        whole = adopted.topology()["status"].get("plan")
        if not whole or not all(plans.values()) or known.intersection(plan["hash"] for plan in plans.values()):
            return None
        hashes = {f"{adopted.namespace}/{name}": plan["hash"] for name, plan in plans.items()}
        return (whole, plans) if whole["hash"] == topology_hash(hashes) else None

    def the_same():
        """Relabel the node. None if leftovers of another test changed between the two reads of Kafka."""
        zone = f"eu-2{'abcdefghijklmnopqrstuvwxyz'[next(zones)]}"
        relabel_node(core, f"{adopted.namespace}-node-3", {LEVELS["region"]: "eu", ZONE_LABEL: zone})
        whole, plans = until(told, "a plan of both topics")
        known.update(plan["hash"] for plan in plans.values())
        ran = cli("plan", *cluster, "-o", "json")
        return (zone, whole, plans, ran) if ran.json["hash"] == whole["hash"] else None

    zone, whole, plans, ran = until(the_same, "the same plan inside and outside of the operator")
    assert ran.code == 0
    assert own_warnings(ran) == []
    assert ran.json["topology"] == f"{adopted.namespace}/kafka"
    assert {one["topic"]: one["hash"] for one in ran.json["topics"]} == {
        f"{adopted.namespace}/{name}": plan["hash"] for name, plan in plans.items()
    }
    for field in ("moves", "lowerBound", "reorders"):
        assert ran.json[field] == whole[field]
    changes = {
        (adopted.kafka_name(name), one["partition"]): (one["from"], one["replicas"])
        for name, plan in plans.items()
        for one in plan["samples"]
    }
    assert {
        (one["topic"], one["partition"]): (one["from"], one["replicas"]) for one in ran.json["partitions"]
    } == changes

    moves = cli("plan", *cluster, "-o", "reassignment").json["partitions"]
    assert {(one["topic"], one["partition"]): one["replicas"] for one in moves} == {
        where: lists[1] for where, lists in changes.items()
    }
    table = cli("plan", *cluster).out
    assert f"(plan {whole['hash']})" in table
    assert "an unknown number of bytes" not in table
    ours = ("--topic", re.escape(adopted.namespace) + ".*")
    checked = cli("check", *cluster, *ours, "-o", "json")
    assert checked.code == 1
    compliance = [adopted.topic(name)["status"]["compliance"] for name in (*LISTS, "own")]
    for field in ("nonCompliant", "moves"):
        assert checked.json["summary"][field] == sum(one[field] for one in compliance)
    advice = {one["fix"].partition(":")[0] for one in checked.json["findings"] if one["rule"] == "NotCompliant"}
    assert advice == {f"rackspan plan --topology {adopted.namespace}/kafka"}
    lost = cli("what-if", *cluster, *ours, "-o", "json").json["losses"]
    assert f"/eu/{zone}" in {row["domain"] for row in lost if row["level"] == "zone"}


def test_check_plan_and_status_agree_on_the_cost_of_replication_factor_changes(adopted, control_plane):
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    adopted.change_topic("orders", replicationFactor=4)
    adopted.change_topic("payments", replicationFactor=2)

    def told():
        plan = adopted.topology()["status"].get("plan") or {}
        return plan if plan.get("topics") == len(LISTS) else None

    whole = until(told, "a plan of both topics")
    assert (whole["moves"], whole["removals"]) == (3, 2)
    planned = cli("plan", *cluster, "-o", "json").json
    assert (planned["moves"], planned["removals"]) == (3, 2)
    checked = cli("check", *cluster, "--topic", re.escape(adopted.namespace) + ".*", "-o", "json").json
    assert checked["summary"]["moves"] == 3
    assert sum(adopted.topic(name)["status"]["compliance"]["moves"] for name in LISTS) == 3
    assert "copies 3 replicas" in (said := " ".join(cli("status", *cluster).out.split()))
    assert "and removes 2 replicas" in said


def test_check_warns_of_rules_about_levels_that_the_topology_does_not_have(adopted, control_plane):
    adopted.change_topic("own", durability={"minDomains": {"building": 2}})
    adopted.until_stalled("own", "UnknownLevel")
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    checked = cli("check", *cluster, "--topic", adopted.kafka_name("own"))
    unknown = (
        f"rules about unknown levels (known: region, zone, rack) are not checked, of 1 topic: {adopted.namespace}.own"
    )
    assert f"warning: {unknown}" in checked.err


def test_drain_changes_are_retried_on_conflict_and_keep_drains_of_other_clients(adopted, control_plane):
    name, read = f"{adopted.namespace}/kafka", []

    def change(drains):
        read.append(drains)
        if len(read) == 1:
            adopted.change_topology(drainRacks=["/us/us-1a"])
        return drains.with_added(Drains((5,)))

    kubeconfig = control_plane.kubeconfig
    written = ask_topology(name, kubeconfig, lambda edits: edits.change_drains(change))
    racks = [one.racks for one in read]  # one retry per status that the operator wrote in the meantime
    assert (racks[0], set(racks[1:])) == ((), {("/us/us-1a",)})
    assert Drains.of(written.spec) == Drains((5,), ("/us/us-1a",))
    applied = {"drainBrokers": [5], "drainRacks": ["/us/us-1a"]}
    assert {key: adopted.topology()["spec"][key] for key in applied} == applied
    cluster = ("--topology", name, "--kubeconfig", kubeconfig)
    assert cli("uncordon", "5", "--rack", "us/us-1a", *cluster, "--dry-run=server").code == 0
    assert {key: adopted.topology()["spec"][key] for key in applied} == applied
    assert cli("uncordon", "5", "--rack", "us/us-1a", *cluster).code == 0
    assert adopted.topology()["spec"]["drainRacks"] == adopted.topology()["spec"]["drainBrokers"] == []
    ran = cli("drain", "5", *cluster, "-o", "json")
    plan, left, drains = map(json.loads, ran.out.splitlines())
    assert (left["event"], left["target"]) == ("left", "5")
    assert drains["drainBrokers"] == adopted.topology()["spec"]["drainBrokers"] == [5]
    assert (plan["event"], plan["moves"] >= 0) == ("plan", True)


def test_plan_of_a_missing_topology_is_an_error(control_plane, crds):
    ran = cli("plan", "--topology", "nowhere/kafka", "--kubeconfig", control_plane.kubeconfig)
    assert (ran.code, ran.error) == (2, "there is no RackTopology nowhere/kafka")


@pytest.fixture
def named_by_team(adopted, kubectl):
    """An admission policy of the cluster administrators for the namespace of the test."""
    name = f"team-{adopted.namespace}"
    group = {"apiGroups": ["rackspan.dev"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": adopted.namespace}}
    kubectl.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": selector,
                    "resourceRules": [{**group, "resources": ["kafkatopics"]}],
                },
                "validations": [
                    {"expression": "has(object.metadata.labels)", "message": "spec.topicName needs a team"}
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )
    yield
    kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", name)


def test_server_dry_run_of_files_reports_refusals_and_stores_nothing(adopted, named_by_team, control_plane, tmp_path):
    manifest = adopted.topic_manifest("wish")
    file = tmp_path / "wish.yaml"
    file.write_text(json.dumps(manifest, indent=1))
    ours = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    asked = ("plan", "--filename", file, *ours)
    assert cli(*asked).code == 0, "the schema alone refuses the manifest"
    refused = until(lambda: (ran := cli(*asked, "--dry-run=server")).code == 2 and ran, "the policy to hold")
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "topicName" in text)
    assert refused.error.startswith(f"{file}:{line}: KafkaTopic wish: the API server refuses it: ")
    assert "spec.topicName needs a team" in refused.error
    manifest["metadata"] = {
        "name": "wish",
        "labels": {"team": "shop"},
    }  # the namespace defaults to that of the topology
    file.write_text(json.dumps(manifest, indent=1))
    assert cli(*asked, "--dry-run=server").code == 0
    assert adopted.read("KafkaTopic", "wish") is None
    alone = cli("plan", "--filename", file, "--snapshot", file, "--dry-run=server")
    assert (alone.code, alone.error) == (2, "--dry-run=server is for --filename with --topology")


def test_apply_carries_out_the_plan_of_a_topology(adopted, topics, control_plane, tmp_path):
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    adopted.change_topology(drainBrokers=[3])

    def applied():
        """Apply the current plan. False if leftovers of another test changed it, None if there is no plan yet."""
        plan = cli("plan", *cluster, "-o", "json")
        if plan.code or not plan.json["moves"]:
            return None
        approved = ("--approve", plan.json["hash"], "--throttle", "50MB/s", "--journal", tmp_path / "journal.json")
        ran = cli("apply", *cluster, *approved)
        assert ran.code in (0, 2), ran.err
        return ran.code == 0

    until(applied, "the plan to be carried out")
    for name, lists in LISTS.items():
        there = adopted.kafka_name(name), len(lists)
        until(lambda name=name: adopted.topic(name)["status"].get("plan") is None, "the operator's word")
        until(lambda there=there: not any(3 in replicas for replicas in topics.replicas(*there)), "the drain")
    assert not (tmp_path / "journal.json").exists()


def test_plan_of_files_over_live_objects_has_the_hash_of_the_operator(adopted, control_plane, tmp_path):
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)

    def planned(*manifests, options=("-o", "json")):
        (tmp_path / "topics.json").write_text("\n---\n".join(map(json.dumps, manifests)))
        return cli("plan", *cluster, "-f", tmp_path / "topics.json", *options)

    same = adopted.topic_manifest("own", partitions=1, placement={"assignment": [[0, 1, 2]]})
    assert planned(same, options=("--detailed-exitcode",)).code == 0
    moved = {**same, "spec": {**same["spec"], "placement": {"assignment": [[3, 4, 5]]}}}
    new = adopted.topic_manifest("new", durability={"tolerate": {"region": 1}}, replicationFactor=4)
    del new["metadata"]["namespace"]  # defaults to the namespace of the RackTopology
    ran = planned(moved, new)
    assert ran.code == 0
    assert own_warnings(ran) == []
    (created,) = ran.json["created"]
    assert (created["topic"], created["minInsyncReplicas"]) == (adopted.kafka_name("new"), 2)
    assert (ran.json["moves"], [one["topic"] for one in ran.json["partitions"]]) == (3, [adopted.kafka_name("own")])
    assert planned(moved, options=("--detailed-exitcode",)).code == 2
    adopted.change_topic("own", placement={"assignment": [[3, 4, 5]]})
    told = until(lambda: adopted.topology()["status"].get("plan"), "the operator's plan")
    assert told["hash"] == ran.json["hash"]

    shrunk = {**same, "spec": {**same["spec"], "topicName": "other"}}
    wrong = adopted.topic_manifest("lag", config={"min.compaction.lag.ms": 10, "max.compaction.lag.ms": 5})
    twice = adopted.topic_manifest("copy", topicName=adopted.kafka_name("orders"))
    ran = planned(shrunk, wrong, twice)
    assert ran.code == 2
    renamed, refused, conflict = ran.errors
    assert "spec.topicName: cannot change from" in renamed
    assert "> max.compaction.lag.ms (5)" in refused
    assert f"KafkaTopic {adopted.namespace}/orders already declares topic" in conflict


def test_scan_reports_write_locality_for_the_producers_of_the_topology(adopted, control_plane):
    racks = {broker["id"]: broker["rack"] for broker in adopted.topology()["status"]["brokers"]}
    producers = [{"rack": racks[0], "count": 2}, {"rack": "/nowhere"}]
    adopted.change_topology(compliance={"producers": producers})
    cluster = ("--topology", f"{adopted.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    scanned = ("scan", *cluster, "--engine", "local", "--exit-zero", "-o", "json")
    found = cli(*scanned).json["writes"]["racks"]
    assert [(row["rack"], row["producers"], row["reported"]) for row in found] == [
        (racks[0], 2, True),
        ("/nowhere", 1, False),
    ]
    (other,) = cli(*scanned, "--producers", racks[1]).json["writes"]["racks"]
    assert other["rack"] == racks[1]
