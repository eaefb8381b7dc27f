"""Results of scans on a real API server: the ComplianceReport, and a report of OpenReports if that kind exists."""

import pytest
from kubernetes import client
from tests.support.objects import GROUP, VERSION
from tests.support.published import served
from tests.support.reports import document, failed_document, finding

from rackspan.api.meta import ObjectKey
from rackspan.kube.rest import NotFoundError
from rackspan.kube.scan_reports import publish_scan
from rackspan.reports.document import MAX_FINDINGS, ScanChanges, Summary

pytestmark = pytest.mark.stack


@pytest.fixture
def scanned(objects, control_plane):
    """A topology, and a function that publishes the result of a scan of it and returns the report."""
    topology = objects.create_topology("127.0.0.1:1", compliance={"engine": "SparkOnKubernetes"})
    key = ObjectKey(objects.namespace, topology["metadata"]["name"])

    async def publish(scan):
        await publish_scan(scan, key, control_plane.kubeconfig)
        return client.CustomObjectsApi(objects.api).get_namespaced_custom_object(
            GROUP, VERSION, key.namespace, "compliancereports", key.name
        )

    return topology, publish


@pytest.fixture
def open_reports(kubectl):
    """The kind of OpenReports, which exists during the test."""
    with served(kubectl, "openreports.io", "reports"):
        yield


async def test_report_is_created_with_its_topology_as_owner(scanned):
    topology, publish = scanned
    report = await publish(document(findings=[finding("a")], summary=Summary(partitions=6, findings=1)))
    (owner,) = report["metadata"]["ownerReferences"]
    assert owner["uid"] == topology["metadata"]["uid"]
    assert report["spec"]["topologyRef"] == {"name": topology["metadata"]["name"]}
    status = report["status"]
    assert (status["scanId"], status["engine"]) == ("prod-1", "SparkOnKubernetes")
    assert status["summary"]["partitions"] == 6
    assert [found["id"] for found in status["findings"]] == ["a"]
    assert {item["type"]: item["status"] for item in status["conditions"]} == {"Ready": "True", "Compliant": "True"}


async def test_second_scan_replaces_all_results_of_the_first(scanned):
    _, publish = scanned
    first = Summary(findings=1, by_rule={"Offline": 1}, by_severity={"critical": 1})
    before = await publish(document(findings=[finding("a")], summary=first, history="s3a://bucket/x"))
    after = await publish(
        document("prod-2", started_at="2026-01-31T05:00:00Z", summary=Summary(by_rule={"RackDrift": 1}))
    )
    assert after["status"]["summary"]["byRule"] == {"RackDrift": 1}
    assert not after["status"].get("findings")
    assert "history" not in after["status"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_scan_without_findings_removes_the_earlier_counts(scanned):
    _, publish = scanned
    wrong = Summary(partitions=6, findings=1, by_rule={"Offline": 1}, by_severity={"critical": 1})
    await publish(document(findings=[finding("a")], summary=wrong))
    later = {"started_at": "2026-01-31T05:00:00Z", "summary": Summary(partitions=6)}
    status = (await publish(document("prod-2", **later)))["status"]
    assert status["scanId"] == "prod-2"
    assert (status["summary"]["partitions"], status["summary"]["findings"]) == (6, 0)
    assert not status["summary"].get("byRule")
    assert not status.get("findings")


async def test_failed_scan_is_reported_and_keeps_the_findings_of_the_previous_scan(scanned):
    _, publish = scanned
    await publish(document(findings=[finding("a")]))
    status = (await publish(failed_document("prod-2", "KafkaUnreachable", "no broker answers")))["status"]
    assert status["failure"]["reason"] == "KafkaUnreachable"
    assert [found["id"] for found in status["findings"]] == ["a"]
    assert (await publish(document("prod-3", started_at="2026-01-31T06:00:00Z")))["status"].get("failure") is None


async def test_report_of_an_earlier_scan_does_not_overwrite_a_later_one(scanned):
    _, publish = scanned
    await publish(document("late", started_at="2026-01-31T05:00:00Z"))
    assert (await publish(document("early", started_at="2026-01-31T03:00:00Z")))["status"]["scanId"] == "late"


async def test_api_server_accepts_the_largest_report(scanned):
    _, publish = scanned
    long = [finding(f"{n:064x}", message="ü" * 3_000, fix="x" * 3_000, topic="t" * 249) for n in range(MAX_FINDINGS)]
    changes = ScanChanges(new=9, cleared=9, new_findings=long, cleared_findings=long)
    report = await publish(document(findings=long, changes=changes))
    assert report["status"]["findings"]


async def test_publishing_a_scan_of_a_missing_topology_raises_not_found(scanned, control_plane, objects):
    with pytest.raises(NotFoundError, match="nowhere"):
        await publish_scan(document(), ObjectKey(objects.namespace, "nowhere"), control_plane.kubeconfig)


async def test_published_definition_of_open_reports_accepts_the_report(scanned, open_reports, objects):
    topology, publish = scanned
    many = [finding(str(n), topic="orders", partition=n, broker=1, fix="do") for n in range(MAX_FINDINGS)]
    await publish(document(findings=many, summary=Summary(partitions=9, by_severity={"high": 2_000})))
    read = client.CustomObjectsApi(objects.api).get_namespaced_custom_object
    name = topology["metadata"]["name"]
    report = read("openreports.io", "v1alpha1", objects.namespace, "reports", name)
    assert report["summary"]["fail"] == 2_000
    assert report["results"][0]["properties"]["topic"] == "orders"
    assert report["scope"]["uid"] == topology["metadata"]["uid"]
    await publish(failed_document("prod-2", "KafkaUnreachable", "no broker answers"))
    report = read("openreports.io", "v1alpha1", objects.namespace, "reports", name)
    assert [row["result"] for row in report["results"]] == ["error"]
