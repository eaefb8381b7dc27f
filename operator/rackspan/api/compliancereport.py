"""ComplianceReport: what the last scan of a Kafka cluster found. Provisional."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from rackspan.api._codec import StatusCodec, decode
from rackspan.api.conditions import Condition
from rackspan.api.meta import Meta, ObjectKey
from rackspan.api.references import TopologyRef

KIND: Final = "ComplianceReport"
PLURAL: Final = "compliancereports"

MAX_FINDINGS: Final = 100
"""Findings that fit into a status."""


@dataclass(frozen=True, slots=True)
class ComplianceReportSpec:
    """What the report is about."""

    topology_ref: TopologyRef


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The findings, counted."""

    topics: int | None = None
    partitions: int | None = None
    non_compliant: int | None = None
    non_compliant_topics: int | None = None
    moves: int | None = None


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """A partition of a topic that is not compliant: `domain`, of `level`, holds `excess` replicas too many."""

    topic: str
    partition: int
    reason: str
    level: str | None = None
    domain: str | None = None
    excess: int | None = None


@dataclass(frozen=True, slots=True)
class ComplianceReportStatus(StatusCodec):
    """What the scan found. `findings` holds MAX_FINDINGS of them at most."""

    observed_generation: int | None = None
    scan_time: datetime | None = None
    summary: ReportSummary | None = None
    findings: tuple[ReportFinding, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ComplianceReport:
    """A ComplianceReport object."""

    meta: Meta
    spec: ComplianceReportSpec
    status: ComplianceReportStatus = field(default_factory=ComplianceReportStatus)

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """A ComplianceReport from its JSON. Raises SpecError with the path of the field that cannot be read."""
        return cls(
            meta=Meta.from_object(obj),
            spec=decode(ComplianceReportSpec, obj.get("spec", {}), "spec"),
            status=ComplianceReportStatus.from_dict(obj.get("status")),
        )

    @property
    def key(self) -> ObjectKey:
        """The object's namespace and name."""
        return self.meta.key

    @property
    def topology(self) -> ObjectKey:
        """The RackTopology that is scanned."""
        return self.spec.topology_ref.key(self.meta.namespace)
