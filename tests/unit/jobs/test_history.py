"""The history of scans: all of a scan or nothing of it, whatever ends it, and whoever else writes, reads or tidies."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.jobs.tables import NOON, committed, contents, rows, scan_ids, written

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History, HistoryError

DAY = timedelta(days=1)
ODD_NAMES = ["shop/prod", "größte Küche", "50 % {off} [a]*", "..", "a=b&c", "日本", "%2F", "-day-"]


@pytest.fixture
def history(tmp_path):
    return History(str(tmp_path / "history"))


def files(history):
    return sorted(
        str(path.relative_to(history.location))
        for path in _root(history).rglob("*")
        if path.suffix in (".parquet", ".json")
    )


def _root(history):
    return Path(history.location)


# --- committing -------------------------------------------------------------------------------------------------------


def test_what_is_not_committed_is_not_seen(history):
    written(history, "a")
    assert history.manifests("prod") == []
    assert history.latest("prod") is None
    assert history.entry("prod", "a") is None
    assert history.clusters() == []


def test_a_commit_shows_all_tables_and_the_document_at_once(history):
    attempt = written(history, "a")
    history.commit(attempt, NOON, b'"told"')
    (manifest,) = history.manifests("prod")
    assert {table: len(history.rows(table, [manifest])) for table in TABLES} == dict.fromkeys(TABLES, 2)
    assert history.document(history.entry("prod", "a")) == b'"told"'
    assert history.clusters() == ["prod"]


def test_the_first_commit_of_a_scan_id_counts(history):
    first = committed(history, "a", count=1)
    again = committed(history, "a", count=5)
    assert again == first
    assert scan_ids(history) == ["a"]
    assert len(history.rows("findings", history.manifests("prod"))) == 1


def test_a_scan_of_which_files_went_missing_is_not_committed(history):
    attempt = written(history, "a")
    shutil.rmtree(_root(history) / attempt.folder("findings"))
    with pytest.raises(HistoryError, match="findings is not there any more"):
        history.commit(attempt, NOON, b"{}")
    assert history.manifests("prod") == []


def test_rows_of_one_scan_are_told_from_those_of_others(history):
    committed(history, "a", count=3)
    committed(history, "b", count=1)
    assert len(history.rows("topics", history.manifests("prod"))) == 4
    assert history.rows("topics", history.manifests("prod"), "b")["scan_id"].to_pylist() == ["b"]


class Disk:
    """What would be left after the power went: files and folders that were synced since they changed last."""

    def __init__(self, monkeypatch, root):
        self.synced, self.named = set(), []
        fsync, replace = os.fsync, os.replace

        def synced(opened):
            self.synced.add(Path(f"/proc/self/fd/{opened}").readlink())
            fsync(opened)

        def replaced(partial, target):
            assert Path(partial) in self.synced
            if "/manifests/" in target:
                self.named.append((Path(target), frozenset(self.synced)))
            replace(partial, target)
            self.synced = (self.synced | {Path(target)}) - {Path(target).parent}

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", replaced)
        self._root = root

    def path_of(self, file):
        """The file and the folders that lead to it, that in which the history lies included."""
        return {file, *(folder for folder in file.parents if folder.is_relative_to(self._root.parent))}


def test_all_that_a_manifest_names_is_on_the_disk_before_it_and_the_manifest_before_the_commit_ends(
    history, monkeypatch
):
    disk = Disk(monkeypatch, _root(history))
    manifests = [committed(history, "a"), committed(history, "b")]
    history.compact("prod", NOON.date() + DAY)
    manifests += history.manifests("prod")
    assert len(disk.named) == len(manifests) == 3
    for (manifest, before), named in zip(disk.named, manifests, strict=True):
        files = [*(path for paths in named.tables.values() for path in paths), *(one.document for one in named.scans)]
        assert len(files) >= len(TABLES) + 1
        for file in files:
            assert disk.path_of(_root(history) / file) <= before
        assert disk.path_of(manifest) - {manifest} <= disk.synced


# --- order ------------------------------------------------------------------------------------------------------------


def test_scans_are_ordered_by_their_sequence_whatever_the_clock_does(history):
    for scan_id, when in (("a", NOON), ("ahead", NOON + 4000 * DAY), ("back", NOON - 9000 * DAY), ("now", NOON + DAY)):
        committed(history, scan_id, when=when)
        assert history.latest("prod").newest.scan_id == scan_id
    assert scan_ids(history) == ["a", "ahead", "back", "now"]


def _commit_many(location, writer):
    history = History(location)
    for number in range(5):
        committed(history, f"{writer}-{number}")


def test_writers_side_by_side_are_all_seen_each_in_its_own_order(history):
    # Fresh processes: a fork of one that has Arrow's threads may hang.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for task in [pool.submit(_commit_many, history.location, writer) for writer in "xy"]:
            task.result(timeout=60)
    found = scan_ids(history)
    for writer in "xy":
        assert [scan for scan in found if scan[0] == writer] == [f"{writer}-{number}" for number in range(5)]
    committed(history, "after")
    assert scan_ids(history) == [*found, "after"]
    assert len(history.rows("scans", history.manifests("prod"))) == 22


def test_clusters_do_not_see_each_other(history):
    committed(history, "a", "prod")
    committed(history, "b", "prod2")
    assert (scan_ids(history, "prod"), scan_ids(history, "prod2")) == (["a"], ["b"])
    assert history.latest("prod2").newest.sequence == 1


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_of_a_cluster_and_of_a_scan_can_be_kept_and_found_again(history, name):
    committed(history, name, name)
    committed(history, f"{name}2", name)
    history.compact(name, NOON.date() + DAY)
    committed(history, f"{name}3", name)
    assert history.clusters() == [name]
    assert scan_ids(history, name) == [name, f"{name}2", f"{name}3"]
    assert all(path.count("cluster=") == 1 and "/../" not in path for path in files(history))


# --- compacting -------------------------------------------------------------------------------------------------------


def test_compacting_keeps_every_row_of_every_table(history):
    for number, when in enumerate([NOON, NOON, NOON, NOON + DAY, NOON + DAY, NOON + 2 * DAY]):
        committed(history, f"scan-{number}", when=when, count=number + 1)
    before, order = contents(history), scan_ids(history)
    assert history.compact("prod", NOON.date() + 2 * DAY) == 2
    assert contents(history) == before
    assert scan_ids(history) == order
    assert len(history.manifests("prod")) == 3
    assert history.compact("prod", NOON.date() + 2 * DAY) == 0
    assert history.document(history.entry("prod", "scan-1")) == b'"scan-1"'


def test_a_late_scan_joins_a_day_that_is_compacted_already(history):
    committed(history, "a")
    committed(history, "b")
    history.compact("prod", NOON.date() + DAY)
    committed(history, "c")
    assert scan_ids(history) == ["a", "b", "c"]
    history.compact("prod", NOON.date() + DAY)
    assert scan_ids(history) == ["a", "b", "c"]
    assert len(history.manifests("prod")) == 1


def test_who_listed_before_a_day_was_compacted_or_forgotten_can_go_on_reading(history):
    committed(history, "a")
    committed(history, "b")
    listed = history.manifests("prod")
    before = history.rows("findings", listed)
    history.compact("prod", NOON.date() + DAY)
    history.sweep("prod", NOON + 300 * DAY)
    assert history.rows("findings", listed).equals(before)
    listed = history.manifests("prod")
    history.expire("prod", NOON.date() + DAY)
    history.sweep("prod", NOON + 300 * DAY + DAY / 2)
    assert len(history.rows("findings", listed)) == 4


def test_two_that_compact_the_same_day_lose_no_scan(history):
    """One has seen less than the other and comes last: what it has not seen has to stay."""
    committed(history, "a")
    committed(history, "b")
    seen = history.manifests("prod")
    slow = _SlowHistory(history.location, seen)
    committed(history, "c")
    history.compact("prod", NOON.date() + DAY)
    slow.compact("prod", NOON.date() + DAY)
    assert scan_ids(history) == ["a", "b", "c"]
    assert len(history.rows("topics", history.manifests("prod"))) == 6


class _SlowHistory(History):
    def __init__(self, location, seen):
        super().__init__(location)
        self._seen = seen

    def manifests(self, cluster, since=None):
        return self._seen


def test_readers_never_see_half_a_scan_while_others_write_compact_and_sweep(history):
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            manifests = history.manifests("prod")
            per_table = {table: history.rows(table, manifests)["scan_id"].to_pylist() for table in TABLES}
            seen.append({tuple(sorted(ids)) for ids in per_table.values()})

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(10):
            committed(history, f"scan-{number}", when=NOON + number // 3 * DAY)
            history.compact("prod", NOON.date() + 100 * DAY)
            history.sweep("prod", NOON)
        done.set()
        for reader in readers:
            reader.result(timeout=60)
    assert seen
    assert all(len(tables) == 1 for tables in seen)
    assert all(ids.count(scan) == 2 for tables in seen for ids in tables for scan in ids)


# --- forgetting -------------------------------------------------------------------------------------------------------


def test_forgetting_takes_whole_days_and_leaves_the_others(history):
    for number in range(4):
        committed(history, f"scan-{number}", when=NOON + number * DAY)
    assert history.expire("prod", NOON.date() + 2 * DAY) == 2
    assert scan_ids(history) == ["scan-2", "scan-3"]
    assert history.expire("prod", NOON.date() + 2 * DAY) == 0


def test_sweeping_deletes_what_has_not_been_named_for_a_day_and_nothing_else(history):
    committed(history, "a")
    named = files(history)
    written(history, "killed")
    kept = contents(history)
    assert history.sweep("prod", NOON) == 0  # perhaps it is only slow
    assert history.sweep("prod", NOON + DAY - timedelta(minutes=1)) == 0
    assert history.sweep("prod", NOON + DAY) == len(TABLES)
    assert [path for path in files(history) if not path.startswith("unused/")] == named
    assert contents(history) == kept


def test_what_is_committed_meanwhile_is_not_swept(history):
    attempt = written(history, "slow")
    history.sweep("prod", NOON)
    history.commit(attempt, NOON, b'"slow"')
    assert history.sweep("prod", NOON + 5 * DAY) == 0
    assert len(history.rows("findings", history.manifests("prod"))) == 2


def test_a_clock_that_goes_back_only_delays_the_sweeping(history):
    written(history, "killed")
    history.sweep("prod", NOON + 900 * DAY)
    assert history.sweep("prod", NOON) == 0
    assert history.sweep("prod", NOON + DAY) == len(TABLES)


def test_space_comes_back_after_compacting_and_forgetting(history):
    for scan in "abc":
        committed(history, scan)
    history.compact("prod", NOON.date() + DAY)
    for now in (NOON, NOON + DAY):
        history.sweep("prod", now)
    assert sum(path.startswith("findings/") for path in files(history)) == 1
    history.expire("prod", NOON.date() + DAY)
    for now in (NOON + DAY, NOON + 2 * DAY):
        history.sweep("prod", now)
    assert [path for path in files(history) if not path.startswith("unused/")] == []


# --- what others have left there --------------------------------------------------------------------------------------


def committed_with(history, table, rows):
    """A scan of which one table was written by another version."""
    attempt = written(history, "a")
    pq.write_table(rows, _root(history) / attempt.folder(table) / "part-0.parquet")
    history.commit(attempt, NOON, b"{}")


def test_a_column_that_older_files_lack_reads_as_null(history):
    committed_with(history, "brokers", rows("brokers", "a").drop_columns(["changed", "rack"]))
    found = history.rows("brokers", history.manifests("prod"))
    assert found.schema.equals(TABLES["brokers"])
    assert found["changed"].to_pylist() == [None, None]
    assert found["broker"].to_pylist() == [0, 1]


def test_a_column_of_a_newer_version_is_passed_over(history):
    committed_with(history, "brokers", rows("brokers", "a").append_column("later", pa.array([1, 2])))
    assert history.rows("brokers", history.manifests("prod")).column_names == TABLES["brokers"].names


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is no manifest"),
        (b'{"cluster":"prod","day":"2026', "is no manifest"),
        (b"\xff\xfe\x00", "is no manifest"),
        (b'{"some":"thing else"}', "is no manifest"),
        (b'{"cluster":"prod","day":"2026-03-10","scans":[],"tables":{}}', "it names no scan"),
    ],
)
def test_a_manifest_that_is_cut_or_foreign_is_named(history, text, sentence):
    committed(history, "a")
    (path,) = (_root(history) / "manifests").rglob("*.json")
    path.write_bytes(text)
    with pytest.raises(HistoryError, match=sentence) as told:
        history.manifests("prod")
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_manifest_of_a_newer_version_is_refused(history):
    manifest = committed(history, "a")
    (path,) = (_root(history) / "manifests").rglob("*.json")
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, version=2)))
    with pytest.raises(HistoryError, match="version 2, which a newer rackspan wrote"):
        history.latest("prod")


LEADS_OUTSIDE = [
    "/etc/passwd",
    "../elsewhere/part-0.parquet",
    "findings/cluster=prod/date=2026-03-10/../../../../elsewhere/part-0.parquet",
    "findings/cluster=prod/date=2026-03-10/..",
    "findings/cluster=prod/date=2026-03-10/.",
    "findings/cluster=prod/date=2026-03-10//etc",
    "findings/cluster=prod/date=2026-03-10/",
    "findings/cluster=prod/date=2026-03-10/{a,b}/*.parquet",
    "findings/cluster=prod/date=2026-03-10/a\n/part-0.parquet",
    "findings/cluster=other/date=2026-03-10/a/part-0.parquet",
    "findings/cluster=prod/date=2026-03-11/a/part-0.parquet",
    "manifests/cluster=prod/date=2026-03-10/a.json",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("path", LEADS_OUTSIDE)
def test_a_path_of_a_manifest_that_leads_elsewhere_is_not_followed(history, path, compacted):
    committed(history, "a")
    manifest = committed(history, "b")
    if compacted:
        history.compact("prod", NOON.date() + DAY)
        (manifest,) = history.manifests("prod")
    (*_, file) = sorted((_root(history) / "manifests").rglob("*.json"))
    replace = msgspec.structs.replace
    for foreign in (
        replace(manifest, tables=manifest.tables | {"findings": [path]}),
        replace(manifest, scans=[replace(scan, document=path) for scan in manifest.scans]),
    ):
        file.write_bytes(msgspec.json.encode(foreign))
        again = History(history.location)
        for use in (again.manifests, again.latest, lambda name, again=again: again.sweep(name, NOON)):
            with pytest.raises(HistoryError) as told:
                use("prod")
            assert str(told.value) == f"{file}: names a file that no scan of its day wrote: {path!r}"


def test_files_that_are_none_of_ours_are_passed_over(history):
    committed(history, "a")
    manifests = _root(history) / "manifests"
    (manifests / ".DS_Store").write_text("")
    (manifests / "cluster=prod" / "notes.txt").write_text("")
    (manifests / "cluster=prod" / f"date={NOON.date()}" / "README.json").write_text("hello")
    assert scan_ids(history) == ["a"]
    assert history.clusters() == ["prod"]
    assert history.compact("prod", date(2100, 1, 1)) == 0
    assert history.expire("prod", date(2000, 1, 1)) == 0


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
def test_a_data_file_that_is_not_what_was_committed_is_named(history, damage, compacted, table):
    committed(history, "a")
    committed(history, "b")
    if compacted:
        history.compact("prod", NOON.date() + DAY)
    manifests = history.manifests("prod")
    path = manifests[-1].tables[table][0]
    DAMAGES[damage](_root(history) / path)
    with pytest.raises(HistoryError) as told:
        history.rows(table, manifests)
    assert str(told.value).startswith(f"history {_root(history) / path}: ")
    assert "\n" not in str(told.value)


def test_an_empty_data_file_is_named_where_its_manifest_is_of_before_sizes_were_kept(history):
    manifest = msgspec.structs.replace(committed(history, "a"), sizes={})
    assert len(history.rows("findings", [manifest])) == 2
    (_root(history) / manifest.tables["findings"][0]).write_bytes(b"")
    with pytest.raises(HistoryError, match=r"part-0\.parquet: has 0 bytes: restore it"):
        history.rows("findings", [manifest])


def test_a_scan_with_an_empty_data_file_is_not_committed(history):
    attempt = written(history, "a")
    (_root(history) / attempt.folder("findings") / "part-0.parquet").write_bytes(b"")
    with pytest.raises(HistoryError, match="findings is not there any more"):
        history.commit(attempt, NOON, b"{}")
    assert history.manifests("prod") == []


@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_a_document_that_is_damaged_is_an_error_of_the_history(history, damage):
    committed(history, "a")
    entry = history.entry("prod", "a")
    whole = (_root(history) / entry.document).read_bytes()
    DAMAGES[damage](_root(history) / entry.document)
    if damage == "cut":
        (_root(history) / entry.document).write_bytes(whole[:-4])
    with pytest.raises(HistoryError, match="history "):
        history.document(entry)


@pytest.mark.parametrize("location", ["nowhere://bucket/x", "gibberish://"])
def test_a_location_that_makes_no_sense_is_refused(location):
    with pytest.raises(HistoryError, match="is no location that can be used"):
        History(location)


def test_a_location_that_is_a_file_is_told_in_one_sentence(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    history = History(str(path))
    with pytest.raises(HistoryError, match=f"history {path}"):
        written(history, "a")


def test_a_disk_that_is_full_leaves_the_history_as_it_was(history):
    committed(history, "a")
    before, kept = contents(history), files(history)
    code = f"""
import resource, signal
from tests.unit.jobs.tables import committed
from rackspan.jobs.history.scan_history import History, HistoryError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
try:
    committed(History({history.location!r}), "b")
except HistoryError as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(f"told: history {history.location}")
    assert contents(history) == before
    assert scan_ids(history) == ["a"]
    assert set(kept) <= set(files(history))
