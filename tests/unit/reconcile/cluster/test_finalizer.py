"""A RackTopology that goes while its brokers are cordoned."""

import pytest
from msgspec.structs import replace
from tests.unit.reconcile.examples import NOON, topology
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.topology_deletion import TopologyFinalizer


@pytest.mark.parametrize(
    ("cordoned", "can_be_released", "goes", "told"),
    [((), False, True, []), ((1, 2), True, False, []), ((1, 2), False, True, ["CordonsLeft"])],
)
async def test_it_waits_for_cordons_that_can_be_released_and_names_those_that_cannot(
    cordoned, can_be_released, goes, told
):
    kube, cache, present = MemoryCluster(), Cache(), topology()
    going = replace(present, meta=replace(present.meta, deletion_timestamp=NOON, finalizers=(FINALIZER,)))
    cache.topologies[going.key] = going
    dependencies = dependencies_of(cache, kube)
    finalizer = TopologyFinalizer(
        going.key, dependencies, lambda: (), lambda _: cordoned, lambda _: bool(cordoned) and can_be_released
    )
    await finalizer.reconcile()
    assert (kube.finalizers.get(going.key.name) == []) == goes
    assert [event.reason for event in kube.announced] == told
    assert all("the cordon of brokers 1, 2 is left in Kafka" in event.message for event in kube.announced)
