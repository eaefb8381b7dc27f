"""The history of scans: a scan is stored completely or not at all, also after crashes and with concurrent clients."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.jobs.tables import NOON, committed, contents, example_document, rows, scan_ids, shown, written

from rackspan.jobs.batches.schemas import ABOUT, KEPT, TABLES
from rackspan.jobs.history import delta_tables
from rackspan.jobs.history.queries import query
from rackspan.jobs.history.scan_history import History, HistoryError, ScanEntry

DAY = timedelta(days=1)
ODD_NAMES = ["shop/prod", "größte Küche", "50 % {off} [a]*", "..", "a=b&c", "日本", "%2F", "it's", "a\\'b"]


@pytest.fixture
def history(tmp_path):
    return History(str(tmp_path / "history"))


def _root(history):
    return Path(history.location)


def _files(history):
    return {path for path in _root(history).rglob("*.parquet") if "_delta_log" not in path.parts}


def _table(history, name):
    return DeltaTable(_root(history) / name)


# --- committing -------------------------------------------------------------------------------------------------------


def test_uncommitted_scan_is_not_visible(history):
    written(history, "a")
    assert history.scans("prod") == []
    assert history.clusters() == []


def test_commit_makes_all_tables_and_the_document_visible(history):
    entry = written(history, "a")
    assert shown(history, entry)
    assert history.scans("prod") == [entry]
    assert {table: len(history.rows(table, [entry])) for table in TABLES} == {**dict.fromkeys(TABLES, 2), "scans": 1}
    assert history.document(entry) == example_document(entry)
    assert history.clusters() == ["prod"]


def test_second_commit_of_a_scan_id_is_ignored(history):
    first = committed(history, "a", count=1)
    assert not shown(history, written(history, "a", count=5))
    assert history.scans("prod") == [first]
    assert len(history.rows("findings", history.scans("prod"))) == 1


def _commit(location, scan_id):
    entry = written(History(location), scan_id)
    return entry.attempt if shown(History(location), entry) else None


def test_only_one_of_several_concurrent_commits_of_a_scan_counts(history):
    committed(history, "before")
    with ThreadPoolExecutor(4) as pool:
        attempts = list(pool.map(_commit, [history.location] * 4, ["a"] * 4))
    (counted,) = filter(None, attempts)
    assert [entry.attempt for entry in history.scans("prod") if entry.scan_id == "a"] == [counted]
    assert len(history.rows("findings", history.scans("prod"))) == 4


def test_expired_scan_can_be_written_again(history):
    committed(history, "a")
    history.expire("prod", NOON.date() + DAY)
    assert scan_ids(history) == []
    committed(history, "a", when=NOON + 3 * DAY)
    assert scan_ids(history) == ["a"]


def test_rows_returns_only_the_rows_of_the_requested_scans(history):
    committed(history, "a", count=3)
    entry = committed(history, "b", count=1)
    assert len(history.rows("topics", history.scans("prod"))) == 4
    assert history.rows("topics", [entry])["scan_id"].to_pylist() == ["b"]


def test_tables_have_descriptions_and_column_comments(history):
    committed(history, "a")
    for name in TABLES:
        table = _table(history, name)
        assert table.metadata().description == ABOUT[name]
        assert table.metadata().partition_columns == ["cluster", "month"]
        fields = {field.name: field.metadata.get("comment") for field in table.schema().fields}
        declared = {field.name: (field.metadata or {}).get(b"comment") for field in KEPT[name]}
        assert fields == {name: comment and comment.decode() for name, comment in declared.items()}


def test_delta_readers_find_rows_by_a_filter_on_any_column(history):
    """Arrow skips a file without statistics of a column if another file has them."""
    committed(history, "a")
    committed(history, "b")
    history.compact(history.scans("prod")[-1])
    committed(history, "c", count=3)
    for name in TABLES:
        dataset = _table(history, name).to_pyarrow_dataset()
        for row in dataset.to_table().to_pylist():
            for column, value in row.items():
                if value is not None and column != "document":
                    same = pa.compute.field(column) == pa.scalar(value, dataset.schema.field(column).type)
                    assert row in dataset.to_table(filter=same).to_pylist(), column


def test_files_of_a_scan_are_synced_before_the_commit_and_the_commit_before_it_returns(history, monkeypatch):
    committed(history, "a")
    synced, fsync = set(), os.fsync

    def sync(opened):
        synced.add(Path(f"/proc/self/fd/{opened}").readlink())
        fsync(opened)

    def before_commit(self, table, *_):
        new = [path for path in _root(history).rglob("*") if path.is_file() and path not in there]
        assert set(new) <= synced
        assert {folder for path in new for folder in path.parents if folder.is_relative_to(_root(history).parent)} <= (
            synced
        )
        return False

    there = set(_root(history).rglob("*"))
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(delta_tables.DeltaTables, "_has", before_commit)
    committed(history, "b")
    assert {path for path in _root(history).rglob("*") if path.is_file()} - there <= synced
    assert any(path.parent == _root(history) / "scans" / "_delta_log" for path in synced)


# --- order ------------------------------------------------------------------------------------------------------------


def test_scans_are_ordered_by_sequence_and_not_by_clock(history):
    for scan_id, when in (("a", NOON), ("ahead", NOON + 4000 * DAY), ("back", NOON - 9000 * DAY), ("now", NOON + DAY)):
        committed(history, scan_id, when=when)
    assert scan_ids(history) == ["a", "ahead", "back", "now"]


def _commit_many(location, writer):
    for number in range(3):
        committed(History(location), f"{writer}-{number}")


def test_scans_of_concurrent_writers_are_all_visible_each_in_its_own_order(history):
    # Spawned processes: a fork of a process with Arrow's threads may hang.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for task in [pool.submit(_commit_many, history.location, writer) for writer in "xy"]:
            task.result(timeout=300)
    found = scan_ids(history)
    for writer in "xy":
        assert [scan for scan in found if scan[0] == writer] == [f"{writer}-{number}" for number in range(3)]
    committed(history, "after")
    assert scan_ids(history) == [*found, "after"]


def test_scans_of_different_clusters_are_independent(history):
    committed(history, "a", "prod")
    committed(history, "b", "prod2")
    history.expire("prod", NOON.date() + DAY)
    assert (scan_ids(history, "prod"), scan_ids(history, "prod2")) == ([], ["b"])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_unusual_cluster_and_scan_names_are_stored_and_found(history, name):
    committed(history, name, name)
    entry = committed(history, f"{name}2", name)
    history.compact(entry)
    committed(history, f"{name}3", name)
    assert history.clusters() == [name]
    assert scan_ids(history, name) == [name, f"{name}2", f"{name}3"]
    assert history.document(entry) == example_document(entry)
    assert all(path.resolve().is_relative_to(_root(history)) for path in _files(history))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_expire_deletes_only_the_scans_of_the_named_cluster(tmp_path_factory, name):
    history = History(str(tmp_path_factory.mktemp("any")))
    committed(history, "a", name)
    committed(history, "b", "other")
    history.expire(name, NOON.date() + DAY)
    assert history.clusters() == ["other"]


def test_concurrent_try_writing_succeeds_and_leaves_no_files(history):
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: History(history.location).try_writing(), range(200)):
            pass
    assert list(_root(history).iterdir()) == []


def test_document_of_an_expired_scan_raises_history_error(history):
    entry = committed(history, "a")
    history.expire("prod", NOON.date() + DAY)
    with pytest.raises(HistoryError, match="the document of a is not there any more"):
        history.document(entry)


@pytest.mark.parametrize(
    "name", ["日" * 28, ",".join(["b-1.prod.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"] * 5)]
)
def test_cluster_name_that_is_too_long_for_a_directory_is_rejected(history, name):
    entry = ScanEntry(name, "a", 1, NOON, "attempt")
    with pytest.raises(HistoryError, match=r"the cluster's name is too long .*: name fewer bootstrap servers"):
        history.writer(entry)
    committed(history, "a", "日" * 27)


# --- compaction, expiry and vacuum ------------------------------------------------------------------------------------


def test_compact_keeps_all_rows_of_each_table_in_one_file(history):
    for number in range(3):
        entry = committed(history, f"scan-{number}", when=NOON + number * DAY, count=number + 1)
    before = contents(history)
    history.compact(entry)
    assert contents(history) == before
    assert scan_ids(history) == ["scan-0", "scan-1", "scan-2"]
    assert {name: len(_table(history, name).file_uris()) for name in TABLES} == dict.fromkeys(TABLES, 1)


def test_compact_deletes_only_the_rows_of_an_attempt_killed_more_than_a_day_ago(history):
    committed(history, "a")
    written(history, "killed")
    kept = contents(history)
    late = committed(history, "b", when=NOON + 2 * DAY)
    running = written(history, "running", when=NOON + 2 * DAY)
    history.compact(late)
    ids = {name: set(_table(history, name).to_pyarrow_table()["scan_id"].to_pylist()) for name in TABLES}
    assert ids == {name: {"a", "b"} if name == "scans" else {"a", "b", "running"} for name in TABLES}
    assert contents(history)["topics"][:2] == kept["topics"]
    assert shown(history, running)


@pytest.mark.parametrize("killed", [-1, 0, 1], ids=lambda days: f"{days} days from a month's end")
def test_killed_attempt_leaves_no_rows_after_three_days_of_scans(history, killed):
    end = NOON.replace(month=3, day=31)
    entries = []
    for number in range(-1, 6):
        entries.append(committed(history, f"scan-{number}", when=end + number * DAY))
        if len(entries) > 1:
            history.compact(entries[-2])
        if number == killed:
            written(history, "killed", when=end + number * DAY)
    for name in TABLES:
        assert "killed" not in _table(history, name).to_pyarrow_table()["scan_id"].to_pylist(), name


@pytest.mark.parametrize(("kept_days", "name"), [(1, "shop/50 % {off}"), (3, "prod"), (None, "prod")])
def test_each_scan_stays_readable_after_other_scans_of_its_file_were_deleted(history, kept_days, name):
    """Compacts and expires as scans do once a day: a deletion writes the remaining rows into another file."""
    other = committed(history, "other", "other")
    entries = [committed(history, "scan-0", name)]
    for number in range(1, 9):
        if number in (2, 5):
            written(history, f"killed-{number}", name, when=NOON + number * DAY)
        entries.append(committed(history, f"scan-{number}", name, when=NOON + number * DAY))
        history.compact(entries[-2])
        if kept_days is not None:
            history.expire(name, (NOON + (number - kept_days) * DAY).date())
        assert not shown(history, written(history, entries[-1].scan_id, name, when=NOON + number * DAY))
    kept = history.scans(name)
    assert [entry.scan_id for entry in kept] == [entry.scan_id for entry in entries[-(kept_days or 8) - 1 :]]
    for entry in (*kept, other):
        assert history.document(entry) == example_document(entry)
        for table in TABLES:
            count = 1 if table == "scans" else 2
            assert history.rows(table, [entry])["scan_id"].to_pylist() == [entry.scan_id] * count
    for table in TABLES:
        kinds = {pq.read_schema(file).field("attempt").type for file in _table(history, table).file_uris()}
        assert kinds == {pa.string()}, "other readers filter these columns"
    assert len(history.rows("findings", kept)) == 2 * len(kept)


def test_deletion_of_rows_keeps_the_columns_of_a_newer_version(history):
    committed(history, "old", when=NOON - 9 * DAY)
    first = committed(history, "first")
    history.compact(first)
    table = _table(history, "brokers").to_pyarrow_table()
    newer = {"disk_bytes": pa.array([1, 2, 3, 4]), "disks": pa.array([[1], [2], [3], []], pa.list_(pa.int32()))}
    for name, values in newer.items():
        table = table.append_column(name, values)
    write_deltalake(_root(history) / "brokers", table, mode="overwrite", schema_mode="overwrite")
    expected = table.filter(pa.compute.field("scan_id") == "first").to_pylist()
    history.expire("prod", NOON.date())
    assert _table(history, "brokers").to_pyarrow_table().to_pylist() == expected
    assert len(history.rows("brokers", [first])) == 2


def test_expire_loses_no_rows_of_a_concurrent_commit(history):
    first = [committed(history, f"old-{number}") for number in range(3)]
    history.compact(first[-1])
    with ThreadPoolExecutor(2) as pool:
        for number in range(1, 6):
            later = pool.submit(committed, History(history.location), f"scan-{number}", when=NOON + number * DAY)
            again = pool.submit(History(history.location).expire, "prod", (NOON + (number - 2) * DAY).date())
            history.expire("prod", (NOON + (number - 2) * DAY).date())
            later.result()
            again.result()
    assert scan_ids(history) == ["scan-3", "scan-4", "scan-5"]
    assert len(history.rows("findings", history.scans("prod"))) == 6


def test_reader_with_an_old_list_of_scans_can_read_after_compact_and_expire(history):
    entries = [committed(history, "a"), committed(history, "b")]
    before = history.rows("findings", entries)
    history.compact(entries[-1])
    history.vacuum()
    assert sorted(map(repr, history.rows("findings", entries).to_pylist())) == sorted(map(repr, before.to_pylist()))
    history.expire("prod", NOON.date() + DAY)
    assert scan_ids(history) == []
    assert len(history.rows("findings", entries)) == 4


def test_vacuum_deletes_unreferenced_files_only_after_the_retention_time(history, monkeypatch):
    entries = [committed(history, "a"), committed(history, "b")]
    killed = _root(history) / "findings" / "cluster=prod" / "month=2026-03" / "killed.parquet"
    killed.write_bytes(b"half")
    files = _files(history)
    history.compact(entries[-1])
    history.vacuum()
    assert files < _files(history)
    monkeypatch.setattr(delta_tables, "KEPT_HOURS", 0)
    history.vacuum()
    assert not files & _files(history)
    assert len(_files(history)) == len(TABLES)
    assert contents(history)["findings"]


@pytest.mark.parametrize("ahead", [25 * 3600, 10**9], ids=["a day", "decades"])
def test_vacuum_by_a_clock_that_is_ahead_keeps_the_files_of_running_scans(history, ahead):
    committed(history, "a")
    running = ScanEntry("other", "b", 1, NOON, "attempt")
    writer = history.writer(running)
    writer.write("brokers", rows("brokers", "b"))
    for file in filter(Path.is_file, _root(history).rglob("*")):  # delta-rs takes the machine's clock
        os.utime(file, (time.time() - ahead,) * 2)
    history.vacuum()
    writer.append()
    assert shown(history, running)
    assert len(history.rows("brokers", [running])) == 2


def test_expire_deletes_only_the_scans_before_the_given_day(history):
    for number in range(4):
        committed(history, f"scan-{number}", when=NOON + 15 * number * DAY)
    history.expire("prod", (NOON + 30 * DAY).date())
    assert scan_ids(history) == ["scan-2", "scan-3"]
    assert len(history.rows("findings", history.scans("prod"))) == 4


def test_readers_never_see_half_a_scan_during_commits_and_compaction(history):
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            scans = history.scans("prod")
            names = ("findings", "brokers", "topics")
            seen.append([sorted(scan.scan_id for scan in scans for _ in range(2))])
            seen[-1] += [sorted(history.rows(name, scans)["scan_id"].to_pylist()) for name in names]

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for number in range(5):
            entry = committed(History(history.location), f"scan-{number}", when=NOON + number // 2 * DAY)
            History(history.location).compact(entry)
        done.set()
        reader.result(timeout=300)
    assert seen
    assert all(tables[0] == one for tables in seen for one in tables)


# --- files that are damaged, foreign or of other versions -------------------------------------------------------------


def test_column_that_an_older_table_lacks_reads_as_null_and_is_added_by_the_next_scan(history, monkeypatch):
    older = {**KEPT, "brokers": pa.schema([one for one in KEPT["brokers"] if one.name not in ("changed", "rack")])}
    with monkeypatch.context() as patch:
        patch.setattr(delta_tables, "KEPT", older)
        patch.setattr("rackspan.jobs.history.scan_history.KEPT", older)
        committed(history, "a")
    found = history.rows("brokers", history.scans("prod"))
    assert found.schema.equals(TABLES["brokers"])
    assert (found["changed"].to_pylist(), found["broker"].to_pylist()) == ([None, None], [0, 1])
    committed(history, "b")
    assert {"changed", "rack"} <= {field.name for field in _table(history, "brokers").schema().fields}
    assert len(history.rows("brokers", history.scans("prod"))) == 4


def test_column_of_a_newer_version_is_ignored(history):
    committed(history, "a")
    _table(history, "brokers").alter.add_columns(delta_tables.Schema.from_arrow(pa.schema([("later", "int32")])).fields)
    committed(history, "b")
    assert history.rows("brokers", history.scans("prod")).column_names == TABLES["brokers"].names


def test_foreign_delta_table_is_rejected_and_not_changed(history):
    write_deltalake(_root(history) / "findings", pa.table({"a": [1]}))
    for use in (history.try_writing, lambda: committed(history, "a")):
        with pytest.raises(HistoryError, match=f"{history.location}/findings: is not a table of a history"):
            use()
    assert _table(history, "findings").version() == 0


def test_error_names_a_table_with_a_newer_delta_protocol(history):
    committed(history, "a")
    (log,) = (_root(history) / "findings" / "_delta_log").glob("*0.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 99, "minWriterVersion": 99}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(HistoryError, match=f"^history {history.location}/findings: ") as told:
        history.rows("findings", history.scans("prod"))
    assert "\n" not in str(told.value)


DAMAGES = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "of another scan": lambda path: pq.write_table(rows("findings", "b", 0), path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("table", ["findings", "scans"])
def test_error_names_a_damaged_data_file(history, damage, compacted, table):
    entries = [committed(history, "a"), committed(history, "b")]
    if compacted:
        history.compact(entries[-1])
    path = Path(_table(history, table).file_uris()[0])
    DAMAGES[damage](path)
    uses = {"findings": lambda: history.rows("findings", entries), "scans": lambda: history.scans("prod")}
    for use in (uses[table], lambda: history.compact(entries[-1])):
        with pytest.raises(HistoryError) as told:
            use()
        assert str(told.value).startswith(f"history {path}: ")
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("table", ["findings", "scans"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "no log", "no table"])
def test_error_names_the_table_of_a_damaged_log(history, table, damage):
    committed(history, "a")
    committed(history, "b")
    log = _root(history) / table / "_delta_log"
    (first,) = log.glob("*1.json")
    if damage == "no log":
        shutil.rmtree(log)
    elif damage == "no table":
        shutil.rmtree(log.parent)
    else:
        DAMAGES[damage](first)
    with pytest.raises(HistoryError, match=f"^history {history.location}/{table}"):
        history.rows(table, history.scans("prod"))


def _newest_addition(history, table):
    """Return the newest log entry of a table that adds rows, after all later entries, newest first."""
    entries = sorted((_root(history) / table / "_delta_log").glob("*.json"), reverse=True)
    adding = next(at for at, entry in enumerate(entries) if '"add"' in entry.read_text())
    return entries[: adding + 1]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("compacted", [False, True])
def test_missing_newest_log_entries_are_an_error_and_are_not_rewritten(history, table, compacted):
    committed(history, "a")
    if compacted:
        history.compact(history.scans("prod")[-1])
    entry = committed(history, "b")
    lost = _newest_addition(history, table)
    kept = {path: path.read_bytes() for path in lost}
    for path in lost:
        path.unlink()
    sentence = f"history {lost[-1]}: is not there any more: restore it"
    uses = {
        "read": lambda: history.rows(table, history.scans("prod")),
        "write": lambda: committed(history, "c"),
        "check": history.try_writing,
        "compact": lambda: history.compact(entry),
        "query": lambda: query(history.location, "SELECT 1"),
    }
    for use in uses.values():
        with pytest.raises(HistoryError) as told:
            use()
        assert str(told.value) == sentence
    assert not any(path.exists() for path in lost)
    for path, text in kept.items():
        path.write_bytes(text)
    committed(history, "d")
    assert scan_ids(history) == ["a", "b", "d"]


@pytest.mark.parametrize(("table", "checkpointed"), [("findings", "scans"), ("scans", "brokers")])
def test_checkpoint_keeps_the_recorded_versions_of_other_tables(history, table, checkpointed):
    entry = committed(history, "a")
    _table(history, checkpointed).create_checkpoint()
    lost = _newest_addition(history, table)[-1]
    lost.unlink()
    with pytest.raises(HistoryError, match=f"^history {lost}: is not there any more"):
        history.rows(table, [entry])


def test_log_drops_the_transactions_of_old_scans_but_no_versions_of_tables(history, monkeypatch):
    last_week = time.time() - 8 * DAY.total_seconds()
    with monkeypatch.context() as earlier:
        earlier.setattr(delta_tables.time, "time", lambda: last_week)
        old = committed(history, "a")
    new = committed(history, "b")
    _table(history, "scans").create_checkpoint()
    for log in (_root(history) / "scans" / "_delta_log").glob("*.json"):
        log.unlink()
    table = _table(history, "scans")
    assert [table.transaction_version(json.dumps(["prod", scan])) for scan in "ab"] == [None, 1]
    assert None not in {table.transaction_version(name) for name in TABLES if name != "scans"}
    assert not shown(history, written(history, "a"))
    assert history.scans("prod") == [old, new]


def test_older_table_gets_the_current_settings_with_the_next_scan(history, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(delta_tables, "_SETTINGS", {"delta.logRetentionDuration": "interval 30 days"})
        committed(history, "a")
    committed(history, "b")
    settings = {**delta_tables._SETTINGS, "delta.logRetentionDuration": "interval 30 days"}
    assert {name: _table(history, name).metadata().configuration for name in TABLES} == dict.fromkeys(TABLES, settings)


def test_concurrent_scans_all_succeed_while_they_upgrade_older_tables(history, monkeypatch):
    older = {**KEPT, "brokers": pa.schema([one for one in KEPT["brokers"] if one.name != "rack"])}
    with monkeypatch.context() as before:
        before.setattr(delta_tables, "_SETTINGS", {})
        before.setattr(delta_tables, "KEPT", older)
        before.setattr("rackspan.jobs.history.scan_history.KEPT", older)
        committed(history, "a")
    names = [f"scan-{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(_commit, [history.location] * 8, names))
    assert set(scan_ids(history)) == {"a", *names}
    assert "rack" in {field.name for field in _table(history, "brokers").schema().fields}
    for name in TABLES:
        assert _table(history, name).metadata().configuration == delta_tables._SETTINGS


def test_missing_log_entry_of_a_compaction_is_not_an_error(history):
    committed(history, "a")
    entry = committed(history, "b")
    before = contents(history)
    history.compact(entry)
    for name in TABLES:
        max((_root(history) / name / "_delta_log").glob("*.json")).unlink()
    assert contents(history) == before
    committed(history, "c")
    assert scan_ids(history) == ["a", "b", "c"]


def test_missing_file_of_another_cluster_does_not_stop_compaction(history):
    committed(history, "theirs", "other")
    committed(history, "a")
    last = committed(history, "b")
    (gone,) = (_root(history) / "findings").glob("cluster=other/*/*.parquet")
    gone.unlink()
    history.compact(last)
    assert len(list(_table(history, "findings").file_uris(file_pruning_predicate=[("cluster", "=", "prod")]))) == 1


@pytest.mark.parametrize("path", ["../../findings.parquet", "{folder}/findings.parquet", "file://{folder}/f.parquet"])
def test_file_outside_the_history_that_a_log_names_is_not_read(history, path):
    entry = committed(history, "a")
    before = history.rows("findings", [entry])
    outside = _root(history).parent / path.rpartition("/")[2]
    shutil.copy(_table(history, "findings").file_uris()[0], outside)
    last = max((_root(history) / "findings" / "_delta_log").glob("*.json"))
    (add,) = (line["add"] for line in map(json.loads, last.read_text().splitlines()) if "add" in line)
    add["path"] = path.format(folder=outside.parent)
    last.with_name(f"{int(last.stem) + 1:020}.json").write_text(json.dumps({"add": add}))
    assert history.rows("findings", [entry]) == before
    with pytest.raises(HistoryError, match=f"^history {history.location}/findings: its log names a file outside"):
        history.compact(entry)
    assert history.rows("findings", [entry]) == before
    assert outside.exists()


def test_damaged_document_raises_history_error(history):
    entry = written(history, "a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gzip.compress", lambda text: b"no gzip" + text)
        shown(history, entry)
    with pytest.raises(HistoryError, match="the document of a is damaged"):
        history.document(entry)


@pytest.mark.parametrize(
    "location",
    ["nowhere://bucket/x", "gibberish://", "hf://a/b", "/a/%41", "file://localhost/a", "file://a/b", "s3:///a"],
)
def test_unusable_location_is_rejected(location):
    with pytest.raises(HistoryError, match="is not a usable location"):
        History(location)


def test_location_that_is_a_file_gives_a_one_line_error(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(HistoryError, match=f"^history {path}") as told:
        written(History(str(path)), "a")
    assert "\n" not in str(told.value)


def test_full_disk_leaves_the_history_unchanged(history):
    committed(history, "a")
    before, kept = contents(history), _files(history)
    code = f"""
import resource, signal
from tests.unit.jobs.tables import committed
from rackspan.jobs.history.queries import query
from rackspan.jobs.history.scan_history import History, HistoryError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
try:
    committed(History({history.location!r}), "b")
except HistoryError as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith(f"told: history {history.location}")
    assert contents(history) == before
    assert kept <= _files(history)


def test_one_line_shows_the_message_and_the_code_of_an_azure_error():
    answer = "<Error><Code>ContainerNotFound</Code><Message>No container.\nRequestId:1\nTime:2</Message></Error>"
    said = delta_tables.one_line(OSError(f"Generic MicrosoftAzure error\n  404 Not Found\n  {answer}"))
    assert said == "No container. (ContainerNotFound)"
