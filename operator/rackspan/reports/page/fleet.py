"""Several clusters by their last scans, the worst first."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import to_builtins

from rackspan.core.scanning.rules import SEVERITIES
from rackspan.reports.document import ScanDocument, ScanOutcome
from rackspan.reports.page.assessment import Assessment, assessment

_TONES: Final = ("failed", *SEVERITIES, "fine")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One cluster: its last scan, and its assessment."""

    scan: ScanDocument
    assessment: Assessment

    @property
    def failed(self) -> bool:
        """Whether the scan failed, so that it has no facts about the cluster."""
        return self.scan.state is ScanOutcome.FAILED

    @property
    def page(self) -> str:
        """The file name of the cluster's page: the same for each scan, and safe for any cluster name."""
        return f"{hashlib.sha256(self.scan.cluster.encode()).hexdigest()[:16]}.html"

    def as_document(self) -> dict[str, Any]:
        """Return the row as JSON: fields of the scan document, and the assessment."""
        scan = self.scan
        return {
            "cluster": scan.cluster,
            "scanId": scan.scan_id,
            "finishedAt": scan.finished_at,
            "state": str(scan.state),
            "reason": scan.reason,
            "worst": self.assessment.tone,
            "assessment": " ".join((self.assessment.headline, *self.assessment.details)),
            "summary": None if self.failed else to_builtins(scan.summary),
        }


def fleet_rows(scans: Iterable[ScanDocument]) -> list[FleetRow]:
    """Return a row per cluster for its last scan: failed scans first, then by worst finding, partitions and moves."""
    by_age = sorted(scans, key=lambda scan: scan.finished_at)
    last = {scan.cluster: scan for scan in by_age}
    return sorted((FleetRow(scan, assessment(scan)) for scan in last.values()), key=_order)


def _order(row: FleetRow) -> tuple[Any, ...]:
    counted = row.scan.summary
    numbers = (counted.offline, counted.non_compliant, counted.under_replicated, counted.moves)
    return (_TONES.index(row.assessment.tone), *(-number for number in numbers), row.scan.cluster)
