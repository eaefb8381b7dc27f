"""The parts of a scan document."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.jobs.tables import NOON

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation
from rackspan.core.write_locality import write_localities
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.arrow_batches import partition_batches
from rackspan.jobs.batches.batch_judging import Criteria, judge_slice
from rackspan.jobs.batches.digests import digest
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import JUDGED
from rackspan.jobs.scan import document_rows

TRUTH = BrokerLocations(
    ("region", "zone"),
    (BrokerLocation(2, "/eu/a", ("eu", "a")), BrokerLocation(1, "/eu/b", ("eu", "b"), online=False), BrokerLocation(3)),
)
FINDING = {
    "rule": "NotCompliant",
    "severity": "high",
    "topic": "orders",
    "partition": 3,
    "broker": None,
    "level": "zone",
    "domain": "/eu/a",
    "reason": "TooManyReplicas",
    "excess": 1,
    "moves": 2,
}


def totals(*rows):
    """Return the sums over topics as the digest of a scan has them."""
    zeros = {field.name: 0 for field in JUDGED["topics"] if pa.types.is_integer(field.type)}
    topics = pa.Table.from_pylist([zeros | row for row in rows], schema=JUDGED["topics"])
    found = JUDGED["findings"].empty_table()
    found = found.append_column("first_seen", pa.array([], pa.timestamp("us", "UTC")))
    found = found.append_column("new", pa.array([], pa.bool_()))
    topics = aggregates.with_findings(topics, found).append_column("violation_minutes", pa.repeat(0.5, len(rows)))
    (row,) = digest(Judged.of(), found, topics, {}).totals.to_pylist()
    return row


def test_timestamps_are_in_utc_with_seconds():
    assert (
        document_rows.timestamp(datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))))
        == "2026-02-28T23:30:00Z"
    )
    assert document_rows.timestamp(None) is None


def test_finding_has_a_message_and_an_id_of_sixteen_hex_digits():
    (row,) = document_rows.finding_rows([FINDING | {"id": -1, "first_seen": datetime(2026, 1, 1, tzinfo=UTC)}])
    assert row.id == "f" * 16
    assert (row.message, row.first_seen) == ("zone /eu/a holds 1 too many", "2026-01-01T00:00:00Z")
    assert document_rows.finding_rows([FINDING | {"id": 10}])[0].id == "000000000000000a"


def test_finding_with_a_rule_of_a_newer_version_is_not_listed():
    """Such a finding comes from the previous scan after a downgrade."""
    assert document_rows.finding_rows([FINDING | {"id": 1, "rule": "FromLater"}]) == []


def test_fix_of_a_finding_names_the_racktopology_of_the_cluster():
    finding = FINDING | {"id": 1, "rule": "BrokerOffline", "broker": 3}
    fixes = [document_rows.finding_rows([finding], topology)[0].fix for topology in (None, "kafka/prod")]
    assert "rackspan plan --drain-broker 3" in fixes[0]
    assert "rackspan drain 3 --topology kafka/prod" in fixes[1]


def test_fix_of_an_offline_broker_without_a_topology_drains_all_offline_brokers():
    finding = FINDING | {"id": 1, "rule": "BrokerOffline", "broker": 3}
    (row,) = document_rows.finding_rows([finding], away=[12, 3])
    assert "if brokers 3, 12 are gone for good: rackspan plan --drain-broker 3,12, or" in row.fix
    (row,) = document_rows.finding_rows([finding], "kafka/prod", away=[12, 3])
    assert row.fix.endswith("rackspan drain 3 --topology kafka/prod")


def test_summary_without_topics_is_zero():
    found = document_rows.summary(totals(), [], [], TRUTH, 0)
    assert (found.topics, found.partitions, found.non_compliant_topics, found.moves, found.brokers) == (0, 0, 0, 0, 3)
    assert found.bytes is None
    assert found.move_bytes == 0


def test_summary_sums_topics_and_findings():
    found = document_rows.summary(
        totals(
            {"topic": "a", "non_compliant": 2, "bytes": 5}, {"topic": "b", "moves": 3, "bytes": None, "move_bytes": 7}
        ),
        [
            {"rule": "Offline", "severity": "critical", "findings": 2, "first_seen": NOON},
            {"rule": "Offline", "severity": "high", "findings": 1, "first_seen": NOON - timedelta(days=1)},
            {"rule": "NotCompliant", "severity": "high", "findings": 1, "first_seen": NOON},
        ],
        [{"level": "zone", "partitions": 2}],
        TRUTH,
        4,
    )
    assert (found.non_compliant, found.non_compliant_topics, found.moves, found.bytes) == (2, 1, 3, 5)
    assert found.since_by_rule == {"NotCompliant": "2026-03-10T12:00:00Z", "Offline": "2026-03-09T12:00:00Z"}
    assert found.move_bytes == 7
    unknown = totals({"topic": "a", "moves": 1, "move_bytes": None}, {"topic": "b", "moves": 3, "move_bytes": 7})
    assert document_rows.summary(unknown, [], [], TRUTH, 0).move_bytes is None
    assert (found.topics, found.unread_topics) == (2, 4)
    assert (found.findings, found.by_severity, found.unfair) == (4, {"critical": 2, "high": 2}, {"zone": 2})


def test_broker_rows_list_all_brokers_by_id_even_without_replicas():
    rows = document_rows.broker_rows([], TRUTH, [{"broker": 2, "findings": 4, "worst": "high"}], {1: 3})
    assert [(row.id, row.rack, row.online, row.findings, row.flaps) for row in rows] == [
        (1, "/eu/b", False, 0, 3),
        (2, "/eu/a", True, 4, 0),
        (3, None, True, 0, 0),
    ]


def test_trend_has_a_row_per_day_or_hour():
    day = {"date": date(2026, 3, 1), "scans": 2, "compliant_share": 0.98765432, "findings": 3, "critical": 1}
    (row,) = document_rows.trend([day | {"violation_minutes": 12.34}])
    assert (row.date, row.compliant_share, row.violation_minutes) == ("2026-03-01", 0.987654, 12.3)
    hour = day | {"date": datetime(2026, 3, 1, 6, tzinfo=UTC), "violation_minutes": 0.0}
    assert [row.date for row in document_rows.trend([hour])] == ["2026-03-01T06"]


def test_write_locality_is_listed_by_rack_and_by_topic_with_the_worst_topic_first():
    made = table(
        ["far", "near", "mixed", "offline"],
        [
            *((0, number, [1, 2], [1, 2], 1, None) for number in range(3)),
            (1, 0, [2, 1], [2, 1], 2, None),
            (2, 0, [2, 1], [2], 2, None),
            (2, 1, [1, 2], [1], 1, None),
            (3, 0, [1, 2], [], None, None),
        ],
    )
    producers = {"/eu/a": 3, "/eu/b": 1}
    found = written(made, producers)
    assert [(row.rack, row.producers, row.near, row.near_by_rack, row.could_be_near) for row in found.racks] == [
        ("/eu/a", 3, about(2 / 6), about(3 / 6), about(5 / 6)),
        ("/eu/b", 1, about(4 / 6), about(5 / 6), about(1 / 6)),
    ]
    assert (found.near, found.could_be_near) == (about(2.5 / 6), about(4 / 6))
    assert [(row.topic, row.partitions, row.near) for row in found.topics] == [
        ("far", 3, 0.25), ("mixed", 2, 0.5), ("near", 1, 0.75),
    ]  # fmt: skip
    replicas = ReplicaPlaces(TRUTH.tree, TRUTH.brokers, made)
    by_name = {row.topic: row for row in write_localities(replicas, producers)}
    for row in found.topics:
        alone = by_name[row.topic]
        assert (row.near, row.near_by_rack, row.could_be_near) == about(
            (alone.near, alone.near_by_rack, alone.could_be_near)
        )


def test_producer_rack_that_no_broker_reports_is_marked():
    (row,) = written(table(["t"], [(0, 0, [1], [1], 1, None)]), {"/eu/c": 1}).racks
    assert (row.reported, row.near, row.near_by_rack) == (False, 0, 0)


def test_write_locality_is_zero_without_leaders_and_none_without_producers():
    offline = table(["t"], [(0, 0, [1], [], None, None)])
    found = written(offline, {"/eu/a": 1})
    assert (found.near, found.could_be_near, found.topics, len(found.racks)) == (0, 0, [], 1)
    assert written(offline, {}) is None


def about(share):
    """Return a share with the precision of the document."""
    return pytest.approx(share, abs=1e-6)


def written(partitions, producers):
    batches = partition_batches(partitions, np.ones(len(partitions.names), dtype=np.int64))
    counts = judge_slice(Criteria("prod", TRUTH, ClusterRequirements(), producers), batches).writes
    by_topic = aggregates.written_afar(aggregates.written_by_topic(counts, producers), 100)
    by_rack = aggregates.written_by_rack(counts)
    return document_rows.writes(by_rack.to_pylist(), by_topic.to_pylist(), producers, TRUTH)
