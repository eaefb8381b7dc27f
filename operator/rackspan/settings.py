"""The settings of one operator process, filled in by the command line."""

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
    """Times are in seconds."""

    lease: LeaseSetup
    kubeconfig: Path | None
    namespaces: tuple[str, ...]
    """Namespaces to watch; empty for all."""
    resync_seconds: float
    """How often a whole Kafka cluster is compared with its objects, so that drift is corrected."""
    topologies_per_namespace: int
    """How many RackTopologies of one namespace are served: the oldest."""
    listen_host: str
    listen_port: int
    """Port of metrics and probes; 0 for any free port."""
    kafka_clients: WorkerLimits
    scans: ScanSetup
    publish_racks_to: NamespaceSet
    restart_pods_in: NamespaceSet
    annotate_pods_in: NamespaceSet
