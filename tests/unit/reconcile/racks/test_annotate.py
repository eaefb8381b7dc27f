"""The rack annotation of broker pods: it is added, corrected and removed. Other pods are not changed."""

from dataclasses import dataclass, field

import pytest
from tests.support.loop_dependencies import rack_dependencies
from tests.support.manifests import TOPOLOGY, changed

from rackspan.api.labels import BROKER_PODS_FOR, RACK
from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.racks import annotate
from rackspan.reconcile.racks.annotate import AnnotationsReconciler
from rackspan.reconcile.runtime.namespaces import EVERYWHERE, NamespaceSet

POD = ObjectKey("kafka", "kafka-0")
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
FORBIDDEN = Failure("NotAuthorized", "pods/status is forbidden", Remedy.ACCESS)


@dataclass
class World:
    """A topology whose broker runs on node n1 in /eu/a, and an operator that may annotate pods of `allowed`."""

    allowed: tuple = ("kafka",)
    cache: Cache = field(default_factory=Cache)
    written: list = field(default_factory=list)
    events: list = field(default_factory=list)
    forbidden: set = field(default_factory=set)
    refused: dict = field(default_factory=dict)
    """By pod, why the API server refuses its annotation."""

    def __post_init__(self):
        self.restart()
        self.topology()
        self.node("n1", "eu", "a")
        self.pod()

    def restart(self):
        dependencies = rack_dependencies(self.cache, self, pods=self, annotate_in=NamespaceSet(self.allowed))
        self.loop = AnnotationsReconciler(dependencies)

    def record_event(self, event):
        self.events.append(event)

    async def annotate(self, key, rack):
        if key.namespace in self.forbidden:
            self.written.append((key, "refused"))
            raise FailureError(FORBIDDEN)
        if key in self.refused:
            self.written.append((key, "refused"))
            raise FailureError(self.refused[key])
        self.written.append((key, rack))
        pod = self.cache.pods[key]
        self.pod(key, pod.node, rack, **pod.labels)

    def node(self, name, *racks):
        labels = dict(zip((REGION, ZONE), racks, strict=False))
        self.cache.put_node({"metadata": {"name": name, "labels": labels}})

    def pod(self, key=POD, node="n1", rack=None, app="kafka"):
        notes = {} if rack is None else {RACK: rack}
        metadata = {"namespace": key.namespace, "name": key.name, "labels": {"app": app}, "annotations": notes}
        self.cache.put_pod({"metadata": metadata, "spec": {"nodeName": node} if node else {}})

    def topology(self, namespace="kafka", changes=None, created="2026-01-01T00:00:00Z"):
        metadata = {"name": "prod", "namespace": namespace, "uid": namespace, "creationTimestamp": created}
        self.cache.put_topology(changed(changed(TOPOLOGY, {"metadata": metadata}), changes or {}))

    async def writes(self):
        """Run one pass and return its writes."""
        self.written.clear()
        await self.loop.reconcile()
        return list(self.written)


async def test_rack_is_written_once_and_again_if_the_node_or_its_rack_changes():
    world = World()
    assert await world.writes() == [(POD, "/eu/a")]
    assert await world.writes() == []
    world.node("n1", "eu", "b")
    assert await world.writes() == [(POD, "/eu/b")]
    world.pod(node="n2", rack="/eu/b")
    world.node("n2", "us", "c")
    assert await world.writes() == [(POD, "/us/c")]


@pytest.mark.parametrize("edited", [None, "", "/eu/A", "/eu/a" * 5_000])
async def test_edited_annotation_is_restored(edited):
    world = World()
    await world.writes()
    world.pod(rack=edited)
    assert await world.writes() == [(POD, "/eu/a")]


async def test_annotation_is_removed_if_the_node_has_no_rack_any_more():
    world = World()
    await world.writes()
    world.node("n1")
    assert await world.writes() == [(POD, None)]
    assert await world.writes() == []
    world.node("n1", "eu", "a")
    assert await world.writes() == [(POD, "/eu/a")]
    world.cache.nodes.clear()
    assert await world.writes() == [(POD, None)]


@pytest.mark.parametrize("end", ["deleted", "deleting", "another selector", "racks from brokers"])
async def test_annotation_is_removed_if_no_topology_selects_the_pod_any_more(end):
    world = World()
    await world.writes()
    match end:
        case "deleted":
            world.cache.drop_topology(ObjectKey("kafka", "prod"))
        case "deleting":
            world.topology(changes={"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
        case "another selector":
            world.topology(changes={"spec": {"brokers": {"podSelector": {"matchLabels": {"app": "other"}}}}})
        case _:
            levels = [{"name": "region"}, {"name": "zone"}]
            world.topology(changes={"spec": {"rackSource": "Broker", "levels": levels}})
    assert await world.writes() == [(POD, None)]
    assert await world.writes() == []


async def test_annotation_of_an_unselected_pod_stays_if_this_operator_did_not_write_it():
    world = World()
    stranger = ObjectKey("kafka", "web-1")
    world.pod(stranger, rack="/mine", app="web")
    assert await world.writes() == [(POD, "/eu/a")]
    world.restart()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    assert await world.writes() == []


async def test_pod_without_node_and_deleted_pod_are_not_annotated():
    world = World()
    world.pod(node=None)
    assert await world.writes() == []
    world.pod()
    await world.writes()
    world.cache.drop_pod(POD)
    assert await world.writes() == []


@pytest.mark.parametrize(("allowed", "written"), [((), []), (("shop",), []), ((EVERYWHERE,), [(POD, "/eu/a")])])
async def test_pods_are_annotated_only_in_namespaces_that_the_chart_allows(allowed, written):
    assert await World(allowed).writes() == written


async def test_pods_of_another_namespace_are_annotated_only_with_its_consent():
    world = World()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    world.topology("shop", {"spec": {"brokers": {"namespace": "kafka"}}})
    assert await world.writes() == []
    world.cache.put_namespace({"metadata": {"name": "kafka", "labels": {BROKER_PODS_FOR: "shop"}}})
    assert await world.writes() == [(POD, "/eu/a")]


async def test_older_of_two_topologies_determines_the_annotation_of_a_shared_pod():
    world = World()
    world.cache.put_namespace({"metadata": {"name": "kafka", "labels": {BROKER_PODS_FOR: "shop"}}})
    one_level = {"levels": [{"name": "zone", "nodeLabel": ZONE}], "brokers": {"namespace": "kafka"}}
    world.topology("shop", {"spec": one_level}, created="2026-02-01T00:00:00Z")
    assert await world.writes() == [(POD, "/eu/a")]
    assert await world.writes() == []


async def test_unexpected_error_in_one_topology_does_not_affect_others_and_removes_nothing(monkeypatch):
    world = World((EVERYWHERE,))
    await world.writes()
    other = ObjectKey("lab", "kafka-0")
    world.pod(other)
    world.topology("lab", created="2026-02-01T00:00:00Z")
    right = annotate.racks_of_pods

    def wrong(topology, pods, nodes):
        if topology.key.namespace == "kafka":
            raise ZeroDivisionError
        return right(topology, pods, nodes)

    monkeypatch.setattr(annotate, "racks_of_pods", wrong)
    assert await world.writes() == [(other, "/eu/a")]


async def test_missing_permission_is_reported_once_and_does_not_affect_other_namespaces():
    world = World((EVERYWHERE,))
    other, second = ObjectKey("lab", "kafka-0"), ObjectKey("kafka", "kafka-1")
    world.pod(other)
    world.pod(second)
    world.topology("lab", created="2026-02-01T00:00:00Z")
    world.forbidden.add("kafka")
    assert await world.writes() == [(POD, "refused"), (other, "/eu/a")], "one request shows the missing permission"
    assert await world.writes() == [(POD, "refused")]
    (event,) = world.events
    assert (event.about.key, event.reason, event.warning) == (ObjectKey("kafka", "prod"), "NotAuthorized", True)
    assert "cannot be written on pods of namespace kafka: pods/status is forbidden" in event.message
    world.forbidden.clear()
    assert await world.writes() == [(POD, "/eu/a"), (second, "/eu/a")]


async def test_refused_pod_does_not_affect_other_pods():
    world, second, third = World(), ObjectKey("kafka", "kafka-1"), ObjectKey("kafka", "kafka-2")
    world.pod(second)
    world.pod(third)
    for key in (POD, second):
        world.refused[key] = Failure("ApiServerRefused", f"{key.name} is invalid", Remedy.SPEC)
    assert await world.writes() == [(POD, "refused"), (second, "refused"), (third, "/eu/a")]
    assert await world.writes() == [(POD, "refused"), (second, "refused")]
    (event,) = world.events
    assert "kafka-0 is invalid" in event.message


async def test_unreachable_api_server_is_asked_once_per_namespace():
    world = World()
    world.pod(ObjectKey("kafka", "kafka-1"))
    world.refused[POD] = Failure("ApiServerUnreachable", "connection refused", Remedy.RETRY)
    assert await world.writes() == [(POD, "refused")]
