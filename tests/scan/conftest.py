"""One Spark session for the directory, scans as a command and as a function, and clusters from test data."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from tests.support.command import Ran, cli
from tests.support.processes import run_in_process
from tests.support.progress import Steps

from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import from_file
from rackspan.jobs.spark.spark_engine import on_spark
from rackspan.jobs.spark.spark_session import spark_session

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def spark():
    session = spark_session("local[2]", "1g")
    yield session
    session.stop()


@pytest.fixture
def rackspan(spark, monkeypatch):
    """Run the command in this process: `rackspan("scan", "--snapshot", file)`. The Spark session stays open."""
    monkeypatch.setattr(SparkSession, "stop", lambda _self: None)
    return cli


@pytest.fixture
def process(tmp_path):
    """Run the command in a separate process."""

    def run(*arguments, **options) -> Ran:
        return run_in_process(tmp_path, *arguments, **options)

    return run


@pytest.fixture
def history(tmp_path):
    return History(str(tmp_path / "history"))


class Given:
    """A reader of tables of PARTITIONS, each of which is a slice."""

    def __init__(self, tables):
        self._tables = tables

    def slices(self, known, least):
        return self._tables

    def read(self, part):
        yield from part.to_batches()


class Scans:
    """Scans of snapshot files into one history. Tests give the times in minutes after noon."""

    def __init__(self, engine, history, folder):
        self._engine = engine
        self.history = history
        self._folder = folder

    def __call__(self, document, scan_id, minutes=0, *, name="prod", retention_days=None, levels=()):
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps(document))
        order = ScanRun(scan_id, NOON + timedelta(minutes=minutes), self.history, retention_days)
        warnings = []
        found = scan_cluster(self._engine, from_file(file, levels), order, Steps(), warnings.append)
        assert warnings == []
        return found

    def rows(self, table, scan_id=None, name="prod"):
        scans = [entry for entry in self.history.scans(name) if scan_id in (None, entry.scan_id)]
        return self.history.rows(table, scans).to_pylist()


@pytest.fixture(params=["local", "spark"])
def engine(request):
    """Each of the two engines."""
    return in_process if request.param == "local" else on_spark(request.getfixturevalue("spark"), 3)


@pytest.fixture
def scans(history, tmp_path):
    return Scans(in_process, history, tmp_path)
