"""The gauges of a topology report only facts that are known now."""

from dataclasses import replace

import pytest
from msgspec import structs
from prometheus_client import REGISTRY
from tests.unit.reconcile.examples import in_state, state, status_inputs, topic, topology

from rackspan import metrics
from rackspan.api.racktopology import DrainReplicas, DrainStatus
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topology_controller import measure, measure_drains, measure_observation

AWAY = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)
NAME = "kafka/measured"


@pytest.fixture(autouse=True)
def _served():
    metrics.serve_topology(NAME)
    yield
    metrics.forget_topology(NAME)


COMPLIANCE = {"partitions": 3, "nonCompliant": 1, "moves": 2}
DRIFTED = {"drifted": 1}


TOPICS = [
    in_state("a", compliance=COMPLIANCE, Ready="True", Compliant="True"),
    in_state("b", compliance=COMPLIANCE, Ready="False", Compliant="False"),
    in_state("c", compliance=COMPLIANCE, Ready="False", Stalled="True"),
    in_state("d", compliance=COMPLIANCE, Ready="False", Compliant="Unknown"),
    topic("e"),
]


def told(name):
    """Return the topology's samples of a metric, by state if it has states."""
    found = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            if sample.name == name and sample.labels.get("topology") == NAME:
                found[sample.labels.get("state")] = sample.value
    return found


def known():
    where = state()
    rows = (replace(where.racks.rows[0], online=False), *where.racks.rows[1:])
    return replace(where, racks=replace(where.racks, rows=rows))


def test_topics_and_brokers_are_counted_once_by_state():
    measure(NAME, status_inputs(known(), known().racks, TOPICS), ready=True)
    assert told("rackspan_topics") == {"ready": 1, "stalled": 1, "pending": 1, "unknown": 2}
    assert told("rackspan_brokers") == {"online": 5, "offline": 1, "unknown": 0}
    assert told("rackspan_non_compliant_topics") == {None: 1}
    assert told("rackspan_moves_needed") == {None: 8}
    assert told("rackspan_drifted_brokers") == told("rackspan_rackless_brokers") == {None: 0}
    assert told("rackspan_topology_ready") == {None: 1}


def test_gauge_counts_topics_that_are_non_compliant_only_because_of_drift():
    where = state()
    rows = (replace(where.racks.rows[0], drift=True), *where.racks.rows[1:])
    topics = [topic(name, status={"compliance": COMPLIANCE | extra}) for name, extra in (("a", DRIFTED), ("b", {}))]
    measure(NAME, status_inputs(where, replace(where.racks, rows=rows), topics), ready=True)
    assert (told("rackspan_drifted_brokers"), told("rackspan_drifted_topics")) == ({None: 1}, {None: 1})
    measure(NAME, status_inputs(where, where.racks, topics), ready=True)
    assert told("rackspan_drifted_topics") == {None: 0}, "a topic's count is outdated after the drift has ended"


def test_gauges_report_unknown_or_nothing_while_kafka_is_unreachable():
    measure(NAME, status_inputs(known(), known().racks, TOPICS), ready=True)
    measure(NAME, status_inputs(AWAY, known().racks, TOPICS), ready=False)
    assert told("rackspan_topics") == {"ready": 0, "stalled": 0, "pending": 0, "unknown": 5}
    assert told("rackspan_brokers") == {"online": 0, "offline": 0, "unknown": 6}
    for name in ("non_compliant_topics", "moves_needed", "drifted_brokers", "drifted_topics", "rackless_brokers"):
        assert told(f"rackspan_{name}") == {}, name
    assert told("rackspan_topology_ready") == {None: 0}


def test_failed_observation_is_not_a_successful_pass():
    measure_observation(NAME, AWAY)
    assert told("rackspan_topology_connected") == {None: 0}
    assert told("rackspan_last_successful_pass_timestamp_seconds") == {}, "it was never connected"
    measure_observation(NAME, state())
    assert told("rackspan_topology_connected") == {None: 1}
    passed = told("rackspan_last_successful_pass_timestamp_seconds")
    assert passed[None] > 0
    measure_observation(NAME, AWAY)
    assert told("rackspan_topology_connected") == {None: 0}
    assert told("rackspan_last_successful_pass_timestamp_seconds") == passed


def test_replicas_left_to_drain_have_no_series_for_a_rack_that_may_have_more_brokers():
    def drain(target, left, *, drained):
        return DrainStatus(target, "Draining", "so it is", 1, drained, DrainReplicas(left))

    drains = drain("4", 3, drained=False), drain("/eu", 0, drained=None), drain("/us", 0, drained=True)
    time = {"reason": "Draining", "message": "", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    status = topology(status={"conditions": [{"type": "Drained", "status": "False", **time}]}).status
    measure_drains(NAME, structs.replace(status, drains=drains))
    left = metrics.DRAIN_REPLICAS_LEFT.collect()[0].samples
    assert {one.labels["domain"]: one.value for one in left if one.labels["topology"] == NAME} == {"4": 3, "/us": 0}


def count_all():
    """Increment all counters that a loop may still increment after the topology is deleted."""
    metrics.count_error(NAME, "retry", "KafkaUnreachable")
    metrics.count(metrics.BROKER_RESTARTS, NAME, "started")
    metrics.count(metrics.SCANS_STARTED, NAME, "Schedule")
    for boundary in (NAME, NAME.partition("/")[0]):
        metrics.count_client_failure(boundary)


def left():
    return [
        one
        for family in REGISTRY.collect()
        for one in family.samples
        if NAME in one.labels.values() or one.labels.get("boundary") == NAME.partition("/")[0]
    ]


def test_metrics_of_a_topology_are_removed_with_it():
    measure_observation(NAME, state())
    measure(NAME, status_inputs(known(), known().racks, TOPICS), ready=True)
    metrics.RECONCILED.labels(NAME).inc()
    count_all()
    assert {one.name for one in left()} >= {
        "rackspan_errors_total",
        "rackspan_broker_restarts_total",
        "rackspan_scans_started_total",
        "rackspan_kafka_client_failures_total",
    }
    metrics.forget_topology(NAME)
    assert left() == []


def test_unexpected_errors_are_counted_from_0_so_that_the_first_is_an_increase():
    labels = {"topology": NAME, "remedy": Remedy.RETRY, "reason": Reason.UNEXPECTED_ERROR}
    assert REGISTRY.get_sample_value("rackspan_errors_total", labels) == 0
    assert REGISTRY.get_sample_value("rackspan_errors_total", labels | {"topology": ""}) is not None


def test_counters_of_a_deleted_topology_do_not_come_back():
    metrics.forget_topology(NAME)
    errors = {"topology": "", "remedy": "retry", "reason": "KafkaUnreachable"}
    before = REGISTRY.get_sample_value("rackspan_errors_total", errors) or 0
    count_all()
    assert left() == []
    assert REGISTRY.get_sample_value("rackspan_errors_total", errors) == before + 1, "it counts as no topology's"


def test_client_failures_of_a_namespace_are_counted_while_one_of_its_topologies_is_left():
    other = f"{NAME.partition('/')[0]}/other"
    metrics.serve_topology(other)
    metrics.count_client_failure("kafka")
    metrics.forget_topology(NAME)
    assert [one.value for one in left()] == [1]
    metrics.forget_topology(other)
    assert left() == []
