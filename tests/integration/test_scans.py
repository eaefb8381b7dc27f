"""Scans that the operator starts as Jobs on a real API server with the real Job controller. Tests act as kubelet."""

import datetime as dt
import secrets

import pytest
from tests.support.objects import condition, reasons
from tests.support.reports import failed_document, finding
from tests.support.scans import IMAGE, SCAN_NOW, UNREACHABLE, publish
from tests.support.waiting import until

from rackspan.reports.document import ScanChanges, Summary

pytestmark = pytest.mark.stack


def request(objects, value=None):
    """Request a scan and return the value of the annotation."""
    value = value or secrets.token_hex(4)
    objects.patch("RackTopology", "kafka", {"metadata": {"annotations": {SCAN_NOW: value}}})
    return value


def request_on_creation(objects, **compliance):
    value = secrets.token_hex(4)
    manifest = objects.topology_manifest(UNREACHABLE, **({"compliance": compliance} if compliance else {}))
    manifest["metadata"]["annotations"] = {SCAN_NOW: value}
    objects.create(manifest)
    return value


def scans_of(obj):
    return obj.get("status", {}).get("scans", {})


def failures(operator, objects):
    return operator.metric("rackspan_scans_ended_total", result="Failed", topology=f"{objects.namespace}/kafka")


def last_scan(obj):
    return obj.get("status", {}).get("lastScan", {})


async def test_requested_scan_runs_as_a_job_and_its_result_is_in_the_status(scanning, scans, objects, control_plane):
    value = request_on_creation(objects)
    (job,) = scans.until_jobs(1)
    assert job.metadata.labels["rackspan.dev/topology"] == "kafka"
    assert job.metadata.labels["rackspan.dev/topology-namespace"] == objects.namespace
    assert job.metadata.labels["rackspan.dev/scan-trigger"] == "Request"
    assert job.metadata.annotations["rackspan.dev/scan-cause"] == value
    pod = scans.pod(job.metadata.name)
    assert pod.spec.service_account_name == "rackspan-scan"
    container = pod.spec.containers[0]
    assert container.image == IMAGE
    assert container.args[:5] == ["scan", "--topology", f"{objects.namespace}/kafka", "--scan-id", job.metadata.name]
    assert container.security_context.read_only_root_filesystem
    objects.until("RackTopology", "kafka", lambda obj: last_scan(obj).get("state") == "Running")
    await publish(objects, control_plane, job.metadata.name, summary=Summary(partitions=6, non_compliant=2, findings=3))
    scans.end(job.metadata.name)
    topology = objects.until("RackTopology", "kafka", lambda obj: last_scan(obj).get("state") == "Completed")
    assert last_scan(topology)["findings"] == 3
    assert scans_of(topology)["handledRequest"] == value
    scanned = objects.until_condition("RackTopology", "kafka", "Scanned", "True", "ScanCompleted")
    assert condition(scanned, "Ready")["reason"] == "KafkaUnreachable", "a scan changed the condition Ready"
    assert scans.until_jobs(1), "the remaining annotation started another scan"


def test_schedule_sets_the_next_scan_time_and_old_jobs_are_deleted(scanning, scans, objects):
    hour = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=12)).hour  # not due while the test runs
    objects.create_topology(UNREACHABLE, compliance={"schedule": f"0 {hour} * * *", "successfulJobsHistoryLimit": 1})
    topology = objects.until("RackTopology", "kafka", lambda obj: scans_of(obj).get("nextAt"))
    assert scans_of(topology)["nextAt"].endswith(f"T{hour:02}:00:00Z")
    objects.until_condition("RackTopology", "kafka", "Scanned", "Unknown", "ScanWaiting")
    names = []
    for _ in range(3):
        request(objects)
        found = until(lambda: [job for job in scans.jobs() if job.metadata.name not in names], "another Job")
        names.append(found[-1].metadata.name)
        scans.end(names[-1])
        objects.until(
            "RackTopology",
            "kafka",
            lambda obj: (last_scan(obj).get("scanId"), last_scan(obj).get("state")) == (names[-1], "Completed"),
        )
    until(lambda: [job.metadata.name for job in scans.jobs()] == names[-1:], "only the latest Job to stay")


def test_scan_scheduled_every_minute_starts_on_time(operator_factory, scans, objects):
    flags = [f"--scan-image={IMAGE}", f"--scan-namespace={scans.namespace}", f"--namespace={objects.namespace}"]
    operator_factory(*flags, '--scan-limits={"scheduleIntervalSeconds": 60}')
    objects.create_topology(UNREACHABLE, compliance={"schedule": "* * * * *"})
    job = until(lambda: next(iter(scans.jobs()), None), "the scheduled Job")
    assert job.metadata.labels["rackspan.dev/scan-trigger"] == "Schedule"
    minutes = int(job.metadata.name.rpartition("-")[2])
    due = dt.datetime.fromtimestamp(minutes * 60, dt.UTC)
    assert job.metadata.annotations["rackspan.dev/scan-cause"] == due.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert dt.timedelta(0) <= job.metadata.creation_timestamp - due < dt.timedelta(minutes=1), (
        "the scan started after the next one was due"
    )


def test_restarted_operator_starts_no_second_scan_while_one_runs(scanning, scans, objects):
    request_on_creation(objects)
    scans.until_jobs(1)
    scanning.kill()
    scanning.start()
    request(objects)
    scans.until_jobs(1)
    objects.until("RackTopology", "kafka", lambda obj: last_scan(obj).get("state") == "Running")
    assert len(scans.jobs()) == 1, "the second request started a scan in spite of the policy Forbid"
    scans.end(scans.jobs()[0].metadata.name)
    scans.until_jobs(2, running=1)


def test_failed_scan_is_reported_and_does_not_block_the_next_one(scanning, scans, objects, promise):
    request_on_creation(objects, backoffLimit=3)
    (job,) = scans.until_jobs(1)
    scans.end(job.metadata.name, exit_code=2)  # bad input: a retry cannot help
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanFailed")
    assert last_scan(topology)["state"] == "Failed"
    assert "exit code 2" in condition(topology, "Scanned")["message"]
    promise.kept_by(topology, "Scanned")
    assert "ScanFailed" in reasons([objects.until_event("kafka", "ScanFailed")])
    assert scanning.metrics()["rackspan_scan_success"][("topology", f"{objects.namespace}/kafka"),] == 0
    request(objects)
    scans.until_jobs(2, running=1)


async def test_failed_scan_is_reported_with_the_message_of_its_report(scanning, scans, objects, control_plane):
    request_on_creation(objects)
    (job,) = scans.until_jobs(1)
    await publish(
        objects,
        control_plane,
        job.metadata.name,
        failed_document,
        reason="KafkaUnreachable",
        message="no broker answers",
    )
    scans.end(job.metadata.name)
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanFailed")
    assert "KafkaUnreachable: no broker answers" in condition(topology, "Scanned")["message"]
    until(lambda: failures(scanning, objects) == 1, "the failure to be counted")
    assert scanning.metrics()["rackspan_scan_success"][("topology", f"{objects.namespace}/kafka"),] == 0


def test_scan_with_a_pod_that_cannot_start_reports_the_reason(scanning, scans, objects):
    request_on_creation(objects)
    (job,) = scans.until_jobs(1)
    scans.cannot_start(job.metadata.name)
    told = f"ImagePullBackOff: image {IMAGE}"
    objects.until("RackTopology", "kafka", lambda obj: told in ((condition(obj, "Scanned") or {}).get("message") or ""))


def test_request_with_replace_policy_ends_the_running_scan(scanning, scans, objects):
    request_on_creation(objects, concurrencyPolicy="Replace")
    (first,) = scans.until_jobs(1)
    request(objects)
    until(lambda: [job.metadata.name for job in scans.jobs()] not in ([], [first.metadata.name]), "another Job")
    until(lambda: first.metadata.name not in [job.metadata.name for job in scans.jobs()], "the first to go")
    (second,) = scans.until_jobs(1)
    objects.until("RackTopology", "kafka", lambda obj: last_scan(obj).get("scanId") == second.metadata.name)


def test_scan_above_its_active_deadline_times_out(scanning, scans, objects, promise):
    request_on_creation(objects, activeDeadlineSeconds=2)
    scans.until_jobs(1)
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanTimedOut")
    assert last_scan(topology)["reason"] == "ScanTimedOut"
    promise.kept_by(topology, "Scanned")


def test_untrusted_topology_cannot_choose_image_or_spark_conf_of_scans(scanning, scans, objects, promise):
    request_on_creation(objects, image="evil:latest", sparkConf={"spark.driver.extraJavaOptions": "-Dx=y"})
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanNotAllowed")
    promise.kept_by(topology, "Scanned")
    assert scans.jobs() == []
    objects.change_topology(compliance={"image": None, "sparkConf": None})
    scans.until_jobs(1)


def test_untrusted_topology_cannot_exceed_scan_limits_or_choose_the_history_location(scanning, scans, objects, promise):
    request_on_creation(
        objects,
        historyLocation="gs://elsewhere/x",
        resources={"requests": {"cpu": "64"}},
        activeDeadlineSeconds=31536000,
        schedule="* * * * *",
    )
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanNotAllowed")
    promise.kept_by(topology, "Scanned")
    for name in ("cpu", "activeDeadlineSeconds", "scheduleIntervalSeconds"):
        assert f"scan.limits.{name}" in condition(topology, "Scanned")["message"]
    assert scans.jobs() == []


def test_scans_above_max_running_wait_and_report_it(operator_factory, scans, objects):
    flags = [f"--scan-image={IMAGE}", f"--scan-namespace={scans.namespace}", f"--namespace={objects.namespace}"]
    operator_factory(*flags, "--scan-max-running=1")
    request_on_creation(objects)
    (first,) = scans.until_jobs(1)
    manifest = objects.topology_manifest(UNREACHABLE)
    manifest["metadata"] |= {"name": "other", "annotations": {SCAN_NOW: "now"}}
    objects.create(manifest)
    waiting = objects.until_condition("RackTopology", "other", "Scanned", "Unknown", "ScanWaiting")
    assert "scan.maxRunning" in condition(waiting, "Scanned")["message"]
    assert [job.metadata.name for job in scans.jobs()] == [first.metadata.name]
    scans.end(first.metadata.name)
    scans.until_jobs(2, running=1)
    objects.until("RackTopology", "other", lambda obj: last_scan(obj).get("state") == "Running")


def test_operator_without_a_scan_image_reports_scans_as_not_set_up(operator_factory, scans, objects, promise):
    operator_factory(f"--scan-namespace={scans.namespace}", f"--namespace={objects.namespace}")
    objects.create_topology(UNREACHABLE, compliance={"schedule": "@daily"})
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanNotSetUp")
    promise.kept_by(topology, "Scanned")


def test_schedule_with_an_unknown_time_zone_is_invalid(scanning, objects, promise):
    objects.create_topology(UNREACHABLE, compliance={"schedule": "@daily", "timeZone": "Europe/Atlantis"})
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "InvalidSchedule")
    promise.kept_by(topology, "Scanned")


async def test_new_and_cleared_findings_are_reported_as_events_and_metrics(scanning, scans, objects, control_plane):
    request_on_creation(objects)
    objects.create_topic("orders", topicName="orders")
    (job,) = scans.until_jobs(1)
    orders = finding("a", topic="orders", partition=0, message="zone /eu/a holds 1 too many")
    changes = ScanChanges(
        new=30, cleared=1, new_findings=[orders], cleared_findings=[finding("b", message="it was bad")]
    )
    summary = Summary(
        topics=2, partitions=6, non_compliant=1, findings=30, by_severity={"high": 30}, by_rule={"NotCompliant": 30}
    )
    await publish(objects, control_plane, job.metadata.name, summary=summary, findings=[orders], changes=changes)
    told = objects.until_event("orders", "FindingNew")
    assert told.message == "NotCompliant (high): orders-0: zone /eu/a holds 1 too many"
    assert told.involved_object.kind == "KafkaTopic"
    assert objects.until_event("kafka", "FindingCleared").type == "Normal"
    assert "30 findings are new and 1 are cleared" in objects.until_event("kafka", "FindingsChanged").message
    name = ("topology", f"{objects.namespace}/kafka")
    metrics = scanning.metrics()
    assert metrics["rackspan_scan_findings"][("severity", "high"), name] == 30
    assert metrics["rackspan_scan_rule_findings"][("rule", "NotCompliant"), name] == 30
    assert metrics["rackspan_scan_faulty_partitions"][("fault", "non_compliant"), name] == 1
    objects.until("RackTopology", "kafka", lambda obj: scans_of(obj).get("announced") == job.metadata.name)
    scanning.stop()
    scanning.start()
    high = {"severity": "high", "topology": f"{objects.namespace}/kafka"}
    until(lambda: scanning.metric("rackspan_scan_findings", **high) == 30, "metrics after a restart")
    assert reasons(objects.events("orders")).count("FindingNew") == 1, "the finding was announced again after a restart"


def test_deleted_topology_has_no_metric_of_running_scans(scanning, scans, objects):
    request_on_creation(objects)
    scans.until_jobs(1)
    name = (("topology", f"{objects.namespace}/kafka"),)

    def running():
        return scanning.metrics().get("rackspan_scan_running", {})

    until(lambda: running().get(name) == 1, "the scan to be counted")
    objects.delete("RackTopology", "kafka")
    until(lambda: name not in running(), "the series to go")
