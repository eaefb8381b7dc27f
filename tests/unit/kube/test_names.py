"""An invalid name never becomes part of a request, even if admission has accepted it."""

import asyncio
import contextlib

import pytest
from tests.support.manifests import TOPOLOGY, changed
from tests.unit.kube.recording import Answer, RecordingApi
from tests.unit.reconcile.scans.examples import run

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.rest import Rest
from rackspan.kube.scan_reports import publish_scan_with
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.kube.topology_edits import follow_scan
from rackspan.kube.topology_inputs import read_scan_inputs_with
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef
from rackspan.reconcile.scans.job_status import RunKind

HOSTILE = [
    "",
    ".",
    "..",
    "../../victim/secrets/db",
    "..%2f..%2fvictim%2fsecrets%2fdb",
    "%2e%2e",
    "db?watch=true",
    "db#",
    "db;x",
    "db\0",
    "db\n",
    "d b",
    "Db",
    "-db",
    "db-",
    "a..b",
    "a.-b",
    "\N{CYRILLIC SMALL LETTER A}b",
    "\ud800",
    "1" * 5_000,
    "/",
    "\\",
]
KINDS = [kafkatopic.KIND, racktopology.KIND, compliancereport.KIND, reassignment.KIND]


def _ids(name: str) -> str:
    return ascii(name)[:30]


@pytest.fixture
def api():
    return RecordingApi()


@pytest.fixture
def rest(api):
    return Rest(api)


def _cluster(rest, *namespaces):
    return KubeCluster(rest, EventQueue(rest), namespaces or None)


async def _refused(call) -> None:
    with pytest.raises(FailureError) as caught:
        await call
    assert caught.value.failure.reason is Reason.INVALID_SPEC
    assert caught.value.failure.remedy is Remedy.SPEC
    assert caught.value.failure.message.isprintable()
    assert len(caught.value.failure.message) < 500


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_secret_with_an_invalid_name_is_not_requested(rest, api, name):
    await _refused(_cluster(rest).secret("shop", name))
    await _refused(_cluster(rest).secret(name, "db"))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
@pytest.mark.parametrize("kind", KINDS)
async def test_object_with_an_invalid_name_is_not_written(rest, api, kind, name):
    for key in (ObjectKey("shop", name), ObjectKey(name, "orders")):
        await _refused(_cluster(rest).replace_status(ObjectRef(kind, key, "uid"), {}))
        await _refused(_cluster(rest).set_finalizers(ObjectRef(kind, key, "uid"), [], "1", {}))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_namespace_with_an_invalid_name_is_not_listed(rest, api, name):
    await _refused(_cluster(rest, name).listed(kafkatopic.KIND))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_object_with_an_invalid_name_is_not_searched(rest, api, name):
    await _refused(_cluster(rest).find(kafkatopic.KIND, ObjectKey("shop", name)))
    if name:
        await _refused(_cluster(rest).find(kafkatopic.KIND, ObjectKey(name, "orders")))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_event_is_not_posted_in_a_namespace_with_an_invalid_name(rest, api, name):
    events = EventQueue(rest)
    events.put(KubernetesEvent(ObjectRef(kafkatopic.KIND, ObjectKey(name, "orders"), "uid"), "Created", "made"))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(events.run(), 0.05)
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_scan_with_an_invalid_name_is_not_listed_started_or_deleted(rest, api, name):
    for kind in RunKind:
        await _refused(KubeScanRuns(rest, name).runs(kind))
    await _refused(KubeScanRuns(rest, name).start({"kind": "Job", "metadata": {"name": "scan"}}))
    await _refused(KubeScanRuns(rest, "scans").delete(run(name)))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_scan_of_a_topology_with_an_invalid_name_sends_no_request(rest, api, name):
    for key in (ObjectKey("shop", name), ObjectKey(name, "prod")):
        await _refused(read_scan_inputs_with(rest, key))
        await _refused(follow_scan(rest, key, print))
        await _refused(publish_scan_with(rest, None, key))
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=_ids)
async def test_scan_does_not_request_a_secret_with_an_invalid_name(name):
    spec = {"kafka": {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": name}}}}
    topology = changed(TOPOLOGY, {"metadata": {"namespace": "shop"}, "spec": spec})

    def answer(_, path):
        return Answer(body=topology if path.endswith("/racktopologies/prod") else {"items": []})

    api = RecordingApi(answer)
    await _refused(read_scan_inputs_with(Rest(api), ObjectKey("shop", "prod")))
    assert [path for _, path in api.asked if "secrets" in path] == []


async def test_valid_names_are_sent_unchanged(rest, api):
    await _cluster(rest).secret("shop-1", "kafka.user-1")
    assert api.asked == [("GET", "/api/v1/namespaces/shop-1/secrets/kafka.user-1")]


async def test_continue_token_of_a_list_is_percent_encoded(rest):
    pages = iter([{"items": [], "metadata": {"continue": "a/b?c=d&e#%2f"}}, {"items": []}])
    api = RecordingApi(lambda _, __: Answer(body=next(pages)))
    await _cluster(Rest(api)).listed(kafkatopic.KIND)
    assert api.asked[1] == (
        "GET",
        "/apis/rackspan.dev/v1alpha1/kafkatopics?limit=100&continue=a%2Fb%3Fc%3Dd%26e%23%252f",
    )
