"""`check`, a scan, its page and its ComplianceReport agree on the state of a cluster."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from tests.support.command import cli, cluster

from rackspan.api.compliancereport import ComplianceReportStatus
from rackspan.api.conditions import COMPLIANT, find_condition
from rackspan.reports.compliance_report import compliance_status
from rackspan.reports.document import ScanDocument
from rackspan.reports.page.assessment import assessment

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HALF = "1 move would fix 1 of them, no move would fix the other 1: too few brokers may hold it"
NEVER = "no move would fix it: too few brokers may hold it"


def topic(name, *partitions):
    """Return a topic whose replicas on brokers 1001 and 1002 are in sync. The first in-sync replica leads."""
    rows = []
    for number, replicas in enumerate(partitions):
        isr = [broker for broker in replicas if broker != 1003]
        rows.append({"partition": number, "replicas": replicas, "isr": isr, "leader": isr[0]})
    return {"name": name, "partitions": rows, "config": {}}


TOO_MANY = topic("test1", [1003, 1001, 1002])
MOVABLE = topic("test2", [1001, 1002], [1002, 1003])
UNEVEN = topic("test3", [1001], [1001, 1002])


class Told:
    """All outputs about a cluster of two brokers without racks. Broker 1003 does not exist any more."""

    def __init__(self, folder, topics):
        file = folder / "prod.json"
        file.write_text(json.dumps(cluster(*topics, racks={1001: None, 1002: None})))
        self.check = cli("check", "--snapshot", file)
        self.checked = cli("check", "--snapshot", file, "-o", "json").json
        self.scan = cli("scan", "--snapshot", file)
        scanned = cli("scan", "--snapshot", file, "-o", "json").json
        self.document = msgspec.convert(scanned, ScanDocument)
        self.page = " ".join((assessment(self.document).headline, *assessment(self.document).details))
        self.report = compliance_status(self.document, ComplianceReportStatus(), generation=1, now=NOON)
        self.compliant = find_condition(self.report.conditions, COMPLIANT)

    @property
    def messages(self):
        """The sorted topics, messages, fixes and domains of the findings of `check`, scan and report."""
        told = [self.checked, msgspec.to_builtins(self.document), msgspec.to_builtins(self.report)]
        keys = ("topic", "message", "fix", "domain")
        return [sorted(tuple(one.get(key) or "" for key in keys) for one in found["findings"]) for found in told]


@pytest.mark.parametrize(
    ("topics", "broken", "moves", "sentence", "held"),
    [
        ((TOO_MANY, MOVABLE), 2, 1, HALF, "2 partitions have"),
        ((TOO_MANY,), 1, 0, NEVER, "1 partition has"),
        ((MOVABLE,), 1, 1, "1 move would fix it", "1 partition has"),
    ],
)
def test_all_outputs_agree_on_the_moves_and_on_what_they_fix(tmp_path, topics, broken, moves, sentence, held):
    told = Told(tmp_path, topics)
    for words in (" ".join(told.check.out.split()), " ".join(told.scan.out.split()), told.compliant.message):
        assert sentence in words
    for words in (told.check.out, told.scan.out):
        assert "broker 1003" in words
    assert {told.checked["summary"]["moves"], told.document.summary.moves, told.report.summary.moves} == {moves}
    numbers = {told.document.summary.non_compliant, told.report.summary.non_compliant}
    assert numbers == {told.checked["summary"]["nonCompliant"]} == {broken}
    if TOO_MANY in topics:
        assert "No move fixes 1 partition: too few brokers may hold it." in told.page
    assert ("A fix copies 1 replica." in told.page) is (moves == 1)
    assert "copies no data" not in told.page
    checked, scanned, reported = told.messages
    assert checked == scanned == reported
    away = [one for one in checked if "1003" in one[1]]
    assert [one[1] for one in away] == [f"broker 1003 is not online: {held} a replica there"]
    assert "rackspan plan --drain-broker 1003" in away[0][2]
    assert away[0][3] == "", "a missing broker has no domain"


def test_all_outputs_report_different_replication_factors_in_one_topic(tmp_path):
    told = Told(tmp_path, (UNEVEN,))
    checked, scanned, reported = told.messages
    assert checked == scanned == reported
    ((name, message, *_),) = checked
    assert (name, message) == ("test3", "its partitions differ by 1 replica")
    for words in (told.check.out, told.scan.out):
        assert "its partitions differ by 1 replica" in " ".join(words.split())
    assert "1 finding" in told.page
    assert told.report.summary.by_rule == {"ReplicationFactorVaries": 1}
