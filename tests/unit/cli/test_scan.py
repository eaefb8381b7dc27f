"""`rackspan scan`: its exit codes, and what is kept if the ComplianceReport cannot be written."""

import pytest
from tests.support.reports import document

from rackspan.api.reasons import Reason
from rackspan.cli.actions import scanning_clusters
from rackspan.kube import scan_reports
from rackspan.kube.rest import NotFoundError
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reports.document import Summary

AWAY = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "the API server cannot be reached", Remedy.RETRY))
PUBLISHED = ("scan", "--topology", "kafka/prod", "--publish", "-o", "json")


@pytest.fixture
def publishing(monkeypatch):
    """A function that sets the error of writing the ComplianceReport. The scan itself succeeds."""
    written = []

    def fail_with(error):
        async def publish(scan, topology, kubeconfig):
            written.append(scan.scan_id)
            if error is not None:
                raise error

        monkeypatch.setattr(scan_reports, "publish_scan", publish)
        return written

    monkeypatch.setattr(scanning_clusters, "_scanned", lambda request: [document("scan-1")])
    return fail_with


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (AWAY, 3, "the ComplianceReport was not written: the API server cannot be reached"),
        (NotFoundError("RackTopology"), 2, "the ComplianceReport was not written: RackTopology kafka/prod is gone"),
    ],
)
def test_results_are_printed_and_written_to_files_although_the_report_cannot_be_published(
    rackspan, publishing, tmp_path, error, code, said
):
    publishing(error)
    done = rackspan(*PUBLISHED, "--report", str(tmp_path / "scan.json"))
    assert (done.code, said in done.err) == (code, True)
    assert '"scan-1"' in done.out
    assert '"scan-1"' in (tmp_path / "scan.json").read_text()


def test_report_is_published_although_a_file_cannot_be_written(rackspan, publishing):
    written = publishing(None)
    assert rackspan(*PUBLISHED, "--report", "/dev/full").code == 74
    assert written == ["scan-1"]


@pytest.mark.parametrize(
    ("scans", "code"),
    [
        ([{}, {}], 0),
        ([{}, {"unread_topics": 1}], 3),
        ([{"unread_topics": 1}, {"by_severity": {"high": 1}}], 1),
        ([{"by_severity": {"low": 1}}], 0),
    ],
    ids=["fine", "not all read", "high and not all read", "low"],
)
def test_scan_that_could_not_read_all_topics_does_not_end_with_0(rackspan, monkeypatch, scans, code):
    found = [document(f"scan-{at}", summary=Summary(**counts)) for at, counts in enumerate(scans)]
    monkeypatch.setattr(scanning_clusters, "_scanned", lambda request: found)
    assert rackspan("scan", "--bootstrap-server", "127.0.0.1:1").code == code
    assert rackspan("scan", "--bootstrap-server", "127.0.0.1:1", "--exit-zero").code == 0
