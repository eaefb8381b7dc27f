"""The cache keeps only the parts of pods and nodes that a topology can need, and finds objects by their references."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import BrokerIdFrom, BrokerIdSpec
from rackspan.reconcile.cache import BrokerPod, Cache
from rackspan.reconcile.cluster.racks import broker_id_of

KEYS = ("a", "b", "c")
texts = st.one_of(
    st.integers(0, 2**32).map(str),
    st.integers(0, 9).map(lambda digit: "0" * 5_000 + str(digit)),
    st.just("7" * 5_000),
    st.sampled_from(["", "x", "-1", "1x", "٣", "²", " 1"]),
)
written = st.dictionaries(st.sampled_from(KEYS), texts)
sources = st.builds(
    BrokerIdSpec, st.sampled_from(list(BrokerIdFrom)), st.one_of(st.none(), st.sampled_from(KEYS)), st.integers(0, 9)
)


def pod(name, labels, annotations, **more):
    metadata = {"namespace": "kafka", "name": name, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": "n0"}, **more}


@given(sources, st.sampled_from(["kafka-0", "kafka-007", "kafka", "7", "kafka-x1"]), written, written)
def test_cache_keeps_every_pod_with_a_broker_id_and_does_not_change_the_id(source, name, labels, annotations):
    whole = BrokerPod("kafka", name, labels, annotations, "n0")
    cache = Cache()
    assert cache.put_pod(pod(name, labels, annotations)) == bool(cache.pods)
    kept = cache.pods.get(ObjectKey("kafka", name))
    if kept is None:
        assert broker_id_of(source, whole) is None
    else:
        assert broker_id_of(source, kept) == broker_id_of(source, whole)
        assert (kept.labels, kept.node) == (labels, "n0")
        assert all(len(value) < 20 for value in kept.annotations.values())


def test_pod_without_a_number_is_not_kept():
    cache = Cache()
    assert not cache.put_pod(pod("web-7d9c-x2x9k", {"app": "web"}, {"note": "7 apples"}))
    assert cache.pods == {}


@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_pod_with_too_many_labels_or_numbers_is_not_kept(what):
    cache = Cache()
    for count, kept in ((64, 1), (65, 0)):
        many = {what: {str(number): "1" for number in range(count)}}
        assert cache.put_pod(pod("kafka-0", **{"labels": {}, "annotations": {}, **many}))
        assert len(cache.pods) == kept


def test_pod_that_loses_its_number_is_forgotten():
    cache = Cache()
    assert cache.put_pod(pod("web-7d9c-x2x9k", {"id": "1"}, {}))
    assert cache.put_pod(pod("web-7d9c-x2x9k", {"id": "one"}, {}))
    assert cache.pods == {}


def test_equal_labels_of_several_objects_share_their_strings():
    cache = Cache()
    for number in range(2):
        labels = {f"zone-{len(KEYS)}": f"a-{len(KEYS)}"}  # new strings, as in each object of the API server
        cache.put_pod(pod(f"kafka-{number}", labels, {}))
        cache.put_node({"metadata": {"name": f"n{number}", "labels": labels}})
    for one, other in (cache.nodes.values(), (found.labels for found in cache.pods.values())):
        (before,), (after,) = one.items(), other.items()
        assert before[0] is after[0]
        assert before[1] is after[1]


NAMES = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["one", "other", None]))))
def test_reassignments_are_found_by_the_topology_that_they_name_now(changes):
    """Also if a recreated Reassignment of the same name names another RackTopology."""
    cache = Cache()
    for name, namespace, topology in changes:
        if topology is None:
            cache.drop_reassignment(ObjectKey(namespace, name))
        else:
            spec = {"topologyRef": {"name": topology}, "planHash": "0123456789abcdef", "plan": "eJw="}
            cache.put_reassignment({"metadata": {"name": name, "namespace": namespace}, "spec": spec})
        for key in {one.topology for one in cache.reassignments.values()} | {ObjectKey(namespace, "one")}:
            found = {one.key for one in cache.reassignments_of(key)}
            assert found == {one.key for one in cache.reassignments.values() if one.topology == key}


@given(st.lists(st.tuples(st.sampled_from(["kafka", "shop"]), st.integers(0, 3), st.sampled_from("1x-"))))
def test_pods_of_a_namespace_are_those_that_are_kept_in_it(events):
    cache = Cache()
    for namespace, number, text in events:
        key = ObjectKey(namespace, f"pod-{number}x")
        if text == "-":
            cache.drop_pod(key)
        else:
            cache.put_pod({"metadata": {"namespace": namespace, "name": key.name, "labels": {"id": text}}})
    for namespace in ("kafka", "shop", "other"):
        assert list(cache.pods_in(namespace)) == [pod for pod in cache.pods.values() if pod.namespace == namespace]
