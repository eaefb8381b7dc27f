"""Conversion of a scan document to the status of a ComplianceReport and to an OpenReports Report."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.reports import NOW, document, failed_document, finding

from rackspan.api.compliancereport import MAX_CHANGES, MAX_FINDINGS, ComplianceReportStatus
from rackspan.api.conditions import find_condition
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import ScanEngine
from rackspan.core.scanning.rules import Severity
from rackspan.reports.compliance_report import compliance_status, is_older
from rackspan.reports.document import MAX_FINDINGS as MAX_LISTED
from rackspan.reports.document import Day, ScanChanges, Summary
from rackspan.reports.open_reports import MAX_RESULTS, open_report

KEY = ObjectKey("kafka", "prod")
NOTHING = ComplianceReportStatus()


def status_of(scanned, before=NOTHING):
    return compliance_status(scanned, before, generation=1, now=NOW)


def long_findings(number):
    text = "ü" * 2_000
    return [
        finding(
            f"{index:032x}",
            severity="high",
            topic="t" * 249,
            partition=index,
            message=text,
            fix=text,
            domain="/é" * 200,
        )
        for index in range(number)
    ]


def test_report_has_the_summary_and_lists_the_worst_findings_first():
    findings = [finding("a", severity="low"), finding("b", severity="critical"), finding("c", severity="medium")]
    summary = Summary(
        topics=2, partitions=12, non_compliant=3, moves=4, findings=3, by_severity={"critical": 1, "low": 2}
    )
    trend = [Day("2026-01-30", 1, 1.0, 0, 0, 99.0), Day("2026-01-31", 1, 0.9, 3, 1, 12.4)]
    status = compliance_status(
        document(findings=findings, summary=summary, trend=trend, history="/var/lib/rackspan"),
        NOTHING,
        generation=3,
        now=NOW,
        engine=ScanEngine.JOB,
    )
    assert [found.id for found in status.findings] == ["b", "c", "a"]
    assert status.summary.by_severity == {"critical": 1, "high": 0, "medium": 0, "low": 2, "info": 0}
    assert status.summary.violation_minutes == 12
    assert status.history == "/var/lib/rackspan"
    assert status.engine is ScanEngine.JOB
    assert status.started_at == datetime(2026, 1, 31, 3, tzinfo=UTC)
    assert find_condition(status.conditions, "Ready").message == (
        "12 partitions of 2 topics judged, 3 findings (1 critical, 2 low)"
    )
    compliant = find_condition(status.conditions, "Compliant")
    assert (compliant.status, compliant.reason, compliant.observed_generation) == ("False", "NotCompliant", 3)


@pytest.mark.parametrize(("days", "minutes"), [((30, 31), 12), ((30,), None), ((31,), 12), ((), None)])
def test_violation_minutes_of_a_report_are_those_of_the_scans_day_also_after_a_scan_dated_ahead(days, minutes):
    trend = [Day(f"2026-01-{day}", 1, 1.0, 0, 0, 12.4 if day == 31 else 99.0) for day in days]
    for ahead in ([], [Day("2027-03-01", 1, 1.0, 0, 0, 1440.0)]):
        assert status_of(document(trend=[*trend, *ahead])).summary.violation_minutes == minutes


def test_report_with_many_long_findings_stays_small():
    findings = long_findings(MAX_LISTED)
    changes = ScanChanges(new=2_000, cleared=2_000, new_findings=findings, cleared_findings=findings)
    summary = Summary(topics=9, partitions=2_000, non_compliant=2_000, findings=2_000)
    status = status_of(document(findings=findings, changes=changes, summary=summary))
    assert len(json.dumps(status.to_dict(), ensure_ascii=False).encode()) < 256 * 1024
    assert 0 < len(status.findings) <= MAX_FINDINGS
    assert (status.changes.new, len(status.changes.new_findings)) == (2_000, MAX_CHANGES)
    assert max(len(found.message) for found in status.findings) == 1_024


def test_report_lists_the_maximum_number_of_findings_of_common_length():
    findings = [finding(str(index), message="m" * 150, topic="orders", partition=index) for index in range(150)]
    assert len(status_of(document(findings=findings)).findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("counts", "topics"),
    [
        ({"unread_topics": 1}, "1 topic could not be read"),
        ({"by_rule": {"NotJudged": 2}}, "2 topics cannot be judged without the racks of all brokers"),
    ],
)
def test_compliance_is_unknown_if_topics_are_not_judged_unless_others_are_wrong(counts, topics):
    found = find_condition(status_of(document(summary=Summary(partitions=3, **counts))).conditions, "Compliant")
    assert (found.status, found.reason) == ("Unknown", "ScanIncomplete")
    assert found.message == f"{topics}; nothing else is spread otherwise than asked"
    broken = status_of(document(summary=Summary(partitions=3, non_compliant=1, **counts)))
    assert find_condition(broken.conditions, "Compliant").status == "False"


def test_open_report_counts_topics_that_could_not_be_read_as_skipped():
    report = open_report(document(summary=Summary(partitions=3, unread_topics=2)), KEY, "uid-1")
    assert report["summary"] == {"pass": 3, "fail": 0, "warn": 0, "error": 0, "skip": 2}


def test_failed_scan_keeps_the_findings_of_the_previous_scan():
    good = status_of(document(findings=[finding("a")], summary=Summary(partitions=3, non_compliant=1, findings=1)))
    status = status_of(failed_document("prod-2", "KafkaUnreachable", "no broker answers"), good)
    assert (status.scan_id, status.last_scan_id) == ("prod-1", "prod-2")
    assert status.findings == good.findings
    assert status.summary == good.summary
    ready = find_condition(status.conditions, "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", "KafkaUnreachable", "no broker answers")
    assert find_condition(status.conditions, "Compliant") == find_condition(good.conditions, "Compliant")
    assert status_of(document(), status).failure is None


def test_invalid_reason_of_a_failed_scan_becomes_scan_failed():
    status = status_of(failed_document("prod-2", "what on earth?", ""))
    assert find_condition(status.conditions, "Ready").reason == "ScanFailed"
    assert status.failure.message == "the scan failed"


def test_unknown_severity_becomes_info():
    status = status_of(document(findings=[finding("a", severity="apocalyptic"), finding("b", severity="low")]))
    assert [(found.id, found.severity) for found in status.findings] == [("b", Severity.LOW), ("a", Severity.INFO)]


def test_status_is_equal_after_it_was_written_and_read():
    status = status_of(document(findings=[finding("a", first_seen="2026-01-30T03:00:00.5+01:00")]))
    assert ComplianceReportStatus.from_dict(status.to_dict()) == status


def test_scan_that_started_earlier_is_older_than_the_status():
    now = datetime(2026, 1, 31, 5, tzinfo=UTC)
    told = status_of(document(started_at="2026-01-31T03:00:00Z")).to_dict()
    assert is_older(document(started_at="2026-01-31T02:00:00Z"), told, now)
    assert not is_older(document(started_at="2026-01-31T03:00:00Z"), told, now)
    assert not is_older(document(started_at="2026-01-31T04:00:00Z"), told, now)
    assert not is_older(document(), {}, now)


def test_scan_by_a_clock_that_is_behind_is_not_older_than_the_scan_with_which_it_was_compared():
    now = datetime(2026, 1, 31, 5, tzinfo=UTC)
    told = status_of(document(started_at="2026-01-31T03:00:00Z")).to_dict()
    for since, older in (("2026-01-31T03:00:00+00:00", False), ("2026-01-31T01:00:00Z", True), (None, True)):
        behind = document(started_at="2026-01-31T02:00:00Z", changes=ScanChanges(since=since))
        assert is_older(behind, told, now) is older


def test_status_with_a_start_in_the_future_does_not_make_a_scan_older():
    ahead = status_of(document(started_at="2026-02-01T03:00:00Z")).to_dict()
    failed = status_of(failed_document("prod-0", "KafkaUnreachable", "no broker answers")).to_dict()
    for told, starts in ((ahead, "2026-02-01T03:00:00+00:00"), (failed, "2026-01-31T04:00:00+00:00")):
        later = datetime.fromisoformat(starts)
        assert not is_older(document(started_at="2026-01-31T02:00:00Z"), told, later - timedelta(seconds=61))
        assert is_older(document(started_at="2026-01-31T02:00:00Z"), told, later - timedelta(seconds=60))


def test_open_report_has_one_result_per_finding():
    findings = [
        finding("a", severity="low", rule="LeaderNotPreferred"),
        finding("b", severity="high", topic="orders", partition=4, fix="move a replica", moves=1),
        finding("c", severity="info", rule="NotJudged"),
    ]
    summary = Summary(
        partitions=10,
        non_compliant=1,
        findings=3,
        by_severity={"low": 1, "high": 1, "info": 1},
        by_rule={"NotJudged": 1},
    )
    report = open_report(document(findings=findings, summary=summary), KEY, "uid-1")
    assert report["summary"] == {"pass": 9, "fail": 1, "warn": 2, "error": 0, "skip": 0}
    assert [(row["rule"], row["result"], row["severity"]) for row in report["results"]] == [
        ("NotCompliant", "fail", "high"),
        ("LeaderNotPreferred", "warn", "low"),
        ("NotJudged", "warn", "info"),
    ]
    assert report["results"][0]["properties"] == {
        "id": "b",
        "topic": "orders",
        "partition": "4",
        "moves": "1",
        "fix": "move a replica",
    }
    assert report["scope"] == {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "RackTopology",
        "namespace": "kafka",
        "name": "prod",
        "uid": "uid-1",
    }


def test_open_report_with_many_long_findings_stays_small():
    report = open_report(document(findings=long_findings(MAX_LISTED)), KEY, "uid-1")
    assert 0 < len(report["results"]) <= MAX_RESULTS
    assert len(json.dumps(report, ensure_ascii=False).encode()) < 512 * 1024


def test_open_report_of_a_failed_scan_has_one_error():
    report = open_report(failed_document("prod-2", "KafkaUnreachable", "no broker answers"), KEY, "uid-1")
    assert report["summary"]["error"] == 1
    assert [(row["result"], row["message"]) for row in report["results"]] == [("error", "no broker answers")]
