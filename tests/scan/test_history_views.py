"""The views of a history agree with the documents and pages of scans, and Spark can run them, too."""

import math
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable
from tests.support.command import RACKS, cluster, topic
from tests.unit.jobs.tables import shown, written

from rackspan.api.codec import timestamp
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.queries import query, table_view, views

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)
DAY = 24 * 60


@pytest.fixture
def told(scans):
    """Scans of two clusters, with topics that are non-compliant for a while, and a broker that is missing twice."""
    whole, less = RACKS, {broker: rack for broker, rack in RACKS.items() if broker != 5}
    story = [
        (0, whole, FAIR, FAIR),
        (10, less, UNFAIR, FAIR),
        (40, whole, UNFAIR, UNFAIR),
        (60, less, FAIR, UNFAIR),
        (DAY + 5, whole, UNFAIR, FAIR),
        (DAY + 30, whole, UNFAIR, UNFAIR),
    ]
    found = [
        scans(cluster(topic("orders", first), topic("old", second), racks=racks), f"at-{minutes}", minutes)
        for minutes, racks, first, second in story
    ]
    scans(cluster(topic("orders", UNFAIR), name="shop/other"), "other", 15, name="shop-other")
    return found


def rows(history, sql):
    return query(history.location, sql).to_pylist()


def of(history, view, cluster_name="prod"):
    (found,) = (one for one in views() if one.name == view)
    return [row for row in rows(history, found.query) if row["cluster_name"] == cluster_name]


def test_compliance_by_day_agrees_with_the_page(told, history):
    wanted = aggregates.days(history.rows("scans", history.scans("prod"))).to_pylist()
    assert [row["scans"] for row in wanted] == [4, 2]
    found = of(history, "compliance_by_day")
    assert [
        (row["day"], row["scans"], row["most_findings"], row["most_critical"], row["violation_minutes"])
        for row in found
    ] == [(row["date"], row["scans"], row["findings"], row["critical"], row["violation_minutes"]) for row in wanted]
    assert [row["compliant_percent"] for row in found] == pytest.approx(
        [100 * row["compliant_share"] for row in wanted], abs=1e-3
    )


def test_violation_minutes_agree_with_the_document(told, history):
    wanted = {row.name: row.violation_minutes for row in told[-1].topics if row.violation_minutes}
    found = of(history, "violation_minutes")
    assert {row["topic"]: row["violation_minutes"] for row in found} == wanted
    assert [row["namespace"] for row in found] == [None] * len(wanted)
    assert [row["violation_minutes"] for row in found] == sorted(wanted.values(), reverse=True)


def test_open_findings_agree_with_the_last_scan(told, history):
    wanted = {(row.rule, row.topic, row.partition, row.first_seen) for row in told[-1].findings}
    found = of(history, "open_findings")
    assert {(row["rule"], row["topic"], row["partition"], timestamp(row["first_seen"])) for row in found} == wanted
    ages = {row["topic"]: row["age_minutes"] for row in found if row["rule"] == "NotCompliant"}
    assert ages == {"orders": 25, "old": 0}
    assert [row["first_seen"] for row in found] == sorted(row["first_seen"] for row in found)


def test_changed_findings_agree_with_each_scan(told, history):
    found = of(history, "changed_findings")
    for document in told[1:]:
        mine = [row for row in found if row["scan_id"] == document.scan_id]
        counted = tuple(sum(row["change"] == change for row in mine) for change in ("new", "cleared"))
        assert counted == (document.changes.new, document.changes.cleared)
    assert {row["scan_id"] for row in found} <= {document.scan_id for document in told[1:]}


def test_repair_time_is_from_the_first_scan_with_the_finding_to_the_first_without_it(told, history):
    (uneven,) = (row for row in of(history, "repair_times") if row["rule"] == "NotCompliant")
    since_60 = DAY + 5 - 60
    old = (60 - 40) + since_60
    assert (uneven["repaired"], uneven["most_minutes"]) == (2, old)
    assert uneven["mean_minutes"] == pytest.approx((50 + old) / 2)


def test_flapping_brokers_agree_with_the_document(told, history):
    wanted = {row.id: row.flaps for row in told[-1].brokers if row.flaps > 1}
    assert wanted
    assert {row["broker"]: row["changes"] for row in of(history, "flapping_brokers")} == wanted


def test_spark_returns_the_same_rows_for_every_view(told, history, spark):
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name in TABLES:
        kept = DeltaTable(f"{history.location}/{name}")
        spark.createDataFrame(kept.to_pyarrow_table()).createOrReplaceTempView(f"kept_{name}")
        columns = [field.name for field in kept.schema().fields]
        age = "(unix_micros(s.finished_at) - unix_micros(r.first_seen)) / 6e7"
        spark.sql(table_view(name, columns, age)).createOrReplaceTempView(name)
    for view in views():
        ours, theirs = rows(history, view.query), spark.sql(view.query).toArrow().to_pylist()
        assert [_plain(row) for row in ours] == [_plain(row) for row in theirs], view.name


def _plain(row):
    return {name: _rounded(value) for name, value in row.items()}


def _rounded(value):
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return round(value, 3) if isinstance(value, float) and math.isfinite(value) else value


def test_last_of_two_scans_with_the_same_sequence_counts(history):
    entries = [written(history, scan_id, count=1) for scan_id in ("a", "b")]
    assert {entry.sequence for entry in entries} == {1}
    assert all(shown(history, entry) for entry in entries)
    assert len(of(history, "open_findings")) == len(of(history, "costly_consumers")) == 1
