"""The scan job takes one cluster of a request after the other."""

import json
from contextlib import contextmanager
from dataclasses import fields

from tests.support.command import cluster, topic

from rackspan.jobs.scan import scan_job
from rackspan.jobs.scan.scan_request import ScanRequest


def test_each_cluster_of_a_folder_has_the_time_at_which_its_own_scan_begins(tmp_path, monkeypatch):
    for name in ("east", "west"):
        (tmp_path / f"{name}.json").write_text(json.dumps(cluster(topic("orders", [0, 3]))))
    runs = []

    @contextmanager
    def nothing(*_):
        yield None

    monkeypatch.setattr(scan_job, "_spark", nothing)
    monkeypatch.setattr(scan_job, "scan_cluster", lambda _spark, one, run, _tell: runs.append((one.name, run)))
    nobody = dict.fromkeys(one.name for one in fields(ScanRequest))
    list(scan_job.scan_clusters(ScanRequest(**{**nobody, "snapshot": tmp_path, "levels": ()}), nothing, runs.append))
    (first, east), (second, west) = runs
    assert (first, second) == ("east", "west")
    assert east.observed_at < west.observed_at
    assert east.scan_id == west.scan_id
