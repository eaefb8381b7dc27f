"""Migration of a history of an earlier version to Delta tables: every scan, row and document once."""

import base64
import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.command import cli
from tests.unit.jobs.tables import NOON, committed

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.migration import migrate
from rackspan.jobs.history.scan_history import History, HistoryError, ScanWriter
from rackspan.reports.document import decode, encode

WRITTEN = json.loads(Path(__file__).with_name("history_of_the_old_layout.json").read_text())

LATER = {"topics": {"move_bytes": None}}
"""Columns that the old layout did not have."""


@pytest.fixture
def old(tmp_path):
    for path, data in WRITTEN["files"].items():
        file = tmp_path / "old" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))
    return tmp_path / "old"


def contents(history, cluster):
    scans = history.scans(cluster)
    tables = {table: history.rows(table, scans).to_pylist() for table in TABLES}
    documents = [as_written(history.document(entry)) for entry in scans]
    found = {"scans": [entry.scan_id for entry in scans], "documents": documents, "tables": tables}
    return ordered(json.loads(json.dumps(found, default=str)))


def ordered(found):
    tables = {name: [{**LATER.get(name, {}), **row} for row in rows] for name, rows in found["tables"].items()}
    documents = [as_written(decode(json.dumps(document))) for document in found["documents"]]
    return {
        **found,
        "documents": documents,
        "tables": {name: sorted(rows, key=repr_of) for name, rows in tables.items()},
    }


def as_written(document):
    return json.loads(encode(document))


def repr_of(row):
    return repr(sorted(row.items()))


def test_migration_copies_all_scans_once_and_keeps_the_old_history(old, tmp_path):
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    ran = [cli("history", "migrate", old, tmp_path / "new") for _ in range(2)]
    assert [one.code for one in ran] == [0, 0]
    assert [one.out for one in ran] == ["scans copied: 4\n", "scans copied: 0\n"]
    history = History(str(tmp_path / "new"))
    assert {name: contents(history, name) for name in history.clusters()} == {
        name: ordered(found) for name, found in WRITTEN["expected"].items()
    }
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_migrated_scans_have_consecutive_sequences(old, tmp_path):
    history = History(str(tmp_path / "new"))
    assert migrate(str(old), history, lambda _: None) == 4
    assert [(entry.scan_id, entry.sequence) for entry in history.scans("prod")] == [("a", 1), ("b", 2), ("c/1", 3)]


def test_compaction_by_a_scan_keeps_the_rows_of_a_migration_that_runs(old, tmp_path, monkeypatch):
    history, append = History(str(tmp_path / "new")), ScanWriter.append
    scan = committed(history, "new", when=NOON + timedelta(days=9))

    def compacted(writer):
        append(writer)
        History(history.location).compact(scan)

    monkeypatch.setattr(ScanWriter, "append", compacted)
    migrate(str(old), history, lambda _: None)
    *copied, _ = sorted(history.scans("prod"), key=lambda entry: entry.observed_at)
    expected = {name: len(rows) for name, rows in WRITTEN["expected"]["prod"]["tables"].items()}
    assert {name: len(history.rows(name, copied)) for name in expected} == expected


def test_history_of_the_old_layout_is_rejected_with_the_command_that_migrates_it(old, tmp_path):
    sentence = f"history {old}: has the layout of an earlier version: rackspan history migrate {old} NEW"
    for use in (lambda one: one.try_writing(), lambda one: one.scans("prod"), lambda one: one.clusters()):
        with pytest.raises(HistoryError) as told:
            use(History(str(old)))
        assert str(told.value) == sentence
    ran = cli("history", "migrate", old, old)
    assert (ran.code, ran.errors) == (2, [sentence])


DATA, DOCUMENT, MANIFEST = "findings/*prod/*-11/*/*.parquet", "documents/*prod/*/c*", "manifests/*prod/*/*c*"


@pytest.mark.parametrize(
    ("kind", "damage"),
    [*((kind, damage) for kind in (DATA, DOCUMENT) for damage in ("gone", "cut", "empty")), (MANIFEST, "cut")],
)
def test_damaged_file_is_an_error_and_its_scan_is_not_copied(old, tmp_path, kind, damage):
    (file,) = old.glob(kind)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:40] if damage == "cut" else b"")
    history = History(str(tmp_path / "new"))
    with pytest.raises(HistoryError) as told:
        migrate(str(old), history, lambda _: None)
    assert "\n" not in str(told.value)
    assert "c/1" not in [entry.scan_id for entry in history.scans("prod")]


@pytest.mark.parametrize("path", ["/etc/passwd", "findings/cluster=prod/date=2026-03-11/../../x", "../x", ""])
def test_manifest_that_names_a_foreign_file_is_rejected(old, tmp_path, path):
    (file,) = old.glob("manifests/*prod*/*/*c*")
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({**manifest, "tables": {**manifest["tables"], "findings": [path]}}))
    with pytest.raises(HistoryError, match="names a file that no scan of its day wrote"):
        migrate(str(old), History(str(tmp_path / "new")), lambda _: None)


@pytest.mark.parametrize("is_there", [True, False])
def test_directory_without_a_history_is_rejected(tmp_path, is_there):
    if is_there:
        shutil.copytree(Path(__file__).parent, tmp_path / "other")
    ran = cli("history", "migrate", tmp_path / "other", tmp_path / "new")
    assert (ran.code, (tmp_path / "new").exists()) == (2, False)
    what = "has no folder manifests: it is not one that an earlier version wrote"
    assert ran.error == f"history {tmp_path / 'other'}: {what}"
