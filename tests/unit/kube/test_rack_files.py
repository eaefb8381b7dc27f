"""Published racks: ConfigMaps with a label. The operator changes only the known version, and only with the Lease."""

import pytest
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.kube.rack_objects import KubeRackFiles
from rackspan.kube.rest import Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import RackFileList, RackFileMeta
from rackspan.reconcile.runtime.namespaces import NamespaceSet

METADATA = {
    "name": "prod-racks",
    "namespace": "shop",
    "uid": "cm-1",
    "resourceVersion": "7",
    "labels": {"rackspan.dev/topology-uid": "rt-1"},
    "annotations": {"rackspan.dev/rack-file-of": "kafka/prod"},
}
KNOWN = RackFileMeta("cm-1", "7", ObjectKey("kafka", "prod"), "rt-1")
BODY = {"metadata": METADATA, "data": {"nodes": "n1 /a\n"}}
PATH = "/api/v1/namespaces/shop/configmaps"


class Refused:
    change_timeout_seconds = 1.0

    def check(self):
        raise FailureError(Failure("LeaseNotHeld", "no Lease", Remedy.RETRY))


def files(answer, *namespaces, permit=None):
    api = RecordingApi(lambda *_: answer)
    return api, KubeRackFiles(Rest(api, permit), NamespaceSet(namespaces))


@pytest.mark.parametrize(
    ("namespaces", "path"),
    [(("shop",), PATH), (("*",), "/api/v1/configmaps"), (("*", "a"), "/api/v1/configmaps")],
)
async def test_published_lists_config_maps_with_the_label_only(namespaces, path):
    api, found = files(Answer(body={"items": [{"metadata": METADATA}]}), *namespaces)
    assert await found.published() == RackFileList({ObjectKey("shop", "prod-racks"): KNOWN}, {})
    [(_, asked)] = api.asked
    assert asked.startswith(f"{path}?labelSelector=rackspan.dev%2Frack-file%3Dtrue")


@pytest.mark.parametrize("status", [403, 500])
async def test_published_reports_a_namespace_that_cannot_be_listed_and_returns_the_others(status):
    api = RecordingApi(
        lambda _, path: (
            Answer(status, {"message": "no"}) if "/bank/" in path else Answer(body={"items": [{"metadata": METADATA}]})
        )
    )
    answer = await KubeRackFiles(Rest(api), NamespaceSet(("bank", "shop"))).published()
    assert answer.found == {ObjectKey("shop", "prod-racks"): KNOWN}
    assert [(name, str(status) in failure.message) for name, failure in answer.failed.items()] == [("bank", True)]


async def test_published_raises_only_for_an_outage_if_no_namespace_can_be_listed():
    _, found = files(Answer(403, {"message": "no"}), "*")
    assert list((await found.published()).failed) == ["*"]
    for namespaces in (["*"], ["bank", "shop"]):
        _, found = files(Answer(500, {"message": "no"}), *namespaces)
        with pytest.raises(FailureError, match="500 no"):
            await found.published()


async def test_config_map_without_a_valid_annotation_has_no_topology():
    for annotations in (None, {}, {"rackspan.dev/rack-file-of": "prod"}):
        _, found = files(Answer(body={"items": [{"metadata": {**METADATA, "annotations": annotations}}]}), "shop")
        assert [meta.topology for meta in (await found.published()).found.values()] == [None]


async def test_replace_and_delete_have_the_known_uid_as_precondition():
    api, found = files(Answer(body={"metadata": {**METADATA, "resourceVersion": "8"}}), "shop")
    assert (await found.replace(KNOWN, BODY)).version == "8"
    assert api.asked == [("PATCH", f"{PATH}/prod-racks")]
    assert (api.sent[0]["metadata"]["uid"], api.sent[0]["metadata"]["resourceVersion"]) == ("cm-1", "7")
    await found.delete(ObjectKey("shop", "prod-racks"), KNOWN)
    assert api.sent[1] == {"preconditions": {"uid": "cm-1"}}


async def test_conflicts_do_not_raise():
    _, found = files(Answer(409, {"message": "conflict"}), "shop")
    assert await found.create({"kind": "ConfigMap", **BODY}) is None
    assert await found.replace(KNOWN, BODY) is None
    await found.delete(ObjectKey("shop", "prod-racks"), KNOWN)


async def test_create_in_a_deleted_namespace_raises_failure_error():
    _, found = files(Answer(404, {"message": 'namespaces "shop" not found'}), "shop")
    with pytest.raises(FailureError, match=r"ConfigMap shop/prod-racks cannot be made: namespaces .shop. not found"):
        await found.create({"kind": "ConfigMap", **BODY})


async def test_writes_without_the_lease_send_no_request():
    api, found = files(Answer(), "shop", permit=Refused())
    for write in (found.create(BODY), found.replace(KNOWN, BODY), found.delete(ObjectKey("shop", "x"), KNOWN)):
        with pytest.raises(FailureError):
            await write
    assert api.asked == []
