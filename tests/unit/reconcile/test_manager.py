"""What a topology costs, and a topic without one; and what is left when either has gone."""

import asyncio
from dataclasses import dataclass

import pytest
from prometheus_client import REGISTRY
from tests.support.loop_dependencies import rack_dependencies, scan_dependencies
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
        while not condition():  # noqa: ASYNC110 - what is waited for gives no signal
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


async def test_made_up_topologies_cost_no_loop_and_no_series(controller, kube):
    await asyncio.sleep(0)
    before = len(asyncio.all_tasks())
    for number in range(MADE_UP):
        controller.informers[kafkatopic.KIND].seen(topic(number, f"made-up-{number}"))
    assert len(asyncio.all_tasks()) == before
    await until(lambda: all(reason(kube, number) == "TopologyNotFound" for number in range(MADE_UP)))
    assert kube.condition("topic-7", "Ready")["message"] == "there is no RackTopology shop/made-up-7"
    assert series("made-up") == []
    assert controller.ready()["connected"] == {}


async def test_a_topology_that_comes_later_takes_its_topics_over(controller, kube):
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "TopologyNotFound")
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: reason(kube, 1) == "InSync")


async def test_what_a_topology_cost_ends_with_it(controller, kube):
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


async def test_failures_of_kafka_clients_are_told_as_long_as_their_namespace_has_a_topology(controller, kube):
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


async def test_a_cluster_that_changed_does_not_wait_for_its_turn_to_be_told(controller, kube, monkeypatch):
    monkeypatch.setattr(topology_controller, "_STATUS_SECONDS", 1e6)
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: "prod" in kube.statuses)
    later = {"generation": 2, "resourceVersion": "2"}
    spec = {**TOPOLOGY["spec"], "levels": [{"name": "rack"}]}
    controller.informers[racktopology.KIND].seen({"metadata": {**TOPOLOGY["metadata"], **later}, "spec": spec})
    await until(lambda: kube.statuses["prod"]["domains"][0]["level"] == "rack")


async def test_a_namespace_gets_so_many_connections_and_no_more(controller, kube, monkeypatch):
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

    for number in reversed(range(25)):  # whoever is seen first
        controller.informers[racktopology.KIND].known(numbered(number))
    for number in reversed(range(25)):
        controller.informers[racktopology.KIND].seen(numbered(number))
    await until(lambda: sum(controller.ready()["connected"].values()) == 20)
    await until(lambda: kube.condition("t24", "Stalled"))
    assert sorted(connections) == [f"kafka-{number:02}:9092" for number in range(20)]
    assert kube.condition("t24", "Stalled")["reason"] == "TooManyTopologies"


async def test_one_that_is_made_anew_begins_when_the_last_has_ended(controller, kube):
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    controller.informers[racktopology.KIND].gone(TOPOLOGY)
    again = {**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "uid": "rt-2", "resourceVersion": "9"}}
    controller.informers[racktopology.KIND].seen(again)
    controller.informers[kafkatopic.KIND].seen(topic(1))
    await until(lambda: reason(kube, 1) == "InSync")


async def test_a_first_look_that_never_ends_is_told_to_the_liveness_probe(controller, monkeypatch):
    """Nor does it help that other topologies get on."""
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


async def test_a_topology_without_work_has_few_tasks(controller):
    await asyncio.sleep(0)
    before = len(asyncio.all_tasks())
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await until(lambda: controller.ready()["connected"] == {"shop/prod": True})
    assert len(asyncio.all_tasks()) - before <= 5


async def test_an_operator_that_stops_because_it_shall_is_not_dead(controller):
    """It waits for its definitions then, and a restart would gain nothing."""
    controller.informers[racktopology.KIND].seen(TOPOLOGY)
    await controller.stop()
    assert controller.alive() == {"ok": True, "secondsSinceLastPass": {}, "stalled": {}, "ended": []}


async def test_a_stop_that_does_not_end_is_told_to_the_liveness_probe(controller):
    """As where a watch cannot be ended: a restart helps then."""
    await controller.stop()
    controller._stopped_at -= 301
    assert controller.alive()["ok"] is False
    assert list(controller.alive()["stalled"]) == ["end"]


async def test_a_listed_topology_is_admitted_once(controller, monkeypatch):
    admitted = []
    versions = controller.cache.versions
    admit = type(versions).record
    monkeypatch.setattr(
        type(versions), "record", lambda self, *given, **more: admitted.append(given) or admit(self, *given, **more)
    )
    controller.informers[racktopology.KIND].take(None, TOPOLOGY)
    assert len(admitted) == 1
    assert list(controller.cache.topologies) == [key_of(TOPOLOGY)]


async def test_all_is_known_before_anything_is_decided(controller, kube):
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
    """Takes the Reassignments that are made."""

    async def create(self, body):
        metadata = {**body["metadata"], "uid": "ra-1", "resourceVersion": "1", "generation": 1}
        return {**body, "metadata": metadata}


async def test_a_plan_that_was_just_begun_wakes_who_carries_it_out(controller, monkeypatch):
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
    """A KafkaTopic of a namespace that the topology is not open to; it may name another topology."""
    body = topic(number)
    versions = {"generation": generation, "resourceVersion": str(generation)}
    reference = {"name": "prod", "namespace": "shop", **reference}
    return {
        "metadata": {**body["metadata"], "namespace": "theirs", **versions},
        "spec": {**body["spec"], "topologyRef": reference},
    }


@pytest.fixture
async def two(kube, monkeypatch):
    """An operator of two namespaces, that has not begun."""
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
    """As kopf does where it has listed."""
    for body in bodies:
        kind = racktopology.KIND if "levels" in body["spec"] else kafkatopic.KIND
        two.informers[kind].take(None, body)


async def test_a_namespace_that_may_not_be_read_costs_no_other_and_is_back_with_its_rights(two, kube, caplog):
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


async def test_what_is_remembered_of_a_namespace_that_may_not_be_read_any_more_is_not_enforced(two, kube):
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
    assert len(two.cache.topics) == 2, "nor is it taken for gone"
    for generation in (2, 3):  # what was queued with the first has been looked at when the second has
        mine = topic(1)
        mine["metadata"] |= {"generation": generation, "resourceVersion": str(generation)}
        tell(two, theirs(2, generation=2), mine)
        await until(lambda: seen(1) == mine["metadata"]["generation"])  # noqa: B023 - it is waited for here
    assert seen(2) == 1
    two.leave_out(frozenset())
    await until(lambda: seen(2) == 2)


async def test_a_topology_that_may_not_be_read_is_not_taken_for_none(two, kube):
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


async def test_what_may_not_be_read_at_the_start_is_left_out_before_a_watch_is_refused(two, kube):
    kube.denied = frozenset({"shop"})
    await two.prime()
    assert two.cache.left_out == {"shop"}
    two.start()
    tell(two, theirs(1), theirs(2, name="made-up", namespace="theirs"))
    await until(lambda: reason(kube, 2) == "TopologyNotFound")
    assert reason(kube, 1) is None
    two.leave_out(frozenset({"theirs"}))
    assert two.cache.left_out == {"shop", "theirs"}, "the watch of another namespace may be refused first"


async def test_what_could_not_be_read_at_the_start_only_is_read_again_without_a_refused_watch(two, kube):
    kube.there = {racktopology.KIND: [TOPOLOGY], kafkatopic.KIND: [theirs(1)]}
    kube.denied = frozenset({"shop"})
    await two.prime()
    await two.sweep()
    assert two.cache.left_out == {"shop"}
    kube.denied = frozenset()
    await two.sweep()
    assert two.cache.left_out == frozenset()


async def test_pods_that_may_not_be_read_leave_no_namespace_out(two, kube, monkeypatch):
    async def denied(reflector):
        raise DeniedError(REFUSED.failure, frozenset({"shop"}))

    monkeypatch.setattr(MemoryReflector, "list", denied)
    await two.prime()
    assert two.cache.left_out == frozenset()


async def test_an_operator_that_may_read_no_namespace_is_not_ready(two, kube):
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
