"""
The time of `rackspan rack-id`, which delays the start of a pod. It looks up a node in a published file of maximum size.

    .venv/bin/python -m benchmarks rack-id [--save]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import results
from benchmarks.machine import Bystanders, describe
from rackspan.core.rack_file import rack_file

COLUMNS = (
    ("`rackspan rack-id`", ""),
    ("starts", ",d"),
    ("median s", ".3f"),
    ("max s", ".3f"),
    ("CPU ms", ".0f"),
    ("peak MiB", ".1f"),
)
_STARTS = 50
_NODES_IN_FILE = 5_000
_METER = """
import json, os, sys, time
for _ in range(int(sys.argv[1])):
    started = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=silent)
    _, status, used = os.wait4(process, 0)
    if status:
        sys.exit(f"{sys.argv[2:]} failed")
    print(json.dumps([time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A program that runs a command several times. It is small, because its memory counts in the peak of its children."""


def cold_starts(folder: Path) -> results.Result:
    """Measure new processes that each look up one node."""
    nodes = folder / "nodes"
    racks = {f"node-{number}": f"/zone-{number % 3}/rack-{number % 30}" for number in range(_NODES_IN_FILE)}
    nodes.write_text(rack_file(racks, "Made up."))
    rackspan = str(Path(sys.executable).with_name("rackspan"))
    command = [rackspan, "rack-id", f"--nodes-file={nodes}", "--node=node-4999"]
    bystanders = Bystanders()
    meter = [sys.executable, "-S", "-c", _METER, str(_STARTS), *command]
    lines = subprocess.run(meter, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    seconds, cpu, peak = zip(*map(json.loads, lines), strict=True)
    row: list[results.Cell] = [f"{_NODES_IN_FILE:,} nodes", len(lines), statistics.median(seconds), max(seconds)]
    return results.new(
        "rack-id", COLUMNS, [[*row, statistics.median(cpu) * 1000, max(peak) / 1024]], [bystanders.seen()]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rack-id", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args()
    print(f"{describe()}\n")
    with tempfile.TemporaryDirectory() as folder:
        result = cold_starts(Path(folder))
    print(result.table())
    if options.save:
        print(f"written to {results.save(result)}")


if __name__ == "__main__":
    main()
