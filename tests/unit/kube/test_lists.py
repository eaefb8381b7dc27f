"""Objects are listed in the namespaces that are watched, page by page."""

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
    """One object a page, two pages a list."""
    namespace = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else "all"
    name = "b" if "continue=" in path else "a"
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "7"}
    metadata["finalizers"] = [FINALIZER] if name == "b" else []
    more = {} if name == "b" else {"metadata": {"continue": "more"}}
    return Answer(body={"items": [{"metadata": metadata}], **more})


async def test_every_page_of_every_watched_namespace_is_read():
    api = RecordingApi(paged)
    found = await cluster(api, "shop", "dev").listed("KafkaTopic")
    assert found.there == {
        ObjectKey(space, name): ObjectVersion(name, "7") for space in ("shop", "dev") for name in ("a", "b")
    }
    assert [path.partition("?")[0] for _, path in api.asked] == [
        f"{TOPICS}/namespaces/{space}/kafkatopics" for space in ("shop", "shop", "dev", "dev")
    ]


async def test_without_namespaces_one_list_holds_all():
    api = RecordingApi(paged)
    assert [meta.key for meta in await cluster(api).with_finalizer("KafkaTopic")] == [ObjectKey("all", "b")]
    assert {path.partition("?")[0] for _, path in api.asked} == {f"{TOPICS}/kafkatopics"}


async def test_nodes_are_in_no_namespace():
    api = RecordingApi(paged)
    (reflector,) = cluster(api, "shop").reflectors("Node", Listener(tuple, lambda _: None, lambda _: None))
    await reflector.list()
    assert {path.partition("?")[0] for _, path in api.asked} == {"/api/v1/nodes"}


async def test_a_kind_that_is_not_served_has_none_to_release_and_its_objects_are_not_known():
    kube = cluster(RecordingApi(lambda *_: Answer(404, {"message": "not found"})), "shop", "dev")
    assert await kube.with_finalizer("KafkaTopic") == ()
    with pytest.raises(FailureError, match=f"GET {TOPICS}/namespaces/shop/kafkatopics: not found"):
        await kube.listed("KafkaTopic")


def closed(path_part, status=403):
    """Pages as above, and that status for paths with that part."""
    no = Answer(status, {"message": "no"})
    return lambda method, path: no if path_part in path else paged(method, path)


@pytest.mark.parametrize("part", ["namespaces/dev/", "namespaces/dev/kafkatopics?limit=100&continue=more"])
async def test_a_namespace_that_may_not_be_read_keeps_no_other_from_it(part):
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
async def test_what_is_refused_for_all_namespaces_is_no_ones_own_matter(namespaces, status):
    kube = cluster(RecordingApi(closed("kafkatopics", status)), *namespaces)
    with pytest.raises(FailureError) as told:
        await kube.listed("KafkaTopic")
    assert not isinstance(told.value, DeniedError)


async def test_pods_of_a_namespace_that_may_not_be_read_are_told_from_an_outage():
    listener = Listener(tuple, lambda _: None, lambda _: None)
    refused, answered = cluster(RecordingApi(closed("namespaces/dev/")), "dev", "shop").reflectors("Pod", listener)
    with pytest.raises(DeniedError):
        await refused.list()
    await answered.list()
    (nodes,) = cluster(RecordingApi(closed("nodes")), "dev").reflectors("Node", listener)
    with pytest.raises(FailureError) as told:
        await nodes.list()
    assert not isinstance(told.value, DeniedError)
