"""What every topology's loop shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.reconcile.runtime.liveness import Beats
from rackspan.reconcile.runtime.threads import Guests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.core.placement import Placer
    from rackspan.reconcile.cache import Inventory
    from rackspan.reconcile.ports import Cluster, KafkaConnector
    from rackspan.reconcile.runtime.finalizers import Finalizers
    from rackspan.reconcile.runtime.status_writer import StatusWriter


@dataclass(frozen=True, slots=True)
class Tools:
    """The picture of Kubernetes, the ports, and the placers that are installed."""

    inventory: Inventory
    kube: Cluster
    kafka: KafkaConnector
    statuses: StatusWriter
    finalizers: Finalizers
    placers: Mapping[str, Placer]
    resync_seconds: float
    beats: Beats = field(default_factory=Beats)
    guests: Guests = field(default_factory=Guests)
