"""`python -m benchmarks.plans.measure FILE`: read a snapshot, judge it and make a plan, once, in this process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

from benchmarks.plans.speed import DRAINED, LEVELS, Measured, Took
from rackspan.core.compliance import judge
from rackspan.core.planning import PlanRequest, plan
from rackspan.core.snapshot import tree_of
from rackspan.snapshots import read_snapshot

T = TypeVar("T")


def main(file: str) -> None:
    read, loading = timed(lambda: read_snapshot(file))
    loaded = peak()
    tree = tree_of(read.brokers, LEVELS)
    assessment, judging = timed(lambda: judge(tree, read.partitions.replicas))
    found = assessment.non_compliant
    del assessment
    drained = tree_of(read.brokers, LEVELS, drained={DRAINED})
    made, planning = timed(lambda: plan(PlanRequest(drained, read.partitions)))
    if not made.feasible or made.moves != made.lower_bound or made.after.non_compliant:
        sys.exit(f"the certificate of the plan is wrong: {made.moves} moves, bound {made.lower_bound}, {made.problems}")
    measured = Measured(
        partitions=len(read.partitions),
        file=Path(file).stat().st_size,
        loading=loading,
        judging=judging,
        planning=planning,
        both=Took(loading.clock + planning.clock, loading.cpu + planning.cpu),
        loaded=loaded,
        planned=peak(),
        non_compliant=found,
        moves=made.moves,
        bound=made.lower_bound,
    )
    json.dump(measured._asdict(), sys.stdout)


def timed(work: Callable[[], T]) -> tuple[T, Took]:
    clock, cpu = perf_counter(), process_time()
    done = work()
    return done, Took(perf_counter() - clock, process_time() - cpu)


def peak() -> int:
    """Return the peak memory of this process in bytes. Unlike `getrusage`, it excludes the memory of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(sys.argv[1])
