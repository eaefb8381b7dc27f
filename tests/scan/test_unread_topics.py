"""Topics that could not be read are reported, and keep the findings of the previous scan."""

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from tests.scan.conftest import NOON, Given
from tests.support.command import cluster, topic
from tests.support.progress import Steps

from rackspan.api.compliancereport import ComplianceReportStatus
from rackspan.api.conditions import find_condition
from rackspan.core.outage import min_insync_replicas
from rackspan.jobs.batches.arrow_batches import partition_batches, unread_batches
from rackspan.jobs.scan import cluster_scan
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import ClusterError, from_file
from rackspan.reports.compliance_report import compliance_status
from rackspan.snapshots import read_snapshot

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)
WHY = "Broker: Topic authorization failed"


@pytest.fixture(params=[1, 1_000_000])
def scan(history, tmp_path, monkeypatch, request):
    """Scan these topics, and `unread` ones that Kafka does not return: `scan("a", topic(…), unread=["orders"])`."""
    taken = []
    monkeypatch.setattr(cluster_scan, "_PART", request.param)

    def look(scan_id, *topics, unread=()):
        file = tmp_path / "prod.json"
        file.write_text(json.dumps(cluster(*topics)))
        found = read_snapshot(file)
        batches = [
            *unread_batches(dict.fromkeys(unread, WHY)),
            *partition_batches(found.partitions, min_insync_replicas(found.configs)),
        ]
        taken.append(scan_id)
        order = ScanRun(scan_id, NOON + timedelta(hours=len(taken)), history)
        partly = replace(from_file(file), reader=Given([pa.Table.from_batches(batches)]))
        return scan_cluster(in_process, partly, order, Steps(), print)

    return look


def test_findings_of_a_topic_stay_while_it_cannot_be_read(scan, history):
    before = scan("a", topic("orders", UNFAIR), topic("payments", UNFAIR))
    partly = scan("b", topic("payments", FAIR), unread=["orders"])
    assert (partly.changes.new, partly.changes.cleared) == (0, 1)
    assert [row.topic for row in partly.changes.cleared_findings] == ["payments"]
    (kept,) = [row for row in partly.findings if row.topic == "orders"]
    assert kept == next(row for row in before.findings if row.topic == "orders"), "with the time it was first seen"
    assert partly.summary.unread_topics == 1
    assert partly.summary.non_compliant == 1
    assert [row.name for row in partly.topics] == ["orders"]
    assert any("1 topic could not be read" in words and "orders" in words and WHY in words for words in partly.warnings)
    fixed = scan("c", topic("orders", FAIR), topic("payments", FAIR))
    assert (fixed.changes.new, fixed.changes.cleared) == (0, 1)
    assert fixed.summary.unread_topics == 0
    (row,) = history.rows("topics", history.scans("prod")[-1:]).to_pylist()
    assert (row["topic"], row["violation_minutes"]) == ("orders", 60), (
        "minutes also count while the topic could not be read"
    )


def test_broker_stays_offline_while_its_topics_cannot_be_read(scan):
    before = scan("a", topic("orders", (0, 2, 9)), topic("payments", (2, 0, 8)))
    partly = scan("b", topic("payments", (2, 0, 8)), unread=["orders"])
    offline = [row for row in before.findings if row.rule == "BrokerOffline"]
    assert [row.broker for row in offline] == [8, 9]
    assert [row for row in partly.findings if row.rule == "BrokerOffline"] == offline
    moved = scan("c", topic("orders", (0, 2, 9)), topic("payments", FAIR))
    assert [row.broker for row in moved.findings if row.rule == "BrokerOffline"] == [9]
    fixed = scan("d", topic("orders", FAIR), topic("payments", FAIR))
    assert not fixed.findings


def test_compliance_is_unknown_while_topics_cannot_be_read(scan):
    document = scan("a", topic("payments", FAIR), unread=["orders"])
    status = compliance_status(document, ComplianceReportStatus(), generation=1, now=NOON)
    compliant = find_condition(status.conditions, "Compliant")
    assert (compliant.status, compliant.reason) == ("Unknown", "ScanIncomplete")
    assert status.summary.unread_topics == 1


def test_scan_that_can_read_no_topic_fails_and_clears_nothing(scan, history):
    scan("a", topic("orders", UNFAIR))
    with pytest.raises(ClusterError, match=f"no topic could be read: {WHY}"):
        scan("b", unread=["orders"])
    assert history.scans("prod")[-1].scan_id == "a"
