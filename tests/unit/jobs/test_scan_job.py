"""The scan job takes one cluster of a request after the other."""

import json
from contextlib import contextmanager
from dataclasses import fields

import pytest
from tests.support.command import cli, cluster, topic

from rackspan.jobs import scan_job
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.scan_request import ScanRequest


def test_each_cluster_of_a_folder_has_the_time_at_which_its_own_scan_begins(tmp_path, monkeypatch):
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
def test_a_history_that_cannot_be_written_is_one_sentence_before_spark_starts(tmp_path, monkeypatch, location):
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


def test_trying_to_write_leaves_nothing(tmp_path):
    History(str(tmp_path / "a" / "history")).try_writing()
    assert list((tmp_path / "a" / "history").iterdir()) == []


def test_producers_that_are_named_are_in_the_document_and_in_the_text(tmp_path):
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


def test_where_brokers_have_no_racks_nothing_is_written_near(tmp_path):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(cluster(topic("orders", [0, 1], isr=[0, 1]), racks={0: None, 1: None})))
    scanned = ("scan", "--snapshot", file, "--producers", "/eu", "--page", tmp_path / "page.html")
    assert "producers: 0% of records to leaders in their own domain" in cli(*scanned).out
    assert "no broker reports this id" in (tmp_path / "page.html").read_text()
