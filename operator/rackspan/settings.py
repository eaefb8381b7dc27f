"""The settings of one operator process, filled in by the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.kafka.worker.places import WorkerLimits
from rackspan.reconcile.runtime.lease_timing import Timing
from rackspan.reconcile.runtime.namespaces import DEFAULT_TOPOLOGIES_PER_NAMESPACE, NamespaceSet
from rackspan.reconcile.scans.scan_setup import ScanSetup

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class LeaseSetup:
    """The Lease that replicas share, and this replica's identity (`spec.holderIdentity`)."""

    identity: str
    key: ObjectKey
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds."""

    lease: LeaseSetup
    kubeconfig: Path | None = None
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty for all."""
    resync_seconds: float = 60.0
    """How often a whole Kafka cluster is compared with its objects, so that drift is corrected."""
    topologies_per_namespace: int = DEFAULT_TOPOLOGIES_PER_NAMESPACE
    """How many RackTopologies of one namespace are served: the oldest."""
    stall_seconds: float = 300.0
    """How long a loop may make no progress before the liveness probe fails."""
    listen_host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the Pod
    listen_port: int = 8080
    """Port of metrics and probes; 0 for any free port."""
    kafka_clients: WorkerLimits = field(default_factory=WorkerLimits)
    scans: ScanSetup = field(default_factory=ScanSetup)
    publish_racks_to: NamespaceSet = field(default_factory=NamespaceSet)
    restart_pods_in: NamespaceSet = field(default_factory=NamespaceSet)
    annotate_pods_in: NamespaceSet = field(default_factory=NamespaceSet)
