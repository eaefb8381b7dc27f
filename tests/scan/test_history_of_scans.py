"""Consecutive scans: new and cleared findings, their times, violation minutes, and expiry."""

import threading
from datetime import date, timedelta

import pytest
from deltalake import DeltaTable
from tests.scan.conftest import NOON
from tests.support.command import cluster, topic
from tests.support.progress import Steps
from tests.unit.jobs.tables import shown, written

from rackspan.jobs.history.scan_history import HistoryError
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import from_file

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)


def ids(document):
    return {row.id for row in document.findings}


def test_second_scan_recognizes_the_findings_of_the_first(scans):
    first = scans(cluster(topic("orders", UNFAIR, FAIR), topic("old", UNFAIR)), "a")
    second = scans(cluster(topic("orders", UNFAIR, UNFAIR)), "b", 30)
    assert first.changes.since is None
    orders = {row.id for row in first.findings if row.topic == "orders"}
    assert orders < ids(second)
    assert {row.first_seen for row in second.findings if row.id in orders} == {"2026-03-10T12:00:00Z"}
    assert {row.first_seen for row in second.findings if row.id not in orders} == {"2026-03-10T12:30:00Z"}
    assert second.changes.since == "2026-03-10T12:00:00Z"
    assert {(row.topic, row.partition) for row in second.changes.new_findings} == {("orders", 1)}
    assert {(row.topic, row.partition) for row in second.changes.cleared_findings} == {("old", 0)}
    assert second.changes.new == len(second.changes.new_findings) == len(ids(second) - ids(first))
    assert second.changes.cleared == len(ids(first) - ids(second))
    kept = {row["id"] & (1 << 64) - 1: row["first_seen"] for row in scans.rows("findings", "b")}
    assert {f"{number:016x}" for number in kept} == ids(second)


def test_violation_minutes_are_counted_between_scans_even_if_the_clock_goes_back(scans):
    broken, whole = cluster(topic("orders", UNFAIR)), cluster(topic("orders", FAIR))
    told = [
        scans(document, f"scan-{minutes}", minutes)
        for document, minutes in [
            (whole, 0),
            (broken, 10),
            (broken, 17.5),
            (broken, -500),
            (whole, -485),
        ]
    ]
    minutes = [row["violation_minutes"] for row in sorted(scans.rows("scans"), key=lambda row: row["sequence"])]
    # A clock that goes back adds no minutes. Nothing is counted while the topic is compliant.
    assert minutes == [0, 0, 7.5, 0, 15]
    assert [row["sequence"] for row in scans.rows("scans")].count(5) == 1
    assert [{row.name: row.violation_minutes for row in one.topics} for one in told] == [
        {},
        {"orders": 0},
        {"orders": 7.5},
        {"orders": 7.5},
        {},
    ]
    assert sum(day.violation_minutes for day in told[-1].trend) == 22.5
    assert sum(day.scans for day in told[-1].trend) == 5


def test_violation_minutes_of_a_topic_deleted_between_two_scans_are_kept(scans):
    scans(cluster(topic("orders", UNFAIR), topic("payments", FAIR)), "a")
    second = scans(cluster(topic("payments", FAIR)), "b", 20)
    assert second.summary.topics == 1
    assert [day.violation_minutes for day in second.trend] == [20.0]
    assert [(row["topic"], row["violation_minutes"]) for row in scans.rows("topics", "b")] == [("orders", 20.0)]
    third = scans(cluster(topic("orders", UNFAIR), topic("payments", FAIR)), "c", 50)
    assert [(row.name, row.violation_minutes) for row in third.topics] == [("orders", 20.0)], (
        "the topic was deleted for the other 30 minutes"
    )
    assert sum(row["violation_minutes"] for row in scans.rows("scans")) == 20.0


def test_broker_that_disappears_and_returns_between_snapshots_flaps(scans):
    document = cluster(topic("orders", FAIR))
    without = {**document, "brokers": [one for one in document["brokers"] if one["id"] != 5]}
    told = [
        scans(one, f"scan-{at}", at * 10) for at, one in enumerate((document, without, without, document, document))
    ]
    assert [{row.id: row.flaps for row in one.brokers}.get(5) for one in told] == [0, None, None, 2, 2]
    assert {row.id for row in told[-1].brokers if row.flaps} == {5}


def test_seconds_of_a_scan_include_the_history_and_the_trend(scans):
    steps = scans(cluster(topic("orders", UNFAIR)), "a").seconds
    assert {"writing the history", "looking at the trend"} < set(steps)


def test_repeated_scan_id_returns_the_same_document_and_writes_nothing(scans, tmp_path):
    first = scans(cluster(topic("orders", UNFAIR)), "once")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "history").rglob("*")}
    again = scans(cluster(topic("orders", FAIR)), "once", 99)
    assert again == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "history").rglob("*")} == before


def test_old_scans_expire_but_a_jump_of_the_clock_expires_nothing(scans):
    broken = cluster(topic("orders", UNFAIR))
    day = 60 * 24
    for at in range(2):
        scans(broken, f"day-{at}", at * day)
    jumped = scans(broken, "jumped", 4000 * day, retention_days=2)
    assert jumped.summary.non_compliant == 1
    assert {entry.day for entry in scans.history.scans("prod")} >= {date(2026, 3, 10 + at) for at in range(2)}
    back = scans(broken, "back", 3 * day, retention_days=2)
    kept = [entry.day for entry in scans.history.scans("prod")]
    assert kept == [date(2026, 3, 11), (NOON + timedelta(days=4000)).date(), date(2026, 3, 13)]
    assert {row.first_seen for row in back.findings} == {"2026-03-10T12:00:00Z"}
    assert back.changes.new == back.changes.cleared == 0


def test_scan_after_a_clock_was_ahead_keeps_the_rows_of_a_running_scan(scans):
    uneven = cluster(topic("orders", UNFAIR))
    scans(uneven, "ahead", 3 * 60 * 24)
    running = written(scans.history, "running", when=NOON + timedelta(minutes=5))
    scans(uneven, "now", 10)
    assert shown(scans.history, running)
    assert len(scans.rows("brokers", "running")) == 2


def test_compaction_of_days_keeps_the_findings_and_the_trend(scans):
    broken = cluster(topic("orders", UNFAIR))
    for at in range(2):
        scans(broken, f"scan-{at}", at * 10)
    before = sorted(map(repr, scans.rows("findings")))
    told = scans(broken, "next-day", 60 * 24)
    files = DeltaTable(f"{scans.history.location}/findings").file_uris()
    assert len(files) == 1
    assert sorted(map(repr, [row for row in scans.rows("findings") if row["scan_id"] != "next-day"])) == before
    assert [(one.date, one.scans, one.violation_minutes) for one in told.trend] == [
        ("2026-03-10", 2, 10.0),
        ("2026-03-11", 1, 1430.0),
    ]
    assert [row.violation_minutes for row in scans(broken, "one-more", 60 * 24 + 5).topics] == [1445.0]


def test_readers_never_see_half_a_scan_while_scans_write(scans):
    done = threading.Event()
    seen, wrong = [], []

    def read():
        while not done.is_set():
            try:
                listed = scans.history.scans("prod")
                rows = {table: scans.history.rows(table, listed) for table in ("scans", "findings", "brokers")}
                seen.append([sorted(set(table["scan_id"].to_pylist())) for table in rows.values()])
            except BaseException as error:
                wrong.append(error)
                raise

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3):
        scans(cluster(topic("orders", UNFAIR, UNFAIR)), f"scan-{number}", number * 60 * 13)
    done.set()
    reader.join(30)
    assert wrong == []
    assert all(tables[0] == tables[1] == tables[2] for tables in seen)
    assert {len(tables[0]) for tables in seen} >= {0, 1, 2}


def test_error_names_a_damaged_file_and_the_history_does_not_change(scans, history, tmp_path):
    document = cluster(topic("orders", UNFAIR))
    scans(document, "a")
    whole = {data: data.read_bytes() for data in (tmp_path / "history" / "findings").glob("cluster=*/*/*.parquet")}
    for left in (0.5, 0):
        for data, text in whole.items():
            data.write_bytes(text[: int(len(text) * left)])
        with pytest.raises(HistoryError, match=f"history {history.location}/findings/.*parquet: has .* bytes"):
            scan_cluster(in_process, from_file(tmp_path / "prod.json"), ScanRun("b", NOON, history), Steps(), print)
    assert [entry.scan_id for entry in history.scans("prod")] == ["a"]
    for data, text in whole.items():
        data.write_bytes(text)
    assert scans(document, "b", 5).changes.new == 0


def test_unusual_file_name_is_a_valid_cluster_name(scans):
    name = "größte Küche, 50 % {off} [a]*"
    scans(cluster(topic("orders", UNFAIR)), "a", name=name)
    second = scans(cluster(topic("orders", UNFAIR)), f"{name}/2", 10, name=name)
    assert (second.cluster, second.changes.new, second.changes.cleared) == (name, 0, 0)
    assert [row.violation_minutes for row in second.topics] == [10.0]
    assert scans.history.clusters() == [name]
    assert scans.history.document(scans.history.scans(name)[0]).cluster == name
