"""Which replica serves a consumer. The tests of the brokers' plug-in use the same cases (`tests/plugins`)."""

import json

import numpy as np
import pytest
from dev.paths import REPOSITORY
from tests.unit.core.clusters import cluster

from rackspan.core.consumers.group_locality import ReplicaPlaces, nearest
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation

CASES = json.loads((REPOSITORY / "plugins/cases/nearest_replica.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_nearest_replica_serves_the_consumer(case):
    racks = {int(broker): rack for broker, rack in case["replicas"].items()}
    in_sync = [broker for broker in racks if broker not in case.get("not_in_sync", [])]
    rows = table(["topic"], [(0, 0, list(racks), in_sync, case["leader"], None)])
    tree = cluster("rack", dict.fromkeys(racks))
    replicas = ReplicaPlaces(tree, [BrokerLocation(broker, rack) for broker, rack in racks.items()], rows)
    assert int(tree.ids[nearest(replicas, np.array([0]), [case["client"]])[0]]) in case["nearest"]
