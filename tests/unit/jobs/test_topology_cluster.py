"""What a scan of a RackTopology refuses before it asks Kafka."""

import pytest
from tests.unit.reconcile.examples import topology

from rackspan.jobs.sources.scanned_cluster import ClusterError
from rackspan.jobs.sources.topology_cluster import from_topology
from rackspan.kube.topology_inputs import ScanInputs


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({}, "names no brokers yet"),
        ({"brokerCount": 2}, "has not room for all brokers"),
        ({"rackHash": "of another spec"}, "has racks by an earlier spec"),
    ],
)
def test_a_topology_whose_status_does_not_have_all_racks_by_its_spec_is_not_judged(status, sentence):
    brokers = [{"id": 0, "rack": "/eu"}] if status else []
    about = topology(status={"brokers": brokers, **status})
    with pytest.raises(ClusterError, match=sentence) as refused:
        from_topology(ScanInputs(about, (), {}, None, (), (), {}, ()))
    assert refused.value.reason == "TopologyNotReady"
