"""Brokers' pods say the rack of their node: it is written where it differs, taken off, put back, and nowhere else."""

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
    """A topology whose broker runs on node n1 in /eu/a, and an operator that may write on pods of `allowed`."""

    allowed: tuple = ("kafka",)
    cache: Cache = field(default_factory=Cache)
    written: list = field(default_factory=list)
    events: list = field(default_factory=list)
    forbidden: set = field(default_factory=set)
    refused: dict = field(default_factory=dict)
    """By pod, why the API server does not take what is written on it."""

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
        """What one pass writes."""
        self.written.clear()
        await self.loop.reconcile()
        return list(self.written)


async def test_it_is_written_once_and_again_where_the_node_moves():
    world = World()
    assert await world.writes() == [(POD, "/eu/a")]
    assert await world.writes() == []
    world.node("n1", "eu", "b")
    assert await world.writes() == [(POD, "/eu/b")]
    world.pod(node="n2", rack="/eu/b")
    world.node("n2", "us", "c")
    assert await world.writes() == [(POD, "/us/c")]


@pytest.mark.parametrize("edited", [None, "", "/eu/A", "/eu/a" * 5_000])
async def test_what_somebody_edits_is_put_back(edited):
    world = World()
    await world.writes()
    world.pod(rack=edited)
    assert await world.writes() == [(POD, "/eu/a")]


async def test_it_goes_where_the_node_has_no_rack_any_more():
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
async def test_it_goes_with_what_made_it_a_brokers_pod(end):
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


async def test_an_operator_that_did_not_write_it_leaves_what_no_topology_selects():
    world = World()
    stranger = ObjectKey("kafka", "web-1")
    world.pod(stranger, rack="/mine", app="web")
    assert await world.writes() == [(POD, "/eu/a")]
    world.restart()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    assert await world.writes() == []


async def test_a_pod_that_waits_for_its_node_or_is_gone_is_left_alone():
    world = World()
    world.pod(node=None)
    assert await world.writes() == []
    world.pod()
    await world.writes()
    del world.cache.pods[POD]
    assert await world.writes() == []


@pytest.mark.parametrize(("allowed", "written"), [((), []), (("shop",), []), ((EVERYWHERE,), [(POD, "/eu/a")])])
async def test_nothing_is_written_where_the_chart_does_not_say_so(allowed, written):
    assert await World(allowed).writes() == written


async def test_pods_of_another_namespace_take_its_consent():
    world = World()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    world.topology("shop", {"spec": {"brokers": {"namespace": "kafka"}}})
    assert await world.writes() == []
    world.cache.put_namespace({"metadata": {"name": "kafka", "labels": {BROKER_PODS_FOR: "shop"}}})
    assert await world.writes() == [(POD, "/eu/a")]


async def test_of_two_topologies_with_one_pod_the_older_one_decides():
    world = World()
    world.cache.put_namespace({"metadata": {"name": "kafka", "labels": {BROKER_PODS_FOR: "shop"}}})
    one_level = {"levels": [{"name": "zone", "nodeLabel": ZONE}], "brokers": {"namespace": "kafka"}}
    world.topology("shop", {"spec": one_level}, created="2026-02-01T00:00:00Z")
    assert await world.writes() == [(POD, "/eu/a")]
    assert await world.writes() == []


async def test_an_error_nobody_expected_in_one_topology_holds_up_no_other_and_takes_nothing_off(monkeypatch):
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


async def test_a_right_that_is_missing_is_told_once_and_holds_up_no_other_namespace():
    world = World((EVERYWHERE,))
    other, second = ObjectKey("lab", "kafka-0"), ObjectKey("kafka", "kafka-1")
    world.pod(other)
    world.pod(second)
    world.topology("lab", created="2026-02-01T00:00:00Z")
    world.forbidden.add("kafka")
    assert await world.writes() == [(POD, "refused"), (other, "/eu/a")], "one request is enough to know"
    assert await world.writes() == [(POD, "refused")]
    (event,) = world.events
    assert (event.about.key, event.reason, event.warning) == (ObjectKey("kafka", "prod"), "NotAuthorized", True)
    assert "cannot be written on pods of namespace kafka: pods/status is forbidden" in event.message
    world.forbidden.clear()
    assert await world.writes() == [(POD, "/eu/a"), (second, "/eu/a")]


async def test_a_pod_that_is_refused_holds_up_no_other_pod():
    world, second, third = World(), ObjectKey("kafka", "kafka-1"), ObjectKey("kafka", "kafka-2")
    world.pod(second)
    world.pod(third)
    for key in (POD, second):
        world.refused[key] = Failure("ApiServerRefused", f"{key.name} is invalid", Remedy.SPEC)
    assert await world.writes() == [(POD, "refused"), (second, "refused"), (third, "/eu/a")]
    assert await world.writes() == [(POD, "refused"), (second, "refused")]
    (event,) = world.events
    assert "kafka-0 is invalid" in event.message


async def test_an_api_server_that_does_not_answer_is_asked_once_for_each_namespace():
    world = World()
    world.pod(ObjectKey("kafka", "kafka-1"))
    world.refused[POD] = Failure("ApiServerUnreachable", "connection refused", Remedy.RETRY)
    assert await world.writes() == [(POD, "refused")]
