"""Where and as what scans run: what one installation of the operator decides for all topologies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rackspan.api.racktopology import ComplianceScanSpec
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.scans.limits import Allowance
from rackspan.reconcile.scans.locations import Location, LocationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rackspan.api.racktopology import RackTopology

DEFAULT_APPLICATION: Final = "local:///opt/rackspan/scan.py"
"""What a SparkApplication submits: a file of the scan's image."""


@dataclass(frozen=True, slots=True)
class ScanSetup:
    """
    `namespace` and `image` are None where they are not known: then no scan is started, and that is told.

    `pod` is merged into the specification of every pod that scans: node selectors, tolerations, pull secrets. At most
    `max_running` scans run at a time, of all topologies; `tmp_size` bounds the temporary files of each pod.

    A scan runs beside the operator and may read the Secrets that topologies name, of whichever namespace. So what a
    topology may ask of it is what `allowance` says, unless its namespace is one of `trusted` (`*`: all).
    """

    namespace: str | None = None
    image: str | None = None
    service_account: str = "rackspan-scan"
    pull_policy: str = "IfNotPresent"
    application: str = DEFAULT_APPLICATION
    pod: Mapping[str, Any] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()
    allowance: Allowance = field(default_factory=Allowance)
    max_running: int = 4
    tmp_size: str = "10Gi"

    def trusts(self, namespace: str) -> bool:
        """Whether topologies of this namespace may ask for anything."""
        return namespace == self.namespace or not {"*", namespace}.isdisjoint(self.trusted)

    def trouble(self, topology: RackTopology) -> Failure | None:
        """Why no scan of this topology can be started here; None where one can."""
        spec = topology.spec.compliance or ComplianceScanSpec()
        if self.namespace is None:
            return _not_set_up("the operator does not know the namespace where scans run: set RACKSPAN_SCAN_NAMESPACE")
        if spec.image is None and self.image is None:
            return _not_set_up("the operator does not know the image that scans: set RACKSPAN_SCAN_IMAGE")
        return _unusable(spec) or self._not_allowed(topology, spec)

    def _not_allowed(self, topology: RackTopology, spec: ComplianceScanSpec) -> Failure | None:
        namespace = topology.key.namespace
        refusals = () if self.trusts(namespace) else self.allowance.refusals(topology.key, spec)
        if not refusals:
            return None
        message = f"the chart does not allow this of spec.compliance in namespace {namespace}: {'; '.join(refusals)}"
        return Failure(Reason.SCAN_NOT_ALLOWED, message, Remedy.ACCESS)


def _unusable(spec: ComplianceScanSpec) -> Failure | None:
    """Of objects that are older than a rule of the definition, too."""
    if spec.history_location is None:
        return None
    try:
        Location.parse(spec.history_location)
    except LocationError as error:
        message = f"spec.compliance.historyLocation cannot be used: {error}"
        return Failure(Reason.SCAN_NOT_ALLOWED, message, Remedy.SPEC)
    return None


def _not_set_up(message: str) -> Failure:
    return Failure(Reason.SCAN_NOT_SET_UP, message, Remedy.ACCESS)
