"""Compare the rules of the core, applied to Arrow batches, with some of the rules in Spark SQL."""

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
    rules_once.CORE: "the core in mapInArrow: all rules, moves, ids, counts per broker and domain, what-if",
    rules_once.ARRAYS: "SQL: literals looked up in higher-order functions; three counts",
    rules_once.ROWS: "SQL: explode, broadcast join, group by; three counts",
}
COUNTED = ("non_compliant", "under_replicated", "leader_not_preferred")
HEADER = f"| what | seconds | CPU s of the process | peak GiB (PSS) | {' | '.join(COUNTED)} |\n| --- |{' ---: |' * 6}"


class DisagreeError(RuntimeError):
    """Two methods returned different counts."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one run, or the medians of several."""

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
        f"{partitions:,} partitions in Parquet, `local[2]`; medians of {repeat} runs, each in a separate process with "
        "a warm-up of 1,000 partitions. SQL supports one replication factor, with windows that the core has computed. "
        "It does not return the violated domains or the required moves.\n\n"
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
            print(f"- {WAYS[way].partition(';')[0]}: {times:.2f} times the seconds of the core, both without reading")


def once(way: str, table: Path, partitions: int) -> Measured:
    ran = run(module("rules_once", way, table, partitions), most=CUT_OFF)
    told = json.loads(ran.printed)
    note(f"{way}: {told['seconds']:.1f} s")
    return Measured(told["seconds"], ran.cpu, ran.peak, told["found"])


def medians(runs: list[Measured]) -> Measured:
    seconds, cpu, peak = (median(getattr(one, name) for one in runs) for name in ("seconds", "cpu", "peak"))
    return Measured(seconds, cpu, peak, runs[0].found)


def agreed(found: Mapping[str, Measured]) -> None:
    """Raise DisagreeError if two methods returned different counts."""
    counts = {way: dict(one.found) for way, one in found.items() if one.found}
    if any(one != counts[rules_once.CORE] for one in counts.values()):
        raise DisagreeError(f"the methods returned different counts: {counts}")
