"""Time and memory of placement, compliance, durability, consumer groups, moves and objects by input size.

    .venv/bin/python -m benchmarks growth [SHAPE ...]

Each size is twice the previous one, and is measured in a separate process. Times are CPU seconds, because other
processes may use the machine. "Growth" is the time divided by the time of half the size. Memory is that of the process,
including the input. `benchmarks.plans.shapes` measures plans in the same way.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np
from tests.unit.reconcile import examples as objects
from tests.unit.reconcile.kube_memory import MemoryCluster, dependencies_of

from benchmarks.groups import chain, group
from benchmarks.machine import describe
from benchmarks.plans.measure import peak
from rackspan.core.compliance import judge
from rackspan.core.consumers.assignors import assign_evenly, assign_ranges
from rackspan.core.consumers.group_locality import GroupSeen, MemberSeen, ReplicaPlaces, Selector, locality
from rackspan.core.durability import Durability, min_insync
from rackspan.core.durability.replication_factor import nearest_replication_factor
from rackspan.core.placement import ClusterView, Placement, PlacementSpec, Spread
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import Change
from rackspan.core.rack_path import format_rack
from rackspan.core.reassignment import Limits, Observed, PartitionState, Racks, TopicPartition, decide
from rackspan.core.snapshot import table
from rackspan.core.topology import Broker, BrokerLocation, IntArray, RackTree
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.plans.topology_plan import TopologyPlan
from rackspan.reconcile.topology_loops import TopologyLoops

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of work.

    `ready` prepares the work for a size. `counts` is the unit of the sizes. `smallest` is the first size, and
    `doublings` is how often it is doubled.
    """

    words: str
    counts: str
    ready: Callable[[int], Work]
    smallest: int
    doublings: int = 3


def regular(brokers: int, *widths: int) -> RackTree:
    """Return a tree whose brokers are assigned to the domains in turn, so that domain sizes differ by at most 1."""

    def path(number: int) -> tuple[str, ...]:
        steps = []
        for width in widths:
            number, step = divmod(number, width)
            steps.append(str(step))
        return tuple(steps)

    return RackTree(_levels(len(widths)), tuple(Broker(number, path(number)) for number in range(brokers)))


def ragged(brokers: int) -> RackTree:
    """Return a tree with domains of unequal size and paths of one to four steps."""
    chance = np.random.default_rng(1)
    steps = (chance.random((brokers, 4)) ** 2 * np.array([4, 5, 6, 7])).astype(np.int64)
    depths = 1 + steps[:, 0] % 2 + 2 * (steps[:, 1] % 2)  # equal for all brokers of a domain at depth two
    paths = (tuple(map(str, row[:depth])) for row, depth in zip(steps.tolist(), depths.tolist(), strict=True))
    return RackTree(_levels(4), tuple(Broker(number, path) for number, path in enumerate(paths)))


def racks(count: int, most: int) -> RackTree:
    """Return a tree of one level, whose racks have 1 to `most` brokers."""
    paths = [(str(rack),) for rack in range(count) for _ in range(1 + rack % most)]
    return RackTree(_levels(1), tuple(Broker(number, path) for number, path in enumerate(paths)))


def zones(count: int) -> RackTree:
    """Return a tree of three levels: `count` zones in five sites, with 1 to 8 racks of 1 to 8 brokers each."""
    sizes = np.random.default_rng(1).integers(1, 9, (count, 8))
    paths = [
        (str(zone % 5), str(zone), str(rack))
        for zone in range(count)
        for rack in range(int(sizes[zone, 0]))
        for _ in range(int(sizes[zone, rack]))
    ]
    return RackTree(_levels(3), tuple(Broker(number, path) for number, path in enumerate(paths)))


def _levels(count: int) -> tuple[str, ...]:
    return ("a", "b", "c", "d", "e")[:count] if count > 1 else ("rack",)


def at_random(brokers: int, count: int, size: int) -> IntArray:
    """Return random replica lists, shape (count, size). A list may contain a broker twice."""
    return np.random.default_rng(1).integers(0, brokers, (count, size))


def placing(tree: Callable[[], RackTree], size: int) -> Callable[[int], Work]:
    def ready(count: int) -> Work:
        where = tree()
        return lambda: MultiLevel().place(PlacementSpec(count, size), ClusterView(where)).matrix

    return ready


def judging(tree: Callable[[], RackTree], size: int, spread: tuple[Spread, ...] = ()) -> Callable[[int], Work]:
    def ready(count: int) -> Work:
        where = tree()
        rows = at_random(len(where), count, size)
        rows[:, 1] = rows[:, 0]  # makes every partition non-compliant for any number of racks
        return lambda: judge(where, rows, spread).columns

    return ready


def bounds(count: int) -> Work:
    where = racks(2000, 1)
    rows = Placement(np.arange(3 * count).reshape(count, 3) % 2000)
    return lambda: min_insync(where, rows, Durability({"rack": 2}, {"rack": 1}))


def durable(tree: Callable[[int], RackTree], least: dict[str, int], most: dict[str, int]) -> Callable[[int], Work]:
    def ready(count: int) -> Work:
        where = tree(count)
        return lambda: nearest_replication_factor(where, 3, least, most)

    return ready


def reading(members: int, subscriptions: int, lacking: float) -> Callable[[int], Work]:
    return lambda count: partial(assign_evenly, group(members, subscriptions, count, lacking))


def members(count: int) -> Work:
    return partial(assign_evenly, group(count, 20, 10_000, 0.0))


def chained(count: int) -> Work:
    return partial(assign_evenly, chain(count, 2 * count))


def ranges(count: int) -> Work:
    return partial(assign_ranges, group(300, 20, count, 0.0))


def nearest(count: int) -> Work:
    """Each member of a group is in a rack of its own, below one of 30 zones of 2,000 brokers."""
    tree = regular(2000, 3, 10, 50)
    brokers = [BrokerLocation(broker.id, format_rack(broker.rack or ()), broker.rack) for broker in tree.brokers]
    rows = [(0, number, (number % 2000, (number + 1) % 2000), (number % 2000,), None, None) for number in range(count)]
    replicas = ReplicaPlaces(tree, brokers, table(["topic"], rows))
    members = tuple(
        MemberSeen(str(number), "", "", {"topic": (number,)}, f"/{number % 3}/{number % 10}/own-{number}")
        for number in range(count)
    )
    return lambda: locality(replicas, GroupSeen("group", members=members), {}, Selector.NEAREST)


def patterns(count: int) -> Work:
    """400 patterns, each of which is compared with the names of all racks."""
    tree = RackTree(("zone", "rack"), tuple(Broker(at, (str(at % 3), f"rack-{at}")) for at in range(count)))
    tree.selected(("/0",), ())
    return lambda: tree.selected([f"/*/*-{at}*" for at in range(200)], [f"/{at % 3}/rack-{at}" for at in range(200)])


def shrinking(count: int) -> Work:
    """A partition loses all of its replicas but one."""
    brokers = tuple(range(count))
    racks = Racks({broker: (str(broker % 3), str(broker % 30), str(broker)) for broker in brokers})
    state = PartitionState(brokers, frozenset(brokers), 0)
    seen = Observed({TopicPartition("topic", 0): state}, frozenset(brokers), {"topic": 1})
    return lambda: decide([Change("topic", 0, (0,), brokers)], seen, {}, Limits(), racks)


def forgetting(count: int) -> Work:
    """A namespace is deleted whose topics all have parts in a plan."""
    plans, where = TopologyPlan(), objects.state(objects.EVEN)
    names = [f"t{number}" for number in range(count)]
    found = [(objects.topic(name, partitions=1), objects.seen((0, 3, 1), name=name)) for name in names]
    asyncio.run(plans.of(found, where))
    return lambda: [plans.forget(topic.key) for topic, _ in found]


def rivals(count: int) -> Work:
    """All objects of a namespace change, which claim one topic."""
    cache = Cache()
    topics = [cache.keep_topic(objects.topic(f"t{number}", topicName="topic")) for number in range(count)]

    def work() -> None:
        loops = TopologyLoops(dependencies_of(cache, MemoryCluster()))
        for topic in topics:
            loops.topic_changed(topic)
        loops.requeue_rivals()

    return work


LEVELS = (2, 3, 4, 5, 6)
SHAPES: Mapping[str, Shape] = {
    "place": Shape("three levels, 1,000 brokers", "partitions", placing(partial(regular, 1000, 5, 6, 3), 3), 50_000),
    "place-five": Shape("five levels, 5,000", "partitions", placing(partial(regular, 5000, *LEVELS), 3), 50_000),
    "place-flat": Shape("3,000 racks, 6,000", "partitions", placing(partial(regular, 6000, 3000), 3), 50_000),
    "place-ragged": Shape("unequal depths, 5,000", "partitions", placing(partial(ragged, 5000), 3), 50_000),
    "place-rf50": Shape(
        "RF 50, three levels, 1,000", "partitions", placing(partial(regular, 1000, 3, 4, 5), 50), 12_500
    ),
    "judge-five": Shape("five levels, 5,000", "partitions", judging(partial(regular, 5000, *LEVELS), 3), 50_000),
    "judge-flat": Shape("2,000 racks of one", "partitions", judging(partial(racks, 2000, 1), 3), 50_000),
    "judge-ragged": Shape("unequal depths, 5,000", "partitions", judging(partial(ragged, 5000), 3), 50_000),
    "judge-rf50": Shape(
        "RF 50, three levels, 1,000", "partitions", judging(partial(regular, 1000, 3, 4, 5), 50), 12_500
    ),
    "judge-skew": Shape(
        "2,000 racks of one, maxSkew 2", "partitions", judging(partial(racks, 2000, 1), 3, (Spread("rack", 2),)), 50_000
    ),
    "bounds": Shape("`min.insync.replicas`, 2,000 racks", "partitions", bounds, 50_000),
    "durable": Shape(
        "no RF will do, one level", "racks", durable(partial(racks, most=40), {"rack": 30}, {"rack": 28}), 375
    ),
    "durable-deep": Shape("no RF will do, three levels", "zones", durable(zones, {"c": 30}, {"c": 28}), 375),
    "groups": Shape("20 subscriptions, 300 members", "partitions", reading(300, 20, 0.0), 5000),
    "groups-kinds": Shape("300 subscriptions, 300 members", "partitions", reading(300, 300, 0.0), 2500),
    "groups-members": Shape("20 subscriptions, 10,000 partitions", "members", members, 150),
    "groups-chain": Shape("each member shares topics with two others", "members", chained, 100),
    "groups-range": Shape("`range`, 20 subscriptions, 300 members", "partitions", ranges, 5000),
    "groups-nearest": Shape("each member in a rack of its own, 2,000 brokers", "members", nearest, 1000),
    "patterns": Shape("400 patterns of a topic", "racks", patterns, 250),
    "shrink": Shape("a partition loses all replicas but one", "replicas", shrinking, 62),
    "forget": Shape("all topics of a plan are deleted", "KafkaTopics", forgetting, 500),
    "rivals": Shape("all objects claim one topic, and change", "KafkaTopics", rivals, 500),
}


def measured(name: str, size: int) -> dict[str, float]:
    work = SHAPES[name].ready(size)
    loaded, start = peak(), process_time()
    work()
    return {"cpu": process_time() - start, "loaded": loaded, "peak": peak()}


def run(names: tuple[str, ...], doublings: int | None, seconds: float) -> None:
    print(f"{describe()}; load {os.getloadavg()[0]:.1f}\n")
    print("| shape | size | CPU s | growth | MiB before | peak MiB |\n| --- |" + " ---: |" * 5, flush=True)
    for name in names:
        shape, before = SHAPES[name], 0.0
        for doubling in range(1 + (shape.doublings if doublings is None else doublings)):
            size = shape.smallest << doubling
            words = f"| {name}: {shape.words} | {size:,} {shape.counts} |"
            command = [sys.executable, "-m", "benchmarks.growth", "--one", name, str(size)]
            try:
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=seconds)
            except subprocess.TimeoutExpired:
                print(f"{words} stopped after {seconds:,.0f} s |", flush=True)
                break
            found = json.loads(done.stdout)
            growth = f"{found['cpu'] / before:.2f}" if before else ""
            memory = " | ".join(f"{found[part] / 2**20:,.0f}" for part in ("loaded", "peak"))
            print(f"{words} {found['cpu']:.3f} | {growth} | {memory} |", flush=True)
            before = found["cpu"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"any of {', '.join(SHAPES)} (default: all)")
    parser.add_argument("--doublings", type=int, help="number of doublings of the size (default: 3)")
    parser.add_argument("--timeout", type=float, default=300, help="timeout of one size in seconds (default: 300)")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        json.dump(measured(options.one[0], int(options.one[1])), sys.stdout)
        return
    run(tuple(options.shapes or SHAPES), options.doublings, options.timeout)


if __name__ == "__main__":
    main()
