"""The loops of topologies that an event wakes."""

import asyncio
from unittest.mock import AsyncMock, MagicMock, patch

import pytest
from msgspec import structs
from tests.unit.reconcile import examples

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.manager import Routes
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.informer import Informer
from rackspan.reconcile.runtime.writers import StatusWriter
from rackspan.reconcile.topology_loops import TopologyLoops

NAMES = ("one", "other", "reported")


def topology(name):
    """Return a RackTopology. `reported` gets racks from brokers, others from nodes of pods with their name as label."""
    spec = {
        "kafka": {"bootstrapServers": "kafka:9092"},
        "rackSource": "Broker" if name == "reported" else "Nodes",
        "levels": [{"name": "zone", "nodeLabel": "zone"}],
        "brokers": {"podSelector": {"matchLabels": {"app": name}}},
    }
    metadata = {"namespace": "shop", "name": name, "uid": name, "generation": 1, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": spec}


def pod(app, node, namespace="shop"):
    name = f"{app}-{node}-0"
    metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1", "labels": {"app": app}}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("node", "woken"),
    [("n-one", ["one"]), ("n-other", ["other"]), ("n-both", ["one", "other"]), ("n-idle", []), ("n-else", [])],
)
def test_relabelled_node_wakes_the_topologies_whose_brokers_run_on_it(node, woken):
    cache = Cache()
    for name in NAMES:
        cache.put_topology(topology(name))
    for app, where in (("one", "n-one"), ("other", "n-other"), ("one", "n-both"), ("other", "n-both")):
        cache.put_pod(pod(app, where))
    cache.put_pod(pod("reported", "n-one"))
    cache.put_pod(pod("one", "n-else", namespace="bank"))
    loops = TopologyLoops(MagicMock(cache=cache))
    running = {name: MagicMock() for name in NAMES}
    loops._running = {ObjectKey("shop", name): (loop, MagicMock()) for name, loop in running.items()}

    loops.node_changed(ObjectKey("", node))

    assert [name for name, loop in running.items() if loop.cluster.location_changed.called] == woken


@pytest.mark.parametrize("kind", ["KafkaTopic", "Reassignment"])
def test_object_recreated_for_another_topology_while_no_watch_runs_is_reported_to_both(kind):
    cache, loops, reassignments = Cache(), MagicMock(), MagicMock()
    routes = Routes(cache, loops, (), reassignments)
    informer = Informer(kind, routes.handlers[kind], cache.versions, lambda: None)

    def body(uid, where):
        more = {
            "KafkaTopic": {"partitions": 1, "replicationFactor": 1},
            "Reassignment": {"planHash": "0123456789abcdef", "plan": "eJw="},
        }
        metadata = {"namespace": "shop", "name": "orders", "uid": uid, "generation": 1, "resourceVersion": uid}
        return {"metadata": metadata, "spec": {"topologyRef": {"name": where}, **more[kind]}}

    informer.take("ADDED", body("1", "one"))
    informer.take(None, body("2", "other"))
    told = {
        "KafkaTopic": [*loops.topic_gone.call_args_list, *loops.topic_changed.call_args_list[1:]],
        "Reassignment": reassignments.changed.call_args_list[1:],
    }
    topologies = [getattr(call.args[0], "topology", call.args[0]) for call in told[kind]]
    assert [key.name for key in topologies] == ["one", "other"]


def test_topology_recreated_while_no_watch_runs_is_stopped_and_started_again():
    cache, loops = Cache(), MagicMock()
    routes = Routes(cache, loops, (), MagicMock())
    informer = Informer("RackTopology", routes.handlers["RackTopology"], cache.versions, lambda: None)
    informer.take("ADDED", topology("one"))
    cache.set_cluster_id(ObjectKey("shop", "one"), "kafka-1")
    loops.reset_mock()
    again = topology("one")
    informer.take(None, {**again, "metadata": {**again["metadata"], "uid": "2", "resourceVersion": "2"}})
    assert [call[0] for call in loops.mock_calls] == ["topology_gone", "topology_changed"]
    assert cache._cluster_of(ObjectKey("shop", "one")) is None


def test_report_of_a_deleted_topology_is_not_that_of_the_next_one_with_its_name():
    cache = Cache()
    routes = Routes(cache, MagicMock(), (), MagicMock())
    kinds = "RackTopology", "ComplianceReport"
    topologies, reports = (Informer(kind, routes.handlers[kind], cache.versions, lambda: None) for kind in kinds)
    topologies.take("ADDED", topology("one"))
    about = {"spec": {"topologyRef": {"name": "one"}}, "status": {"scanId": "1"}}
    metadata = topology("one")["metadata"]
    owner = {"kind": "RackTopology", "name": "one", "uid": metadata["uid"]}
    reports.take("ADDED", {"metadata": {**metadata, "uid": "report", "ownerReferences": [owner]}, **about})
    key = ObjectKey("shop", "one")
    assert cache.report_of(cache.topologies[key]).scan_id == "1"
    again = topology("one")
    topologies.take(None, {**again, "metadata": {**metadata, "uid": "2", "resourceVersion": "2"}})
    assert cache.report_of(cache.topologies[key]) is None
    newer = {"uid": "report", "resourceVersion": "3", "ownerReferences": [{**owner, "uid": "2"}]}
    reports.take("MODIFIED", {"metadata": {**metadata, **newer}, **about})
    assert cache.report_of(cache.topologies[key]).scan_id == "1"
    topologies.take("DELETED", topology("one"))
    assert cache.report_of(cache.topologies[key]).scan_id == "1", "a late event of the first RackTopology"


def test_many_objects_of_one_topic_are_looked_up_once_however_many_have_changed():
    cache = Cache()
    cache.topologies[examples.topology().key] = examples.topology()
    for number in range(20):
        cache.keep_topic(examples.topic(f"orders-{number}", topicName="orders"))
    for number in range(5):
        cache.keep_topic(examples.topic(f"lost-{number}", topicName="lost", topologyRef={"name": "absent"}))
    cache.claims = MagicMock(wraps=cache.claims)
    loops, running = TopologyLoops(MagicMock(cache=cache)), MagicMock()
    loops._running = {examples.topology().key: (running, MagicMock())}
    loops._orphans = MagicMock()

    every = sorted(ObjectKey("shop", f"orders-{number}") for number in range(20))
    lost = [ObjectKey("shop", f"lost-{number}") for number in range(5)]
    loops.namespace_changed("shop")
    for _, topic in sorted(cache.topics.items()):
        loops.topic_changed(topic)
    assert [sorted(call.args[0]) for call in running.topics.add.call_args_list] == [every, *([key] for key in every)]
    running.topics.reset_mock()
    loops._orphans.reset_mock()
    cache.claims.assert_not_called()

    loops.requeue_rivals()
    loops.requeue_rivals()

    assert cache.claims.call_count == 2
    assert [sorted(call.args[0]) for call in running.topics.add.call_args_list] == [every[:-1]]
    assert [sorted(call.args[0]) for call in loops._orphans.add.call_args_list] == [lost[:-1]]


def test_topic_with_the_name_of_one_in_another_cluster_is_queued_once():
    cache, running = Cache(), {name: (MagicMock(), MagicMock()) for name in ("prod", "dev")}
    for name in running:
        own = structs.replace(examples.topology(), meta=structs.replace(examples.topology().meta, name=name))
        cache.topologies[own.key] = own
        cache.set_cluster_id(own.key, f"cluster-of-{name}")
        cache.keep_topic(
            examples.topic(f"orders-{name}", topicName="orders", topologyRef={"name": name, "namespace": "kafka"})
        )
    loops = TopologyLoops(MagicMock(cache=cache))
    loops._running = {ObjectKey("kafka", name): one for name, one in running.items()}
    loops.topic_changed(cache.topics[ObjectKey("shop", "orders-prod")])
    loops.requeue_rivals()
    assert [running[name][0].topics.add.call_count for name in ("prod", "dev")] == [1, 0]


async def test_objects_that_claim_the_topic_of_a_deleted_one_are_queued():
    cache, one, other = Cache(), examples.topic("one", topicName="orders"), examples.topic("other", topicName="orders")
    cache.topologies[one.topology] = examples.topology()
    for topic in (one, other):
        cache.keep_topic(topic)
    loops, running = TopologyLoops(MagicMock(cache=cache)), MagicMock()
    loops._running = {one.topology: (running, MagicMock())}
    shared = asyncio.create_task(loops.run_shared())
    loops.topic_gone(cache.drop_topic(one.key))
    await asyncio.sleep(0.01)
    shared.cancel()
    assert [list(call.args[0]) for call in running.topics.add.call_args_list] == [[other.key]]


def test_objects_of_missing_topologies_are_not_compared_with_each_other():
    cache = Cache()
    for number in range(20):
        cache.keep_topic(examples.topic(f"orders-{number}", topicName="orders", topologyRef={"name": f"no-{number}"}))
    cache.share_cluster = MagicMock(wraps=cache.share_cluster)
    loops = TopologyLoops(MagicMock(cache=cache))
    loops._orphans = MagicMock()

    loops.namespace_changed("shop")

    assert cache.share_cluster.call_count <= 20
    queued = [list(call.args[0]) for call in loops._orphans.add.call_args_list]
    assert sorted(queued) == sorted([ObjectKey("shop", f"orders-{number}")] for number in range(20))


@pytest.mark.parametrize("kind", ["KafkaTopic", "RackTopology"])
async def test_failed_status_write_is_forgotten_with_the_deleted_object(kind):
    away = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "connection refused", Remedy.RETRY))
    statuses = StatusWriter(MagicMock(replace_status=AsyncMock(side_effect=away)))
    cache = Cache()
    loops = TopologyLoops(MagicMock(cache=cache, statuses=statuses))
    handler = Routes(cache, loops, (), MagicMock()).handlers[kind]
    topic = {"topologyRef": {"name": "one"}, "partitions": 1, "replicationFactor": 1}
    one = handler.put(topology("one") if kind == "RackTopology" else {**topology("one"), "spec": topic})
    with pytest.raises(FailureError):
        await statuses.write(ObjectRef(kind, one.key, one.meta.uid), {}, {"state": "unknown"})
    assert statuses._uncertain
    handler.drop(one.key)
    assert not statuses._uncertain


@pytest.mark.parametrize("deleted", [True, False])
async def test_ended_loop_is_a_defect_unless_its_topology_is_deleted(deleted):
    """The loop of a deleted topology is removed by a callback, which runs after other callbacks, such as probes."""
    one, task = RackTopology.from_object(topology("one")), asyncio.create_task(asyncio.sleep(0))
    await task
    loops = TopologyLoops(MagicMock(cache=Cache()))
    loops._running = {one.key: (MagicMock(), task)}
    if deleted:
        loops.topology_gone(one)
    assert list(loops.defunct()) == ([] if deleted else ["shop/one"])


async def test_loop_that_ends_by_a_defect_is_logged(caplog):
    async def run():
        raise ValueError("a defect")

    loops = TopologyLoops(MagicMock(cache=Cache()))
    with patch("rackspan.reconcile.topology_loops.TopologyReconciler", return_value=MagicMock(run=run)):
        loops.start(ObjectKey("shop", "one"))
    for _ in range(3):
        await asyncio.sleep(0)
    (record,) = [record for record in caplog.records if record.name == "rackspan.reconcile"]
    assert record.getMessage() == "topology shop/one: its loop has ended"
    assert "a defect" in str(record.exc_info[1])
