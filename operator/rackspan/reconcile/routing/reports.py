"""ComplianceReports: what scans found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.api.compliancereport import ComplianceReport
from rackspan.metrics import forget_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.scans.scan_reconciler import ScansReconciler


class ReportHandler:
    """Implements `ResourceHandler`."""

    def __init__(self, cache: Cache, scans: ScansReconciler) -> None:
        self._cache = cache
        self._scans = scans

    def put(self, body: Mapping[str, Any]) -> None:
        """Remember a report. Ignored unless named like its topology, as scans do. Raises SpecError."""
        report = ComplianceReport.from_object(body)
        if report.key == report.topology and self._cache.reports.get(report.key) != report.status:
            self._cache.reports[report.key] = report.status
            self._scans.wake()

    def changed(self, key: ObjectKey) -> None:
        """Nothing more: `put` woke the scans."""

    def drop(self, key: ObjectKey) -> None:
        """Forget a report and its metrics."""
        if self._cache.reports.pop(key, None) is not None:
            forget_report(str(key))
