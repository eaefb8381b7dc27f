"""The operator's Prometheus metrics, named by Prometheus' conventions: base units, `_total` on counters.

The values of a label `state` exclude each other, so that their sum is the total. Properties that may overlap have
their own metrics. While Kafka is unreachable, facts that only Kafka has are not exported: objects are counted as
`unknown`, or the series are removed.
"""

from __future__ import annotations

import platform
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # the _created series double the number of counters' series

BUILD_INFO = Gauge("rackspan_build_info", "1, with what this operator is made of", ["version", "python"])
BUILD_INFO.labels(version("rackspan"), platform.python_version()).set(1)

LEASE_HELD = Gauge("rackspan_lease_held", "1 while this operator is sure of its Lease and may change anything, else 0")
RECONCILING = Gauge(
    "rackspan_reconciling",
    "1 while this operator has read its objects and acts on them, else 0: then no topology has series",
)
NAMESPACES_LEFT_OUT = Gauge(
    "rackspan_namespaces_left_out", "Watched namespaces that this operator may not read, and for which it does nothing"
)
CONNECTED = Gauge(
    "rackspan_topology_connected",
    "1 where Kafka answered the last time it was asked and is the cluster that is meant, else 0",
    ["topology"],
)
READY = Gauge("rackspan_topology_ready", "1 where topics can be placed: the condition Ready, else 0", ["topology"])
LAST_PASS = Gauge(
    "rackspan_last_successful_pass_timestamp_seconds",
    "When this operator last observed the topology's Kafka cluster and got all its answers",
    ["topology"],
)
BROKERS = Gauge(
    "rackspan_brokers", "Brokers that are known, by state; unknown while Kafka cannot be asked", ["topology", "state"]
)
DRIFTED_BROKERS = Gauge(
    "rackspan_drifted_brokers",
    "Brokers whose broker.rack is not the rack of their node; absent while Kafka cannot be asked",
    ["topology"],
)
DRIFTED_TOPICS = Gauge(
    "rackspan_drifted_topics",
    "KafkaTopic objects that comply by the racks that brokers report and not by those of their nodes; absent while "
    "Kafka cannot be asked",
    ["topology"],
)
RACKLESS_BROKERS = Gauge(
    "rackspan_rackless_brokers", "Brokers whose rack is not known; absent while Kafka cannot be asked", ["topology"]
)
TOPICS = Gauge(
    "rackspan_topics", "KafkaTopic objects, by state; unknown while Kafka cannot be asked", ["topology", "state"]
)
NON_COMPLIANT_TOPICS = Gauge(
    "rackspan_non_compliant_topics",
    "KafkaTopic objects whose replicas are not spread as asked; absent while Kafka cannot be asked",
    ["topology"],
)
MOVES_NEEDED = Gauge(
    "rackspan_moves_needed",
    "Replicas that would have to move for the KafkaTopic objects to comply; absent while Kafka cannot be asked",
    ["topology"],
)
DRAIN_REPLICAS_LEFT = Gauge(
    "rackspan_drain_replicas_left",
    "Replicas, of any topic, on what is to be emptied; absent while that is not known",
    ["topology", "domain"],
)
DELETIONS_HELD = Gauge(
    "rackspan_deletions_held", "Topics whose deletion waits for a person to confirm it", ["topology"]
)
PLACERS_LEFT_BEHIND = Gauge(
    "rackspan_placers_left_behind", "Calls of placers that are not built in whose time is over and that have not ended"
)
QUEUE_DEPTH = Gauge("rackspan_queue_depth", "KafkaTopic objects waiting to be reconciled", ["topology"])
BATCH_TOPICS = Histogram(
    "rackspan_batch_topics",
    "Topics in one call to Kafka",
    ["operation"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
)
RECONCILED = Counter("rackspan_topics_reconciled_total", "Reconciliations of KafkaTopic objects", ["topology"])
RECONCILE_SECONDS = Histogram(
    "rackspan_reconcile_seconds",
    "From taking a batch of topics to having written their statuses",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)
KAFKA_SECONDS = Histogram(
    "rackspan_kafka_request_seconds",
    "How long calls to Kafka's Admin API took, those that failed as well",
    ["operation"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)
KAFKA_CLIENT_PROCESSES = Gauge(
    "rackspan_kafka_client_processes", "Processes that Kafka clients run in, by whether they are trusted", ["trusted"]
)
KAFKA_CLIENT_FAILURES = Counter(
    "rackspan_kafka_client_failures_total",
    "Processes of Kafka clients that ended, hung or grew too large, by whose clients they ran; none for the trusted "
    "namespaces' common one",
    ["boundary"],
)
KUBE_SECONDS = Histogram(
    "rackspan_kubernetes_request_seconds",
    "How long calls to the Kubernetes API took, those that failed as well",
    ["operation"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
BROKER_RESTARTS = Counter(
    "rackspan_broker_restarts_total",
    "Restarts of brokers by the operator: started, and ended as mended or not_mended",
    ["topology", "result"],
)
_ERRORS = Counter(
    "rackspan_errors_total",
    "Failures by topology, by who can correct them and by reason; without a topology where it is no topology's",
    ["topology", "remedy", "reason"],
)
_UNEXPECTED = ("retry", "UnexpectedError")
"""The labels of a counter that begins with 0: an alert is about any increase, and a first sample of 1 is none."""
_ERRORS.labels("", *_UNEXPECTED)
EVENTS_DROPPED = Counter("rackspan_events_dropped_total", "Kubernetes Events that were not posted")

SCAN_FINDINGS = Gauge("rackspan_scan_findings", "Findings of the last compliance scan", ["topology", "severity"])
SCAN_FINDINGS_BY_RULE = Gauge(
    "rackspan_scan_rule_findings", "Findings of the last compliance scan by rule", ["topology", "rule"]
)
SCAN_PARTITIONS = Gauge("rackspan_scan_partitions", "Partitions that the last scan judged", ["topology"])
SCAN_FAULTY_PARTITIONS = Gauge(
    "rackspan_scan_faulty_partitions",
    "Partitions that the last scan found a fault with, by fault; one may have several",
    ["topology", "fault"],
)
SCAN_TOPICS = Gauge("rackspan_scan_topics", "Topics that the last scan judged", ["topology"])
SCAN_FAULTY_TOPICS = Gauge(
    "rackspan_scan_faulty_topics", "Topics that the last scan found a fault with, by fault", ["topology", "fault"]
)
SCAN_MOVES = Gauge("rackspan_scan_moves_needed", "Replicas to copy to fix what the last scan found", ["topology"])
SCAN_CHANGES = Gauge(
    "rackspan_scan_changes", "Findings that are new or cleared since the scan before", ["topology", "change"]
)
SCAN_VIOLATION_SECONDS = Gauge(
    "rackspan_scan_violation_seconds",
    "Time out of compliance on the day of the last scan, summed over topics",
    ["topology"],
)
SCAN_LAST = Gauge(
    "rackspan_scan_last_success_timestamp_seconds", "When the last scan ended that judged the cluster", ["topology"]
)
SCAN_SECONDS = Gauge("rackspan_scan_duration_seconds", "How long that scan took", ["topology"])
SCAN_SUCCESS = Gauge("rackspan_scan_success", "Whether the scan that ended last judged the cluster", ["topology"])
SCAN_RUNNING = Gauge("rackspan_scan_running", "Compliance scans that run now", ["topology"])
SCAN_NEXT = Gauge(
    "rackspan_scan_next_timestamp_seconds",
    "When the next compliance scan is scheduled, in the past while it is due and not started",
    ["topology"],
)
SCAN_MISSED = Gauge("rackspan_scan_missed", "Scheduled scans that were too late since the last in time", ["topology"])
SCANS_STARTED = Counter("rackspan_scans_started_total", "Compliance scans started", ["topology", "trigger"])
SCANS_ENDED = Counter("rackspan_scans_ended_total", "Compliance scans that ended", ["topology", "result"])

REASSIGNMENTS = Gauge("rackspan_reassignments", "Reassignment objects, by state", ["topology", "state"])
REASSIGNMENT_MOVES = Gauge(
    "rackspan_reassignment_moves", "Replicas to copy in the Reassignment under way, or the last one", ["topology"]
)
REASSIGNMENT_MOVED = Gauge(
    "rackspan_reassignment_moves_done", "Of these, the replicas that have been copied and are in sync", ["topology"]
)
REASSIGNMENT_BYTES = Gauge(
    "rackspan_reassignment_bytes", "Bytes of these; absent while sizes are not known", ["topology"]
)
REASSIGNMENT_MOVED_BYTES = Gauge(
    "rackspan_reassignment_copied_bytes", "Bytes that have been copied of it", ["topology"]
)
REASSIGNMENT_RATE = Gauge(
    "rackspan_reassignment_bytes_per_second",
    "How much is copied in a second, over the last minute; absent while that is not known",
    ["topology"],
)
REASSIGNMENT_WAITING = Gauge(
    "rackspan_reassignment_waiting_partitions",
    "Partitions of the Reassignment under way that nothing is done about now, by what they wait for",
    ["topology", "reason"],
)
REASSIGNMENT_THROTTLES = Gauge(
    "rackspan_reassignment_throttles", "Replication throttles that Reassignments have set in Kafka", ["topology"]
)

_PROGRESS_METRICS = (
    REASSIGNMENT_MOVES,
    REASSIGNMENT_MOVED,
    REASSIGNMENT_BYTES,
    REASSIGNMENT_MOVED_BYTES,
    REASSIGNMENT_RATE,
    REASSIGNMENT_WAITING,
)
_REPORT_METRICS = (
    SCAN_FINDINGS,
    SCAN_FINDINGS_BY_RULE,
    SCAN_PARTITIONS,
    SCAN_FAULTY_PARTITIONS,
    SCAN_TOPICS,
    SCAN_FAULTY_TOPICS,
    SCAN_MOVES,
    SCAN_CHANGES,
    SCAN_VIOLATION_SECONDS,
    SCAN_LAST,
    SCAN_SECONDS,
)
_SCAN_METRICS = (SCAN_SUCCESS, SCAN_RUNNING, SCAN_NEXT, SCAN_MISSED, SCANS_STARTED, SCANS_ENDED)
_KAFKA_METRICS = (
    DRIFTED_BROKERS,
    DRIFTED_TOPICS,
    RACKLESS_BROKERS,
    NON_COMPLIANT_TOPICS,
    MOVES_NEEDED,
    DRAIN_REPLICAS_LEFT,
)
_TOPOLOGY_METRICS = (
    CONNECTED,
    READY,
    LAST_PASS,
    BROKERS,
    TOPICS,
    DELETIONS_HELD,
    QUEUE_DEPTH,
    RECONCILED,
    BROKER_RESTARTS,
    _ERRORS,
    REASSIGNMENTS,
    REASSIGNMENT_THROTTLES,
    *_KAFKA_METRICS,
    *_PROGRESS_METRICS,
    *_SCAN_METRICS,
    *_REPORT_METRICS,
)


_SERVED: set[str] = set()
"""The topologies whose loops run. Series of another one would stay, because nothing removes them any more."""


def serve_topology(topology: str) -> None:
    """Let a topology have series, because its loop starts."""
    _SERVED.add(topology)
    _ERRORS.labels(topology, *_UNEXPECTED)


def is_served(topology: str) -> bool:
    """Return whether the loop of a topology runs, so that it has series."""
    return topology in _SERVED


def count(counter: Counter, topology: str, *labels: str) -> None:
    """Increment a counter of a topology if its loop runs."""
    if is_served(topology):
        counter.labels(topology, *labels).inc()


def count_error(topology: str, remedy: str, reason: str) -> None:
    """Count a failure. Without a running loop it counts as no topology's, so that label values are bounded."""
    _ERRORS.labels(topology if is_served(topology) else "", remedy, reason).inc()


def count_client_failure(boundary: str) -> None:
    """Count a failed process of Kafka clients, unless no topology of its boundary is left. See `Boundary`."""
    if not boundary or any(boundary in (topology, _namespace(topology)) for topology in _SERVED):
        KAFKA_CLIENT_FAILURES.labels(boundary).inc()


def forget_report(topology: str) -> None:
    """Remove the series that are set from a topology's ComplianceReport."""
    for gauge in _REPORT_METRICS:
        gauge.remove_by_labels({"topology": topology})


def forget_progress(topology: str) -> None:
    """Remove the series of a topology's Reassignment under way, or the last one, because there is none any more."""
    for gauge in _PROGRESS_METRICS:
        gauge.remove_by_labels({"topology": topology})


def forget_kafka_metrics(topology: str) -> None:
    """Remove the series whose values only Kafka has, because Kafka is unreachable."""
    for gauge in _KAFKA_METRICS:
        gauge.remove_by_labels({"topology": topology})


def forget_topology(topology: str) -> None:
    """Remove all series of a topology whose loop has ended, and those of its namespace if it was the last one there."""
    _SERVED.discard(topology)
    for metric in _TOPOLOGY_METRICS:
        metric.remove_by_labels({"topology": topology})
    KAFKA_CLIENT_FAILURES.remove_by_labels({"boundary": topology})
    if _namespace(topology) not in map(_namespace, _SERVED):
        KAFKA_CLIENT_FAILURES.remove_by_labels({"boundary": _namespace(topology)})


def _namespace(topology: str) -> str:
    return topology.partition("/")[0]
