"""
Rack-aware assignment (KIP-881): how many partitions the members of a consumer group could read in their own domain.

Ranked goals: balance first, locality second.

- `assign_evenly`: each member reads as many partitions as any other, as far as subscriptions allow: floor or ceiling of
  the mean where all members subscribe to the same topics. What `cooperative-sticky`, `sticky` and `uniform` aim at.
- `assign_ranges`: each topic on its own is dealt out evenly among its subscribers, and topics with the same subscribers
  and the same partitions are co-partitioned: partition p of each goes to one member. What `range` aims at.

Both are exact: no assignment that is as even has more partitions near. None of Kafka's own assignors promises that. The
client's `range` and `cooperative-sticky` (KIP-881, Kafka 3.5) give a partition to the first member that matches and has
room, and never take it back; `range` moreover looks at co-partitioned topics only where all of them match. Asked from
scratch, Kafka 4.3's are never above it. With replicas striped over the racks and as many members in each,
`cooperative-sticky` reaches it and `range` nearly always does; in random groups, 98 and 79 times in a hundred. The
assignors in the brokers, `uniform` and `range` of KIP-848, ignore racks (KAFKA-19909).

Members in one domain with one subscription are alike, and so are partitions that lie in the same domains: what is left
is a small transport problem between kinds, solved by successive shortest paths. The price of a member's next partition
grows with what the member has, in steps that outweigh all locality, which makes the most even counts the cheapest ones.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import IntArray

BoolArray = npt.NDArray[np.bool_]

_FAR = np.int64(1 << 60)  # the price of what may not be; two of them still fit


@dataclass(frozen=True, slots=True, eq=False)
class Readers:
    """
    The members of a group and what they read: n partitions of t topics, m members (at least one) in d domains.

    `topic` (n,) is an index, `number` (n,) the partition's id, `near` (n, d) says which domains hold a replica of it.
    `domain` (m,) is where each member is, -1 where that is not known; `subscribed` (m, t) what it may read. Each topic
    has a subscriber, and no partition is listed twice.
    """

    topic: IntArray
    number: IntArray
    near: BoolArray
    domain: IntArray
    subscribed: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Which member reads each partition, shape (n,), and how many of them are near it."""

    owner: IntArray
    near: int


def assign_evenly(readers: Readers) -> Assignment:
    """Most even counts of partitions per member, and of those assignments one with the most partitions near."""
    first, kind = _alike(np.column_stack([readers.domain, readers.subscribed]))
    may = readers.subscribed[first][:, readers.topic].T
    value = _near(readers, readers.domain[first]).astype(np.int64)
    return _assignment(readers, _dealt(value, may, kind))


def assign_ranges(readers: Readers) -> Assignment:
    """Most even counts per topic with co-partitioning kept, and of those assignments one with the most near."""
    owner = np.full(len(readers.topic), -1, dtype=np.int64)
    for topics, members in _copartitioned(readers):
        rows = np.flatnonzero(np.isin(readers.topic, topics))
        numbers, item = np.unique(readers.number[rows], return_inverse=True)
        first, kind = _alike(readers.domain[members, None])
        near = _near(readers, readers.domain[members[first]])[rows]
        value = np.zeros((len(numbers), len(first)), dtype=np.int64)
        np.add.at(value, item, near)
        owner[rows] = members[_dealt(value, np.ones(value.shape, dtype=bool), kind)[item]]
    return _assignment(readers, owner)


def _assignment(readers: Readers, owner: IntArray) -> Assignment:
    domain = readers.domain[owner]
    known = np.flatnonzero(domain >= 0)
    return Assignment(owner, int(np.count_nonzero(readers.near[known, domain[known]])))


def _near(readers: Readers, domain: IntArray) -> BoolArray:
    """Whether each partition has a replica in each of some domains, none of which need be known, shape (n, domains)."""
    here = np.zeros((len(readers.near), len(domain)), dtype=bool)
    known = domain >= 0
    here[:, known] = readers.near[:, domain[known]]
    return here


def _copartitioned(readers: Readers) -> list[tuple[list[int], IntArray]]:
    """Topics that share subscribers and partition ids, each with those subscribers."""
    bundles: dict[tuple[bytes, bytes], list[int]] = {}
    order = np.lexsort((readers.number, readers.topic))
    starts = np.searchsorted(readers.topic[order], np.arange(readers.subscribed.shape[1] + 1))
    for topic in np.unique(readers.topic).tolist():
        numbers = readers.number[order[starts[topic] : starts[topic + 1]]]
        bundles.setdefault((readers.subscribed[:, topic].tobytes(), numbers.tobytes()), []).append(topic)
    return [(topics, np.flatnonzero(readers.subscribed[:, topics[0]])) for topics in bundles.values()]


def _alike(rows: npt.NDArray[np.generic]) -> tuple[IntArray, IntArray]:
    """Kinds of equal rows: the first of each kind, and the kind of each row."""
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def _dealt(value: IntArray, may: BoolArray, kind: IntArray) -> IntArray:
    """
    Which member gets each item, shape (items,).

    `value` (items, kinds) is what an item is worth to a member of a kind, `may` (items, kinds) whether it may have it,
    `kind` (members,) the kind of each member.
    """
    first, sort = _alike(np.column_stack([value, may]))
    flow = _flow(np.bincount(sort), value[first], may[first], np.bincount(kind))
    owner = np.empty(len(value), dtype=np.int64)
    items = np.argsort(sort, kind="stable")
    taker = np.repeat(np.tile(np.arange(flow.shape[1]), len(flow)), flow.reshape(-1))
    for number in range(flow.shape[1]):
        mine, members = items[taker == number], np.flatnonzero(kind == number)
        owner[mine] = members[np.arange(len(mine)) % len(members)]
    return owner


def _flow(supply: IntArray, value: IntArray, may: BoolArray, size: IntArray) -> IntArray:
    """
    How many items of each sort go to each kind of member, shape (sorts, kinds): the most even, then the most valuable.

    Successive shortest paths: an item enters at one kind, which may pass another item on to make room, and so on. Where
    everybody may have everything, each member gets at least the floor of the mean, which is dealt out without a price.
    """
    left, total = supply.copy(), int(supply.sum())
    base = total // int(size.sum()) if may.all() else 0
    step = 1 + total * int(value.max(initial=0))
    price = np.where(may, -value, _FAR)
    flow = np.zeros_like(price)
    load = np.zeros_like(size)
    passing = np.full((len(size), len(size)), _FAR)  # the least it costs that one kind hands an item to another
    passed = np.zeros_like(passing)  # and which sort that is
    while left.any():
        waiting = np.flatnonzero(left)
        entering = price[waiting].min(axis=0)
        distance, before = _shortest(entering, passing)
        end = int(np.argmin(distance + step * np.maximum(load // size - base + 1, 0)))
        free = max(base * int(size[end]) - int(load[end]), 0)
        room = free or int(size[end] - load[end] % size[end])
        if before[end] < 0:  # nobody has to pass anything on, so all that are worth as much go at once
            sorts = waiting[price[waiting, end] == entering[end]]
            gone = np.clip(room - np.cumsum(left[sorts]) + left[sorts], 0, left[sorts])
            flow[sorts, end] += gone
            left[sorts] -= gone
            load[end] += gone.sum()
            changed = [end]
        else:
            changed = _trail(before, end)
            hops = [(int(passed[one, other]), one, other) for one, other in pairwise(changed)]
            enters = int(waiting[np.argmin(price[waiting, changed[0]])])
            amount = min(room, int(left[enters]), *(int(flow[sort, one]) for sort, one, _ in hops))
            left[enters] -= amount
            flow[enters, changed[0]] += amount
            for sort, one, other in hops:
                flow[sort, one] -= amount
                flow[sort, other] += amount
            load[end] += amount
        for one in changed:
            held = np.flatnonzero(flow[:, one])
            costs = price[held] - price[held, one][:, None]
            passing[one] = costs.min(axis=0, initial=_FAR)
            if len(held):
                passed[one] = held[costs.argmin(axis=0)]
    return flow


def _shortest(entering: IntArray, passing: IntArray) -> tuple[IntArray, IntArray]:
    """Bellman and Ford: the least cost of entering at each kind, and which kind passes on to it (-1: none)."""
    distance, before = entering.copy(), np.full(len(entering), -1, dtype=np.int64)
    everyone = np.arange(len(entering))
    while True:
        through = distance[:, None] + passing
        best = through.argmin(axis=0)
        shorter = through[best, everyone] < distance
        if not shorter.any():
            return distance, before
        distance = np.where(shorter, through[best, everyone], distance)
        before = np.where(shorter, best, before)


def _trail(before: IntArray, end: int) -> list[int]:
    trail = [end]
    while (one := int(before[trail[-1]])) >= 0:
        trail.append(one)
    return trail[::-1]
