"""Run `rackspan` and measure its steps: `python -m benchmarks.scans.clocked FILE STARTED ARGUMENTS...`.

The scan document has the seconds of its own steps, but not those of the steps before and after it: the starts of Python
and Spark, the commit, the maintenance of the history, and the page. FILE receives the seconds of all steps by name, as
JSON. STARTED is the value of `time.monotonic()` when the caller started this process.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rackspan import cli
from rackspan.cli.actions import scanning_clusters as command
from rackspan.jobs.history.scan_history import History, ScanWriter
from rackspan.jobs.scan import cluster_scan
from rackspan.jobs.spark import spark_session

START, SPARK, TREND, COMMIT, TIDY, PAGE = (
    "starting Python",
    "starting Spark",
    "looking at the trend",
    "committing",
    "tidying the history",
    "writing the page",
)


class Clock:
    """Measures seconds by step. The seconds of an inner step are subtracted from the outer step."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._under: list[str] = []

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        self._under.append(name)
        started = time.monotonic()
        try:
            yield
        finally:
            passed = time.monotonic() - started
            self._under.pop()
            self.seconds[name] += passed
            if self._under:
                self.seconds[self._under[-1]] -= passed

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.timing(name):
                return work(*arguments, **options)

        return timed


def main(file: str, started: str, *arguments: str) -> int:
    clock = Clock()
    clock.seconds[START] = time.monotonic() - float(started)
    spark_session.spark_session = clock.around(SPARK, spark_session.spark_session)
    command.page_of = clock.around(PAGE, command.page_of)
    for name in ("append", "commit"):
        setattr(ScanWriter, name, clock.around(COMMIT, getattr(ScanWriter, name)))
    for name in ("compact", "expire", "vacuum"):
        setattr(History, name, clock.around(TIDY, getattr(History, name)))
    cluster_scan.scan_cluster = _with_steps(clock, cluster_scan.scan_cluster)
    sys.argv = ["rackspan", *arguments]
    try:
        cli.app()
    except SystemExit as done:
        return int(done.code or 0)
    finally:
        Path(file).write_text(json.dumps(clock.seconds))
    return 0


def _with_steps(clock: Clock, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that also records the seconds of the steps in the scan document."""

    def timed(*arguments: Any) -> Any:
        document = work(*arguments)
        for name, seconds in document.seconds.items():
            clock.seconds[name] += seconds
        return document

    return timed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
