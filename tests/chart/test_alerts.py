"""The alerts of the chart, evaluated by promtool: each fires if its condition holds, none for a healthy cluster."""

import re
import subprocess
from dataclasses import dataclass, field

import pytest
import yaml
from tests.support.alerting import ALERTS, refuted

WELL = {
    'rackspan_build_info{version="1", python="3"}': "1x200",
    'rackspan_lease_held{pod="a"}': "1x200",
    'rackspan_lease_held{pod="b"}': "0x200",
    'rackspan_reconciling{pod="a"}': "1x200",
    'rackspan_reconciling{pod="b"}': "0x200",
    'rackspan_namespaces_left_out{pod="a"}': "0x200",
    'rackspan_topology_connected{topology="a/b"}': "1x200",
    'rackspan_topology_ready{topology="a/b"}': "1x200",
    'rackspan_last_successful_pass_timestamp_seconds{topology="a/b"}': "0+60x200",
    'rackspan_brokers{topology="a/b", state="online"}': "9x200",
    'rackspan_brokers{topology="a/b", state="offline"}': "0x200",
    'rackspan_brokers{topology="a/b", state="unknown"}': "0x200",
    'rackspan_drifted_brokers{topology="a/b"}': "0x200",
    'rackspan_topics{topology="a/b", state="ready"}': "40x200",
    'rackspan_topics{topology="a/b", state="stalled"}': "0x200",
    'rackspan_topics{topology="a/b", state="unknown"}': "0x200",
    'rackspan_non_compliant_topics{topology="a/b"}': "0x200",
    'rackspan_deletions_held{topology="a/b"}': "0x200",
    'rackspan_errors_total{topology="a/b", remedy="retry", reason="KafkaUnreachable"}': "0+1x200",
    'rackspan_errors_total{topology="a/b", remedy="access", reason="NotAuthorized"}': "3x200",
    'rackspan_errors_total{topology="a/b", remedy="retry", reason="UnexpectedError"}': "1x200",
    'rackspan_scan_faulty_partitions{topology="a/b", fault="offline"}': "0x200",
    'rackspan_scan_faulty_partitions{topology="a/b", fault="non_compliant"}': "0x200",
    'rackspan_scan_faulty_partitions{topology="a/b", fault="under_replicated"}': "0x200",
    'rackspan_scan_findings{topology="a/b", severity="critical"}': "0x200",
    'rackspan_scan_findings{topology="a/b", severity="low"}': "7x200",
    'rackspan_scan_changes{topology="a/b", change="new"}': "3x200",
    'rackspan_scan_success{topology="a/b"}': "1x200",
    'rackspan_scan_missed{topology="a/b"}': "0x200",
    'rackspan_scan_next_timestamp_seconds{topology="a/b"}': "3600+60x200",
    'rackspan_scan_running{topology="a/b"}': "0x60 1x30 0x110",
    'rackspan_reassignments{topology="a/b", state="Running"}': "1x200",
    'rackspan_reassignments{topology="a/b", state="Stopped"}': "2x200",
    'rackspan_reassignments{topology="a/b", state="Failed"}': "0x200",
    'rackspan_reassignment_copied_bytes{topology="a/b"}': "0+1000x200",
    'rackspan_reassignment_moves_done{topology="a/b"}': "3x200",
    'rackspan_reassignment_throttles{topology="a/b"}': "4x200",
}


@dataclass(frozen=True)
class Case:
    """The series that differ from WELL, and the first minute in which the alert fires."""

    alert: str
    minute: int
    changes: dict[str, str]
    also: tuple[str, ...] = field(default=())
    """Other alerts that also fire by then."""

    def __str__(self):
        return f"{self.alert}-{self.minute}"


def series(name, **labels):
    """Return the only series of WELL with this name and these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    (found,) = [key for key in WELL if key.startswith(f"{name}{{") and all(label in key for label in wanted)]
    return found


CONNECTED, READY = series("rackspan_topology_connected"), series("rackspan_topology_ready")
LAST_PASS = series("rackspan_last_successful_pass_timestamp_seconds")
CASES = [
    Case(  # Kafka is unreachable after nine minutes, and the state of brokers and topics is unknown
        "RackspanKafkaUnreachable",
        15,
        {
            CONNECTED: "1x9 0x190",
            READY: "1x9 0x190",
            LAST_PASS: "0+60x9 540x190",
            series("rackspan_brokers", state="online"): "9x9 0x190",
            series("rackspan_brokers", state="unknown"): "0x9 9x190",
            series("rackspan_topics", state="ready"): "40x9 0x190",
            series("rackspan_topics", state="unknown"): "0x9 40x190",
            series("rackspan_drifted_brokers"): "0x9 stale",
            series("rackspan_non_compliant_topics"): "0x9 stale",
        },
    ),
    Case("RackspanKafkaUnreachable", 5, {CONNECTED: "0x200", READY: "0x200", LAST_PASS: "_x200"}),  # never reachable
    Case("RackspanBrokerOffline", 15, {series("rackspan_brokers", state="offline"): "0x9 1x190"}),
    Case("RackspanTopologyNotReady", 20, {READY: "1x9 0x190"}),
    Case("RackspanRackDrift", 40, {series("rackspan_drifted_brokers"): "0x9 2x190"}),
    Case("RackspanTopicsStalled", 25, {series("rackspan_topics", state="stalled"): "0x9 1x190"}),
    Case("RackspanTopicsUnknown", 40, {series("rackspan_topics", state="unknown"): "0x9 1x190"}),
    Case("RackspanDeletionsHeld", 10, {series("rackspan_deletions_held"): "0x9 12x190"}),
    Case("RackspanTopicsNotCompliant", 25, {series("rackspan_non_compliant_topics"): "0x9 1x190"}),
    Case("RackspanOperatorAbsent", 15, dict.fromkeys(WELL, "1x9 stale")),
    Case("RackspanLeaseNotHeld", 15, {series("rackspan_lease_held", pod="a"): "1x9 0x190"}),
    Case(  # its ClusterRole was deleted, so that no topology has series
        "RackspanNothingReconciled",
        15,
        {key: "1x9 stale" for key in WELL if 'topology="a/b"' in key}
        | {series("rackspan_reconciling", pod="a"): "1x9 0x190"},
    ),
    Case("RackspanNamespaceLeftOut", 15, {series("rackspan_namespaces_left_out"): "0x9 2x190"}),
    Case("RackspanOperatorStalled", 31, {LAST_PASS: "0+60x10 600x190"}),
    Case("RackspanErrors", 26, {series("rackspan_errors_total", remedy="access"): "3x10 4+1x190"}),
    Case("RackspanUnexpectedErrors", 11, {series("rackspan_errors_total", reason="UnexpectedError"): "1x10 2x190"}),
    Case("RackspanPartitionsOffline", 10, {series("rackspan_scan_faulty_partitions", fault="offline"): "0x9 1x190"}),
    Case("RackspanCriticalFindings", 15, {series("rackspan_scan_findings", severity="critical"): "0x9 1x190"}),
    Case(
        "RackspanPartitionsNotCompliant",
        70,
        {series("rackspan_scan_faulty_partitions", fault="non_compliant"): "0x9 1x190"},
    ),
    Case(
        "RackspanUnderReplicated",
        70,
        {series("rackspan_scan_faulty_partitions", fault="under_replicated"): "0x9 1x190"},
    ),
    Case("RackspanManyNewFindings", 10, {series("rackspan_scan_changes"): "3x9 101x190"}),
    Case("RackspanScanFailed", 20, {series("rackspan_scan_success"): "1x9 0x190"}),
    Case("RackspanScanMissed", 20, {series("rackspan_scan_missed"): "0x9 1x190"}),
    Case("RackspanScanOverdue", 26, {series("rackspan_scan_next_timestamp_seconds"): "600x200"}),
    Case("RackspanReassignmentNotCarriedOut", 10, {series("rackspan_reassignments", state="Stopped"): "2x9 3x190"}),
    Case("RackspanReassignmentNotCarriedOut", 10, {series("rackspan_reassignments", state="Failed"): "0x9 1x190"}),
    Case(  # it failed while another Pod became the operator
        "RackspanReassignmentNotCarriedOut",
        12,
        {
            series("rackspan_reassignments", state="Failed"): "0x9 stale",
            'rackspan_reassignments{topology="a/b", state="Failed", pod="b"}': "_x12 1x188",
        },
    ),
    Case("RackspanReassignmentStandsStill", 68, {series("rackspan_reassignment_copied_bytes"): "0+1000x9 9000x190"}),
    Case("RackspanThrottlesLeft", 40, {series("rackspan_reassignments", state="Running"): "1x9 0x190"}),
    Case("RackspanScanTakesLong", 130, {series("rackspan_scan_running"): "0x9 1x190"}),
    Case(  # another Pod becomes the operator while it runs
        "RackspanScanTakesLong",
        130,
        {
            series("rackspan_scan_running"): "0x9 1x29 stale",
            'rackspan_scan_running{topology="a/b", pod="b"}': "_x41 1x159",
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_alert_fires_in_the_expected_minute_and_not_before(case, promtool):
    firing = {case.minute - 1: case.also, case.minute: (case.alert, *case.also)}
    assert refuted(promtool, WELL | case.changes, firing) == ""


def test_no_alert_fires_for_a_healthy_cluster(promtool):
    assert refuted(promtool, WELL, {20: (), 90: (), 180: ()}) == ""


def test_promtool_reports_an_expected_alert_that_does_not_fire(promtool):
    assert "got:" in refuted(promtool, WELL, {20: ["RackspanKafkaUnreachable"]})


def test_every_alert_has_a_case_that_makes_it_fire():
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert {case.alert for case in CASES} == {rule["alert"] for rule in rules}


def test_every_metric_of_an_alert_is_in_the_series_of_the_healthy_cluster():
    named = {
        name
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for rule in group["rules"]
        for name in re.findall(r"rackspan_[a-z_]+", rule["expr"])
    }
    assert named <= {key.partition("{")[0] for key in WELL}


def test_promtool_accepts_the_alert_rules(promtool):
    done = subprocess.run([promtool, "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
