"""A running scan reports its step and the number of judged slices. Its document has the time of each step."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.scan.conftest import NOON
from tests.support.progress import Steps

from rackspan.jobs.history.delta_tables import DeltaTables
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import synthetic
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark import spark_engine

STEPS = [
    "reading and judging partitions",
    "counting and comparing findings",
    "writing the history",
    "looking at the trend",
]
PAUSE = 0.3


class Slow:
    """A reader of five slices, each of which takes some seconds."""

    def __init__(self, reader, seconds):
        self._reader = reader
        self._seconds = seconds

    def slices(self, known, least):
        return self._reader.slices(known, 5)

    def read(self, part):
        time.sleep(self._seconds)
        yield from self._reader.read(part)


@pytest.fixture
def made():
    return synthetic(SyntheticCluster(2_000))


def test_progress_counts_slices_while_they_are_judged(engine, made):
    steps = Steps()
    seconds = 0.1 if engine is in_process else 3  # progress of Spark is polled
    scan_cluster(engine, replace(made, reader=Slow(made.reader, seconds)), ScanRun("a", NOON), steps, print)
    counts = [done for done, _ in steps.advanced]
    assert {total for _, total in steps.advanced} == {5}
    assert counts == sorted(counts)
    assert set(counts) & {1, 2, 3, 4}


def test_progress_does_not_go_back_when_spark_lists_no_active_stage(monkeypatch):
    completed, steps, seen = [None, 1, 3, None, 4, None], Steps(), threading.Event()

    class Tracker:
        def getActiveStageIds(self):  # noqa: N802 - of PySpark
            if not completed:
                seen.set()
            return [1] if completed and completed[0] is not None else []

        def getStageInfo(self, _):  # noqa: N802
            return SimpleNamespace(numCompletedTasks=completed[0])

    def advance(done, total):
        steps.advance(done, total)
        if completed:
            completed.pop(0)

    monkeypatch.setattr(spark_engine, "_POLL_SECONDS", 0.01)
    with spark_engine._followed(SimpleNamespace(statusTracker=Tracker), 5, advance):
        assert seen.wait(60)
    assert [done for done, _ in steps.advanced[:6]] == [0, 1, 3, 3, 4, 4]


def test_steps_are_named_and_their_time_includes_the_commits(engine, made, history, monkeypatch):
    append = DeltaTables.append
    appended = []

    def slowly(self, name, files):
        time.sleep(PAUSE)
        appended.append(name)
        append(self, name, files)

    monkeypatch.setattr(DeltaTables, "append", slowly)
    steps = Steps()
    document = scan_cluster(engine, made, ScanRun("a", NOON, history), steps, print)
    assert list(dict.fromkeys(steps.described)) == [f"{made.name}: {step}" for step in STEPS]
    assert list(document.seconds) == STEPS
    assert document.seconds["writing the history"] >= PAUSE * len(appended) > 0
