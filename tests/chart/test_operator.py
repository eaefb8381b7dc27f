"""The real operator, with the settings and the rights from the chart."""

import json
import secrets
import sys
import urllib.request
from pathlib import Path

import pytest
from dev.stack.processes import free_ports
from dev.waiting import eventually
from tests.chart.conftest import SECRET

ZONE = "topology.kubernetes.io/zone"


def topology(name, address, namespace):
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "RackTopology",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"rackspan.dev/scan-now": "1"}},
        "spec": {
            "kafka": {
                "bootstrapServers": address,
                "sasl": {"mechanism": "PLAIN", "secretRef": {"name": SECRET}},
            },
            "levels": [{"name": "zone", "nodeLabel": ZONE}],
            "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
            "compliance": {"concurrencyPolicy": "Replace"},
        },
    }


def topic(name, topology, namespace, **metadata):
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "topologyRef": {"name": topology},
            "partitions": 3,
            "replicationFactor": 2,
            "deletionPolicy": "Delete",
        },
    }


def held(kubectl, topology, namespace):
    """Return the name of a KafkaTopic whose deletion waits, or None if the operator overwrote the patched status."""
    name = f"{topology}-held-{secrets.token_hex(3)}"
    kubectl.apply(topic(name, topology, namespace))
    kubectl("wait", "--for=condition=Ready=False", f"kafkatopic/{name}", "--timeout=300s")
    had = json.dumps({"status": {"topicId": "one-of-ours", "clusterId": "the-one"}})
    kubectl("patch", "kafkatopic", name, "--subresource=status", "--type=merge", f"--patch={had}")
    kubectl(
        "patch", "kafkatopic", name, "--type=merge", '--patch={"metadata": {"finalizers": ["rackspan.dev/finalizer"]}}'
    )
    kubectl("delete", "kafkatopic", name, "--wait=false")

    def told():
        found = kubectl("get", "kafkatopic", name, "--ignore-not-found", "--output=json")
        conditions = json.loads(found)["status"]["conditions"] if found else ()
        return not found or any(condition["reason"] == "DeletionBlocked" for condition in conditions)

    eventually(told, "the deletion to be seen")
    return name if kubectl("get", "kafkatopic", name, "--ignore-not-found", "--output=name") else None


def reassignments_end_and_the_oldest_go(kubectl, name):
    """Create one invalid plan and eleven that are cancelled before they begin. The operator keeps ten plans."""
    kubectl.apply(*(reassignment(name, number, cancelled=number > 0) for number in range(12)))

    def states():
        found = kubectl.json("get", "reassignments", f"--field-selector=spec.topologyRef.name={name}")["items"]
        return [one.get("status", {}).get("state") for one in found]

    eventually(lambda: len(states()) == 10 and set(states()) <= {"Cancelled", "Stopped"}, "ten plans that have ended")


def reassignment(name, number, *, cancelled):
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "Reassignment",
        "metadata": {"name": f"{name}-{number}"},
        "spec": {
            "topologyRef": {"name": name},
            "planHash": f"{number:016x}",
            "plan": "eJw=",
            "cancelled": cancelled,
        },
    }


def racks_follow_nodes_and_go_with_their_topology(cluster, kubectl, name):
    container = {"name": "kafka", "image": "kafka"}
    metadata = {"name": "kafka-7", "labels": {"app": "kafka"}}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": name, "containers": [container]}}
    )

    def told():
        return kubectl(
            "get",
            "pod",
            "kafka-7",
            "--ignore-not-found",
            r"--output=jsonpath={.metadata.annotations.rackspan\.dev/rack}",
        )

    def racks():
        return kubectl("get", "configmap", f"{name}-racks", "--ignore-not-found", "--output=jsonpath={.data.nodes}")

    eventually(racks, "racks to be published")
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {ZONE: "a"}}})
    eventually(lambda: f"{name} a" in racks(), "the node's rack")
    eventually(lambda: told() == "a", "the rack on the pod")
    cluster("delete", "node", name)
    eventually(lambda: not told(), "no rack on the pod")
    kubectl("delete", "pod", "kafka-7", "--grace-period=0", "--force", "--ignore-not-found")
    kubectl("delete", "racktopology", name, "--timeout=300s")
    eventually(lambda: not racks(), "the racks to go")


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as response:
        return response.read().decode()


@pytest.fixture
def operator(release, plane, processes):
    """Start the operator with the settings of its Deployment, outside of a Pod. Yield its container."""
    deployment = plane.kubectl.json("get", "deployment", release.name, f"--namespace={release.namespace}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    name = f"{release.name}-operator"
    program = Path(sys.executable).with_name("rackspan")
    processes.start(
        name,
        [str(program), *container["args"]],
        env={**environment, "RACKSPAN_KUBECONFIG": str(release.path), "RACKSPAN_LISTEN_HOST": "127.0.0.1"},
    )

    def ready():
        processes.check(name)
        return fetch(release.port, container["readinessProbe"]["httpGet"]["path"])

    eventually(ready, "the operator to be ready", retry_on=OSError)
    yield container
    processes.stop(name)


def test_operator_works_with_the_rights_of_the_chart_and_uses_all_of_them(operator, release, plane, processes):
    kubectl, name, watched = plane.kubectl.in_namespace(release.watched), release.name, release.watched
    # No broker listens there. To report an unreachable topology takes all rights except those for Kafka.
    kubectl.apply(topology(name, f"127.0.0.1:{free_ports(1)[0]}", watched))
    gone = topic(f"{name}-gone", name, watched, finalizers=["rackspan.dev/finalizer"])
    kubectl.apply(topic(f"{name}-orders", name, watched), gone)

    def condition(kind, object_name, wanted):
        found = kubectl.json("get", kind, object_name).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == wanted), None)

    ready = eventually(lambda: condition("kafkatopics", f"{name}-orders", "Ready"), "the topic's status")
    assert (ready["status"], ready["reason"]) == ("False", "TopologyNotReady")
    connected = eventually(lambda: condition("racktopologies", name, "Connected"), "the topology's status")
    assert connected["status"] == "False"

    # An object that had a topic waits for Kafka, unless its whole namespace or kind is being deleted.
    waits = eventually(lambda: held(kubectl, name, watched), "a deletion that waits")
    kubectl("patch", "kafkatopic", waits, "--type=merge", '--patch={"spec": {"deletionPolicy": "Retain"}}')
    kubectl("wait", "--for=delete", f"kafkatopic/{waits}", "--timeout=300s")

    # The operator releases an object that never had a topic in Kafka, although Kafka is unreachable.
    kubectl("delete", "kafkatopic", f"{name}-gone", "--timeout=300s")

    def events():
        found = kubectl.json("get", "events")["items"]
        return [e for e in found if e["involvedObject"]["name"] == name and e["source"].get("component") == "rackspan"]

    assert eventually(events, "an Event about the topology")

    # The operator counts a repeated message on its first Event.
    kubectl.apply(topic(f"{name}-early", f"{name}-late", watched))

    def turned_away(reason):
        return lambda: (condition("kafkatopics", f"{name}-early", "Ready") or {}).get("reason") == reason

    def counted():
        found = [e for e in kubectl.json("get", "events")["items"] if e["involvedObject"]["name"] == f"{name}-early"]
        return max((e["count"] for e in found), default=0)

    eventually(turned_away("TopologyNotFound"), "the topic to miss its topology")
    kubectl.apply(topology(f"{name}-late", f"127.0.0.1:{free_ports(1)[0]}", watched))
    eventually(turned_away("TopologyNotReady"), "the topic to have its topology")
    kubectl("delete", "racktopology", f"{name}-late", "--timeout=300s")
    eventually(turned_away("TopologyNotFound"), "the topic to miss its topology again")
    eventually(lambda: counted() == 2, "the second time to be counted")

    if name == "scanning":  # a new scan replaces a running one
        jobs = plane.kubectl.in_namespace(release.namespace)

        def scans():
            return {job["metadata"]["uid"] for job in jobs.json("get", "jobs")["items"]}

        first = eventually(scans, "a scan")
        kubectl("annotate", "racktopology", name, "rackspan.dev/scan-now=2", "--overwrite")
        eventually(lambda: scans() - first, "another scan in its place")
    reassignments_end_and_the_oldest_go(kubectl, name)
    if name == "narrow":
        racks_follow_nodes_and_go_with_their_topology(plane.kubectl, kubectl, name)
    everything = set(plane.requests(release.user))
    # The operator asks once for SparkApplications of an earlier start, also without the right to list them.
    seen = {request for request in everything if request.resource != "sparkapplications"}
    assert {request.verb for request in everything - seen} <= {"list"}
    assert {request for request in seen if request.code in (401, 403)} == set()
    used = {(request.verb, request.group, request.resource) for request in seen}
    rights = release.rights(watched) | release.rights(release.namespace)
    granted = {(verb, group, resource) for verb, group, resource, _ in rights}
    # To begin a plan or to restart a broker, Kafka must be reachable.
    unused = {("create", "rackspan.dev", "reassignments"), ("get", "", "pods"), ("create", "", "pods/eviction")}
    assert used <= granted
    assert granted - used <= unused
    assert "orbidden" not in processes.log(f"{name}-operator").read_text()
    assert "rackspan_kubernetes_request_seconds" in fetch(release.port, "/metrics")
    assert json.loads(fetch(release.port, operator["livenessProbe"]["httpGet"]["path"]))["ok"] is True


@pytest.mark.parametrize("release", ["without_applications"], indirect=True)
def test_disabled_scan_engine_does_not_stop_scans_of_other_topologies(operator, release, plane):
    kubectl, watched = plane.kubectl.in_namespace(release.watched), release.watched
    jobs = plane.kubectl.in_namespace(release.namespace)
    other, asking = topology("other", "127.0.0.1:1", watched), topology("asking", "127.0.0.1:1", watched)
    asking["spec"]["compliance"]["engine"] = "SparkApplication"

    def scanned(name):
        found = kubectl.json("get", "racktopologies", name).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == "Scanned" and c["reason"] == "ScanNotStarted"), None)

    def scans(name):
        found = jobs.json("get", "jobs", f"--selector=rackspan.dev/topology={name}")["items"]
        return {job["metadata"]["uid"] for job in found}

    kubectl.apply(asking)
    told = eventually(lambda: scanned("asking"), "the engine to be told to be off")
    assert told["status"] == "False"
    words = "SparkApplications cannot be listed (scan.sparkApplications of the chart): "
    assert told["message"].startswith(words)
    assert "orbidden" in told["message"]
    refused = {(one.verb, one.resource) for one in plane.requests(release.user) if one.code == 403}
    assert refused == {("list", "sparkapplications")}, "the API server denies only this list"

    kubectl.apply(other)
    first = eventually(lambda: scans("other"), "the other's scan")
    kubectl("annotate", "racktopology", "other", "rackspan.dev/scan-now=2", "--overwrite")
    eventually(lambda: scans("other") - first, "its next scan")
    assert scans("asking") == set()
    kubectl("patch", "racktopology", "asking", "--type=merge", '--patch={"spec": {"compliance": {"engine": "Job"}}}')
    eventually(lambda: scans("asking"), "a scan by the engine that is there")
