"""Benchmarks of scans: whole scans, the rules compared with plain SQL, a live cluster, and the history of a year."""

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
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this part (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="number of runs; the result is the median (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one run each, with a hundredth to a tenth of the size")
    options = parser.parse_args(arguments)
    # Ends the child processes after SIGTERM. The default action of the signal would skip `finally` blocks.
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
