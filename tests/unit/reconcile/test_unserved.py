"""RackTopologies above the quota of their namespace get statuses and finalizers, and cost no loop."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.loop_dependencies import rack_dependencies, scan_dependencies
from tests.support.scan_setups import scan_setup
from tests.unit.reconcile.cluster.test_observer import TOPOLOGY
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster, dependencies_of
from tests.unit.reconcile.test_manager import WholeKafka, series, topic, until

from rackspan.api import kafkatopic, racktopology
from rackspan.api.labels import FINALIZER
from rackspan.api.meta import ObjectKey
from rackspan.reconcile import unserved
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.manager import Manager
from rackspan.reconcile.ports import Terminating
from rackspan.reconcile.topics import topic_deletion

DELETED = {"deletionTimestamp": "2026-02-01T00:00:00Z", "resourceVersion": "2"}


class Kube(MemoryCluster):
    """Counts the writes of statuses, and waits with those of the namespace `slow`."""

    def __init__(self):
        super().__init__()
        self.writes = Counter()
        self.slow = None

    async def replace_status(self, ref, status):
        self.writes[ref.key.name] += 1
        if ref.key.namespace == self.slow:
            await asyncio.Event().wait()
        return await super().replace_status(ref, status)


@pytest.fixture
def kube():
    return Kube()


@pytest.fixture
def manager(kube):
    cache = Cache(topologies_per_namespace=1)
    return Manager(
        dependencies_of(cache, kube, WholeKafka()),
        scan_dependencies(cache, kube, None, scan_setup(None, None)),
        rack_dependencies(cache, kube),
        300,
    )


@pytest.fixture
async def started(manager):
    manager.start()
    await asyncio.sleep(0)
    yield manager
    await manager.stop()


def numbered(number, *, second=None, **meta):
    name, uid = f"t{number:02}", f"rt-{number:02}"
    created = f"2026-01-01T00:{(number if second is None else second):02}:00Z"
    metadata = {"name": name, "uid": uid, "creationTimestamp": created, "finalizers": [FINALIZER]}
    return {**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], **metadata, **meta}}


def see(manager, *bodies):
    for body in bodies:
        kind = kafkatopic.KIND if "topologyRef" in body["spec"] else racktopology.KIND
        manager.informers[kind].seen(body)


def condition(kube, name, kind):
    found = kube.condition(name, kind)
    return found and found["reason"]


def connected(manager):
    return sorted(name for name, yes in manager.ready()["connected"].items() if yes)


async def test_topologies_over_the_quota_have_no_tasks_and_no_metric_series(started, kube):
    see(started, numbered(0))
    await until(lambda: connected(started) == ["shop/t00"])
    await until(lambda: condition(kube, "t00", "Ready") == "InSync")
    before = len(asyncio.all_tasks())
    see(started, *map(numbered, range(1, 60)), topic(1, "t07"))
    await until(lambda: all(condition(kube, f"t{n:02}", "Stalled") == "TooManyTopologies" for n in range(1, 60)))
    await until(lambda: condition(kube, "topic-1", "Ready") == "TopologyNotReady")
    assert len(asyncio.all_tasks()) <= before + 4, "one loop may write its status or observe just now"
    assert {one.labels["topology"] for one in series("shop/t")} == {"shop/t00"}
    assert list(started.ready()["connected"]) == ["shop/t00"]


async def test_next_oldest_topology_is_served_when_a_place_frees(started, kube):
    see(started, *map(numbered, range(3)), topic(1, "t01"))
    await until(lambda: connected(started) == ["shop/t00"])
    await until(lambda: condition(kube, "topic-1", "Ready") == "TopologyNotReady")
    started.informers[racktopology.KIND].gone(numbered(0))
    await until(lambda: connected(started) == ["shop/t01"])
    await until(lambda: condition(kube, "topic-1", "Ready") == "InSync")
    assert condition(kube, "t02", "Stalled") == "TooManyTopologies"


async def test_restarted_operator_serves_the_same_topologies(manager, kube):
    kube.there = {racktopology.KIND: [numbered(number) for number in (2, 1, 0)]}
    await manager.prime()
    manager.start()
    see(manager, *kube.there[racktopology.KIND])
    await until(lambda: connected(manager) == ["shop/t00"])
    await until(lambda: condition(kube, "t02", "Stalled") == "TooManyTopologies")
    manager.informers[racktopology.KIND].gone(numbered(0))
    await until(lambda: connected(manager) == ["shop/t01"])
    await manager.stop()


async def test_served_topology_gives_its_place_to_an_older_one(started, kube):
    see(started, numbered(5))
    await until(lambda: connected(started) == ["shop/t05"])
    see(started, numbered(3))
    await until(lambda: connected(started) == ["shop/t03"])
    await until(lambda: condition(kube, "t05", "Stalled") == "TooManyTopologies")
    assert {one.labels["topology"] for one in series("shop/t")} == {"shop/t03"}
    assert started.alive()["ok"]


async def test_topology_over_the_quota_gets_its_finalizer_and_is_released_when_deleted(started, kube):
    see(started, numbered(0), numbered(1, finalizers=[]))
    await until(lambda: kube.finalizers.get("t01") == [FINALIZER])
    see(started, numbered(1, **DELETED))
    await until(lambda: kube.finalizers["t01"] == [])


async def test_deletion_of_a_topology_over_the_quota_is_retried_after_a_refused_write(started, kube):
    kube.refusing["set_finalizers", "t01"] = REFUSED
    see(started, numbered(0), numbered(1))
    await until(lambda: condition(kube, "t01", "Stalled"))
    see(started, numbered(1, **DELETED))
    await asyncio.sleep(0.1)
    kube.refusing.clear()
    await until(lambda: kube.finalizers.get("t01") == [])


async def test_refused_status_of_a_topology_over_the_quota_is_written_again(started, kube):
    kube.refusing["replace_status", "t01"] = REFUSED
    see(started, numbered(0), numbered(1))
    await until(lambda: kube.writes["t01"])
    kube.refusing.clear()
    await until(lambda: condition(kube, "t01", "Stalled") == "TooManyTopologies")


async def test_topic_is_kept_with_its_object_while_its_topology_is_over_the_quota(started, kube):
    deleted, status = {**topic(1, "t01")["metadata"], **DELETED}, {"topicId": "id-1", "clusterId": "kafka-1"}
    spec = {**topic(1, "t01")["spec"], "deletionPolicy": "Delete"}
    see(started, numbered(0), numbered(1), {"metadata": deleted, "spec": spec, "status": status})
    await until(lambda: condition(kube, "topic-1", "Ready"))
    assert "cannot be deleted from Kafka now" in kube.condition("topic-1", "Ready")["message"]
    assert "topic-1" not in kube.finalizers
    retained = {"metadata": {**deleted, "resourceVersion": "3", "generation": 2}, "spec": topic(1, "t01")["spec"]}
    see(started, retained)
    await until(lambda: kube.finalizers.get("topic-1") == [])


def deleting(number, topology, namespace="shop"):
    """Return a KafkaTopic that is being deleted, and its topic in Kafka with it."""
    body = topic(number, topology)
    metadata = {**body["metadata"], **DELETED, "namespace": namespace}
    reference = {"topologyRef": {"name": topology, "namespace": "shop"}, "deletionPolicy": "Delete"}
    status = {"topicId": f"id-{number}", "clusterId": "kafka-1"}
    return {"metadata": metadata, "spec": {**body["spec"], **reference}, "status": status}


async def test_topic_of_a_terminating_namespace_is_released_while_its_topology_is_over_the_quota(
    started, kube, monkeypatch
):
    monkeypatch.setattr(topic_deletion, "NAMESPACE_TIMEOUT", timedelta(seconds=2))
    kube.ends = Terminating(namespaces={"ends": datetime(2026, 2, 1, tzinfo=UTC)})
    open_to_all = numbered(1)
    open_to_all["spec"] = {**open_to_all["spec"], "allowedNamespaces": {"from": "All"}}
    see(started, numbered(0), open_to_all, deleting(1, "t01", "ends"))
    await until(lambda: kube.finalizers.get("topic-1") == [])


async def test_status_of_a_topic_is_written_again_after_a_refusal_while_its_topology_is_over_the_quota(started, kube):
    kube.refusing["replace_status", "topic-1"] = REFUSED
    see(started, numbered(0), numbered(1), topic(1, "t01"))
    await until(lambda: kube.writes["topic-1"])
    kube.refusing.clear()
    async with asyncio.timeout(30):  # less than a resync
        await until(lambda: condition(kube, "topic-1", "Ready") == "TopologyNotReady")


async def test_confirmations_and_times_of_deletions_are_kept_from_report_to_report(started, kube, monkeypatch):
    report, reporters = unserved.TopologyReconciler.report, []

    async def recorded(self):
        reporters.append(self.topics.finalizer)
        return await report(self)

    monkeypatch.setattr(unserved.TopologyReconciler, "report", recorded)
    see(started, numbered(0), numbered(1), deleting(1, "t01"))
    await until(lambda: len(reporters) >= 3)
    assert len(set(map(id, reporters))) == 1
    retained = deleting(1, "t01")
    retained["metadata"] |= {"resourceVersion": "3", "generation": 2}
    retained["spec"]["deletionPolicy"] = "Retain"
    see(started, retained)
    await until(lambda: kube.finalizers.get("topic-1") == [])
    started.informers[kafkatopic.KIND].gone(retained)
    await until(lambda: not started._loops._unserved._kept)


async def test_ready_topic_becomes_unknown_when_its_topology_is_over_the_quota(started, kube):
    ready = {"type": "Ready", "status": "True", "reason": "InSync", "message": "", "observedGeneration": 1}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"observedGeneration": 1, "conditions": [ready]}
    see(started, numbered(0), numbered(1), {**topic(1, "t01"), "status": status})
    await until(lambda: kube.condition("topic-1", "Ready"))
    assert kube.condition("topic-1", "Ready")["status"] == "Unknown"
    assert "TooManyTopologies" in kube.condition("topic-1", "Ready")["message"]


async def test_deleted_topology_over_the_quota_leaves_nothing(started, kube):
    see(started, numbered(0), numbered(1), topic(1, "t01"))
    await until(lambda: condition(kube, "topic-1", "Ready") == "TopologyNotReady")
    started.informers[racktopology.KIND].gone(numbered(1))
    await until(lambda: condition(kube, "topic-1", "Ready") == "TopologyNotFound")
    assert series("shop/t01") == []
    assert ObjectKey("shop", "t01") not in started._loops._unserved


async def test_topologies_over_the_quota_of_one_namespace_do_not_delay_those_of_another(started, kube):
    kube.slow = "slow"
    see(started, *(numbered(number, namespace="slow", uid=f"slow-{number}") for number in range(5)))
    await until(lambda: kube.writes["t01"])
    see(started, *map(numbered, range(5)))
    await until(lambda: condition(kube, "t04", "Stalled") == "TooManyTopologies")


async def test_defect_over_a_topology_is_retried_and_does_not_stop_the_reports_of_others(started, kube, monkeypatch):
    report = unserved.TopologyReconciler.report
    fails = ["t01"]

    async def failing(self):
        if self._key.name in fails:
            fails.remove(self._key.name)
            raise ValueError("a defect")
        return await report(self)

    monkeypatch.setattr(unserved.TopologyReconciler, "report", failing)
    see(started, *map(numbered, range(3)))
    await until(lambda: condition(kube, "t02", "Stalled") == condition(kube, "t01", "Stalled") == "TooManyTopologies")
    assert started.alive()["ok"]


async def test_no_loop_starts_after_the_operator_has_stopped(started):
    see(started, *map(numbered, range(2)))
    await until(lambda: connected(started) == ["shop/t00"])
    await started.stop()
    before = len(asyncio.all_tasks())
    started.informers[racktopology.KIND].gone(numbered(0))
    see(started, numbered(4))
    assert len(asyncio.all_tasks()) == before
