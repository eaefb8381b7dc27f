"""The ComplianceReport: what is published by scans that end at the same time."""

from copy import deepcopy

import pytest
from tests.support.reports import document, failed_document

from rackspan.api.meta import ObjectKey
from rackspan.kube import scan_reports
from rackspan.kube.rest import ConflictError, NotFoundError
from rackspan.kube.scan_reports import publish_scan_with
from rackspan.reconcile.failures import FailureError
from rackspan.reports.document import Summary

KEY = ObjectKey("kafka", "prod")
UNEVEN = Summary(topics=1, partitions=6, non_compliant=6)


class Rest:
    """A ComplianceReport. `between` are calls, each made once between a read of the report and the write after it."""

    def __init__(self, *between):
        self.between, self.report, self.objects, self.version, self.spec = list(between), None, 0, 0, {}
        self.open_reports = NotFoundError("there are no OpenReports")

    async def get(self, operation, path):
        return {"metadata": {"uid": "uid-of-topology"}, "spec": self.spec}

    async def apply(self, operation, path, body, *, manager):
        if operation != "apply_report":
            raise self.open_reports
        if self.report is None:
            self.objects += 1
            self.report = {"metadata": {"uid": f"uid-{self.objects}", "generation": 1}}
            self._changed()
        found = deepcopy(self.report)
        if self.between:
            await self.between.pop()()
        return found

    async def replace_status(self, operation, path, uid, status, version=None):
        meta = self.report["metadata"]
        if uid != meta["uid"] or version not in (None, meta["resourceVersion"]):
            raise ConflictError("the report")
        self.report["status"] = status
        self._changed()

    def _changed(self):
        self.version += 1
        self.report["metadata"]["resourceVersion"] = str(self.version)


def started(time):
    return {"started_at": f"2025-01-31T{time}:00Z", "finished_at": f"2025-01-31T{time}:30Z"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(scan_reports, "_PAUSE_SECONDS", 0)


@pytest.fixture
def rest():
    return Rest()


async def test_scan_that_began_earlier_does_not_replace_the_report_written_meanwhile(rest):
    rest.between = [lambda: publish_scan_with(rest, document("later", summary=UNEVEN, **started("03:30")), KEY)]
    await publish_scan_with(rest, document("earlier", **started("03:00")), KEY)
    status = rest.report["status"]
    assert (status["scanId"], status["summary"]["nonCompliant"]) == ("later", 6)


async def test_failed_scan_keeps_the_results_written_meanwhile(rest):
    await publish_scan_with(rest, document("first"), KEY)
    rest.between = [lambda: publish_scan_with(rest, document("second", summary=UNEVEN), KEY)]
    await publish_scan_with(rest, failed_document("third", "KafkaUnreachable", "no broker answers"), KEY)
    status = rest.report["status"]
    assert (status["scanId"], status["failure"]["scanId"]) == ("second", "third")


@pytest.mark.parametrize(("named", "told"), [("Job", "Job"), ("EngineOfLater", None), (None, None)])
async def test_scan_is_published_also_with_an_engine_that_only_a_newer_version_knows(rest, named, told):
    rest.spec = {"compliance": {"engine": named}}
    await publish_scan_with(rest, document("only"), KEY)
    assert (rest.report["status"]["scanId"], rest.report["status"].get("engine")) == ("only", told)


async def test_report_that_is_deleted_and_created_again_meanwhile_is_written(rest):
    async def delete():
        rest.report = None
        await rest.apply("apply_report", "", {}, manager="")

    rest.between = [delete]
    await publish_scan_with(rest, document("only"), KEY)
    assert (rest.objects, rest.report["status"]["scanId"]) == (2, "only")


async def test_report_that_others_change_all_the_time_is_an_error_that_says_what_to_do(rest):
    async def other():
        await rest.replace_status("", "", rest.report["metadata"]["uid"], {})

    rest.between = [other] * 100
    with pytest.raises(FailureError, match="ComplianceReport kafka/prod is changed by others all the time: scan again"):
        await publish_scan_with(rest, document(), KEY)
    assert 0 < len(rest.between) < 100


async def test_conflict_of_the_open_reports_report_does_not_fail_the_scan(rest):
    rest.open_reports = ConflictError("the OpenReports Report")
    await publish_scan_with(rest, document("only"), KEY)
    assert rest.report["status"]["scanId"] == "only"
