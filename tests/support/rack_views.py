"""The racks of brokers for given Nodes and Pods."""

from types import MappingProxyType

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster import racks

_NOTHING = MappingProxyType({})


def rack_view(topology, nodes, pods, brokers, last_racks=_NOTHING, *, holders=(), cordoned=(), consent=_NOTHING):
    """Return the racks of brokers from node labels by name, and pods. `consent` has the labels of their namespace."""
    cache = Cache()
    cache.nodes.update(nodes)
    for pod in pods:
        cache.keep_pod(ObjectKey(pod.namespace, pod.name), pod)
    cache.namespaces[topology.broker_namespace] = consent
    return racks.rack_view(cache, topology, brokers, last_racks, holders, cordoned)
