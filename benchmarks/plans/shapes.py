"""Time and memory of planning, placement and compliance by input size, for inputs that need much work.

    .venv/bin/python -m benchmarks.plans.shapes

The default is RF 3 and 1,000 brokers in 3 x 4 x 5 racks. For `check`, the column of the bound has the number of
findings. Each measurement runs in a separate process. Times are CPU times, because other processes may use the machine.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np

from benchmarks.machine import Bystanders, Conditions, describe
from benchmarks.plans import requests
from benchmarks.plans.measure import peak
from benchmarks.results import Cell, Result, new, save
from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import Plan, PlanRequest, plan, rebalance
from rackspan.core.snapshot import tree_of

COLUMNS = (
    ("shape", ""),
    ("partitions", ",d"),
    ("moves", ",d"),
    ("bound", ",d"),
    ("replicas per broker", ""),
    ("leaders per broker", ""),
    ("CPU s", ".2f"),
    ("growth per doubling", ".2f"),
    ("MiB loaded", ",.0f"),
    ("peak MiB", ",.0f"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of moves, their lower bound, and (minimum, maximum) per broker of replicas and leaders afterwards."""

    moves: int
    bound: int
    replicas: tuple[int, int]
    leaders: tuple[int, int]


Work = Callable[[], Outcome]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of work. `ready` prepares it for a number of partitions. `counts` has the numbers to measure."""

    words: str
    ready: Callable[[int], Work]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: CPU seconds, and the peak memory in bytes, before the work and including it."""

    outcome: Outcome
    cpu: float
    loaded: int
    peak: int


def planning(
    request: Callable[[int], PlanRequest], make: Callable[[PlanRequest], Plan] = plan
) -> Callable[[int], Work]:
    """Return a function that prepares the planning of a request."""

    def ready(count: int) -> Work:
        asked = request(count)

        def work() -> Outcome:
            made = make(asked)
            lies = made.after.levels[-1]
            return Outcome(made.moves, made.lower_bound, lies.replicas, lies.leaders)

        return work

    return ready


def placing(known: int, size: int) -> Callable[[int], Work]:
    """Return a function that prepares the placement of new partitions."""

    def ready(count: int) -> Work:
        tree = tree_of(requests.brokers(known, *requests.WIDTHS))

        def work() -> Outcome:
            rows = MultiLevel().place(PlacementSpec(count, size), ClusterView(tree)).matrix
            held, led = (np.bincount(ids.ravel(), minlength=known) for ids in (rows, rows[:, 0]))
            return Outcome(0, 0, (int(held.min()), int(held.max())), (int(led.min()), int(led.max())))

        return work

    return ready


def judging(request: Callable[[int], PlanRequest]) -> Callable[[int], Work]:
    """Return a function that prepares the check of the current placement."""

    def ready(count: int) -> Work:
        asked = request(count)

        def work() -> Outcome:
            found = judge(asked.tree, asked.partitions.replicas)
            return Outcome(found.moves, len(found.columns.partition), (0, 0), (0, 0))

        return work

    return ready


MANY = (25_000, 50_000, 100_000, 200_000, 2_000_000)
FEWER = MANY[:-1]
PATIENCE = 600.0
"""The timeout of one plan in seconds."""
FEW = (2_500, 5_000, 10_000, 20_000)
SHAPES: Mapping[str, Shape] = {
    "worn": Shape("1 % unfair, one broker drained, sizes known", planning(requests.worn_and_drained), MANY),
    "drained": Shape("300 of 1,000 brokers drained", planning(requests.some_drained), MANY),
    "zone": Shape("one of 3 zones drained", planning(requests.zone_drained), MANY),
    "domains": Shape("one domain of each level drained", planning(requests.domains_drained), MANY),
    "scattered": Shape("all partitions placed at random", planning(requests.scattered), MANY),
    "sizes": Shape("the same, sizes known", planning(requests.scattered_with_sizes), MANY),
    "crowded": Shape(
        "all at random, half of the replicas on an eighth of the brokers", planning(requests.crowded), FEWER
    ),
    "crowdedeven": Shape("the same, `--rebalance`", planning(requests.crowded, rebalance), FEWER),
    "relabelled": Shape("all racks relabelled", planning(requests.relabelled), MANY),
    "raised": Shape("RF 3 to 5", planning(requests.more_replicas), MANY),
    "lowered": Shape("RF 5 to 3", planning(requests.fewer_replicas), MANY),
    "added": Shape("100 of 1,000 brokers new, `--rebalance`", planning(requests.some_new, rebalance), MANY),
    "half": Shape("half of 5,000 brokers new, `--rebalance`", planning(requests.half_new, rebalance), FEWER),
    "proven": Shape(
        "100 of 1,000 brokers new, `--rebalance`, few partitions", planning(requests.some_new, rebalance), FEW
    ),
    "one": Shape("one topic, 300 brokers drained", planning(requests.one_topic), FEWER),
    "many": Shape("topics of one partition, 300 brokers drained", planning(requests.topics_of_one), FEWER),
    "kinds": Shape("100 kinds of topics with brokers of their own, 300 drained", planning(requests.own_brokers), FEWER),
    "lists": Shape("topics with a list of brokers each, 300 drained", planning(requests.own_lists), FEWER),
    "loosened": Shape("`maxSkew` 2, 300 brokers drained", planning(requests.loosened), FEWER),
    "wrong": Shape("5,000 brokers, 1 % unfair, sizes known", planning(requests.some_wrong), FEWER),
    "deep": Shape("5,000 brokers in five levels, 1 % unfair", planning(requests.some_wrong_deep), FEWER),
    "deepdrained": Shape("5,000 brokers in five levels, 1,500 drained", planning(requests.deep_drained), FEWER),
    "deepscattered": Shape("5,000 brokers in five levels, all at random", planning(requests.deep_scattered), FEWER),
    "uneven": Shape("racks of unequal depth, 300 brokers drained", planning(requests.uneven_drained), FEWER),
    "unevenscattered": Shape("racks of unequal depth, all at random", planning(requests.uneven_scattered), FEWER),
    "unevenadded": Shape(
        "racks of unequal depth, 100 new, `--rebalance`", planning(requests.uneven_added, rebalance), FEWER
    ),
    "single": Shape("3,000 racks of one broker, 900 drained", planning(requests.racks_of_one(3000)), FEWER),
    "single5": Shape("5,000 racks of one broker, 1,500 drained", planning(requests.racks_of_one(5000)), FEWER),
    "flat": Shape("3,000 racks of two brokers, 1,800 drained", planning(requests.many_domains), FEWER),
    "wide": Shape("RF 50, 100 of 1,000 brokers drained", planning(requests.many_replicas), FEW),
    "widescattered": Shape("RF 50, all at random", planning(requests.scattered_replicas), FEW),
    "place": Shape("RF 50 placed on 1,000 brokers", placing(1000, 50), (6_250, 12_500, 25_000, 50_000)),
    "check": Shape("5,000 brokers, all at random, `check`", judging(requests.scattered_widely), FEWER),
}


def measured(shape: Shape, count: int) -> Measured:
    work = shape.ready(count)
    loaded, start = peak(), process_time()
    outcome = work()
    return Measured(outcome, process_time() - start, loaded, peak())


def cells(words: str, count: int, found: Measured, growth: float | None) -> list[Cell]:
    out = found.outcome
    replicas, leaders = (f"{lies[0]:,} to {lies[1]:,}" for lies in (out.replicas, out.leaders))
    loaded, most = found.loaded / 2**20, found.peak / 2**20
    return [words, count, out.moves, out.bound, replicas, leaders, found.cpu, growth, loaded, most]


def run(names: tuple[str, ...], most: int, seconds: float) -> Result:
    """Measure the two largest sizes of each shape in separate processes. Return a table of the larger ones.

    `most` is the maximum number of partitions. `seconds` is the timeout of one size.
    """
    print(f"{describe()}; load {os.getloadavg()[0]:.1f}\n", flush=True)
    rows, conditions = [], []
    for name in names:
        before: tuple[int, float] | None = None
        largest: tuple[list[Cell], Conditions] | None = None
        for count in [count for count in SHAPES[name].counts if count <= most][-2:]:
            command = [sys.executable, "-m", "benchmarks.plans.shapes", "--one", name, str(count)]
            bystanders = Bystanders(lambda: sum(os.times()[:4]))  # includes ended children
            try:
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=seconds)
            except subprocess.TimeoutExpired:
                print(f"{SHAPES[name].words}: {count:,} stopped after {seconds:,.0f} s", flush=True)
                break
            told = json.loads(done.stdout)
            found = Measured(**told | {"outcome": Outcome(**told["outcome"])})
            growth = None if before is None else (found.cpu / before[1]) ** (1 / math.log2(count / before[0]))
            before = count, found.cpu
            largest = cells(SHAPES[name].words, count, found, growth), bystanders.seen()
            print(" ".join(map(str, largest[0])), flush=True)
        if largest is not None:
            rows.append(largest[0])
            conditions.append(largest[1])
    result = new("plans", COLUMNS, rows, conditions)
    print(f"\n{result.table()}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plans.shapes", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"any of {', '.join(SHAPES)} (default: all)")
    parser.add_argument("--most", type=int, default=200_000, help="maximum number of partitions (default: 200000)")
    parser.add_argument("--timeout", type=float, default=PATIENCE, help="timeout of one plan in seconds (default: 600)")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "PARTITIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, count = options.one
        json.dump(asdict(measured(SHAPES[name], int(count))), sys.stdout)
        return
    result = run(tuple(options.shapes or SHAPES), options.most, options.timeout)
    if options.save:
        print(f"written to {save(result)}")


if __name__ == "__main__":
    main()
