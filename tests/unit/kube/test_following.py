"""What `rackspan scan --watch` waits for: the scan of its own request, or of one that replaced it."""

import pytest
from tests.support.manifests import TOPOLOGY, changed

from rackspan.api.labels import SCAN_NOW
from rackspan.api.meta import ObjectKey
from rackspan.kube import topology_edits
from rackspan.kube.rest import NotFoundError
from rackspan.kube.topology_edits import follow_scan

OURS = "the value of this command"


class Rest:
    """A RackTopology. `states` are what the reads return: annotation, handled request, last scan and its state."""

    def __init__(self, *states):
        self.states, self.request = [(None, "earlier", "before", "Completed"), *states], None

    async def merge_patch(self, operation, path, patch):
        self.request = patch["metadata"]["annotations"][SCAN_NOW]

    async def get(self, operation, path):
        if operation == "get_report":
            raise NotFoundError
        annotation, handled, scan, state = (self.request if one is OURS else one for one in self.states.pop(0))
        last = {"scanId": scan, "trigger": "Request", "state": state, "startedAt": "2026-01-31T03:00:00Z"}
        status = {"scans": {"handledRequest": handled}, "lastScan": last}
        return changed(TOPOLOGY, {"metadata": {"annotations": {SCAN_NOW: annotation}}, "status": status})


@pytest.mark.parametrize(
    "states",
    [
        [(OURS, "earlier", "before", "Completed"), (OURS, OURS, "ours", "Running"), (OURS, OURS, "ours", "Completed")],
        [(OURS, OURS, "before", "Completed"), (OURS, OURS, "ours", "Failed")],
        [("second", OURS, "ours", "Completed")],
    ],
    ids=["usual", "recorded as handled too early", "replaced after its scan began"],
)
async def test_scan_of_the_request_is_returned(monkeypatch, states):
    assert await followed(monkeypatch, *states) == "ours"


@pytest.mark.parametrize(
    "states",
    [
        [("second", "earlier", "before", "Completed"), ("second", "second", "second", "Completed")],
        [(OURS, OURS, "ours", "Running"), ("second", "second", "second", "Completed")],
        [("second", OURS, "ours", "Running"), ("third", "second", "second", "Completed")],
    ],
    ids=["before its scan began", "while its scan ran", "twice"],
)
async def test_scan_of_a_request_that_replaced_this_one_is_returned(monkeypatch, states):
    assert await followed(monkeypatch, *states) == "second"


async def followed(monkeypatch, *states):
    monkeypatch.setattr(topology_edits, "_POLL_SECONDS", 0)
    return (await follow_scan(Rest(*states), ObjectKey("kafka", "prod"), print)).scan.scan_id
