"""Time and memory of loading, judging and planning, from 20,000 to 2,000,000 partitions."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.plans.clusters import worn
from rackspan.snapshots import snapshot_lines

COUNTS = (20_000, 200_000, 2_000_000)
BROKERS = 1000
LEVELS = ("dc", "zone", "rack")
DRAINED = 7
SHARE = 0.01
"""The share of partitions that are placed at random."""
HEADER = (
    "| partitions | file MB | load s (CPU) | MB/s | peak MiB loaded | judge s (CPU) | plan s (CPU) "
    "| plan µs per partition | load and plan s | peak MiB planned | moves | lower bound |\n"
    f"|{' ---: |' * 12}"
)


class Took(NamedTuple):
    """Seconds on the clock and CPU seconds. They differ if other processes use the same cores."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        digits = 2 if self.clock >= 1 else 3
        return f"{self.clock:.{digits}f} ({self.cpu:.{digits}f})"


class Measured(NamedTuple):
    """The figures of one process, or the medians of several.

    `file` is the size of the file. `loaded` and `planned` are the peak memory after loading and after planning. All
    three are in bytes.
    """

    partitions: int
    file: int
    loading: Took
    judging: Took
    planning: Took
    both: Took
    loaded: float
    planned: float
    non_compliant: int
    moves: int
    bound: int

    def __str__(self) -> str:
        cells = [
            f"{self.partitions:,}",
            f"{self.file / 1e6:,.1f}",
            str(self.loading),
            f"{self.file / 1e6 / self.loading.clock:.0f}",
            f"{self.loaded / 2**20:,.0f}",
            str(self.judging),
            str(self.planning),
            f"{self.planning.clock / self.partitions * 1e6:.2f}",
            f"{self.both.clock:.2f}",
            f"{self.planned / 2**20:,.0f}",
            f"{self.moves:,}",
            f"{self.bound:,}",
        ]
        return f"| {' | '.join(cells)} |"


def medians(runs: Sequence[Measured]) -> Measured:
    """Return the medians of runs over the same file."""

    def middle(took: Callable[[Measured], Took]) -> Took:
        return Took(median(took(run).clock for run in runs), median(took(run).cpu for run in runs))

    return runs[0]._replace(
        loading=middle(lambda run: run.loading),
        judging=middle(lambda run: run.judging),
        planning=middle(lambda run: run.planning),
        both=middle(lambda run: run.both),
        loaded=median(run.loaded for run in runs),
        planned=median(run.planned for run in runs),
    )


def run(repeat: int, counts: Sequence[int] = COUNTS) -> None:
    print(
        f"{BROKERS:,} brokers in 2 x 5 x 3 racks, RF 3, {SHARE:.0%} of the partitions non-compliant, broker "
        f"{DRAINED} drained in the plan; medians of {repeat} runs, each in a separate process\n\n{HEADER}",
        flush=True,
    )
    found = {}
    for count in counts:
        found[count] = medians(measure(count, repeat))
        print(found[count], flush=True)
    print()
    for aim, figure, most in aims(found):
        print(f"- {aim}: {figure:.2f}, the target is at most {most:g}: {'met' if figure <= most else '**missed**'}")


def measure(count: int, repeat: int) -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as folder:
        file = Path(folder) / "snapshot.json"
        with file.open("w") as lines:
            lines.writelines(snapshot_lines(worn(BROKERS, count, SHARE)))
        command = [sys.executable, "-m", "benchmarks.plans.measure", str(file)]
        runs = [subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout for _ in range(repeat)]
    return list(map(read, runs))


def read(printed: bytes) -> Measured:
    """Parse the output of a process."""
    fields: dict[str, Any] = json.loads(printed)
    fields.update({name: Took(*value) for name, value in fields.items() if isinstance(value, list)})
    return Measured(**fields)


def aims(found: Mapping[int, Measured]) -> list[tuple[str, float, float]]:
    """Return the targets: name, measured figure, and maximum."""
    listed = []
    small, middle, large = (found.get(count) for count in COUNTS)
    if middle:
        listed += [
            ("plan of 200,000 partitions, seconds", middle.planning.clock, 3),
            ("plan of 200,000 partitions, GiB with the snapshot loaded", middle.planned / 2**30, 1.5),
        ]
    for fewer, more in ((small, middle), (middle, large)):
        if fewer and more:
            words = f"plan of {more.partitions:,} partitions, CPU time divided by that of {fewer.partitions:,}"
            listed.append((words, more.planning.cpu / fewer.planning.cpu, more.partitions / fewer.partitions))
    if large:
        listed.append(("judging 2,000,000 partitions, seconds", large.judging.clock, 2))
    return listed
