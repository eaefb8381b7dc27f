"""Which scans the operator sees in its namespace, by what it may see."""

import pytest

from rackspan.api.labels import SCAN_TOPOLOGY, SCAN_TOPOLOGY_NAMESPACE, SCAN_TRIGGER
from rackspan.api.reasons import Reason
from rackspan.kube.rest import NotFoundError
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.reconcile.failures import Failure, FailureError, Remedy

JOB = {
    "metadata": {
        "name": "scan-1",
        "uid": "1",
        "creationTimestamp": "2026-01-31T03:00:00Z",
        "labels": {SCAN_TRIGGER: "Schedule", SCAN_TOPOLOGY_NAMESPACE: "kafka", SCAN_TOPOLOGY: "prod"},
    }
}


class ApiServer:
    """Has Jobs, and answers a question about SparkApplications with an error."""

    def __init__(self, about_applications):
        self.about_applications = about_applications
        self.asked = []

    async def get(self, _operation, path):
        plural = path.partition("?")[0].rpartition("/")[2]
        self.asked.append(plural)
        if plural == "sparkapplications":
            raise self.about_applications
        return {"items": [JOB]}


def failure(reason):
    return FailureError(Failure(reason, "no", Remedy.ACCESS))


@pytest.mark.parametrize("answer", [NotFoundError("no such kind"), failure(Reason.NOT_AUTHORIZED)])
async def test_without_sparks_operator_or_the_right_to_look_there_are_jobs(answer):
    server = ApiServer(answer)
    (run,) = await KubeScanRuns(server, "rackspan").runs(applications=True)
    assert run.name == "scan-1"
    assert server.asked == ["jobs", "sparkapplications"]


async def test_an_api_server_that_is_away_is_no_empty_list():
    server = ApiServer(failure(Reason.API_SERVER_UNREACHABLE))
    with pytest.raises(FailureError):
        await KubeScanRuns(server, "rackspan").runs(applications=True)


async def test_only_jobs_are_asked_for_where_there_can_be_nothing_else():
    server = ApiServer(NotFoundError("not asked"))
    await KubeScanRuns(server, "rackspan").runs(applications=False)
    assert server.asked == ["jobs"]
