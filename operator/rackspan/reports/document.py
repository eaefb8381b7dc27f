"""The scan document: all that people see of one scan of one cluster, in JSON.

Its size is bounded: it lists the worst findings and topics and counts the rest. The history has all of them. All other
formats (page, table, ComplianceReport, OpenReports, metrics, Events) are made only from this document.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

SCHEMA: Final = "rackspan.dev/scan/v1"
WORKER_CRASHED: Final = "WorkerCrashed"
"""The reason of a failed scan if a process that reads the cluster has crashed."""
MAX_FINDINGS: Final = 2_000
"""The maximum number of listed findings, the worst first."""
MAX_CHANGED: Final = 100
"""The maximum number of listed new findings, and of listed cleared findings, the worst first."""
MAX_TOPICS: Final = 500
"""The maximum number of listed topics, those with the worst findings first."""
MAX_GROUPS: Final = 500
"""The maximum number of listed consumer groups, those with the most cross-domain reads first."""
MAX_WRITES: Final = 100
"""The maximum number of listed topics with producers in other domains, those with the most such partitions first."""


class ScanOutcome(StrEnum):
    """How a scan of a cluster ended."""

    COMPLETED = "Completed"
    FAILED = "Failed"


class WhatIf(Struct, frozen=True, rename="camel", gc=False):
    """The effect of the loss of one domain. Counts of partitions.

    `replicas` and `bytes` are those in the domain. `bytes` is the sum of the known sizes, None if none is known.
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
    """A broker.

    `rack` is the actual rack, `reported_rack` is `broker.rack`, None if unknown. `leaders` are preferred leaders,
    `leading` the partitions that it leads now. `worst` is the severity of the worst finding about the broker itself or
    about a replica that should not be on it.
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
    """One finding.

    `id` is the same in every scan with this finding. Findings about a whole topic have no `partition`, those about a
    broker no `topic`. `fix` says what fixes it, `moves` is the number of replicas to copy. `first_seen` is RFC 3339.
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
    """A topic with findings. `violation_minutes` is the sum over all days that the history keeps."""

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
    """A consumer group: how many of its partitions members read, or could read, in their own rack.

    `near` partitions have a replica in the rack of the member that reads them, `reads_near` are read from that rack
    now, `could_be_near` would be near with a rack-aware assignment (KIP-881). `cross_bytes_per_second` is an estimate
    of the bytes between domains, None if unknown.
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
    """Producers with one `client.rack`: shares of their records, from 0 to 1, as in `Writes`.

    `reported` says whether a broker reports exactly the same rack id, because `partitioner.rack.aware` compares ids.
    """

    rack: str
    producers: int
    near: float
    near_by_rack: float
    could_be_near: float
    reported: bool


class WritesRow(Struct, frozen=True, rename="camel", gc=False):
    """A topic with producers in other domains. Shares are as in `Writes`. `partitions` are those with a leader."""

    topic: str
    partitions: int
    near: float
    near_by_rack: float
    could_be_near: float


class Writes(Struct, frozen=True, rename="camel", gc=False):
    """How near producers write: shares of the records, from 0 to 1, if producers write evenly to all partitions.

    `near` is the share sent to a leader in the producer's domain of the deepest level. `near_by_rack` is this share of
    records without a key under `partitioner.rack.aware` (KIP-1123). `could_be_near` is this share if each partition's
    leader were the in-sync replica that is nearest to most producers.
    """

    near: float
    near_by_rack: float
    could_be_near: float
    racks: list[ProducersRow] = []
    topics: list[WritesRow] = []


class Day(Struct, frozen=True, rename="camel", gc=False):
    """One day (UTC) of the history, such as `2026-03-10`, or one hour, such as `2026-03-10T06`.

    `compliant_share` is the mean over its scans, from 0 to 1; `findings` and `critical` are the maxima.
    """

    date: str
    scans: int
    compliant_share: float
    findings: int
    critical: int
    violation_minutes: float


class Summary(Struct, frozen=True, rename="camel", gc=False):
    """Counts. `by_rule` and `by_severity` count all findings, whether listed or not.

    `since_by_rule` is when the oldest finding of each rule was first seen (RFC 3339).
    `bytes` is the sum over all replicas with a known size, `move_bytes` the bytes that `moves` copy, None if unknown.
    `unread_topics` could not be read: they are shown as in the previous scan.
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
    """Changes since the previous scan: how many findings are new and how many are cleared, and the first of each."""

    since: str | None = None
    new: int = 0
    cleared: int = 0
    new_findings: list[FindingRow] = []
    cleared_findings: list[FindingRow] = []


class ScanDocument(Struct, frozen=True, rename="camel", tag_field="schema", tag=SCHEMA):
    """One scan of one cluster.

    `cluster` is a name for people: `namespace/name` of the RackTopology, or the name of the snapshot file. Times are
    RFC 3339 in UTC. A failed scan only has the names, the times, `reason` and `message`. `levels` are listed top first,
    without `broker`. `throttle` is the maximum bytes per second that a broker copies, None for no limit. `hours` is
    only set while `trend` has at most two days.
    `writes` is None if no producers are named. `seconds` is the duration of each step.
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
    """Return the document as JSON, indented for people."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def decode(text: bytes | str) -> ScanDocument:
    """Read a document. Raises msgspec.DecodeError or its ValidationError, which say where it is wrong."""
    return msgspec.json.decode(text, type=ScanDocument)
