"""Reassignments: created once. The operator changes only the known version, and only with the Lease."""

import pytest
from tests.support.manifests import REASSIGNMENT, changed
from tests.unit.kube.recording import Answer, RecordingApi
from tests.unit.kube.test_names import HOSTILE

from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment
from rackspan.kube.kube_reassignments import KubeReassignments
from rackspan.kube.rest import Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy

BODY = changed(REASSIGNMENT, {"metadata": {"namespace": "kafka", "uid": "rra-1", "resourceVersion": "7"}})
KNOWN = Reassignment.from_object(BODY)
PATH = "/apis/rackspan.dev/v1alpha1/namespaces/kafka/reassignments"
TEST_FAILED = {"message": "the server rejected our request due to an error in our request"}


class Refused:
    change_timeout_seconds = 1.0

    def check(self):
        raise FailureError(Failure(Reason.LEASE_NOT_HELD, "no Lease", Remedy.RETRY))


def objects(answer=Answer(), permit=None):  # noqa: B008 - frozen
    api = RecordingApi(lambda *_: answer)
    return api, KubeReassignments(Rest(api, permit))


async def test_write_status_tests_the_uid_and_the_resource_version():
    api, found = objects(Answer(body=BODY))
    assert await found.write_status(KNOWN, {"state": "Running"}) == BODY
    assert api.asked == [("PATCH", f"{PATH}/{KNOWN.meta.name}/status")]
    assert api.sent == [
        [
            {"op": "test", "path": "/metadata/uid", "value": "rra-1"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/status", "value": {"state": "Running"}},
        ]
    ]


@pytest.mark.parametrize(("uid", "plan"), [("rra-1", "eJw="), ("another", None)])
async def test_plan_is_read_with_a_list_and_only_for_the_known_uid(uid, plan):
    api, found = objects(Answer(body={"items": [{"metadata": {"uid": uid}, "spec": {"plan": "eJw="}}]}))
    assert await found.plan(KNOWN) == plan
    assert api.asked == [("GET", f"{PATH}?fieldSelector=metadata.name%3D{KNOWN.meta.name}")]
    assert await objects(Answer(body={"items": None}))[1].plan(KNOWN) is None


@pytest.mark.parametrize("answer", [Answer(409), Answer(404), Answer(422, TEST_FAILED)])
async def test_write_status_returns_none_if_the_object_was_changed_or_deleted(answer):
    assert await objects(answer)[1].write_status(KNOWN, {}) is None


async def test_create_returns_none_if_the_name_is_taken_else_the_object():
    assert await objects(Answer(409))[1].create(BODY) is None
    api, found = objects(Answer(201, BODY))
    assert await found.create(BODY) == BODY
    assert api.asked == [("POST", PATH)]


async def test_create_in_a_deleted_namespace_raises_failure_error():
    with pytest.raises(FailureError, match="cannot be made"):
        await objects(Answer(404))[1].create(BODY)


async def test_delete_has_the_uid_as_precondition_and_accepts_a_deleted_object():
    api, found = objects()
    await found.delete(KNOWN)
    assert api.sent[0]["preconditions"] == {"uid": "rra-1"}
    for status in (404, 409):
        await objects(Answer(status))[1].delete(KNOWN)


@pytest.mark.parametrize(
    "change", [lambda to: to.create(BODY), lambda to: to.write_status(KNOWN, {}), lambda to: to.delete(KNOWN)]
)
async def test_changes_without_the_lease_send_no_request(change):
    api, found = objects(permit=Refused())
    with pytest.raises(FailureError, match="no Lease"):
        await change(found)
    assert api.asked == []


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
async def test_reassignment_with_an_invalid_name_is_not_written(name):
    for metadata in ({"namespace": name}, {"name": name}):
        body = {**BODY, "metadata": {**BODY["metadata"], **metadata}}
        known = Reassignment(KNOWN.meta.__class__(**{**_fields(KNOWN.meta), **metadata}), KNOWN.spec)
        api, found = objects()
        for call in (found.write_status(known, {}), found.delete(known)):
            with pytest.raises(FailureError):
                await call
        if "namespace" in metadata:
            with pytest.raises(FailureError):
                await found.create(body)
        assert api.asked == []


def _fields(meta):
    return {name: getattr(meta, name) for name in meta.__struct_fields__}
