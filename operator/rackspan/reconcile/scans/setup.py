"""Where and as what scans run: what one installation of the operator decides for all topologies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rackspan.api.racktopology import ComplianceScanSpec
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

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

    `pod` is merged into the specification of every pod that scans: node selectors, tolerations, pull secrets.

    A scan runs beside the operator and may read the Secrets that topologies name, of whichever namespace. So who may
    write a topology must not choose the code that scans, unless its namespace is one of `trusted` (`*`: all).
    """

    namespace: str | None = None
    image: str | None = None
    service_account: str = "rackspan-scan"
    pull_policy: str = "IfNotPresent"
    application: str = DEFAULT_APPLICATION
    pod: Mapping[str, Any] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()

    def trouble(self, topology: RackTopology) -> Failure | None:
        """Why no scan of this topology can be started here; None where one can."""
        spec = topology.spec.compliance or ComplianceScanSpec()
        if self.namespace is None:
            return _not_set_up("the operator does not know the namespace where scans run: set RACKSPAN_SCAN_NAMESPACE")
        if spec.image is None and self.image is None:
            return _not_set_up("the operator does not know the image that scans: set RACKSPAN_SCAN_IMAGE")
        chosen = {
            "image": spec.image,
            "sparkConf": spec.spark_conf,
            "historyVolume.subPath": spec.history_volume and spec.history_volume.sub_path,
        }
        names = [name for name, value in chosen.items() if value]
        namespace = topology.key.namespace
        if names and namespace != self.namespace and not {"*", namespace} & {*self.trusted}:
            where = f"namespace {namespace} is not trusted with"
            return _not_set_up(f"{where} spec.compliance.{' and '.join(names)}: see RACKSPAN_SCAN_TRUSTED_NAMESPACES")
        return None


def _not_set_up(message: str) -> Failure:
    return Failure(Reason.SCAN_NOT_SET_UP, message, Remedy.ACCESS)
