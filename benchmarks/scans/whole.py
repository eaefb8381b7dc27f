"""Whole scans of synthetic clusters with 200,000 to 20,000,000 partitions: the time of each step, and the memory."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.scans import clocked
from benchmarks.scans.processes import Ran, module, note, run

LOCAL, SPARK = "local", "spark"
QUICK = (20_000, 200_000)
COUNTS = (200_000, 2_000_000, 20_000_000)
AIMED = 2_000_000
_MEMORY = "2g"
"""The memory of Spark's driver: the default of the command."""
_FOUND = (0, 1)
STEPS = {
    clocked.START: "Python",
    clocked.SPARK: "Spark",
    "reading and judging partitions": "read and judge",
    "counting and comparing findings": "count and compare",
    "writing the history": "write",
    clocked.TREND: "trend",
    clocked.COMMIT: "commit",
    clocked.TIDY: "tidy",
    clocked.PAGE: "page",
}
HEADER = (
    f"| engine | partitions | seconds | CPU s | peak GiB (PSS) | {' | '.join(STEPS.values())} | rest "
    "| findings | history MB | page MB | rules alone |\n"
    f"|{' ---: |' * (10 + len(STEPS))}"
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one scan, or the medians of several. `rules` is the share of judging in reading and judging."""

    partitions: int
    seconds: float
    cpu: float
    peak: float
    steps: Mapping[str, float]
    findings: int
    history: int
    page: int
    rules: float = field(default=0.0)
    engine: str = SPARK

    def __str__(self) -> str:
        steps = [self.steps.get(step, 0.0) for step in STEPS]
        cells = [
            self.engine,
            f"{self.partitions:,}",
            f"{self.seconds:.1f}",
            f"{self.cpu:.1f}",
            f"{self.peak / 2**30:.2f}",
            *(f"{step:.1f}" for step in steps),
            f"{self.seconds - sum(steps):.1f}",
            f"{self.findings:,}",
            f"{self.history / 1e6:.1f}",
            f"{self.page / 1e6:.1f}",
            f"{self.rules:.0%}" if self.rules else "",
        ]
        return f"| {' | '.join(cells)} |"


def medians(runs: Sequence[Measured], rules: float = 0.0) -> Measured:
    """Return the medians of runs over the same cluster."""
    return Measured(
        runs[0].partitions,
        median(one.seconds for one in runs),
        median(one.cpu for one in runs),
        median(one.peak for one in runs),
        {step: median(one.steps.get(step, 0.0) for one in runs) for step in STEPS},
        runs[0].findings,
        runs[0].history,
        runs[0].page,
        rules,
        runs[0].engine,
    )


def scanned(folder: Path, *arguments: str) -> tuple[Ran, Mapping[str, float]]:
    """Run `rackspan scan` with a report and a page in the folder. Return its cost and its seconds by step."""
    clock = folder / "clock.json"
    command = module(
        *("clocked", clock, time.monotonic(), "scan", *arguments),
        *("--report", folder / "report.json", "--page", folder / "page.html"),
    )
    ran = run(command, codes=_FOUND, most=3600)
    return ran, json.loads(clock.read_text())


def measured(partitions: int, engine: str) -> Measured:
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as scratch:
        folder = Path(scratch)
        history = folder / "history"
        arguments: tuple[str, ...] = ("--synthetic", str(partitions), "--history", str(history))
        if engine == SPARK:
            arguments += ("--master", "local[2]", "--driver-memory", _MEMORY)
        ran, steps = scanned(folder, *arguments, "--engine", engine)
        document = json.loads((folder / "report.json").read_text())
        if document["summary"]["partitions"] != partitions:
            raise AssertionError(f"{document['summary']['partitions']} of {partitions} partitions were scanned")
        kept = sum(file.stat().st_size for file in history.rglob("*") if file.is_file())
        page = (folder / "page.html").stat().st_size
        note(f"{partitions:,} partitions, {engine}: {ran.seconds:.1f} s, {ran.peak / 2**30:.2f} GiB")
        findings = document["summary"]["findings"]
        return Measured(partitions, ran.seconds, ran.cpu, ran.peak, steps, findings, kept, page, engine=engine)


def share_of_rules(partitions: int) -> float:
    """Return the share of judging in the time of reading and judging. Both are measured in one warm session."""
    spent = json.loads(run(module("split", partitions, _MEMORY), most=3600).printed)
    note(f"{partitions:,} partitions: read in {spent['reading']:.1f} s, read and judged in {spent['both']:.1f} s")
    return max(0.0, 1 - spent["reading"] / spent["both"])


def benchmark(repeat: int, *, quick: bool) -> None:
    counts = QUICK if quick else COUNTS
    print(
        "`rackspan scan --synthetic`, 1,000 brokers, three levels, RF 3, Spark with `local[2]`, with a new history, a "
        f"report and a page; medians of {repeat} runs, each in a separate process. Seconds by step; `rest` is the end "
        "of Spark and of Python. Memory is the largest sum of PSS of Python, Spark's JVM and its Python workers, "
        "measured five times per second. `rules alone` is the share of judging in the time of reading and judging, "
        "measured without output in one warm session.\n\n"
        f"{HEADER}",
        flush=True,
    )
    found = []
    for count in counts:
        # The largest one takes minutes and varies little.
        times = repeat if count <= AIMED else 1
        print(medians([measured(count, LOCAL) for _ in range(times)]), flush=True)
        found.append(medians([measured(count, SPARK) for _ in range(times)], share_of_rules(count)))
        print(found[-1], flush=True)
    print()
    print(*told(found), sep="\n", flush=True)


def told(found: Sequence[Measured]) -> list[str]:
    """Return lines about growth and targets."""
    lines = []
    for fewer, more in pairwise(found):
        times = more.partitions / fewer.partitions
        result = "met" if more.seconds <= times * fewer.seconds else "**missed**"
        lines.append(
            f"- {times:g} times {fewer.partitions:,} partitions: {more.seconds / fewer.seconds:.1f} times the seconds, "
            f"{more.peak / fewer.peak:.1f} times the memory; the target is at most {times:g} times the time: {result}"
        )
    for one in found:
        if one.partitions == AIMED:
            for what, figure, most in (("seconds", one.seconds, 90), ("GiB", one.peak / 2**30, 6)):
                result = "met" if figure <= most else "**missed**"
                lines.append(f"- {AIMED:,} partitions, {what}: {figure:.2f}, the target is at most {most}: {result}")
    return lines
