"""Which loops of topologies an event wakes."""

from unittest.mock import MagicMock

import pytest

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.topology_loops import TopologyLoops

NAMES = ("one", "other", "reported")


def topology(name):
    """RackTopology `reported` takes racks from brokers, the others from the nodes of pods with their name as label."""
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
def test_a_relabelled_node_wakes_the_topologies_whose_brokers_run_on_it(node, woken):
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

    assert [name for name, loop in running.items() if loop.location_changed.called] == woken
