"""
How planning, placing and judging grow with the input, on shapes that ask for much: `python -m benchmarks.plans.shapes`.

RF 3 and 1,000 brokers in 3 x 4 x 5 racks unless told otherwise. For `check` findings stand in the place of the bound.
Each is done in a process of its own. Time is that of the CPU: others may be busy on the same machine.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np

from benchmarks.machine import describe
from benchmarks.plans.clusters import of, round_robin, worn
from benchmarks.plans.measure import peak
from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import Plan, Request, plan, rebalance
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import tree_of
from rackspan.core.topology import BrokerLocation, IntArray

HEADER = (
    "| shape | partitions | moves | bound | replicas per broker | leaders per broker | CPU s "
    "| growth per doubling | MiB loaded | peak MiB |\n"
    f"| --- |{' ---: |' * 9}"
)
WIDTHS = (3, 4, 5)
"""Domains per level of the trees, unless they say otherwise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out: moves, the bound on them, and the fewest and the most that lies on a broker after it."""

    moves: int
    bound: int
    replicas: tuple[int, int]
    leaders: tuple[int, int]


Work = Callable[[], Outcome]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of work, made ready for a number of partitions, and the numbers that are measured."""

    words: str
    ready: Callable[[int], Work]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: CPU seconds, bytes of memory at most, before it and with it."""

    outcome: Outcome
    cpu: float
    loaded: int
    peak: int


def planning(request: Callable[[int], Request], make: Callable[[Request], Plan] = plan) -> Callable[[int], Work]:
    """Make a plan."""

    def ready(count: int) -> Work:
        asked = request(count)

        def work() -> Outcome:
            made = make(asked)
            lies = made.after.levels[-1]
            return Outcome(made.moves, made.lower_bound, lies.replicas, lies.leaders)

        return work

    return ready


def placing(known: int, size: int) -> Callable[[int], Work]:
    """Place new partitions."""

    def ready(count: int) -> Work:
        tree = tree_of(brokers(known, *WIDTHS))

        def work() -> Outcome:
            rows = MultiLevel().place(PlacementSpec(count, size), ClusterView(tree)).matrix
            held, led = (np.bincount(ids.ravel(), minlength=known) for ids in (rows, rows[:, 0]))
            return Outcome(0, 0, (int(held.min()), int(held.max())), (int(led.min()), int(led.max())))

        return work

    return ready


def judging(request: Callable[[int], Request]) -> Callable[[int], Work]:
    """Judge what lies there."""

    def ready(count: int) -> Work:
        asked = request(count)

        def work() -> Outcome:
            found = judge(asked.tree, asked.partitions.replicas)
            return Outcome(found.moves, len(found.columns.partition), (0, 0), (0, 0))

        return work

    return ready


def brokers(count: int, *widths: int) -> tuple[BrokerLocation, ...]:
    return tuple(BrokerLocation(number, rack) for number, rack in enumerate(round_robin(*widths)(count)))


def placed(known: tuple[BrokerLocation, ...], count: int, size: int = 3) -> IntArray:
    return MultiLevel().place(PlacementSpec(count, size), ClusterView(tree_of(known))).matrix


def at_random(known: int, count: int, size: int = 3) -> IntArray:
    """Rows of brokers that differ, in any racks."""
    draw = np.random.default_rng(1)
    rows = draw.integers(0, known, (count, size))
    while True:
        ordered = np.sort(rows, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not twice.any():
            return rows
        rows[twice] = draw.integers(0, known, (int(twice.sum()), size))


def some_of(count: int, many: int) -> frozenset[int]:
    return frozenset(random.Random(1).sample(range(count), many))


def some_drained(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    return Request(tree_of(known, drained=some_of(1000, 300)), of(placed(known, count)))


def domains_drained(count: int) -> Request:
    """One domain of each level, none inside another."""
    known = brokers(1000, *WIDTHS)
    gone = ("/d0/", "/d1/z1/", "/d2/z2/r2/")
    drained = frozenset(broker.id for broker in known if f"{broker.reported_rack}/".startswith(gone))
    return Request(tree_of(known, drained=drained), of(placed(known, count)))


def zone_drained(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    gone = frozenset(broker.id for broker in known if broker.reported_rack and broker.reported_rack.startswith("/d0/"))
    return Request(tree_of(known, drained=gone), of(placed(known, count)))


def scattered(count: int) -> Request:
    return Request(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count)))


def scattered_with_sizes(count: int) -> Request:
    sizes = np.random.default_rng(2).integers(0, 1 << 34, count)
    return Request(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count), sizes))


def scattered_widely(count: int) -> Request:
    return Request(tree_of(brokers(5000, *WIDTHS)), of(at_random(5000, count)))


def relabelled(count: int) -> Request:
    """All brokers are in other racks than when the partitions were placed."""
    known = brokers(1000, *WIDTHS)
    racks = [broker.reported_rack for broker in known]
    random.Random(1).shuffle(racks)
    now = tuple(BrokerLocation(number, rack) for number, rack in enumerate(racks))
    return Request(tree_of(now), of(placed(known, count)))


def more_replicas(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    topics = of(placed(known, count))
    return Request(tree_of(known), topics, requirements=dict.fromkeys(topics.names, TopicRequirements(5)))


def some_new(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    return Request(tree_of(known), of(placed(known[:900], count)))


def half_new(count: int) -> Request:
    known = brokers(5000, 2, 5, 3)
    return Request(tree_of(known), of(placed(known[:2500], count)))


def worn_and_drained(count: int) -> Request:
    snapshot = worn(1000, count, 0.01)
    return Request(tree_of(snapshot.brokers, drained={3}), snapshot.partitions)


def some_wrong(count: int) -> Request:
    snapshot = worn(5000, count, 0.01)
    return Request(tree_of(snapshot.brokers), snapshot.partitions)


def some_wrong_deep(count: int) -> Request:
    known = brokers(5000, 2, 3, 4, 5, 6)
    rows = placed(known, count).copy()
    wrong = count // 100
    rows[:wrong] = at_random(5000, wrong)
    return Request(tree_of(known), of(rows))


def racks_of_one(known: int) -> Callable[[int], Request]:
    def request(count: int) -> Request:
        there = brokers(known, known)
        return Request(tree_of(there, drained=some_of(known, known * 3 // 10)), of(placed(there, count)))

    return request


def many_domains(count: int) -> Request:
    known = brokers(6000, 3000)
    return Request(tree_of(known, drained=some_of(6000, 1800)), of(placed(known, count)))


def many_replicas(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    return Request(tree_of(known, drained=some_of(1000, 100)), of(placed(known, count, 50)))


MANY = (25_000, 50_000, 100_000, 200_000, 2_000_000)
SHAPES: Mapping[str, Shape] = {
    "worn": Shape("1 % unfair, one broker drained, sizes known", planning(worn_and_drained), MANY),
    "drained": Shape("300 of 1,000 brokers drained", planning(some_drained), MANY),
    "zone": Shape("one of 3 zones drained", planning(zone_drained), MANY),
    "domains": Shape("one domain of each level drained", planning(domains_drained), MANY),
    "scattered": Shape("all partitions placed at random", planning(scattered), MANY),
    "sizes": Shape("the same, sizes known", planning(scattered_with_sizes), MANY),
    "relabelled": Shape("all racks relabelled", planning(relabelled), MANY),
    "raised": Shape("RF 3 to 5", planning(more_replicas), MANY),
    "added": Shape("100 of 1,000 brokers new, `--rebalance`", planning(some_new, rebalance), MANY),
    "half": Shape("half of 5,000 brokers new, `--rebalance`", planning(half_new, rebalance), MANY[:-1]),
    "wrong": Shape("5,000 brokers, 1 % wrong, sizes known", planning(some_wrong), MANY[:-1]),
    "deep": Shape("5,000 brokers in five levels, 1 % wrong", planning(some_wrong_deep), MANY[:-1]),
    "single": Shape("3,000 racks of one broker, 900 drained", planning(racks_of_one(3000)), MANY[:-1]),
    "single5": Shape("5,000 racks of one broker, 1,500 drained", planning(racks_of_one(5000)), MANY[:-1]),
    "flat": Shape("3,000 racks of two brokers, 1,800 drained", planning(many_domains), MANY[:-1]),
    "wide": Shape("RF 50, 100 of 1,000 brokers drained", planning(many_replicas), (2_500, 5_000, 10_000, 20_000)),
    "place": Shape("RF 50 placed on 1,000 brokers", placing(1000, 50), (6_250, 12_500, 25_000, 50_000)),
    "check": Shape("5,000 brokers, all at random, `check`", judging(scattered_widely), MANY[:-1]),
}


def measured(shape: Shape, count: int) -> Measured:
    work = shape.ready(count)
    loaded, start = peak(), process_time()
    outcome = work()
    return Measured(outcome, process_time() - start, loaded, peak())


def cells(words: str, count: int, found: Measured, growth: str) -> tuple[str, ...]:
    out = found.outcome
    replicas, leaders = (f"{lies[0]:,} to {lies[1]:,}" for lies in (out.replicas, out.leaders))
    memory = (f"{size / 2**20:,.0f}" for size in (found.loaded, found.peak))
    moves = (f"{out.moves:,}", f"{out.bound:,}")
    return words, f"{count:,}", *moves, replicas, leaders, f"{found.cpu:.2f}", growth, *memory


def run(names: tuple[str, ...], most: int, seconds: float) -> None:
    """Measure in processes of their own; one that takes longer is given up."""
    print(f"{describe()}; load {os.getloadavg()[0]:.1f}\n\n{HEADER}", flush=True)
    for name in names:
        before: tuple[int, float] | None = None
        for count in SHAPES[name].counts:
            if count > most:
                continue
            command = [sys.executable, "-m", "benchmarks.plans.shapes", "--one", name, str(count)]
            try:
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=seconds)
            except subprocess.TimeoutExpired:
                print(f"| {SHAPES[name].words} | {count:,} | given up after {seconds:,.0f} s |", flush=True)
                break
            told = json.loads(done.stdout)
            found = Measured(**told | {"outcome": Outcome(**told["outcome"])})
            growth = "" if before is None else f"{(found.cpu / before[1]) ** (1 / math.log2(count / before[0])):.2f}"
            before = count, found.cpu
            print(f"| {' | '.join(cells(SHAPES[name].words, count, found, growth))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plans.shapes", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"any of {', '.join(SHAPES)} (default all)")
    parser.add_argument("--most", type=int, default=200_000, help="most partitions (default 200000)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one plan (default 600)")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "PARTITIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, count = options.one
        json.dump(asdict(measured(SHAPES[name], int(count))), sys.stdout)
        return
    run(tuple(options.shapes or SHAPES), options.most, options.timeout)


if __name__ == "__main__":
    main()
