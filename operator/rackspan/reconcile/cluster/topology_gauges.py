"""The Prometheus gauges of one topology. While Kafka cannot be reached, brokers and topics count as `unknown`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rackspan import metrics
from rackspan.api.conditions import COMPLIANT, DRAINED, READY, STALLED, ConditionStatus, find_condition, is_true
from rackspan.reconcile.cluster.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import Gauge

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import RackTopologyStatus
    from rackspan.reconcile.cluster.topology_status import StatusInputs
    from rackspan.reconcile.failures import Failure

BROKER_STATES = ("online", "offline", "unknown")
TOPIC_STATES = ("ready", "stalled", "pending", "unknown")


def measure_observation(topology: str, state: ClusterState | Failure) -> None:
    """Set the gauges that depend on the cluster alone, even if the status cannot be written."""
    metrics.CONNECTED.labels(topology).set(isinstance(state, ClusterState))
    if isinstance(state, ClusterState):
        metrics.LAST_PASS.labels(topology).set_to_current_time()


def measure(topology: str, inputs: StatusInputs, *, ready: bool) -> None:
    """Set the gauges of brokers and topics; `ready` is whether the topology's Ready is True."""
    state = inputs.state
    metrics.READY.labels(topology).set(ready)
    metrics.DELETIONS_HELD.labels(topology).set(len(inputs.waiting))
    known = isinstance(state, ClusterState)
    rows = inputs.racks.rows if inputs.racks else ()
    brokers = {"online": len(inputs.online), "offline": len(inputs.offline)} if known else {"unknown": len(rows)}
    topics = Counter(topic_state(topic) if known else "unknown" for topic in inputs.topics)
    _set(metrics.BROKERS, topology, BROKER_STATES, brokers)
    _set(metrics.TOPICS, topology, TOPIC_STATES, topics)
    if not known:
        metrics.forget_kafka_metrics(topology)
        return
    metrics.DRIFTED_BROKERS.labels(topology).set(sum(row.drift for row in rows))
    drifted = inputs.drifted_topics
    metrics.DRIFTED_TOPICS.labels(topology).set(drifted.count if drifted else 0)
    metrics.RACKLESS_BROKERS.labels(topology).set(sum(row.rack is None for row in rows))
    metrics.NON_COMPLIANT_TOPICS.labels(topology).set(inputs.counts.non_compliant)
    moves = (topic.status.compliance.moves for topic in inputs.topics if topic.status.compliance)
    metrics.MOVES_NEEDED.labels(topology).set(sum(number or 0 for number in moves))


def measure_drains(topology: str, status: RackTopologyStatus) -> None:
    """Set the gauges of replicas left to drain; they are removed where that is not known."""
    metrics.DRAIN_REPLICAS_LEFT.remove_by_labels({"topology": topology})
    condition = find_condition(status.conditions, DRAINED)
    if condition is None or condition.status == ConditionStatus.UNKNOWN:
        return
    for drain in status.drains:
        if drain.replicas is not None:
            metrics.DRAIN_REPLICAS_LEFT.labels(topology, drain.target).set(drain.replicas.total)


def topic_state(topic: KafkaTopic) -> str:
    """`stalled`, `ready`, `pending` (neither of them), or `unknown` (not observed yet, or Compliant is Unknown)."""
    conditions = topic.status.conditions
    ready, compliant = find_condition(conditions, READY), find_condition(conditions, COMPLIANT)
    if is_true(conditions, STALLED):
        return "stalled"
    if ready is None:
        return "unknown"
    if ready.status == ConditionStatus.TRUE:
        return "ready"
    return "unknown" if compliant is not None and compliant.status == ConditionStatus.UNKNOWN else "pending"


def _set(gauge: Gauge, topology: str, states: tuple[str, ...], counts: Mapping[str, int]) -> None:
    for state in states:
        gauge.labels(topology, state).set(counts.get(state, 0))
