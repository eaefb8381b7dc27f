"""The history of a year with a scan every half hour: its size, the time of queries, and the next scan."""

import gzip
import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.scans import whole, year
from benchmarks.scans.processes import module, note, run
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History
from rackspan.snapshots import snapshot_lines

DAYS, QUICK_DAYS = 365, 14
AIM_SECONDS = 20
EVERYTHING = ("flaps, of all", "view open_findings")
"""Queries that scans do not use. They are for users who read the tables."""


def benchmark(repeat: int, *, quick: bool) -> None:
    days = QUICK_DAYS if quick else DAYS
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as scratch:
        folder = Path(scratch)
        location = folder / "history"
        started = perf_counter()
        for number, day in enumerate(year.write(History(str(location)), days, datetime.now(UTC).date()), 1):
            if number % 50 == 0 or number == days:
                note(f"{day}: {number} of {days} days written, {perf_counter() - started:.0f} s")
        print(
            f"{days} days with {year.SCANS_A_DAY} scans of {year.PARTITIONS:,} partitions in {year.TOPICS:,} topics on "
            f"{year.BROKERS} brokers. The last day is not compacted yet. Medians of {repeat} runs, each in a separate "
            "process.\n"
        )
        _sizes(location, days)
        _queries(location, repeat)
        _scan(folder, location)


def _sizes(location: Path, days: int) -> None:
    print("| table | files | MB | rows | bytes per row |\n| --- | ---: | ---: | ---: | ---: |")
    history = History(str(location))
    every = history.scans(year.CLUSTER)
    for table in TABLES:
        files = list((location / table).glob("cluster=*/*/*.parquet"))
        size, rows = sum(file.stat().st_size for file in files), len(history.rows(table, every))
        print(f"| {table} | {len(files):,} | {size / 1e6:.1f} | {rows:,} | {size / max(rows, 1):.1f} |")
    files = list(location.glob("*/_delta_log/*"))
    print(f"| logs | {len(files):,} | {sum(file.stat().st_size for file in files) / 1e6:.1f} | | |")
    files = [file for file in location.rglob("*") if file.is_file()]
    total = sum(file.stat().st_size for file in files)
    print(f"| all, without documents | {len(files):,} | {total / 1e6:.1f} | {len(every):,} scans | |\n", flush=True)
    if len(every) != days * year.SCANS_A_DAY:
        raise AssertionError(f"the history has {len(every)} scans of {days * year.SCANS_A_DAY}")


def _queries(location: Path, repeat: int) -> None:
    runs = []
    for _ in range(repeat):
        runs.append(json.loads(run(module("history_once", location)).printed))
        note(f"queries: {sum(runs[-1]['seconds'].values()):.1f} s")
    seconds = {name: median(one["seconds"][name] for one in runs) for name in runs[0]["seconds"]}
    print("| query | seconds | rows |\n| --- | ---: | ---: |")
    for name, spent in seconds.items():
        print(f"| {name} | {spent:.2f} | {runs[0]['rows'][name]:,} |")
    print()
    print(told(seconds), flush=True)


def told(seconds: Mapping[str, float]) -> str:
    """Return the total times of all queries and of the queries of a scan, with the target."""
    every = sum(seconds.values())
    scan = sum(spent for name, spent in seconds.items() if name not in EVERYTHING)
    result = "met" if every <= AIM_SECONDS else "**missed**"
    return (
        f"- all queries: {every:.1f} s, those of a scan: {scan:.1f} s; the target is at most {AIM_SECONDS} s: {result}"
    )


def _scan(folder: Path, location: Path) -> None:
    """Run the next scan. It is the first one of its day, so it compacts the previous day."""
    file = folder / f"{year.CLUSTER}.json"
    with file.open("w") as lines:
        lines.writelines(snapshot_lines(year.cluster()))
    ran, steps = whole.scanned(folder, "--snapshot", str(file), "--levels", "dc,zone,rack", "--history", str(location))
    document = json.loads((folder / "report.json").read_text())
    if len(document["trend"]) < 2 or not document["changes"]["cleared"]:
        raise AssertionError("the scan did not read the history")
    told = ", ".join(f"{name} {steps[step]:.1f}" for step, name in whole.STEPS.items() if step in steps)
    print(
        f"- the next scan, the first one of its day: {ran.seconds:.1f} s, {ran.cpu:.1f} s of CPU, "
        f"{ran.peak / 2**30:.2f} GiB ({told})"
    )
    largest = len(gzip.compress((folder / "report.json").read_bytes()))
    print(f"- the scan document of each kept scan takes {largest / 1e3:.0f} kB", flush=True)
