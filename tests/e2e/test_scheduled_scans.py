"""The operator in a pod starts scans of a real Kafka as pods. The ComplianceReport contains their findings."""

import json
import secrets

import pytest
from dev.waiting import eventually
from tests.e2e.conftest import BROKERS, NAMESPACE, NODES, TOPIC, TOPOLOGY

from rackspan.jobs.history.scan_history import History


@pytest.fixture
def shop(topology):
    """kubectl in the namespace of the topology. Scheduled scans are suspended after the test."""
    kubectl = topology.cluster.kubectl.in_namespace(BROKERS)
    yield kubectl
    change(kubectl, suspend=True)


def change(kubectl, **compliance):
    patch = json.dumps({"spec": {"compliance": compliance}})
    kubectl("patch", "racktopology", TOPOLOGY, "--type=merge", f"--patch={patch}")


def request(kubectl):
    kubectl("annotate", "--overwrite", "racktopology", TOPOLOGY, f"rackspan.dev/scan-now={secrets.token_hex(4)}")


def reported(kubectl):
    """Return the status of the ComplianceReport of the topology, empty before the first scan."""
    found = kubectl.json("get", "compliancereports", f"--field-selector=metadata.name={TOPOLOGY}")["items"]
    return found[0].get("status", {}) if found else {}


def next_report(pods, kubectl, before=None):
    """Wait for a report of another scan than `before` and for the end of its Job. Return the status and the pod."""

    def another():
        status = reported(kubectl)
        return status if status.get("scanId") not in (None, before) else None

    try:
        status = eventually(another, "the next scan's report", interval=1)
    except TimeoutError as error:
        jobs = pods.kubectl("describe", "jobs")
        logs = pods.kubectl("logs", "--selector=app.kubernetes.io/component=scan", "--tail=40")
        raise AssertionError(f"{error}\n{kubectl('describe', 'racktopologies')}\n{jobs}\n{logs}") from error
    (pod,) = pods.wait_for_job(status["scanId"])
    return status, pod


def about_topic(status):
    return {finding["rule"] for finding in status["findings"] if finding.get("topic") == TOPIC}


def test_scheduled_scan_runs_as_a_pod_and_reports_its_findings(topology, shop):
    before = reported(shop).get("scanId")
    change(shop, schedule="* * * * *", suspend=False)
    status, pod = next_report(topology, shop, before)
    assert pod["spec"]["nodeName"] in NODES
    assert pod["spec"]["serviceAccountName"] == "rackspan-scan"
    assert pod["metadata"]["labels"]["rackspan.dev/scan-trigger"] == "Schedule"
    assert "NotCompliant" in about_topic(status)
    assert status["summary"]["nonCompliant"] >= 2
    assert status["engine"] == "Job"
    history = topology.volume / BROKERS / TOPOLOGY
    assert list(history.glob("findings/cluster=*/*/*.parquet"))


def test_next_scan_clears_findings_that_a_reassignment_fixed(topology, shop, pods_kafka, tmp_path):
    request(shop)
    before, _ = next_report(topology, shop, reported(shop).get("scanId"))
    assert "NotCompliant" in about_topic(before)
    moves = [{"topic": TOPIC, "partition": 0, "replicas": [0, 2]}, {"topic": TOPIC, "partition": 1, "replicas": [3, 1]}]
    plan = tmp_path / "moves.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    pods_kafka.tool(tool, f"--reassignment-json-file={plan}", "--execute")
    verify = (tool, f"--reassignment-json-file={plan}", "--verify")
    eventually(lambda: "still in progress" not in pods_kafka.tool(*verify), "the replicas to have moved")
    request(shop)
    after, pod = next_report(topology, shop, before["scanId"])
    assert pod["metadata"]["labels"]["rackspan.dev/scan-trigger"] == "Request"
    assert "NotCompliant" not in about_topic(after)
    assert {gone["topic"] for gone in after["changes"]["clearedFindings"] if gone["rule"] == "NotCompliant"} == {TOPIC}

    def told():
        events = shop.json("get", "events", f"--field-selector=involvedObject.name={TOPOLOGY}")["items"]
        return [event for event in events if event["reason"] == "FindingCleared" and TOPIC in event["message"]]

    try:
        eventually(told, "an Event about what is cleared")
    except TimeoutError as error:
        logs = topology.kubectl("logs", "deployment/rackspan", "--tail=60")
        raise AssertionError(f"{error}\n{shop('get', 'events')}\n{logs}") from error


def test_spark_on_kubernetes_scans_with_executor_pods_on_several_nodes(topology, shop):
    before = reported(shop).get("scanId")
    change(shop, engine="SparkOnKubernetes", executors={"instances": 2, "cores": 1, "memory": "512m"})
    request(shop)
    status, driver = next_report(topology, shop, before)
    executors = topology.started(f"{status['scanId']}-exec-")
    assert len(executors) >= 2
    assert len({*executors.values(), driver["spec"]["nodeName"]}) >= 2
    assert driver["metadata"]["name"] not in executors
    assert status["engine"] == "SparkOnKubernetes"
    assert status["summary"]["partitions"] >= 2
    history = topology.volume / BROKERS / TOPOLOGY
    kept = History(str(history))
    (entry,) = (one for name in kept.clusters() for one in kept.scans(name) if one.scan_id == status["scanId"])
    assert len(kept.rows("brokers", [entry])) > 0

    def gone():
        left = topology.kubectl.json("get", "pods", f"--namespace={NAMESPACE}", "--selector=spark-role=executor")
        return not left["items"]

    eventually(gone, "the executors to be gone with their driver")
