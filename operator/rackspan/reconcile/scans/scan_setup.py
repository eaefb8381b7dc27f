"""How this installation of the operator runs scans: namespace, image, service account, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rackspan.api.racktopology import ComplianceScanSpec
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.scans.history_location import Location, LocationError
from rackspan.reconcile.scans.limits import Allowance

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rackspan.api.racktopology import RackTopology

DEFAULT_APPLICATION: Final = "local:///opt/rackspan/scan.py"
"""`mainApplicationFile` of a SparkApplication: a file in the scan's image."""


@dataclass(frozen=True, slots=True)
class ScanSetup:
    """The chart's values for scans.

    While `namespace` or `image` is None, no scan is started, and the condition Scanned says so. `pod` is merged into
    the PodSpec of every scan's pods (nodeSelector, tolerations, imagePullSecrets). At most `max_running` scans run at a
    time, of all topologies. `tmp_size` is the size limit of each pod's emptyDir, a Kubernetes quantity.

    Scans run in the operator's namespace and may read the Secrets that topologies of any namespace name. So a topology
    may ask only for what `allowance` permits, unless its namespace is one of `trusted` (`*`: all).
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
        """Whether `allowance` does not restrict topologies of this namespace."""
        return namespace == self.namespace or not {"*", namespace}.isdisjoint(self.trusted)

    def failure(self, topology: RackTopology) -> Failure | None:
        """Why no scan of this topology can be started; None where one can."""
        spec = topology.spec.compliance or ComplianceScanSpec()
        if self.namespace is None:
            return _not_set_up("the operator does not know the namespace where scans run: set RACKSPAN_SCAN_NAMESPACE")
        if spec.image is None and self.image is None:
            return _not_set_up("the operator does not know the image that scans: set RACKSPAN_SCAN_IMAGE")
        return _invalid_location(spec) or self._not_allowed(topology, spec)

    def _not_allowed(self, topology: RackTopology, spec: ComplianceScanSpec) -> Failure | None:
        namespace = topology.key.namespace
        violations = () if self.trusts(namespace) else self.allowance.violations(topology.key, spec)
        if not violations:
            return None
        message = f"the chart does not allow this of spec.compliance in namespace {namespace}: {'; '.join(violations)}"
        return Failure(Reason.SCAN_NOT_ALLOWED, message, Remedy.ACCESS)


def _invalid_location(spec: ComplianceScanSpec) -> Failure | None:
    """The CRD validates it too, but not in objects that were stored before it had that rule."""
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
