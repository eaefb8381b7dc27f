"""One scan after the other: what is new, what is cleared, since when, for how long, and what is kept of it."""

import threading
from datetime import date, timedelta

import pytest
from deltalake import DeltaTable
from tests.scan.conftest import NOON
from tests.support.command import cluster, topic
from tests.support.progress import Steps

from rackspan.jobs.history.scan_history import HistoryError
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import from_file

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)


def ids(document):
    return {row.id for row in document.findings}


def test_the_second_scan_knows_again_what_the_first_has_found(scans):
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


def test_minutes_out_of_compliance_are_counted_from_scan_to_scan_whatever_the_clock_does(scans):
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
    # A clock that goes back has stood still; while all was well nothing is counted.
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


def test_minutes_of_a_topic_that_was_deleted_between_two_scans_are_kept(scans):
    scans(cluster(topic("orders", UNFAIR), topic("payments", FAIR)), "a")
    second = scans(cluster(topic("payments", FAIR)), "b", 20)
    assert second.summary.topics == 1
    assert [day.violation_minutes for day in second.trend] == [20.0]
    assert [(row["topic"], row["violation_minutes"]) for row in scans.rows("topics", "b")] == [("orders", 20.0)]
    third = scans(cluster(topic("orders", UNFAIR), topic("payments", FAIR)), "c", 50)
    assert [(row.name, row.violation_minutes) for row in third.topics] == [("orders", 20.0)], "30 more were fine"
    assert sum(row["violation_minutes"] for row in scans.rows("scans")) == 20.0


def test_a_broker_that_goes_and_comes_back_between_snapshots_flaps(scans):
    document = cluster(topic("orders", FAIR))
    without = {**document, "brokers": [one for one in document["brokers"] if one["id"] != 5]}
    told = [
        scans(one, f"scan-{at}", at * 10) for at, one in enumerate((document, without, without, document, document))
    ]
    assert [{row.id: row.flaps for row in one.brokers}.get(5) for one in told] == [0, None, None, 2, 2]
    assert {row.id for row in told[-1].brokers if row.flaps} == {5}


def test_the_seconds_of_a_scan_have_all_of_its_steps(scans):
    steps = scans(cluster(topic("orders", UNFAIR)), "a").seconds
    assert {"writing the history", "looking at the trend"} < set(steps)


def test_a_scan_that_was_done_is_given_again_and_nothing_is_written(scans, tmp_path):
    first = scans(cluster(topic("orders", UNFAIR)), "once")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "history").rglob("*")}
    again = scans(cluster(topic("orders", FAIR)), "once", 99)
    assert again == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "history").rglob("*")} == before


def test_old_days_are_forgotten_and_one_jump_of_the_clock_forgets_nothing(scans):
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


def test_days_are_compacted_and_the_trend_stays_what_it_was(scans):
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


def test_a_history_that_is_read_while_scans_write_to_it_never_shows_half_of_one(scans):
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


def test_a_damaged_history_is_named_and_left_as_it_is(scans, history, tmp_path):
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


def test_any_name_of_a_file_is_a_cluster_s_name(scans):
    name = "größte Küche, 50 % {off} [a]*"
    scans(cluster(topic("orders", UNFAIR)), "a", name=name)
    second = scans(cluster(topic("orders", UNFAIR)), f"{name}/2", 10, name=name)
    assert (second.cluster, second.changes.new, second.changes.cleared) == (name, 0, 0)
    assert [row.violation_minutes for row in second.topics] == [10.0]
    assert scans.history.clusters() == [name]
    assert scans.history.document(scans.history.scans(name)[0]).cluster == name
