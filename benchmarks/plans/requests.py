"""Plan requests that need many moves or much time, by the number of partitions.

By default there are 1,000 brokers in 3 x 4 x 5 racks, and topics have RF 3.
"""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.plans.clusters import of, round_robin, uneven, worn
from rackspan.core.placement import ClusterView, PlacementSpec, Spread
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.planning import PlanRequest
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import tree_of
from rackspan.core.topology import BrokerLocation, IntArray

WIDTHS = (3, 4, 5)
"""The default number of domains per level."""


def brokers(count: int, *widths: int) -> tuple[BrokerLocation, ...]:
    return tuple(BrokerLocation(number, rack) for number, rack in enumerate(round_robin(*widths)(count)))


def placed(known: tuple[BrokerLocation, ...], count: int, size: int = 3) -> IntArray:
    return MultiLevel().place(PlacementSpec(count, size), ClusterView(tree_of(known))).matrix


def at_random(known: int, count: int, size: int = 3, power: int = 1) -> IntArray:
    """Return random replica lists of different brokers. A higher `power` puts more replicas on fewer brokers."""
    draw = np.random.default_rng(1)
    rows = (draw.random((count, size)) ** power * known).astype(np.int64)
    while True:
        ordered = np.sort(rows, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not twice.any():
            return rows
        rows[twice] = (draw.random((int(twice.sum()), size)) ** power * known).astype(np.int64)


def some_of(count: int, many: int) -> frozenset[int]:
    return frozenset(random.Random(1).sample(range(count), many))


def some_drained(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    return PlanRequest(tree_of(known, drained=some_of(1000, 300)), of(placed(known, count)))


def domains_drained(count: int) -> PlanRequest:
    """One domain of each level is drained. None of them contains another one."""
    known = brokers(1000, *WIDTHS)
    gone = ("/d0/", "/d1/z1/", "/d2/z2/r2/")
    drained = frozenset(broker.id for broker in known if f"{broker.reported_rack}/".startswith(gone))
    return PlanRequest(tree_of(known, drained=drained), of(placed(known, count)))


def zone_drained(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    gone = frozenset(broker.id for broker in known if broker.reported_rack and broker.reported_rack.startswith("/d0/"))
    return PlanRequest(tree_of(known, drained=gone), of(placed(known, count)))


def scattered(count: int) -> PlanRequest:
    return PlanRequest(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count)))


def scattered_with_sizes(count: int) -> PlanRequest:
    sizes = np.random.default_rng(2).integers(0, 1 << 34, count)
    return PlanRequest(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count), sizes))


def crowded(count: int) -> PlanRequest:
    """An eighth of the brokers has half of the replicas."""
    return PlanRequest(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count, power=3)))


def scattered_widely(count: int) -> PlanRequest:
    return PlanRequest(tree_of(brokers(5000, *WIDTHS)), of(at_random(5000, count)))


def relabelled(count: int) -> PlanRequest:
    """All brokers have changed their racks since the partitions were placed."""
    known = brokers(1000, *WIDTHS)
    racks = [broker.reported_rack for broker in known]
    random.Random(1).shuffle(racks)
    now = tuple(BrokerLocation(number, rack) for number, rack in enumerate(racks))
    return PlanRequest(tree_of(now), of(placed(known, count)))


def more_replicas(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    topics = of(placed(known, count))
    return PlanRequest(tree_of(known), topics, requirements=dict.fromkeys(topics.names, TopicRequirements(5)))


def some_new(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    return PlanRequest(tree_of(known), of(placed(known[:900], count)))


def half_new(count: int) -> PlanRequest:
    known = brokers(5000, 2, 5, 3)
    return PlanRequest(tree_of(known), of(placed(known[:2500], count)))


def worn_and_drained(count: int) -> PlanRequest:
    snapshot = worn(1000, count, 0.01)
    return PlanRequest(tree_of(snapshot.brokers, drained={3}), snapshot.partitions)


def some_wrong(count: int) -> PlanRequest:
    snapshot = worn(5000, count, 0.01)
    return PlanRequest(tree_of(snapshot.brokers), snapshot.partitions)


def some_wrong_deep(count: int) -> PlanRequest:
    known = brokers(5000, 2, 3, 4, 5, 6)
    rows = placed(known, count).copy()
    wrong = count // 100
    rows[:wrong] = at_random(5000, wrong)
    return PlanRequest(tree_of(known), of(rows))


def racks_of_one(known: int) -> Callable[[int], PlanRequest]:
    def request(count: int) -> PlanRequest:
        there = brokers(known, known)
        return PlanRequest(tree_of(there, drained=some_of(known, known * 3 // 10)), of(placed(there, count)))

    return request


def many_domains(count: int) -> PlanRequest:
    known = brokers(6000, 3000)
    return PlanRequest(tree_of(known, drained=some_of(6000, 1800)), of(placed(known, count)))


def many_replicas(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    return PlanRequest(tree_of(known, drained=some_of(1000, 100)), of(placed(known, count, 50)))


def scattered_replicas(count: int) -> PlanRequest:
    return PlanRequest(tree_of(brokers(1000, *WIDTHS)), of(at_random(1000, count, 50)))


def fewer_replicas(count: int) -> PlanRequest:
    known = brokers(1000, *WIDTHS)
    topics = of(placed(known, count, 5))
    return PlanRequest(tree_of(known), topics, requirements=dict.fromkeys(topics.names, TopicRequirements(3)))


def one_topic(count: int) -> PlanRequest:
    return _in_topics_of(count, some_drained(count))


def topics_of_one(count: int) -> PlanRequest:
    return _in_topics_of(1, some_drained(count))


def _in_topics_of(size: int, request: PlanRequest) -> PlanRequest:
    return replace(request, partitions=of(request.partitions.replicas, per_topic=size))


def deep_drained(count: int) -> PlanRequest:
    known = brokers(5000, 2, 3, 4, 5, 6)
    return PlanRequest(tree_of(known, drained=some_of(5000, 1500)), of(placed(known, count)))


def deep_scattered(count: int) -> PlanRequest:
    return PlanRequest(tree_of(brokers(5000, 2, 3, 4, 5, 6)), of(at_random(5000, count)))


def uneven_drained(count: int) -> PlanRequest:
    """The racks have unequal depths, and 300 random brokers are drained."""
    known = tuple(BrokerLocation(number, rack) for number, rack in enumerate(uneven(1000)))
    return PlanRequest(tree_of(known, drained=some_of(1000, 300)), of(placed(known, count)))


def uneven_scattered(count: int) -> PlanRequest:
    known = tuple(BrokerLocation(number, rack) for number, rack in enumerate(uneven(1000)))
    return PlanRequest(tree_of(known), of(at_random(1000, count)))


def uneven_added(count: int) -> PlanRequest:
    known = tuple(BrokerLocation(number, rack) for number, rack in enumerate(uneven(1000)))
    return PlanRequest(tree_of(known), of(placed(known[:900], count)))


def loosened(count: int) -> PlanRequest:
    """The topics have `maxSkew` 2 for zones, and 300 brokers are drained."""
    request = some_drained(count)
    spread = (Spread("level-2", max_skew=2),)
    return replace(request, requirements=dict.fromkeys(request.partitions.names, TopicRequirements(spread=spread)))


def own_brokers(count: int) -> PlanRequest:
    """There are 100 kinds of topics, each with two excluded racks, and 300 brokers are drained."""
    request = some_drained(count)
    kinds = [
        TopicRequirements(
            exclude=(f"/d{kind % 3}/z{kind // 3 % 4}/r{kind % 5}", f"/d{kind % 2}/z{kind % 4}/r{kind // 20}")
        )
        for kind in range(100)
    ]
    names = request.partitions.names
    return replace(request, requirements={name: kinds[at % 100] for at, name in enumerate(names)})


def own_lists(count: int) -> PlanRequest:
    """The topics have ten partitions each and different lists of 20 brokers, and 300 brokers are drained."""
    known, draw = tree_of(brokers(1000, *WIDTHS)), random.Random(3)
    lists = [tuple(map(str, draw.sample(range(1000), 20))) for _ in range(count // 10)]
    rows = [MultiLevel().place(PlacementSpec(10, 3, include=own), ClusterView(known)).matrix for own in lists]
    request = _in_topics_of(10, replace(some_drained(10), partitions=of(np.concatenate(rows))))
    wanted = {name: TopicRequirements(include=own) for name, own in zip(request.partitions.names, lists, strict=True)}
    return replace(request, requirements=wanted)
