"""The result of a scan in the topology's status, and the Events about its findings."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from msgspec import structs
from prometheus_client import REGISTRY
from tests.support.reports import NOW, document, failed_document, finding
from tests.unit.reconcile.scans.examples import UID, at, failed, run, succeeded, topology

from rackspan.api.compliancereport import ComplianceReportStatus, ReportSummary
from rackspan.api.conditions import find_condition
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import LastScan, ScansStatus, ScanState, ScanTrigger
from rackspan.api.reasons import Reason
from rackspan.metrics import forget_report
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.scans import scan_status
from rackspan.reconcile.scans.scan_status import (
    MAX_EVENTS,
    ScanFacts,
    report_events,
    update_report_metrics,
    with_scans,
)
from rackspan.reports.compliance_report import compliance_status
from rackspan.reports.document import ScanChanges, Summary

SCAN = run("prod-1")
RUNNING = LastScan("prod-1", ScanTrigger.SCHEDULE, ScanState.RUNNING, SCAN.created)


def report(of=None, before=None):
    of = of or document(summary=Summary(partitions=9, non_compliant=2, findings=5))
    return compliance_status(of, before or ComplianceReportStatus(), generation=1, now=NOW)


def last_scan(before, runs, overdue, report, now, unstarted=MappingProxyType({})):
    return scan_status.last_scan(before, runs, overdue, report, now, unstarted)


def condition(facts, **compliance):
    of = topology(**compliance)
    status = with_scans(of, of.status, replace(facts, topology_uid=UID), NOW)
    return find_condition(status.conditions, "Scanned"), status


def test_last_scan_goes_from_running_to_completed():
    assert last_scan(None, [SCAN], (), None, NOW) == RUNNING
    done = last_scan(RUNNING, [succeeded(SCAN)], (), report(), NOW)
    assert (done.state, done.findings, done.non_compliant) == (ScanState.COMPLETED, 5, 2)
    assert last_scan(done, [], (), report(), NOW) == done, "the result stays after its Job is deleted"


def test_report_of_an_earlier_scan_is_not_used_for_the_last_scan():
    done = last_scan(RUNNING, [succeeded(SCAN)], (), report(document("prod-0")), NOW)
    assert (done.state, done.findings) == (ScanState.COMPLETED, None)


def test_failure_in_the_report_takes_precedence_over_the_failure_of_the_job():
    lost = report(failed_document("prod-1", "KafkaUnreachable", "no broker answers"))
    for ended in (failed(SCAN), succeeded(SCAN)):
        last = last_scan(RUNNING, [ended], (), lost, NOW)
        assert (last.state, last.message) == (ScanState.FAILED, "KafkaUnreachable: no broker answers")
    assert last_scan(RUNNING, [failed(SCAN)], (), None, NOW).message == "BackoffLimitExceeded: it broke"


def test_overdue_scan_has_reason_timed_out_also_while_it_is_deleted():
    late = last_scan(RUNNING, [SCAN], (SCAN,), None, NOW)
    assert (late.state, late.reason) == (ScanState.FAILED, Reason.SCAN_TIMED_OUT)
    assert last_scan(late, [replace(SCAN, deleting=True)], (), None, NOW) == late
    by_kubernetes = last_scan(RUNNING, [failed(SCAN, "DeadlineExceeded")], (), None, NOW)
    assert by_kubernetes.reason == Reason.SCAN_TIMED_OUT


def test_scan_whose_job_was_deleted_by_a_user_failed_unless_it_has_reported():
    gone = last_scan(RUNNING, [], (), None, NOW)
    assert (gone.state, gone.finished_at) == (ScanState.FAILED, NOW)
    assert "deleted" in gone.message
    assert last_scan(RUNNING, [], (), report(), NOW).state is ScanState.COMPLETED, "the report counts"


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("ended", [SCAN, failed(SCAN), failed(SCAN, "DeadlineExceeded"), succeeded(SCAN)])
@pytest.mark.parametrize("unstarted", [{}, {SCAN.uid: "its pod is pending"}])
def test_report_of_a_scan_determines_its_result_before_and_after_its_job_is_deleted(ended, unstarted, recorded):
    overdue = (ended,) if ended.active else ()
    for own in (report(), report(failed_document("prod-1", "KafkaUnreachable", "no broker answers"))):
        there = last_scan(RUNNING, [ended], overdue, own, NOW, unstarted)
        deleted = last_scan(there, [replace(ended, deleting=True)], (), own, NOW)
        gone = last_scan(deleted if recorded else RUNNING, [], (), own, NOW)
        assert there == deleted
        assert there == structs.replace(gone, finished_at=there.finished_at)
        if own.failure is None:
            assert (there.state, there.findings, there.reason) == (ScanState.COMPLETED, 5, None)
        else:
            message = "KafkaUnreachable: no broker answers"
            assert (there.state, there.message, there.reason) == (ScanState.FAILED, message, Reason.SCAN_FAILED)


def test_last_scan_is_the_latest_scan():
    newer = run("prod-2", "2026-01-31 04:00")
    assert last_scan(RUNNING, [SCAN, newer], (), None, NOW).scan_id == "prod-2"
    after = LastScan("prod-2", ScanTrigger.REQUEST, ScanState.COMPLETED, newer.created)
    assert last_scan(after, [succeeded(SCAN)], (), None, NOW) == after


def test_scan_whose_trigger_only_a_newer_version_knows_does_not_hide_the_last_scan():
    unknown = run("prod-2", "2026-01-31 04:00", None)
    assert last_scan(RUNNING, [SCAN, unknown], (), None, NOW) == RUNNING
    assert last_scan(RUNNING, [succeeded(SCAN), unknown], (), report(), NOW).state is ScanState.COMPLETED
    assert last_scan(None, [unknown], (), None, NOW) is None


def test_last_scan_is_the_existing_one_of_two_scans_created_in_the_same_second():
    """One scan replaced the other, and the API server stores times in whole seconds."""
    first, second = run("scan-b"), run("scan-a")
    before = last_scan(None, [first], (), None, NOW)
    assert last_scan(before, [second], (), None, NOW).scan_id == "scan-a"


def test_scan_from_before_the_clock_was_set_back_does_not_hide_later_scans():
    earlier = succeeded(run("prod-0", "2026-01-31 02:00"))
    ahead = succeeded(run("prod-9", "2026-01-31 04:05"))
    told = last_scan(None, [earlier, ahead], (), None, at("2026-01-31 04:10"))
    assert last_scan(told, [earlier, ahead], (), None, at("2026-01-31 03:00")) == told, "no scan has begun since"
    assert last_scan(told, [earlier], (), None, at("2026-01-31 03:00")) == told
    began = last_scan(told, [earlier, ahead, SCAN], (), None, at("2026-01-31 03:00"))
    assert began == RUNNING
    for runs in ([earlier, ahead, failed(SCAN)], [ahead, failed(SCAN)]):
        ended = last_scan(began, runs, (), None, at("2026-01-31 03:05"))
        assert (ended.scan_id, ended.state) == ("prod-1", ScanState.FAILED)
        assert last_scan(ended, [ahead], (), None, at("2026-01-31 03:10")) == ended


def test_scan_that_runs_while_the_clock_is_set_back_is_reported_until_it_ends():
    ahead = run("prod-9", "2026-01-31 04:05")
    running = last_scan(None, [ahead], (), None, at("2026-01-31 04:06"))
    assert last_scan(running, [ahead, SCAN], (), None, at("2026-01-31 03:01")) == running, "both scans run"
    ended = last_scan(running, [succeeded(ahead), SCAN], (), None, at("2026-01-31 03:02"))
    assert (ended.scan_id, ended.state) == ("prod-9", ScanState.COMPLETED)
    assert last_scan(ended, [succeeded(ahead), SCAN], (), None, at("2026-01-31 03:03")) == RUNNING


def test_scans_are_reported_if_the_clock_of_the_api_server_is_a_day_ahead():
    told, now = None, at("2026-01-30 03:00")
    for number in (1, 2):
        one = run(f"prod-{number}", f"2026-01-31 0{number}:00")
        before = [succeeded(run("prod-1", "2026-01-31 01:00"))] if number == 2 else []
        told = last_scan(told, [*before, one], (), None, now)
        assert (told.scan_id, told.state) == (one.name, ScanState.RUNNING)
        told = last_scan(told, [*before, succeeded(one)], (), None, now)
        assert (told.scan_id, told.state) == (one.name, ScanState.COMPLETED)


def test_condition_reports_the_last_result_and_the_next_scan():
    scans = ScansStatus(next_at=at("2026-02-01 03:00"))
    last = last_scan(RUNNING, [succeeded(SCAN)], (), report(), NOW)
    good, status = condition(ScanFacts("", scans, last), schedule="0 3 * * *")
    assert (good.status, good.reason) == ("True", "ScanCompleted")
    assert good.message == "scan prod-1: 5 findings; the next one is due at 2026-02-01T03:00:00Z"
    assert (status.last_scan, status.scans) == (last, scans)
    bad, _ = condition(ScanFacts("", scans, last_scan(RUNNING, [failed(SCAN)], (), None, NOW)), schedule="0 3 * * *")
    assert (bad.status, bad.reason) == ("False", "ScanFailed")
    missed, _ = condition(ScanFacts("", structs.replace(scans, missed=2), last), schedule="0 3 * * *")
    assert (missed.status, missed.reason) == ("False", "ScanMissed")
    failure = Failure(Reason.SCAN_NOT_STARTED, "no right to", Remedy.ACCESS)
    assert condition(ScanFacts("", scans, last, failure))[0].message == "no right to"


def test_condition_keeps_the_last_result_while_a_scan_runs():
    of = topology(schedule="0 3 * * *")
    first = with_scans(of, of.status, ScanFacts(UID, ScansStatus(), failed_scan()), NOW)
    going = with_scans(of, first, ScanFacts(UID, ScansStatus(), RUNNING), NOW)
    scanned = find_condition(going.conditions, "Scanned")
    assert (scanned.status, scanned.reason) == ("False", "ScanRunning")


def failed_scan():
    return structs.replace(RUNNING, state=ScanState.FAILED, message="x")


def test_condition_exists_only_if_the_topology_requests_scans():
    assert condition(ScanFacts(""))[0] is None
    assert condition(ScanFacts(""), schedule="0 3 * * *")[0].reason == "ScanWaiting"
    assert "suspended" in condition(ScanFacts(""), schedule="0 3 * * *", suspend=True)[0].message


def test_facts_about_another_topology_of_the_same_name_are_not_used():
    of = topology(schedule="0 3 * * *")
    assert with_scans(of, of.status, ScanFacts("another", ScansStatus(), RUNNING), NOW) == of.status


ABOUT = ObjectRef("RackTopology", ObjectKey("kafka", "prod"), UID)
ORDERS = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-o")


def events(changes):
    found = compliance_status(document(changes=changes), ComplianceReportStatus(), generation=1, now=NOW)
    return list(report_events(ABOUT, found, lambda name: [ORDERS] if name == "orders" else []))


def test_findings_are_events_on_the_topology_and_on_the_kafka_topic():
    new = [finding("a", topic="orders", message="uneven"), finding("b", topic="unmanaged", severity="info")]
    cleared = [finding("c", message="was bad")]
    told_now = events(ScanChanges(new=2, cleared=1, new_findings=new, cleared_findings=cleared))
    assert [(event.about.kind, event.reason, event.warning) for event in told_now] == [
        ("RackTopology", "FindingNew", True),
        ("KafkaTopic", "FindingNew", True),
        ("RackTopology", "FindingNew", False),
        ("RackTopology", "FindingCleared", False),
    ]
    assert told_now[0].message == "NotCompliant (high): orders: uneven"


def test_many_findings_are_summarized_in_one_event():
    many = [finding(str(number), topic="orders") for number in range(500)]
    told_now = events(ScanChanges(new=500, cleared=0, new_findings=many))
    assert len(told_now) == 2 * MAX_EVENTS + 1
    assert told_now[-1].reason == "FindingsChanged"
    assert told_now[-1].message.startswith("500 findings are new and 0 are cleared; the first 10")


def test_violation_time_metric_exists_while_there_is_a_history():
    def told(**summary):
        update_report_metrics("shop/metrics", ComplianceReportStatus(summary=ReportSummary(**summary)))
        return REGISTRY.get_sample_value("rackspan_scan_violation_seconds", {"topology": "shop/metrics"})

    assert told(violation_minutes=3) == 180
    assert told() is None
    forget_report("shop/metrics")


def test_scan_without_changes_has_no_events():
    assert events(ScanChanges()) == []
