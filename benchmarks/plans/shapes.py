"""
How planning grows with the input, on shapes that ask for much.

Each plan is made in a process of its own. Time is that of the CPU: others may be busy on the same machine.
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
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import Request, plan, rebalance
from rackspan.core.snapshot import KnownBroker, tree_of
from rackspan.core.topology import IntArray

HEADER = (
    "| shape | partitions | moves | bound | replicas per broker | leaders per broker | plan CPU s "
    "| growth per doubling | peak MiB |\n"
    f"| --- |{' ---: |' * 8}"
)
WIDTHS = (3, 4, 5)
"""Domains per level of the trees, unless they say otherwise."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of request, by number of partitions, and the numbers that are measured."""

    words: str
    request: Callable[[int], Request]
    counts: tuple[int, ...]
    rebalanced: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """One plan: the fewest and the most that lies on a broker after it, CPU seconds, and bytes of memory at most."""

    moves: int
    bound: int
    replicas: tuple[int, int]
    leaders: tuple[int, int]
    cpu: float
    peak: int


def brokers(count: int, *widths: int) -> tuple[KnownBroker, ...]:
    return tuple(KnownBroker(number, rack) for number, rack in enumerate(round_robin(*widths)(count)))


def placed(known: tuple[KnownBroker, ...], count: int, size: int = 3) -> IntArray:
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


def scattered(count: int) -> Request:
    return Request(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count)))


def scattered_with_sizes(count: int) -> Request:
    sizes = np.random.default_rng(2).integers(0, 1 << 34, count)
    return Request(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count), sizes))


def zone_drained(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    gone = frozenset(broker.id for broker in known if broker.rack and broker.rack.startswith("/d0/"))
    return Request(tree_of(known, drained=gone), of(placed(known, count)))


def some_wrong(count: int) -> Request:
    snapshot = worn(5000, count, 0.01)
    return Request(tree_of(snapshot.brokers), snapshot.partitions)


def half_new(count: int) -> Request:
    known = brokers(5000, 2, 5, 3)
    return Request(tree_of(known), of(placed(known[:2500], count)))


def racks_of_one(count: int) -> Request:
    known = brokers(3000, 3000)
    return Request(tree_of(known, drained=some_of(3000, 900)), of(placed(known, count)))


def many_replicas(count: int) -> Request:
    known = brokers(1000, *WIDTHS)
    return Request(tree_of(known, drained=some_of(1000, 100)), of(placed(known, count, 50)))


SHAPES: Mapping[str, Shape] = {
    "drained": Shape("300 of 1,000 brokers in 3 x 4 x 5 racks drained", some_drained, (5_000, 10_000, 20_000, 200_000)),
    "scattered": Shape("1,000 brokers, all partitions placed at random", scattered, (20_000, 200_000)),
    "sizes": Shape("the same, sizes known", scattered_with_sizes, (20_000, 200_000)),
    "zone": Shape("1,000 brokers, one of 3 zones drained", zone_drained, (20_000, 200_000)),
    "wrong": Shape("5,000 brokers, 1 % of the partitions wrong, sizes known", some_wrong, (20_000, 200_000)),
    "half": Shape("5,000 brokers, half of them new, `--rebalance`", half_new, (20_000, 100_000), rebalanced=True),
    "single": Shape("3,000 racks of one broker, 900 drained", racks_of_one, (20_000, 200_000)),
    "wide": Shape("RF 50, 100 of 1,000 brokers drained", many_replicas, (2_000, 10_000)),
}


def measured(shape: Shape, count: int) -> Measured:
    request = shape.request(count)
    start = process_time()
    made = (rebalance if shape.rebalanced else plan)(request)
    took = process_time() - start
    lies = made.after.levels[-1]
    return Measured(made.moves, made.lower_bound, lies.replicas, lies.leaders, took, peak())


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
            found = Measured(**json.loads(done.stdout))
            growth = "" if before is None else f"{(found.cpu / before[1]) ** (1 / math.log2(count / before[0])):.2f}"
            before = count, found.cpu
            replicas, leaders = (f"{lies[0]:,} to {lies[1]:,}" for lies in (found.replicas, found.leaders))
            cells = (f"{found.moves:,}", f"{found.bound:,}", replicas, leaders, f"{found.cpu:.2f}", growth)
            row = " | ".join((SHAPES[name].words, f"{count:,}", *cells, f"{found.peak / 2**20:,.0f}"))
            print(f"| {row} |", flush=True)


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
