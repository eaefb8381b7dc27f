"""How one operator process is set up; the command line fills it in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.reconcile.runtime.lease import Timing
from rackspan.reconcile.runtime.namespace_quota import DEFAULT_TOPOLOGIES_PER_NAMESPACE
from rackspan.reconcile.scans.config import ScanSetup

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class LeaseSetup:
    """The Lease that operators of the same objects share, and as whom this one holds it."""

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
    """How often the whole of a Kafka cluster is compared with the objects, so that drift is put back."""
    topologies_per_namespace: int = DEFAULT_TOPOLOGIES_PER_NAMESPACE
    """RackTopologies of one namespace that are served, the oldest; others cost next to nothing."""
    stall_seconds: float = 300.0
    """How old the last pass may be before the liveness probe fails."""
    listen_host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the Pod
    listen_port: int = 8080
    """Metrics, liveness and readiness; 0 for any free port."""
    scans: ScanSetup = field(default_factory=ScanSetup)
    """Where and as what compliance scans run."""
