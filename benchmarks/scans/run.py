"""Scans on Spark: whole ones, their rules against plain SQL, a live cluster's, and a year's history."""

import argparse
import os
import signal
import sys
from importlib.metadata import version

from benchmarks.machine import describe
from benchmarks.scans import history, live, rules, whole

PARTS = {
    "whole": ("Whole scans", whole.benchmark),
    "rules": ("Rules", rules.benchmark),
    "live": ("A live cluster", live.benchmark),
    "history": ("History", history.benchmark),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scans", description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this part (default all)")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--quick", action="store_true", help="one run each, of a hundredth to a tenth of the size")
    options = parser.parse_args(arguments)
    # Ended from outside, it ends what it has started: `finally` is skipped by the signal's default.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow"))
    print(f"{describe()}, {packages}; load {os.getloadavg()[0]:.1f}\n", flush=True)
    for name in [options.part] if options.part else PARTS:
        title, benchmark = PARTS[name]
        print(f"## {title}\n", flush=True)
        benchmark(1 if options.quick else options.repeat, quick=options.quick)
        print()


if __name__ == "__main__":
    main()
