"""`python -m benchmarks.scans.history_once LOCATION`: run each history query of a scan once, in this process."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TypeVar

import pyarrow as pa

from benchmarks.scans.year import CLUSTER
from rackspan.jobs.batches import aggregates
from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.jobs.history.queries import query
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.comparison import Comparison

T = TypeVar("T")
_WEEK = timedelta(days=7)


def main(location: str) -> None:
    history = History(location)
    seconds: dict[str, float] = {}
    rows: dict[str, int] = {}

    def timed(name: str, work: Callable[[], T], size: Callable[[T], int]) -> T:
        started = perf_counter()
        done = work()
        seconds[name], rows[name] = perf_counter() - started, size(done)
        return done

    every = timed("History.scans", lambda: history.scans(CLUSTER), len)
    if not every:
        sys.exit("the history is empty")
    latest = every[-1:]
    lately = [entry for entry in every if entry.day > latest[0].day - _WEEK]
    asked = {
        "days": lambda: aggregates.days(history.rows("scans", every)),
        "topic_minutes": lambda: aggregates.topic_minutes(
            history.parts("topics", every, ["topic", "violation_minutes"])
        ),
        "flaps, of a week": lambda: aggregates.flaps(history.parts("brokers", lately, ["broker", "changed"])),
        "flaps, of all": lambda: aggregates.flaps(history.parts("brokers", every, ["broker", "changed"])),
        "view open_findings": lambda: query(location, "SELECT * FROM open_findings"),
    }
    for name, work in asked.items():
        timed(name, work, len)
    timed("comparing two scans", lambda: _compared(history.rows("findings", every[-2:-1]), history), len)
    print(json.dumps({"seconds": seconds, "rows": rows}))


def _compared(found: pa.Table, history: History) -> list[object]:
    """Compare two scans as a scan does. Return the new findings and the worst cleared findings."""
    compared = Comparison(PreviousScan(history, CLUSTER), datetime.now(UTC))
    seen = compared.findings(found.drop_columns("first_seen"))
    return [*seen.filter(seen["new"]).to_pylist(), *compared.worst_cleared().to_pylist()]


if __name__ == "__main__":
    main(sys.argv[1])
