"""The scan job, which scans the clusters of a request one after the other."""

import json
import pickle
from contextlib import contextmanager
from dataclasses import fields, replace

import pytest
from tests.support.command import cli, cluster, topic
from tests.support.progress import Steps
from tests.unit.jobs.tables import NOON

from rackspan.jobs import scan_job
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.scan.scan_request import ScanRequest
from rackspan.jobs.sources.scanned_cluster import ClusterError, from_file


def test_each_cluster_of_a_directory_has_the_start_time_of_its_own_scan(tmp_path, monkeypatch):
    for name in ("east", "west"):
        (tmp_path / f"{name}.json").write_text(json.dumps(cluster(topic("orders", [0, 3]))))
    runs = []

    @contextmanager
    def nothing(*_):
        yield None

    monkeypatch.setattr(scan_job, "_spark", nothing)
    monkeypatch.setattr(scan_job, "scan_cluster", lambda _engine, one, run, *_: runs.append((one.name, run)))
    nobody = dict.fromkeys(one.name for one in fields(ScanRequest))
    list(scan_job.scan_clusters(ScanRequest(**{**nobody, "snapshot": tmp_path, "levels": ()}), nothing, runs.append))
    (first, east), (second, west) = runs
    assert (first, second) == ("east", "west")
    assert east.observed_at < west.observed_at
    assert east.scan_id == west.scan_id


@pytest.mark.parametrize("location", ["file", "file/below", "/proc/history"])
def test_unwritable_history_is_a_one_line_error_before_spark_starts(tmp_path, monkeypatch, location):
    (tmp_path / "file").write_text("")
    (tmp_path / "cut.json").write_text("{")
    for name in ("east", "west"):
        (tmp_path / f"{name}.json").write_text(json.dumps(cluster(topic("orders", [0, 3]))))
    monkeypatch.setattr(scan_job, "_spark", lambda *_: pytest.fail("Spark was started"))
    place = tmp_path / location
    ran = cli("scan", "--snapshot", tmp_path, "--history", place, "-o", "json")
    assert ran.code == 2
    cut, east, west = ran.json["scans"]
    assert (cut["reason"], east["reason"], west["reason"]) == ("SnapshotUnreadable", *["HistoryUnavailable"] * 2)
    assert ran.errors[1:] == [f"east, west: {east['message']}"]
    assert east["message"].startswith(f"history {place} cannot be written: ")
    assert east["message"].endswith("; give the right to write there, or name another --history")


def test_try_writing_leaves_no_files(tmp_path):
    History(str(tmp_path / "a" / "history")).try_writing()
    assert list((tmp_path / "a" / "history").iterdir()) == []


def test_producers_of_the_command_line_are_in_the_document_and_in_the_text(tmp_path):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(cluster(topic("orders", [0, 3], [3, 0], isr=[0, 3]))))
    arguments = ("scan", "--snapshot", file, "--levels", "region,zone,rack", "--producers", "/eu/eu-1a/r1=2")
    ran = cli(*arguments, "--producers", "eu", "-o", "json")
    document = ran.json
    assert [(row["rack"], row["producers"], row["reported"]) for row in document["writes"]["racks"]] == [
        ("/eu/eu-1a/r1", 2, True),
        ("eu", 1, False),
    ]
    assert document["writes"]["couldBeNear"] == pytest.approx(2 / 3, abs=1e-6)
    assert "producers: 50% of records to leaders in their own rack, with" in cli(*arguments).out
    assert cli(*arguments[:5], "-o", "json").json["writes"] is None


def test_producers_have_no_near_writes_if_brokers_have_no_racks(tmp_path):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(cluster(topic("orders", [0, 1], isr=[0, 1]), racks={0: None, 1: None})))
    scanned = ("scan", "--snapshot", file, "--producers", "/eu", "--page", tmp_path / "page.html")
    assert "producers: 0% of records to leaders in their own domain" in cli(*scanned).out
    assert "no broker reports this id" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("racks", "named", "is_scanned"),
    [
        ({0: "/a", 1: "/b"}, "prod", True),
        ({0: "/a", 1: "/a"}, "prod", False),
        ({0: "/a", 1: None}, "prod", False),
        ({0: "/a", 1: "/b", 2: "/c"}, "prod", False),
        ({0: "/a", 1: "/b"}, "other", False),
    ],
)
def test_snapshot_is_scanned_only_by_its_own_brokers(tmp_path, racks, named, is_scanned):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(cluster(topic("orders", [0, 1]), racks={0: "/a", 1: "/b"})))
    prepared = from_file(file)
    prepared = replace(prepared, reader=pickle.loads(pickle.dumps(prepared.reader)))  # as Spark sends it
    file.write_text(json.dumps(cluster(topic("orders", [0, 1], [1, 0]), racks=racks, name=named)))

    def scan():
        return scan_cluster(in_process, prepared, ScanRun("one", NOON), Steps(), print)

    if is_scanned:
        assert scan().summary.partitions == 2
    else:
        with pytest.raises(ClusterError) as told:
            scan()
        assert str(told.value) == f"{file}: was replaced during the scan: scan again"
        assert told.value.reason == "SnapshotUnreadable"
