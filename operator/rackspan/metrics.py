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


def forget_topology(topology: str) -> None:
    """Take away the series of a topology that is no more: a number that nobody updates is a lie."""
    for gauge in (TOPICS, BROKERS, MOVES_NEEDED, QUEUE_DEPTH, LAST_PASS):
        gauge.remove_by_labels({"topology": topology})
