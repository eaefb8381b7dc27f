"""What all topologies' control loops share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.reconcile.reassignment_ports import NoReassignments, NoSizes
from rackspan.reconcile.runtime.threads import ThirdPartyPlacers
from rackspan.reconcile.runtime.waiting import Liveness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.core.placement import Placer
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KafkaConnector, KubeApi
    from rackspan.reconcile.reassignment_ports import Reassignments, ReplicaSizes
    from rackspan.reconcile.runtime.writers import FinalizerWriter, StatusWriter


@dataclass(frozen=True, slots=True)
class Dependencies:
    """
    The cache of Kubernetes objects, the ports, and the installed placers by name.

    `lease` is what statuses say of the Lease that this operator holds.
    """

    cache: Cache
    kube: KubeApi
    kafka: KafkaConnector
    statuses: StatusWriter
    finalizers: FinalizerWriter
    placers: Mapping[str, Placer]
    resync_seconds: float
    reassignments: Reassignments = field(default_factory=NoReassignments)
    sizes: ReplicaSizes = field(default_factory=NoSizes)
    liveness: Liveness = field(default_factory=Liveness)
    third_party: ThirdPartyPlacers = field(default_factory=ThirdPartyPlacers)
    lease: ObjectKey | None = None
