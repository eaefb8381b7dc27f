"""Scans of a RackTopology: what they reject before they connect to Kafka, and the racks of brokers."""

import pytest
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.reasons import Reason
from rackspan.core.consumers.group_locality import GroupSeen, MemberSeen, Selector
from rackspan.core.snapshot import Snapshot, table
from rackspan.core.topology import BrokerLocation
from rackspan.jobs.sources import topology_cluster
from rackspan.jobs.sources.scanned_cluster import ClusterError
from rackspan.jobs.sources.topology_cluster import from_topology
from rackspan.kafka.cluster_snapshot import ClusterOutline, LivePortion
from rackspan.kafka.consumer_groups import ConsumerGroups
from rackspan.kube.topology_inputs import ScanInputs
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Credentials


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({}, "names no brokers yet"),
        ({"brokerCount": 2}, "has not room for all brokers"),
        ({"rackHash": "of another spec"}, "has racks by an earlier spec"),
    ],
)
def test_topology_without_current_racks_of_all_brokers_is_rejected(status, sentence):
    brokers = [{"id": 0, "rack": "/eu"}] if status else []
    about = topology(status={"brokers": brokers, **status})
    with pytest.raises(ClusterError, match=sentence) as refused:
        from_topology(ScanInputs(about, (), {}, None, (), (), {}, ()))
    assert refused.value.reason == "TopologyNotReady"


@pytest.fixture
def kafka(monkeypatch):
    """A Kafka with the brokers 0, 1, 3 and 4 whose consumer groups may not be read."""

    def no_groups(_):
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, "no groups", Remedy.RETRY))

    online = tuple(BrokerLocation(broker) for broker in (0, 1, 3, 4))
    monkeypatch.setattr(topology_cluster, "take_outline", lambda _: ClusterOutline("abc", online, (), 0))
    monkeypatch.setattr(topology_cluster, "reassignment_warnings", lambda _: ())
    monkeypatch.setattr(topology_cluster, "read_consumer_groups", no_groups)


@pytest.mark.usefixtures("kafka")
def test_broker_without_broker_rack_drifts_only_if_the_operator_saw_it_online():
    """0 was online without a rack, 1 was offline and is back, 2 is offline, 3 reports its rack and 4 another one."""
    brokers = [
        {"id": 0, "rack": "/eu", "online": True, "drift": True},
        {"id": 1, "rack": "/eu", "online": False},
        {"id": 2, "rack": "/eu", "online": False},
        {"id": 3, "rack": "/eu", "reportedRack": "/eu", "online": True, "drift": False},
        {"id": 4, "rack": "/eu", "reportedRack": "/us", "online": True, "drift": True},
    ]
    about = topology(status={"brokers": brokers, "brokerCount": 5, "clusterId": "abc"})
    cluster = from_topology(ScanInputs(about, (), {}, Credentials(), (), (), {}, ()))
    assert cluster.topology == str(about.key), "the fix of a finding names the topology"
    found = cluster.criteria.locations.brokers
    assert {one.id for one in found if one.drifts} == {0, 4}
    assert {one.id for one in found if not one.online} == {2}


@pytest.mark.usefixtures("kafka")
def test_scan_warns_of_rules_about_levels_that_the_topology_does_not_have():
    about = topology(status={"brokers": [{"id": 0, "rack": "/eu", "online": True}], "brokerCount": 1})
    odd = topic("odd", placement={"spread": [{"level": "building", "maxSkew": 1}]})
    cluster = from_topology(ScanInputs(about, (topic("orders"), odd), {}, Credentials(), (), (), {}, ()))
    levels = ", ".join(level.name for level in about.spec.levels)
    assert cluster.warnings[0] == f"rules about unknown levels (known: {levels}) are not checked, of 1 topic: odd"


@pytest.mark.usefixtures("kafka")
def test_scan_warns_of_topics_of_groups_that_cannot_be_read(monkeypatch):
    member = MemberSeen("m", "c", "10.0.0.1", {"orders": [0, 1]}, "/eu", frozenset({"orders"}))
    groups = ConsumerGroups((GroupSeen("shop", "range", (member,)),), Selector.SAME_RACK, ())
    portion = LivePortion(Snapshot(None, (), table((), [], {}), ()), {"orders": "not allowed"})
    monkeypatch.setattr(topology_cluster, "read_consumer_groups", lambda _: groups)
    monkeypatch.setattr(topology_cluster, "take_portion", lambda *_: portion)
    about = topology(status={"brokers": [{"id": 0, "rack": "/eu", "online": True}], "brokerCount": 1})
    cluster = from_topology(ScanInputs(about, (), {}, Credentials(), (), (), {}, ()))
    unread = "1 topic that groups read could not be read, such as orders: not allowed"
    assert cluster.warnings == (f"{unread}; their partitions are not counted for groups",)
