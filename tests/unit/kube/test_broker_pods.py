"""Evicts and annotates broker pods, only while the operator holds the Lease."""

import pytest
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.kube.rack_objects import KubeBrokerPods
from rackspan.kube.rest import Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Eviction, PodFacts

POD = ObjectKey("kafka", "kafka-3")
PATH = "/api/v1/namespaces/kafka/pods/kafka-3"


class Refused:
    change_timeout_seconds = 1.0

    def check(self):
        raise FailureError(Failure("LeaseNotHeld", "no Lease", Remedy.RETRY))


def pods(answer, permit=None):
    api = RecordingApi(lambda *_: answer)
    return api, KubeBrokerPods(Rest(api, permit))


async def test_get_returns_the_facts_of_a_pod_or_none_if_it_does_not_exist():
    body = {
        "metadata": {"uid": "p-1", "ownerReferences": [{"kind": "StatefulSet", "controller": True}]},
        "spec": {"nodeName": "n1"},
        "status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]},
    }
    api, found = pods(Answer(body=body))
    assert await found.get(POD) == PodFacts("p-1", "n1", deleting=False, ready=True, has_controller=True)
    assert api.asked == [("GET", PATH)]
    bare = {"metadata": {"uid": "p-1", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{}]}}
    _, found = pods(Answer(body=bare))
    assert await found.get(POD) == PodFacts("p-1", None, deleting=True, ready=False, has_controller=False)
    _, found = pods(Answer(404, {"message": "not found"}))
    assert await found.get(POD) is None


async def test_eviction_has_the_uid_as_precondition_and_a_rehearsal_is_a_dry_run():
    api, found = pods(Answer(201, {"status": "Success"}))
    assert await found.evict(POD, "p-1", rehearse=True) is Eviction.ACCEPTED
    assert await found.evict(POD, "p-1", rehearse=False) is Eviction.ACCEPTED
    assert api.asked == [("POST", f"{PATH}/eviction")] * 2
    rehearsed, real = api.sent
    assert (real["apiVersion"], real["kind"]) == ("policy/v1", "Eviction")
    assert real["metadata"] == {"name": "kafka-3", "namespace": "kafka"}
    assert real["deleteOptions"] == {"preconditions": {"uid": "p-1"}}
    assert rehearsed["deleteOptions"] == {"preconditions": {"uid": "p-1"}, "dryRun": ["All"]}


@pytest.mark.parametrize(("status", "outcome"), [(429, Eviction.REFUSED), (404, Eviction.GONE), (409, Eviction.GONE)])
async def test_rejected_eviction_returns_its_outcome_without_a_retry(status, outcome):
    api, found = pods(Answer(status, {"message": "Cannot evict pod"}, {"Retry-After": "10"}))
    assert await found.evict(POD, "p-1", rehearse=False) is outcome
    assert len(api.asked) == 1


async def test_annotate_applies_the_rack_and_removes_it_regardless_of_its_field_manager():
    api, found = pods(Answer())
    await found.annotate(POD, "/eu/a")
    await found.annotate(POD, None)
    assert [method for method, _ in api.asked] == ["PATCH"] * 2
    assert api.asked[0][1].startswith(f"{PATH}/status?")
    assert "fieldManager=rackspan" in api.asked[0][1]
    assert api.asked[1][1].partition("?")[0] == f"{PATH}/status"
    written, taken = api.sent
    assert written["metadata"] == {
        "name": "kafka-3",
        "namespace": "kafka",
        "annotations": {"rackspan.dev/rack": "/eu/a"},
    }
    assert written.keys() == {"apiVersion", "kind", "metadata"}, "the patch has no status"
    assert taken == {"metadata": {"annotations": {"rackspan.dev/rack": None}}}
    _, found = pods(Answer(404, {"message": "not found"}))
    await found.annotate(POD, "/eu/a")


async def test_eviction_without_permission_raises_failure_error():
    _, found = pods(Answer(403, {"message": "pods/eviction is forbidden"}))
    with pytest.raises(FailureError, match="forbidden"):
        await found.evict(POD, "p-1", rehearse=False)


async def test_evict_and_annotate_without_the_lease_send_no_request():
    api, found = pods(Answer(), Refused())
    for rehearse in (True, False):
        with pytest.raises(FailureError, match="no Lease"):
            await found.evict(POD, "p-1", rehearse=rehearse)
    with pytest.raises(FailureError, match="no Lease"):
        await found.annotate(POD, "/eu/a")
    assert api.asked == []


@pytest.mark.parametrize("name", ["../../secrets/x", "a/b", "a?dryRun=All", ""])
async def test_invalid_pod_name_is_rejected_before_any_request(name):
    api, found = pods(Answer())
    with pytest.raises(FailureError):
        await found.evict(ObjectKey("kafka", name), "p-1", rehearse=False)
    with pytest.raises(FailureError):
        await found.annotate(ObjectKey("kafka", name), "/eu/a")
    assert api.asked == []
