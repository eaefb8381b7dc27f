"""Objects are listed in the watched namespaces, page by page."""

import pytest
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.rest import Rest
from rackspan.reconcile.failures import DeniedError, FailureError
from rackspan.reconcile.ports import Listener, ObjectVersion

TOPICS = "/apis/rackspan.dev/v1alpha1"


def cluster(api, *namespaces):
    return KubeCluster(Rest(api), EventQueue(Rest(api)), namespaces)


def paged(_, path):
    """Return a page of a list. Each list has two pages with one object each."""
    namespace = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else "all"
    name = "b" if "continue=" in path else "a"
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "7"}
    metadata["finalizers"] = [FINALIZER] if name == "b" else []
    more = {} if name == "b" else {"metadata": {"continue": "more"}}
    return Answer(body={"items": [{"metadata": metadata}], **more})


async def test_listed_reads_all_pages_of_all_watched_namespaces():
    api = RecordingApi(paged)
    found = await cluster(api, "shop", "dev").listed("KafkaTopic")
    assert found.there == {
        ObjectKey(space, name): ObjectVersion(name, "7") for space in ("shop", "dev") for name in ("a", "b")
    }
    assert [path.partition("?")[0] for _, path in api.asked] == [
        f"{TOPICS}/namespaces/{space}/kafkatopics" for space in ("shop", "shop", "dev", "dev")
    ]


async def test_all_namespaces_are_read_with_one_list_if_none_is_set():
    api = RecordingApi(paged)
    assert [meta.key for meta in await cluster(api).with_finalizer("KafkaTopic")] == [ObjectKey("all", "b")]
    assert {path.partition("?")[0] for _, path in api.asked} == {f"{TOPICS}/kafkatopics"}


async def test_nodes_are_listed_without_a_namespace():
    api = RecordingApi(paged)
    (reflector,) = cluster(api, "shop").reflectors("Node", Listener(tuple, lambda _: None, lambda _: None))
    await reflector.list()
    assert {path.partition("?")[0] for _, path in api.asked} == {"/api/v1/nodes"}


async def test_unserved_kind_has_no_objects_with_finalizer_and_listed_raises():
    kube = cluster(RecordingApi(lambda *_: Answer(404, {"message": "not found"})), "shop", "dev")
    assert await kube.with_finalizer("KafkaTopic") == ()
    with pytest.raises(FailureError, match=f"GET {TOPICS}/namespaces/shop/kafkatopics: not found"):
        await kube.listed("KafkaTopic")


def closed(path_part, status=403):
    """Return the pages of `paged`, but this status for paths that contain `path_part`."""
    no = Answer(status, {"message": "no"})
    return lambda method, path: no if path_part in path else paged(method, path)


@pytest.mark.parametrize("part", ["namespaces/dev/", "namespaces/dev/kafkatopics?limit=100&continue=more"])
async def test_forbidden_namespace_does_not_prevent_reads_of_the_others(part):
    kube = cluster(RecordingApi(closed(part)), "dev", "shop")
    found = await kube.listed("KafkaTopic")
    assert found.denied == {"dev"}
    assert [found.lacks(ObjectKey(space, "z")) for space in ("dev", "shop")] == [False, True]
    read = []

    async def read_all():
        async for body in kube.objects("KafkaTopic"):
            read.append(body["metadata"]["namespace"])  # noqa: PERF401 - it raises at the end

    with pytest.raises(DeniedError, match="403 no") as told:
        await read_all()
    assert read.count("shop") == 2
    assert told.value.namespaces == {"dev"}


@pytest.mark.parametrize(("namespaces", "status"), [((), 403), (("dev", "shop"), 401), (("dev", "shop"), 500)])
async def test_failure_that_affects_all_namespaces_is_not_a_denied_error(namespaces, status):
    kube = cluster(RecordingApi(closed("kafkatopics", status)), *namespaces)
    with pytest.raises(FailureError) as told:
        await kube.listed("KafkaTopic")
    assert not isinstance(told.value, DeniedError)


async def test_list_of_pods_raises_denied_error_for_a_forbidden_namespace_only():
    listener = Listener(tuple, lambda _: None, lambda _: None)
    refused, answered = cluster(RecordingApi(closed("namespaces/dev/")), "dev", "shop").reflectors("Pod", listener)
    with pytest.raises(DeniedError):
        await refused.list()
    await answered.list()
    (nodes,) = cluster(RecordingApi(closed("nodes")), "dev").reflectors("Node", listener)
    with pytest.raises(FailureError) as told:
        await nodes.list()
    assert not isinstance(told.value, DeniedError)
