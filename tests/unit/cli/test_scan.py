"""`rackspan scan --publish`: what is kept if the ComplianceReport cannot be written."""

import pytest
from tests.support.reports import document

from rackspan.api.reasons import Reason
from rackspan.cli.actions import scanning_clusters
from rackspan.kube import scan_reports
from rackspan.kube.rest import NotFoundError
from rackspan.reconcile.failures import Failure, FailureError, Remedy

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
