"""ComplianceReport: what the last scan of a Kafka cluster found."""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from rackspan.api.codec import ApiStruct, StatusStruct, Time
from rackspan.api.conditions import Condition
from rackspan.api.meta import ApiObject, ObjectKey
from rackspan.api.racktopology import ScanEngine
from rackspan.api.references import TopologyRef
from rackspan.core.scanning.rules import Severity

KIND: Final = "ComplianceReport"
PLURAL: Final = "compliancereports"

MAX_FINDINGS: Final = 100
"""Findings that fit into a status."""
MAX_CHANGES: Final = 20
"""New findings that fit into a status. The same limit applies to cleared findings."""
MAX_FINDING_TEXT: Final = 1024
"""Characters of a message or a fix that the API server accepts."""
MAX_FAILURE_TEXT: Final = 4096


class ComplianceReportSpec(ApiStruct, frozen=True):
    """The RackTopology that the report is about."""

    topology_ref: TopologyRef


class ReportSummary(ApiStruct, frozen=True):
    """The counts of a scan. `findings` and the two maps count all findings, listed or not."""

    topics: int | None = None
    partitions: int | None = None
    brokers: int | None = None
    non_compliant: int | None = None
    non_compliant_topics: int | None = None
    offline: int | None = None
    under_replicated: int | None = None
    moves: int | None = None
    findings: int | None = None
    violation_minutes: int | None = None
    unread_topics: int | None = None
    by_severity: Mapping[str, int] = field(default_factory=dict)
    by_rule: Mapping[str, int] = field(default_factory=dict)


class ReportFinding(ApiStruct, frozen=True):
    """One finding. `id` is the same in every scan with this finding. A finding about a broker has no `topic`."""

    id: str
    rule: str
    severity: Severity
    message: str
    fix: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    level: str | None = None
    domain: str | None = None
    excess: int | None = None
    moves: int | None = None
    first_seen: Time | None = None


class ChangedFinding(ApiStruct, frozen=True):
    """A finding that is new or cleared."""

    id: str
    rule: str
    severity: Severity
    message: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None


class ReportChanges(ApiStruct, frozen=True):
    """The changes since the previous scan, which ended at `since`: counts, and the first MAX_CHANGES of each kind."""

    new: int
    cleared: int
    since: Time | None = None
    new_findings: tuple[ChangedFinding, ...] = ()
    cleared_findings: tuple[ChangedFinding, ...] = ()


class ScanFailure(ApiStruct, frozen=True):
    """Why the last scan could not judge the cluster."""

    scan_id: str
    reason: str
    message: str
    started_at: Time | None = None
    finished_at: Time | None = None


class ComplianceReportStatus(StatusStruct, frozen=True):
    """The results of the last scan that could judge the cluster, and `failure` if a later scan could not.

    `findings` has the MAX_FINDINGS worst findings. `history` is the location of all findings.
    """

    observed_generation: int | None = None
    scan_time: Time | None = None
    scan_id: str | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    engine: ScanEngine | None = None
    cluster_id: str | None = None
    summary: ReportSummary | None = None
    changes: ReportChanges | None = None
    findings: tuple[ReportFinding, ...] = ()
    history: str | None = None
    failure: ScanFailure | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def last_scan_id(self) -> str | None:
        """The id of the last scan that reported, whether it could judge the cluster or not."""
        return self.failure.scan_id if self.failure else self.scan_id


class ComplianceReport(ApiObject, frozen=True):
    """A ComplianceReport object."""

    spec: ComplianceReportSpec
    status: ComplianceReportStatus = ComplianceReportStatus()

    @property
    def topology(self) -> ObjectKey:
        """The RackTopology that is scanned."""
        return self.spec.topology_ref.key(self.meta.namespace)
