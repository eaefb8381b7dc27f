"""The settings of one operator process, from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey
    from rackspan.kafka.worker.places import WorkerLimits
    from rackspan.reconcile.runtime.lease_timing import Timing
    from rackspan.reconcile.runtime.namespaces import NamespaceSet
    from rackspan.reconcile.scans.scan_setup import ScanSetup


@dataclass(frozen=True, slots=True)
class LeaseSetup:
    """The Lease that replicas share, and this replica's identity (`spec.holderIdentity`)."""

    identity: str
    key: ObjectKey
    timing: Timing


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one operator process. Times are in seconds."""

    lease: LeaseSetup
    kubeconfig: Path | None
    namespaces: tuple[str, ...]
    """Namespaces to watch; empty for all."""
    resync_seconds: float
    """The interval at which a whole Kafka cluster is compared with its objects, to correct drift."""
    topologies_per_namespace: int
    """The maximum number of RackTopologies per namespace that the operator serves. The oldest are served."""
    listen_host: str
    listen_port: int
    """Port of metrics and probes; 0 for any free port."""
    kafka_clients: WorkerLimits
    scans: ScanSetup
    publish_racks_to: NamespaceSet
    restart_pods_in: NamespaceSet
    annotate_pods_in: NamespaceSet
