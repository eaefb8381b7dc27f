"""
The scan document: all that people are shown of one scan of one cluster, in JSON.

Its size is bounded: the worst findings and topics are listed, the rest are counted, and the history has them all. Every
other form (page, table, ComplianceReport, OpenReports, metrics, Events) is made from it and from nothing else.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

SCHEMA: Final = "rackspan.dev/scan/v1"
WORKER_CRASHED: Final = "WorkerCrashed"
"""Why a scan failed of which a process crashed that reads the cluster."""
MAX_FINDINGS: Final = 2_000
"""Findings that are listed one by one, the worst first."""
MAX_CHANGED: Final = 100
"""New findings that are listed one by one, and cleared ones, the worst first."""
MAX_TOPICS: Final = 500
"""Topics that are listed, those with the worst findings first."""
MAX_GROUPS: Final = 500
"""Consumer groups that are listed, those with the most cross-domain reads first."""
MAX_WRITES: Final = 100
"""Topics that are listed because producers write to them from afar, those with the most such partitions first."""


class ScanOutcome(StrEnum):
    """How a scan of a cluster ended."""

    COMPLETED = "Completed"
    FAILED = "Failed"


class WhatIf(Struct, frozen=True, rename="camel", gc=False):
    """
    What the loss of one domain would do. Counts of partitions.

    `replicas` and `bytes` lie there: the sum of the sizes that are known, None where none is.
    """

    offline: int
    not_writable: int
    last_replica: int
    replicas: int
    bytes: int | None = None


class DomainRow(Struct, frozen=True, rename="camel", gc=False):
    """A domain of a named level. `domain` is a path such as `/eu/eu-1a`; `leaders` are preferred leaders."""

    level: str
    domain: str
    brokers: int
    replicas: int
    leaders: int
    what_if: WhatIf
    bytes: int | None = None
    findings: int = 0
    worst: str | None = None


class BrokerRow(Struct, frozen=True, rename="camel", gc=False):
    """
    A broker.

    `rack` is where it stands, `reported_rack` its `broker.rack`, None where unknown. `leaders` are preferred leaders,
    `leading` the partitions that it leads now. `worst` is the severity of the worst finding about the broker itself or
    about a replica that lies wrongly on it.
    """

    id: int
    rack: str | None
    reported_rack: str | None
    replicas: int
    leaders: int
    leading: int
    what_if: WhatIf
    bytes: int | None = None
    online: bool = True
    draining: bool = False
    cordoned: bool = False
    findings: int = 0
    worst: str | None = None
    flaps: int = 0


class FindingRow(Struct, frozen=True, rename="camel", gc=False):
    """
    One finding.

    `id` is the same in every scan that finds it again. Findings about a whole topic have no `partition`, those about a
    broker no `topic`. `fix` says what would fix it, `moves` how many replicas that copies. `first_seen` is RFC 3339.
    """

    id: str
    rule: str
    severity: str
    message: str
    fix: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    level: str | None = None
    domain: str | None = None
    excess: int = 0
    moves: int = 0
    first_seen: str | None = None


class TopicRow(Struct, frozen=True, rename="camel", gc=False):
    """A topic with findings. `violation_minutes` are those of all days that the history keeps."""

    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    non_compliant: int
    findings: int
    moves: int
    worst: str
    managed: bool
    bytes: int | None = None
    first_seen: str | None = None
    violation_minutes: float = 0.0


class GroupRow(Struct, frozen=True, rename="camel", gc=False):
    """
    A consumer group: of the partitions that its members read, how many could be read in the member's own rack.

    `near` have a replica in the rack of the member that reads them, `reads_near` are read from there now,
    `could_be_near` with a rack-aware assignment (KIP-881). `cross_bytes_per_second` is an estimate of what crosses
    domains, None where unknown.
    """

    group: str
    members: int
    partitions: int
    near: int
    reads_near: int
    could_be_near: int
    members_without_rack: int = 0
    cross_bytes_per_second: float | None = None


class ProducersRow(Struct, frozen=True, rename="camel", gc=False):
    """
    Producers with one `client.rack`: shares of what they write, from 0 to 1, as in `Writes`.

    `reported` says whether a broker reports the very same id, which `partitioner.rack.aware` compares.
    """

    rack: str
    producers: int
    near: float
    near_by_rack: float
    could_be_near: float
    reported: bool


class WritesRow(Struct, frozen=True, rename="camel", gc=False):
    """A topic that producers write to from afar; shares as in `Writes`. `partitions` are those that have a leader."""

    topic: str
    partitions: int
    near: float
    near_by_rack: float
    could_be_near: float


class Writes(Struct, frozen=True, rename="camel", gc=False):
    """
    How near producers write: shares of the records, from 0 to 1, if all partitions are written to evenly.

    `near` go to a leader in the producer's domain of the deepest level, `near_by_rack` of those without a key would
    with `partitioner.rack.aware` (KIP-1123), `could_be_near` if the replica in sync led that is nearest to most
    producers.
    """

    near: float
    near_by_rack: float
    could_be_near: float
    racks: list[ProducersRow] = []
    topics: list[WritesRow] = []


class Day(Struct, frozen=True, rename="camel", gc=False):
    """
    One day (UTC) of the history, such as `2026-03-10`, or one hour, such as `2026-03-10T06`.

    `compliant_share` is the mean over its scans, from 0 to 1; `findings` and `critical` are their most.
    """

    date: str
    scans: int
    compliant_share: float
    findings: int
    critical: int
    violation_minutes: float


class Summary(Struct, frozen=True, rename="camel", gc=False):
    """
    Counts. `by_rule` and `by_severity` count all findings, whether listed or not.

    `since_by_rule` is when the oldest finding of each rule was first seen (RFC 3339).
    `bytes` are those of all replicas whose size is known, `move_bytes` those that `moves` copy, None where not known.
    `unread_topics` could not be read: they are shown as the scan before found them.
    """

    topics: int = 0
    partitions: int = 0
    replicas: int = 0
    brokers: int = 0
    non_compliant: int = 0
    non_compliant_topics: int = 0
    offline: int = 0
    under_replicated: int = 0
    moves: int = 0
    move_bytes: int | None = None
    bytes: int | None = None
    findings: int = 0
    by_rule: dict[str, int] = {}
    by_severity: dict[str, int] = {}
    since_by_rule: dict[str, str] = {}
    unfair: dict[str, int] = {}
    unread_topics: int = 0


class ScanChanges(Struct, frozen=True, rename="camel", gc=False):
    """Against the scan before: how many findings are new and how many are cleared, and the first of each."""

    since: str | None = None
    new: int = 0
    cleared: int = 0
    new_findings: list[FindingRow] = []
    cleared_findings: list[FindingRow] = []


class ScanDocument(Struct, frozen=True, rename="camel", tag_field="schema", tag=SCHEMA):
    """
    One scan of one cluster.

    `cluster` is a name for people: `namespace/name` of the RackTopology, or the snapshot file's. Times are RFC 3339 in
    UTC. Of a failed scan only the names, the times, `reason` and `message` are there. `levels` are named top first,
    without `broker`. `throttle` is how much a broker copies at most (bytes per second), None for no limit. `hours` are
    there as long as `trend` has two days at most.
    `writes` is None where no producers are named. `seconds` says where the time went, by step.
    """

    scan_id: str
    cluster: str
    started_at: str
    finished_at: str
    state: ScanOutcome = ScanOutcome.COMPLETED
    reason: str = ""
    message: str = ""
    cluster_id: str | None = None
    levels: list[str] = []
    throttle: int | None = None
    summary: Summary = Summary()
    changes: ScanChanges = ScanChanges()
    domains: list[DomainRow] = []
    brokers: list[BrokerRow] = []
    findings: list[FindingRow] = []
    topics: list[TopicRow] = []
    groups: list[GroupRow] = []
    writes: Writes | None = None
    trend: list[Day] = []
    hours: list[Day] = []
    history: str | None = None
    warnings: list[str] = []
    seconds: dict[str, float] = {}


def encode(document: ScanDocument) -> bytes:
    """Write the document as JSON, indented for people."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def decode(text: bytes | str) -> ScanDocument:
    """Read a document. Raises msgspec.DecodeError or its ValidationError, which say where it is wrong."""
    return msgspec.json.decode(text, type=ScanDocument)
