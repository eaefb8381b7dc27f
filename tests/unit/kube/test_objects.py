"""All decoders of an object give the same fields, and fields that are not needed use no memory."""

import gc
import json
import tracemalloc
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.codec import SpecError
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.labels import READ_ANNOTATIONS
from rackspan.api.meta import Meta
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.kube_objects import OWN, reduced_event, reduced_page
from rackspan.kube.rest import Rest
from rackspan.reconcile.cache import Cache

MIB = 1 << 20
text = st.text(max_size=8)
fields = st.fixed_dictionaries(
    {"manager": text},
    optional={
        "operation": st.just("Apply"),
        "time": st.sampled_from([None, "2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z"]),
        "fieldsV1": st.one_of(
            st.none(),
            st.dictionaries(
                st.sampled_from(["f:spec", "f:status", "f:metadata"]), st.just({"f:partitions": {".": {}}})
            ),
        ),
    },
)
metadata = st.fixed_dictionaries(
    {"name": st.just("orders"), "namespace": st.just("shop"), "uid": text, "resourceVersion": text},
    optional={
        "generation": st.integers(0, 2**63 - 1),
        "creationTimestamp": st.just("2026-01-31T12:00:00Z"),
        "deletionTimestamp": st.just("2026-01-31T12:00:00Z"),
        "labels": st.dictionaries(text, text),
        "annotations": st.dictionaries(st.one_of(text, st.sampled_from(READ_ANNOTATIONS)), text),
        "finalizers": st.lists(text, max_size=3),
        "managedFields": st.lists(fields, max_size=3),
        "ownerReferences": st.lists(st.fixed_dictionaries({"name": st.just("a")}, optional={"uid": text}), max_size=60),
    },
)
SPEC = {"topologyRef": {"name": "prod"}, "partitions": 3, "replicationFactor": 2, "config": {"a": 1, "b": "c"}}
STATUS = {"topicId": "t", "conditions": []}


@given(metadata)
def test_object_reduced_to_the_needed_fields_equals_the_whole_object(some):
    whole = {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": some,
        "spec": SPEC,
        "status": STATUS,
    }
    read = KafkaTopic.from_object(whole)
    assert KafkaTopic.from_object(OWN.decode(json.dumps(whole))) == read
    event = json.loads(reduced_event(json.dumps({"type": "ADDED", "object": whole}).encode()))
    assert (event["type"], KafkaTopic.from_object(event["object"])) == ("ADDED", read)
    page = reduced_page(json.dumps({"metadata": {"continue": "x", "resourceVersion": "7"}, "items": [whole]}).encode())
    assert page["metadata"] == {"continue": "x", "resourceVersion": "7"}
    assert [KafkaTopic.from_object(item) for item in page["items"]] == [read]


def test_reduced_event_returns_an_error_event_unchanged():
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}'
    assert reduced_event(line) == line


def fat(number, size=248_000, character="x"):
    """Return a KafkaTopic with as many bytes of annotations as the API server accepts, half of them in a known one."""
    long = character * (size // 2 // len(character.encode()))
    annotations = {"tenant.example/note": long, READ_ANNOTATIONS[number % len(READ_ANNOTATIONS)]: long}
    meta = {"name": f"t-{number}", "namespace": "shop", "uid": str(number), "resourceVersion": "1"}
    labels = {f"label-{at}": "x" * 60 for at in range(100)}
    return {"metadata": {**meta, "annotations": annotations, "labels": labels}, "spec": SPEC}


class Listing:
    """An API server with these objects that records the limit and the size of each page."""

    def __init__(self, items):
        self.items = items
        self.asked = []

    def __call__(self, _, path):
        query = parse_qs(urlsplit(path).query)
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        end = start + limit
        more = {"continue": str(end)} if end < len(self.items) else {}
        body = b'{"metadata":%s,"items":[%s]}' % (json.dumps(more).encode(), b",".join(self.items[start:end]))
        self.asked.append((limit, len(body)))
        return Answer(body=body)


@pytest.mark.parametrize("character", ["x", "😀"])
async def test_large_annotations_use_little_memory_during_the_list_and_in_the_cache(character):
    listing = Listing(
        [json.dumps(fat(number, character=character), ensure_ascii=False).encode() for number in range(300)]
    )
    rest = Rest(RecordingApi(listing))
    cache = Cache()
    tracemalloc.start()
    try:
        async for body in KubeCluster(rest, EventQueue(rest)).objects("KafkaTopic"):
            cache.put_topic(body)
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cache.topics) == 300
    assert held < 6 * MIB
    assert peak < 24 * MIB + listing.asked[0][1]  # the second term is the response of this API server


async def test_list_of_small_and_large_objects_takes_few_requests_with_up_to_500_objects():
    small = [json.dumps({**fat(number, 2), "metadata": {"name": f"t-{number}"}}).encode() for number in range(3_000)]
    large = [json.dumps(fat(number)).encode() for number in range(3_000, 3_040)]
    listing = Listing([*small, *large])
    found = await KubeCluster(rest := Rest(RecordingApi(listing)), EventQueue(rest)).with_finalizer("KafkaTopic")
    assert found == ()
    read = [limit for limit, size in listing.asked if size <= 2 * MIB]
    assert max(read) == 500
    assert len(listing.asked) < 40


async def test_objects_larger_than_the_page_limit_are_read():
    listing = Listing([json.dumps(fat(number, 5 * MIB)).encode() for number in range(3)])
    rest = Rest(RecordingApi(listing))
    found = [body async for body in KubeCluster(rest, EventQueue(rest)).objects("KafkaTopic")]
    assert [body["metadata"]["name"] for body in found] == ["t-0", "t-1", "t-2"]


def test_meta_keeps_only_known_annotations_and_at_most_1024_characters_of_each():
    annotations = {name: name[-1] * 5_000 for name in READ_ANNOTATIONS} | {"other": "x"}
    kept = Meta.from_object({"metadata": {"name": "a", "annotations": annotations}}).annotations
    assert kept == {name: name[-1] * 1024 for name in READ_ANNOTATIONS}


def test_meta_rejects_more_than_50_finalizers():
    Meta.from_object({"metadata": {"name": "a", "finalizers": [f"a/{at}" for at in range(50)]}})
    with pytest.raises(SpecError, match=r"metadata\.finalizers has more than 50 entries"):
        Meta.from_object({"metadata": {"name": "a", "finalizers": [f"a/{at}" for at in range(51)]}})
