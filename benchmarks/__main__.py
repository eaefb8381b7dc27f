"""`python -m benchmarks [NAME] [options]`: run one of the benchmarks below, or all of them if no name is given."""

import subprocess
import sys
from pathlib import Path

from benchmarks.machine import Bystanders

BENCHMARKS = {
    "assignors": "benchmarks.assignors",
    "footprint": "benchmarks.footprint",
    "groups": "benchmarks.groups",
    "growth": "benchmarks.growth",
    "moves": "benchmarks.moves",
    "placement": "benchmarks.placement.run",
    "plans": "benchmarks.plans.run",
    "rack-id": "benchmarks.rack_ids",
    "reassign": "benchmarks.reassign",
    "relabels": "benchmarks.relabels",
    "scans": "benchmarks.scans.run",
    "selectors": "benchmarks.replica_selectors",
    "tenants": "benchmarks.tenants",
    "topics": "benchmarks.topics",
    "workers": "benchmarks.workers",
}
REPOSITORY = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    named, options = arguments[:1], arguments[1:]
    if not set(named) <= BENCHMARKS.keys():
        print(f"usage: python -m benchmarks [{'|'.join(BENCHMARKS)}] [options]", file=sys.stderr)
        return 2
    for name in named or BENCHMARKS:
        print(f"# {name}\n", flush=True)
        command = [sys.executable, "-m", BENCHMARKS[name], *options]
        bystanders = Bystanders()
        code = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
        print(f"\n{bystanders.told()}\n", flush=True)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
