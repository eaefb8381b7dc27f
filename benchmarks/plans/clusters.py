"""Clusters for the benchmarks of plans: brokers in several kinds of trees, and topics placed on them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.snapshot import BrokerIds, Partitions, Snapshot, tree_of
from rackspan.core.topology import BrokerLocation, IntArray

PER_TOPIC = 100
"""The number of partitions of a topic."""


@dataclass(frozen=True, slots=True)
class Site:
    """A kind of tree: the names of its levels, and a function that returns the racks of a number of brokers."""

    name: str
    levels: tuple[str, ...]
    racks: Callable[[int], tuple[str, ...]]

    def brokers(self, count: int) -> tuple[BrokerLocation, ...]:
        return tuple(BrokerLocation(number, rack) for number, rack in enumerate(self.racks(count)))


def round_robin(*widths: int) -> Callable[[int], tuple[str, ...]]:
    """Return a function that assigns brokers to racks in turn. `widths` are the numbers of domains per level."""

    def rack(broker: int) -> str:
        steps = []
        for level, width in enumerate(widths):
            steps.append(f"{'dzrpu'[level]}{broker % width}")
            broker //= width
        return "/" + "/".join(steps)

    return lambda count: tuple(map(rack, range(count)))


UNEVEN: Mapping[str, int] = {
    "/a/1/1": 6,
    "/a/1/2": 6,
    "/a/1/3": 6,
    "/a/2/1": 7,
    "/a/2/2": 5,
    "/a/3": 10,
    "/b/1/1": 12,
    "/b/1/2": 8,
    "/b/2/1": 13,
    "/c/1/1": 14,
    "/c/1/2": 13,
}
"""The number of brokers per rack, 100 in total: data centres of 40, 33 and 27, and a zone without racks."""


def uneven(count: int) -> tuple[str, ...]:
    """Return racks of `UNEVEN` for `count` brokers. Brokers from the id 100 go to the data centers in turn."""
    hundred = [rack for rack, brokers in UNEVEN.items() for _ in range(brokers)]
    more = ("/a/1/1", "/b/1/1", "/c/1/1")
    return tuple((hundred + [more[extra % len(more)] for extra in range(count - len(hundred))])[:count])


def of(replicas: BrokerIds, sizes: IntArray | None = None, per_topic: int = PER_TOPIC) -> Partitions:
    """Return topics of `per_topic` partitions each. `replicas` are broker ids, shape (partitions, replicas)."""
    count = len(replicas)
    rows = np.arange(count)
    return Partitions(
        tuple(f"topic-{number:06}" for number in range(-(-count // per_topic))),
        rows // per_topic,
        rows % per_topic,
        replicas.astype(np.int32),
        np.ones(replicas.shape, dtype=bool),
        np.zeros(replicas.shape, dtype=bool),
        replicas[:, 0].astype(np.int64),
        np.full(count, -1) if sizes is None else sizes,
    )


def snapshot(brokers: Iterable[BrokerLocation], partitions: Partitions) -> Snapshot:
    config = {"min.insync.replicas": "2", "retention.ms": "604800000"}
    return Snapshot("benchmark", tuple(brokers), partitions, (config,) * len(partitions.names))


def placed_by_multilevel(brokers: tuple[BrokerLocation, ...], count: int, size: int) -> BrokerIds:
    """Return broker ids, shape (count, size), of topics that are created one by one on the least loaded brokers."""
    tree = tree_of(brokers)
    ids = [broker.id for broker in brokers]
    held = np.zeros(len(ids), dtype=np.int64)
    led = np.zeros(len(ids), dtype=np.int64)
    parts = []
    for first in range(0, count, PER_TOPIC):
        view = ClusterView(tree, *(dict(zip(ids, load.tolist(), strict=True)) for load in (held, led)))
        spec = PlacementSpec(min(PER_TOPIC, count - first), size, seed=first)
        parts.append(MultiLevel().place(spec, view).matrix)
        held += np.bincount(parts[-1].ravel(), minlength=len(ids))
        led += np.bincount(parts[-1][:, 0], minlength=len(ids))
    return np.concatenate(parts)


def worn(brokers: int, count: int, share: float) -> Snapshot:
    """Return a cluster of 2 x 5 x 3 racks with RF 3 and known sizes. `share` of its partitions is non-compliant."""
    known = tuple(BrokerLocation(number, rack) for number, rack in enumerate(round_robin(2, 5, 3)(brokers)))
    tree = tree_of(known)
    replicas = MultiLevel().place(PlacementSpec(count, 3), ClusterView(tree)).matrix.copy()
    random = np.random.default_rng(1)
    fair = random.choice(count, int(count * share), replace=False)
    while len(fair):
        replicas[fair] = [random.choice(brokers, 3, replace=False) for _ in fair]
        fair = fair[~judge(tree, replicas[fair]).broken]
    return snapshot(known, of(replicas, random.integers(0, 1 << 34, count)))
