"""The rules, which are the pure core over Arrow batches, against some of them written in plain Spark SQL."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.scans import rules_once
from benchmarks.scans.processes import CutOffError, module, note, run

PARTITIONS, QUICK_PARTITIONS = 2_000_000, 100_000
CUT_OFF = 300
WAYS = {
    rules_once.READ: "reading the table, for comparison",
    rules_once.CORE: "the core in mapInArrow: every rule, moves, ids, what lies where, what-if",
    rules_once.ARRAYS: "SQL: literals looked up in higher-order functions; three counts",
    rules_once.ROWS: "SQL: explode, broadcast join, group by; three counts",
}
COUNTED = ("non_compliant", "under_replicated", "leader_not_preferred")
HEADER = f"| what | seconds | CPU s of the process | peak GiB (PSS) | {' | '.join(COUNTED)} |\n| --- |{' ---: |' * 6}"


class DisagreeError(RuntimeError):
    """Two ways counted differently."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One way, or medians of several runs."""

    seconds: float
    cpu: float
    peak: float
    found: Mapping[str, int]

    def row(self, what: str) -> str:
        counts = [f"{self.found[name]:,}" if self.found else "" for name in COUNTED]
        return f"| {what} | {self.seconds:.1f} | {self.cpu:.1f} | {self.peak / 2**30:.2f} | {' | '.join(counts)} |"


def benchmark(repeat: int, *, quick: bool) -> None:
    partitions = QUICK_PARTITIONS if quick else PARTITIONS
    print(
        f"{partitions:,} partitions in Parquet, `local[2]`; medians of {repeat}, each in a process of its own, warmed "
        "with 1,000 partitions first. SQL knows one replication factor and which windows the core computed for it; it "
        "says not where a partition is wrong, nor what would fix it.\n\n"
        f"{HEADER}",
        flush=True,
    )
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as folder:
        table = Path(folder) / "partitions"
        run(module("rules_once", rules_once.WRITE, table, partitions))
        note(f"{partitions:,} partitions written")
        for way, what in WAYS.items():
            try:
                found[way] = medians([once(way, table, partitions) for _ in range(repeat)])
            except CutOffError as error:
                print(f"| {what} | {error} | | | | | |", flush=True)
                continue
            print(found[way].row(what), flush=True)
    agreed(found)
    base = found[rules_once.READ].seconds
    core = found[rules_once.CORE].seconds - base
    print()
    for way in (rules_once.ARRAYS, rules_once.ROWS):
        if way in found:
            times = max(found[way].seconds - base, 0.0) / core
            print(f"- {WAYS[way].partition(';')[0]}: {times:.2f} times the seconds of the core, reading taken off both")


def once(way: str, table: Path, partitions: int) -> Measured:
    ran = run(module("rules_once", way, table, partitions), most=CUT_OFF)
    told = json.loads(ran.printed)
    note(f"{way}: {told['seconds']:.1f} s")
    return Measured(told["seconds"], ran.cpu, ran.peak, told["found"])


def medians(runs: list[Measured]) -> Measured:
    seconds, cpu, peak = (median(getattr(one, name) for one in runs) for name in ("seconds", "cpu", "peak"))
    return Measured(seconds, cpu, peak, runs[0].found)


def agreed(found: Mapping[str, Measured]) -> None:
    """Raises DisagreeError where two ways counted differently."""
    counts = {way: dict(one.found) for way, one in found.items() if one.found}
    if any(one != counts[rules_once.CORE] for one in counts.values()):
        raise DisagreeError(f"the ways do not agree: {counts}")
