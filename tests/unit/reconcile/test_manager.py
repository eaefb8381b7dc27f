"""The tasks and metrics of topologies and topics without topology, and that nothing is left after their deletion."""

import asyncio
from dataclasses import dataclass

import pytest
from prometheus_client import REGISTRY
from tests.support.loop_dependencies import rack_dependencies, scan_dependencies
from tests.support.manifests import changed
from tests.support.scan_setups import scan_setup
from tests.unit.reconcile import examples
from tests.unit.reconcile.cluster.test_observer import TOPOLOGY
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster, MemoryReflector, dependencies_of
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api import kafkatopic, racktopology, reassignment
from rackspan.api.labels import FINALIZER
from rackspan.core.planning import Change
from rackspan.metrics import KAFKA_CLIENT_FAILURES
from rackspan.reconcile import topology_controller
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import DeniedError
from rackspan.reconcile.manager import Manager
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, ApprovedPlans, reassignments_of
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription, ReplicaCounts
from rackspan.reconcile.runtime.informer import key_of
from rackspan.reconcile.topics import topics_reconciler

MADE_UP = 200


@dataclass
class WholeKafka(MemoryKafka):
    """A Kafka of three brokers."""

    async def cluster(self):
        return ClusterDescription(
            "kafka-1", tuple(BrokerDescription(number, "h", f"/z{number}") for number in range(3))
        )

    async def replica_counts(self, without=()):
        return ReplicaCounts({}, {})

    async def default_min_insync(self, brokers):
        return 1

    async def cordoned(self, brokers):
        return {}


@pytest.fixture
def kube():
    return MemoryCluster()


@pytest.fixture
async def controller(kube, monkeypatch):
    monkeypatch.setattr(topics_reconciler, "_ABSENCE_SECONDS", 0.01)
    cache = Cache()
    controller = Manager(
        dependencies_of(cache, kube, WholeKafka()),
        scan_dependencies(cache, kube, None, scan_setup(None, None)),
        rack_dependencies(cache, kube),
        300,
    )
    controller.start()
    yield controller
    await controller.stop()


def topic(number, topology="prod"):
    return {
        "metadata": {
            "namespace": "shop",
            "name": f"topic-{number}",
            "uid": f"uid-{number}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [FINALIZER],
        },
        "spec": {
            "topologyRef": {"name": topology},
            "partitions": 1,
            "replicationFactor": 1,
            "placement": {"assignment": [[1]]},
        },
    }


async def until(condition):
    async with asyncio.timeout(300):
        while not condition():  # noqa: ASYNC110 - there is no event for the condition
            await asyncio.sleep(0.01)


def series(name):
    return [
        sample
        for family in REGISTRY.collect()
        for sample in family.samples
        if name in sample.labels.get("topology", "")
    ]


def reason(kube, number):
    found = kube.condition(f"topic-{number}", "Ready")
    return found and found["reason"]


async def test_missing_topologies_have_no_tasks_and_no_metric_series(controller, kube):
    await asyncio.sleep(0)
    before = len(asyncio.all_tasks())
    for number in range(MADE_UP):
        controller.informers[kafkatopic.KIND].seen(topic(number, f"made-up-{number}"))
    assert len(asyncio.all_tasks()) == before
    await until(lambda: all(reason(kube, number) == "TopologyNotFound" for number in range(MADE_UP)))
    assert kube.condition("topic-7", "Ready")["message"] == "there is no RackTopology shop/made-up-7"
    assert series("made-up") == []
    assert controller.ready()["connected"] == {}


async def test_topology_created_later_reconciles_its_topics(controller, kube):
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "TopologyNotFound")
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: reason(kube, 1) == "InSync")


async def test_topic_says_that_its_topology_created_later_cannot_be_read(controller, kube):
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "TopologyNotFound")
    controller.informers[racktopology.KIND].seen(changed(TOPOLOGY, {"spec": {"rackSource": "Zookeeper"}}))
    await until(lambda: reason(kube, 1) == "TopologyNotReady")
    controller.informers[racktopology.KIND].gone(TOPOLOGY)
    await until(lambda: reason(kube, 1) == "TopologyNotFound")
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: reason(kube, 1) == "InSync")


async def test_tasks_and_metric_series_of_a_topology_end_with_it(controller, kube):
    await asyncio.sleep(0)
    before = len(asyncio.all_tasks())
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "InSync")
    assert series("shop/prod")
    controller.informers[racktopology.KIND].gone(TOPOLOGY)
    await until(lambda: reason(kube, 1) == "TopologyNotFound")
    await until(lambda: len(asyncio.all_tasks()) == before)
    assert series("shop/prod") == []


async def test_kafka_client_failure_metric_stays_while_its_namespace_has_a_topology(controller, kube):
    def failures(boundary):
        return REGISTRY.get_sample_value("rackspan_kafka_client_failures_total", {"boundary": boundary})

    other = {**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "name": "other", "uid": "rt-2"}}
    for boundary in ("shop", "shop/prod"):
        KAFKA_CLIENT_FAILURES.labels(boundary).inc()
    for one in (TOPOLOGY, other):
        controller.informers[racktopology.KIND].seen(one)
    controller.informers[racktopology.KIND].gone(TOPOLOGY)
    await until(lambda: failures("shop/prod") is None)
    assert failures("shop") == 1
    controller.informers[racktopology.KIND].gone(other)
    await until(lambda: failures("shop") is None)


async def test_kafka_client_failure_metrics_end_with_the_loops_of_a_stopped_operator(controller, kube):
    """Kopf may start it again after the topology is deleted."""
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: "prod" in kube.statuses)
    for boundary in ("shop", "shop/prod"):
        KAFKA_CLIENT_FAILURES.labels(boundary).inc()
    await controller.stop()
    await asyncio.sleep(0)
    left = {one.labels["boundary"] for family in KAFKA_CLIENT_FAILURES.collect() for one in family.samples}
    assert left.isdisjoint({"shop", "shop/prod"})


async def test_change_of_the_cluster_is_written_to_the_status_without_delay(controller, kube, monkeypatch):
    monkeypatch.setattr(topology_controller, "_STATUS_SECONDS", 1e6)
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: "prod" in kube.statuses)
    later = {"generation": 2, "resourceVersion": "2"}
    spec = {**TOPOLOGY["spec"], "levels": [{"name": "rack"}]}
    controller.informers[racktopology.KIND].seen({"metadata": {**TOPOLOGY["metadata"], **later}, "spec": spec})
    await until(lambda: kube.statuses["prod"]["domains"][0]["level"] == "rack")


async def test_connections_per_namespace_are_limited_to_the_oldest_topologies(controller, kube, monkeypatch):
    connections = []

    async def connect(self, owner, kafka, credentials):
        connections.append(kafka.bootstrap_servers)
        return self

    monkeypatch.setattr(WholeKafka, "connect", connect)

    def numbered(number):
        meta = {**TOPOLOGY["metadata"], "name": f"t{number:02}", "uid": f"rt-{number:02}"}
        meta["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
        kafka = {"bootstrapServers": f"kafka-{number:02}:9092"}
        return {"metadata": meta, "spec": {**TOPOLOGY["spec"], "kafka": kafka}}

    for number in reversed(range(25)):  # in any order
        controller.informers[racktopology.KIND].known(numbered(number))
    for number in reversed(range(25)):
        controller.informers[racktopology.KIND].seen(numbered(number))
    await until(lambda: sum(controller.ready()["connected"].values()) == 20)
    await until(lambda: kube.condition("t24", "Stalled"))
    assert sorted(connections) == [f"kafka-{number:02}:9092" for number in range(20)]
    assert kube.condition("t24", "Stalled")["reason"] == "TooManyTopologies"


async def test_topology_recreated_at_once_reconciles_its_topics(controller, kube):
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    controller.informers[racktopology.KIND].gone(TOPOLOGY)
    again = {**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "uid": "rt-2", "resourceVersion": "9"}}
    controller.informers[racktopology.KIND].seen(again)
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "InSync")


async def test_liveness_probe_reports_a_first_observation_that_does_not_end(controller, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(controller._dependencies.liveness, "_clock", lambda: clock[0])
    wedged = asyncio.Event()
    monkeypatch.setattr(WholeKafka, "cluster", lambda _: wedged.wait())
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: "look at shop/prod" in controller._dependencies.liveness.stalled(0))
    assert controller.alive()["ok"]
    clock[0] += 301
    assert controller.alive()["ok"] is False
    assert list(controller.alive()["stalled"]) == ["look at shop/prod"]


async def test_topology_without_work_has_at_most_five_tasks(controller):
    await asyncio.sleep(0)
    before = len(asyncio.all_tasks())
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: controller.ready()["connected"] == {"shop/prod": True})
    assert len(asyncio.all_tasks()) - before <= 5


async def test_stopped_operator_is_alive(controller):
    """It stops to wait for its CustomResourceDefinitions, and a restart does not help."""
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await controller.stop()
    assert controller.alive() == {"ok": True, "secondsSinceLastPass": {}, "stalled": {}, "ended": []}


async def test_liveness_probe_reports_a_stop_that_does_not_end(controller):
    """For example, if a watch cannot be ended. Then a restart helps."""
    await controller.stop()
    controller._stopped_at -= 301
    assert controller.alive()["ok"] is False
    assert list(controller.alive()["stalled"]) == ["end"]


async def test_listed_topology_is_recorded_once(controller, monkeypatch):
    admitted = []
    versions = controller.cache.versions
    admit = type(versions).record
    monkeypatch.setattr(
        type(versions), "record", lambda self, *given, **more: admitted.append(given) or admit(self, *given, **more)
    )
    controller.informers[racktopology.KIND].take(None, TOPOLOGY)
    assert len(admitted) == 1
    assert list(controller.cache.topologies) == [key_of(TOPOLOGY)]


async def test_prime_lists_all_objects_and_writes_no_status(controller, kube):
    node = {"metadata": {"name": "n0", "uid": "n0", "resourceVersion": "1", "labels": {"zone": "a"}}}
    pod = {"metadata": {"namespace": "shop", "name": "kafka-0", "uid": "p0", "resourceVersion": "1"}}
    space = {"metadata": {"name": "shop", "uid": "s0", "resourceVersion": "1"}}
    kube.there = {"Node": [node], "Pod": [pod], "Namespace": [space], "RackTopology": [TOPOLOGY]}
    kube.there["KafkaTopic"] = [topic(0), topic(1)]
    before = len(asyncio.all_tasks())
    await controller.prime()
    assert len(asyncio.all_tasks()) == before
    cache = controller.cache
    assert [len(known) for known in (cache.nodes, cache.pods, cache.namespaces, cache.topologies)] == [1] * 4
    assert len(cache.topics) == 2
    assert kube.statuses == {}


class Created:
    """Returns each created Reassignment as the API server does."""

    async def create(self, body):
        metadata = {**body["metadata"], "uid": "ra-1", "resourceVersion": "1", "generation": 1}
        return {**body, "metadata": metadata}


async def test_started_plan_wakes_the_reassignments_reconciler_once(controller, monkeypatch):
    woken = []
    monkeypatch.setattr(controller._reassignments, "changed", woken.append)
    prod = examples.topology()
    changes = [Change("orders", 0, (0, 2), (0, 1))]
    racks, reported, text = dict.fromkeys(range(3), ("z",)), dict.fromkeys(range(3)), "0123456789abcdef"
    plan = ApprovedPlan("kafka-1", text, changes, racks, reported, approved_by="", names=(text,))
    name = await ApprovedPlans(controller.cache, Created()).begin(prod, plan)
    (known,) = controller.cache.reassignments.values()
    (body,) = reassignments_of(prod, plan)
    controller.informers[reassignment.KIND].seen(await Created().create(body))
    assert (known.meta.name, woken) == (name, [prod.key])


def theirs(number, generation=1, **reference):
    """Return a KafkaTopic in a namespace to which the topology is not open. `reference` may name another topology."""
    body = topic(number)
    versions = {"generation": generation, "resourceVersion": str(generation)}
    reference = {"name": "prod", "namespace": "shop", **reference}
    return {
        "metadata": {**body["metadata"], "namespace": "theirs", **versions},
        "spec": {**body["spec"], "topologyRef": reference},
    }


@pytest.fixture
async def two(kube, monkeypatch):
    """An operator of two namespaces that has not started."""
    monkeypatch.setattr(topics_reconciler, "_ABSENCE_SECONDS", 0.01)
    cache = Cache()
    two = Manager(
        dependencies_of(cache, kube, WholeKafka()),
        scan_dependencies(cache, kube, None, scan_setup(None, None), namespaces=("shop", "theirs")),
        rack_dependencies(cache, kube),
        300,
    )
    yield two
    await two.stop()


def tell(two, *bodies):
    """Deliver listed objects, as kopf does."""
    for body in bodies:
        kind = racktopology.KIND if "levels" in body["spec"] else kafkatopic.KIND
        two.informers[kind].take(None, body)


async def test_unreadable_namespace_is_left_out_until_it_can_be_read_again(two, kube, caplog):
    caplog.set_level("INFO")
    kube.there = {racktopology.KIND: [TOPOLOGY], kafkatopic.KIND: [topic(1), theirs(2)]}
    kube.denied = frozenset({"theirs"})
    await two.prime()
    two.start()
    for _ in range(3):
        two.leave_out(frozenset({"theirs"}))
    tell(two, TOPOLOGY, topic(1))
    await until(lambda: reason(kube, 1) == "InSync")
    assert two.ready() == {"ok": True, "connected": {"shop/prod": True}, "leftOut": ["theirs"]}
    kube.denied = frozenset()
    two.leave_out(frozenset())
    tell(two, theirs(2))
    await until(lambda: reason(kube, 2) == "NamespaceNotAllowed")
    assert two.ready()["leftOut"] == []
    assert [record.message for record in caplog.records if "namespace theirs" in record.message] == [
        "namespace theirs may not be read, and is left out: has the operator its Role there?",
        "namespace theirs is read again",
    ]


async def test_known_objects_of_an_unreadable_namespace_are_kept_but_not_reconciled(two, kube):
    def seen(number):
        return kube.statuses.get(f"topic-{number}", {}).get("observedGeneration")

    kube.there = {racktopology.KIND: [TOPOLOGY], kafkatopic.KIND: [topic(1), theirs(2)]}
    await two.prime()
    two.start()
    tell(two, TOPOLOGY, topic(1), theirs(2))
    await until(lambda: seen(1) == seen(2) == 1)
    kube.denied = frozenset({"theirs"})
    two.leave_out(frozenset({"theirs"}))
    await two.sweep()
    assert len(two.cache.topics) == 2, "the object does not count as deleted"
    for generation in (2, 3):  # topics queued with the first are processed before the second
        mine = topic(1)
        mine["metadata"] |= {"generation": generation, "resourceVersion": str(generation)}
        tell(two, theirs(2, generation=2), mine)
        await until(lambda: seen(1) == mine["metadata"]["generation"])  # noqa: B023 - the wait ends within this iteration
    assert seen(2) == 1
    two.leave_out(frozenset())
    await until(lambda: seen(2) == 2)


async def test_unreadable_topology_is_not_reported_as_not_found(two, kube):
    kube.denied = frozenset({"shop"})
    await two.prime()
    two.start()
    two.leave_out(frozenset({"shop"}))
    tell(two, theirs(1), theirs(2, name="made-up", namespace="theirs"))
    await until(lambda: reason(kube, 2) == "TopologyNotFound")
    assert reason(kube, 1) is None
    two.leave_out(frozenset())
    tell(two, TOPOLOGY)
    await until(lambda: reason(kube, 1) == "NamespaceNotAllowed")


async def test_namespace_unreadable_at_the_start_is_left_out_before_a_watch_is_refused(two, kube):
    kube.denied = frozenset({"shop"})
    await two.prime()
    assert two.cache.left_out == {"shop"}
    two.start()
    tell(two, theirs(1), theirs(2, name="made-up", namespace="theirs"))
    await until(lambda: reason(kube, 2) == "TopologyNotFound")
    assert reason(kube, 1) is None
    two.leave_out(frozenset({"theirs"}))
    assert two.cache.left_out == {"shop", "theirs"}, "the watch of another namespace is refused first"


async def test_namespace_unreadable_only_at_the_start_is_restored_by_a_sweep(two, kube):
    kube.there = {racktopology.KIND: [TOPOLOGY], kafkatopic.KIND: [theirs(1)]}
    kube.denied = frozenset({"shop"})
    await two.prime()
    await two.sweep()
    assert two.cache.left_out == {"shop"}
    kube.denied = frozenset()
    await two.sweep()
    assert two.cache.left_out == frozenset()


async def test_unreadable_pods_do_not_leave_a_namespace_out(two, kube, monkeypatch):
    async def denied(reflector):
        raise DeniedError(REFUSED.failure, frozenset({"shop"}))

    monkeypatch.setattr(MemoryReflector, "list", denied)
    await two.prime()
    assert two.cache.left_out == frozenset()


async def test_operator_without_a_readable_namespace_is_not_ready(two, kube):
    kube.denied = frozenset({"shop", "theirs"})
    await two.prime()
    two.start()
    two.leave_out(frozenset({"shop", "theirs"}))
    assert two.ready() == {"ok": False, "connected": {}, "leftOut": ["shop", "theirs"]}
    assert REGISTRY.get_sample_value("rackspan_namespaces_left_out") == 2
    two.leave_out(frozenset({"theirs"}))
    assert two.ready()["ok"] is True
    assert REGISTRY.get_sample_value("rackspan_namespaces_left_out") == 1
    two.leave_out(frozenset())
    assert REGISTRY.get_sample_value("rackspan_namespaces_left_out") == 0
