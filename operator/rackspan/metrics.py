"""What the operator counts. Names follow Prometheus' conventions: base units, `_total` on counters."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

TOPICS = Gauge("rackspan_topics", "KafkaTopic objects by topology and state", ["topology", "state"])
BROKERS = Gauge("rackspan_brokers", "Brokers by topology and state", ["topology", "state"])
MOVES_NEEDED = Gauge("rackspan_moves_needed", "Replicas that would have to move to comply", ["topology"])
QUEUE_DEPTH = Gauge("rackspan_queue_depth", "KafkaTopic objects waiting to be reconciled", ["topology"])
BATCH_TOPICS = Histogram(
    "rackspan_batch_topics",
    "Topics in one call to Kafka",
    ["operation"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
)
RECONCILED = Counter("rackspan_topics_reconciled_total", "KafkaTopic objects passed over", ["topology"])
RECONCILE_SECONDS = Histogram(
    "rackspan_reconcile_seconds",
    "From taking a batch of topics to having queued their statuses",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)
KAFKA_SECONDS = Histogram(
    "rackspan_kafka_request_seconds",
    "Kafka Admin API calls",
    ["operation"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)
KUBE_SECONDS = Histogram(
    "rackspan_kubernetes_request_seconds",
    "Kubernetes API calls",
    ["operation"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
ERRORS = Counter("rackspan_errors_total", "Failures by who can mend them and by reason", ["remedy", "reason"])
EVENTS_DROPPED = Counter("rackspan_events_dropped_total", "Kubernetes Events given up because too many were waiting")
LAST_PASS = Gauge(
    "rackspan_last_successful_pass_timestamp_seconds", "When a pass over a topology last ended", ["topology"]
)

SCAN_FINDINGS = Gauge("rackspan_scan_findings", "Findings of the last compliance scan", ["topology", "severity"])
SCAN_FINDINGS_BY_RULE = Gauge(
    "rackspan_scan_rule_findings", "Findings of the last compliance scan by rule", ["topology", "rule"]
)
SCAN_PARTITIONS = Gauge("rackspan_scan_partitions", "Partitions that the last scan judged", ["topology", "state"])
SCAN_TOPICS = Gauge("rackspan_scan_topics", "Topics that the last scan judged", ["topology", "state"])
SCAN_MOVES = Gauge("rackspan_scan_moves_needed", "Replicas to copy to mend what the last scan found", ["topology"])
SCAN_CHANGES = Gauge(
    "rackspan_scan_changes", "Findings that are new or cleared since the scan before", ["topology", "change"]
)
SCAN_VIOLATION_MINUTES = Gauge(
    "rackspan_scan_violation_minutes", "Topic-minutes out of compliance on the history's last day", ["topology"]
)
SCAN_LAST = Gauge(
    "rackspan_scan_last_success_timestamp_seconds", "When the last scan ended that judged the cluster", ["topology"]
)
SCAN_SECONDS = Gauge("rackspan_scan_duration_seconds", "How long that scan took", ["topology"])
SCAN_SUCCESS = Gauge("rackspan_scan_success", "Whether the scan that ended last judged the cluster", ["topology"])
SCAN_RUNNING = Gauge("rackspan_scan_running", "Compliance scans that run now", ["topology"])
SCAN_NEXT = Gauge("rackspan_scan_next_timestamp_seconds", "When the next compliance scan is scheduled", ["topology"])
SCAN_MISSED = Gauge("rackspan_scan_missed", "Scheduled scans that were too late since the last in time", ["topology"])
SCANS_STARTED = Counter("rackspan_scans_started_total", "Compliance scans started", ["topology", "trigger"])
SCANS_ENDED = Counter("rackspan_scans_ended_total", "Compliance scans that ended", ["topology", "result"])

_OF_REPORTS = (
    SCAN_FINDINGS,
    SCAN_FINDINGS_BY_RULE,
    SCAN_PARTITIONS,
    SCAN_TOPICS,
    SCAN_MOVES,
    SCAN_CHANGES,
    SCAN_VIOLATION_MINUTES,
    SCAN_LAST,
    SCAN_SECONDS,
)
_OF_SCANS = (SCAN_SUCCESS, SCAN_RUNNING, SCAN_NEXT, SCAN_MISSED)


def forget_report(topology: str) -> None:
    """Take away the series that a topology's ComplianceReport gave."""
    for gauge in _OF_REPORTS:
        gauge.remove_by_labels({"topology": topology})


def forget_topology(topology: str) -> None:
    """Take away the series of a topology that is no more: a number that nobody updates is a lie."""
    for gauge in (TOPICS, BROKERS, MOVES_NEEDED, QUEUE_DEPTH, LAST_PASS, *_OF_SCANS, *_OF_REPORTS):
        gauge.remove_by_labels({"topology": topology})
