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
One search serves all members that are equally cheap to reach, so the searches grow with the partitions per member, not
with the partitions.

Both assign from scratch: what members read now is not looked at, and nothing is said about how many partitions would
change hands. `cooperative-sticky`, `sticky` and `uniform` keep what they can of it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.shortest_paths import relaxed
from rackspan.core.topology import BoolArray, IntArray

_FAR = np.int64(1 << 60)  # the price of what may not be; two of them still fit
_SOME = 256  # sorts looked at in one go
_AT_ONCE = 1 << 15  # prices compared in one go: as many as a processor's cache holds


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
class GroupAssignment:
    """Which member reads each partition, shape (n,), and how many of them are near it."""

    owner: IntArray
    near: int


def assign_evenly(readers: Readers) -> GroupAssignment:
    """
    Most even counts of partitions per member, and of those assignments one with the most partitions near.

    It is not sticky: what members read now plays no part.
    """
    first, kind = _alike(np.column_stack([readers.domain, readers.subscribed]))
    _, audience = _alike(readers.subscribed.T)
    one, sort = _alike(np.column_stack([audience[readers.topic], readers.near]))
    value = _near(readers.near[one], readers.domain[first]).astype(np.int64)
    may = readers.subscribed[first][:, readers.topic[one]].T
    return _assignment(readers, _dealt(sort, value, may, kind))


def assign_ranges(readers: Readers) -> GroupAssignment:
    """Most even counts per topic with co-partitioning kept, and of those assignments one with the most near."""
    owner = np.full(len(readers.topic), -1, dtype=np.int64)
    for topics, members in _copartitioned(readers):
        rows = np.flatnonzero(np.isin(readers.topic, topics))
        numbers, item = np.unique(readers.number[rows], return_inverse=True)
        first, kind = _alike(readers.domain[members, None])
        near = _near(readers.near[rows], readers.domain[members[first]])
        value = np.zeros((len(numbers), len(first)), dtype=np.int64)
        np.add.at(value, item, near)
        one, sort = _alike(value)
        owner[rows] = members[_dealt(sort, value[one], np.ones((len(one), len(first)), dtype=bool), kind)[item]]
    return _assignment(readers, owner)


def _assignment(readers: Readers, owner: IntArray) -> GroupAssignment:
    domain = readers.domain[owner]
    known = np.flatnonzero(domain >= 0)
    return GroupAssignment(owner, int(np.count_nonzero(readers.near[known, domain[known]])))


def _near(near: BoolArray, domain: IntArray) -> BoolArray:
    """Whether partitions have a replica in each of some domains, none of which need be known, shape (n, domains)."""
    here = np.zeros((len(near), len(domain)), dtype=bool)
    known = domain >= 0
    here[:, known] = near[:, domain[known]]
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


def _dealt(sort: IntArray, value: IntArray, may: BoolArray, kind: IntArray) -> IntArray:
    """
    Which member gets each item, shape (items,).

    `sort` (items,) and `kind` (members,) say which items and members are alike, `value` (sorts, kinds) what an item is
    worth to a member, `may` (sorts, kinds) whether it may have it.
    """
    size = np.bincount(kind)
    flow = _Flow(np.bincount(sort), value, may, size).solved()
    items, members = np.argsort(sort, kind="stable"), np.argsort(kind, kind="stable")
    taker = np.repeat(np.tile(np.arange(len(size)), len(flow)), flow.reshape(-1))
    items, taker = items[by_taker := np.argsort(taker, kind="stable")], taker[by_taker]
    load = flow.sum(axis=0)
    rank = np.arange(len(items)) - (np.cumsum(load) - load)[taker]
    owner = np.empty(len(sort), dtype=np.int64)
    owner[items] = members[(np.cumsum(size) - size)[taker] + rank % size[taker]]
    return owner


class _Flow:
    """
    How many items of each sort go to each kind of member: the most even, then the most valuable.

    Successive shortest paths: an item enters at one kind, which may pass another item on to make room, and so on. All
    that can go at the lowest price goes after one search: a shortest path stays one for as long as its steps are there.
    Where everybody may have everything, each member gets at least the floor of the mean, which has no price.
    """

    def __init__(self, supply: IntArray, value: IntArray, may: BoolArray, size: IntArray) -> None:
        total, most = int(supply.sum()), int(value.max(initial=0))
        self._left, self._size = supply.copy(), size
        self._base = total // int(size.sum()) if may.all() else 0
        self._step = 1 + total * most
        self._worth = np.ascontiguousarray(np.where(may, value, -_FAR).T)  # (kinds, sorts)
        self._flow = np.zeros_like(self._worth)
        self._load = np.zeros_like(size)
        self._best = np.argsort(-self._worth, axis=1, kind="stable")  # sorts that may still enter, from `_next` on
        self._next = np.zeros_like(size)
        self._came: list[tuple[int, IntArray]] = []  # since the last search: sorts that kinds got more of,
        self._poorer: set[int] = set()  # and kinds that have a sort no longer

    def solved(self) -> IntArray:
        """The flow, shape (sorts, kinds)."""
        everyone = range(len(self._size))
        passing = np.full((len(everyone), len(everyone)), _FAR)  # the least it costs that one hands an item to another
        while self._left.any():
            entering = np.array([self._entering(kind) for kind in everyone])
            distance, before = _shortest(entering, passing)
            cost = distance + self._step * np.maximum(self._load // self._size - self._base + 1, 0)
            self._came, self._poorer = [], set()
            for end in np.flatnonzero(cost == cost.min()).tolist():
                trail = _trail(before, end)
                self._send(trail, int(entering[trail[0]]), passing)
            for kind, sorts in self._came:
                np.minimum(passing[kind], self._passing(kind, sorts), out=passing[kind])
            for kind in self._poorer:
                passing[kind] = self._passing(kind, np.flatnonzero(self._flow[kind]))
        return self._flow.T

    def _entering(self, kind: int) -> int:
        """The least it costs that an item enters at a kind."""
        waiting = self._waiting(kind)
        return -int(self._worth[kind, waiting[0]]) if len(waiting) else int(_FAR)

    def _waiting(self, kind: int) -> IntArray:
        """Some of the sorts that are worth most to a kind and are left."""
        while (at := int(self._next[kind])) < len(self._left):
            some: IntArray = self._best[kind, at : at + _SOME]
            left = np.flatnonzero(self._left[some])
            if len(left):
                self._next[kind] += left[0]
                return some[left]
            self._next[kind] += _SOME
        return self._best[kind, :0]

    def _send(self, trail: list[int], entering: int, passing: IntArray) -> None:
        """Send what can go along a trail."""
        first, end = trail[0], trail[-1]
        sorts = self._waiting(first)
        sorts = sorts[self._worth[first, sorts] == -entering]
        hops = [(one, other, self._passed(one, other, int(passing[one, other]))) for one, other in pairwise(trail)]
        free = self._base * int(self._size[end]) - int(self._load[end])
        room = free if free > 0 else int(self._size[end] - self._load[end] % self._size[end])
        left = self._left[sorts]
        amount = min(room, int(left.sum()), *(int(self._flow[one, sort]) if sort >= 0 else 0 for one, _, sort in hops))
        if not amount:
            return
        gone = np.clip(amount - np.cumsum(left) + left, 0, left)
        self._left[sorts] -= gone
        self._flow[first, sorts] += gone
        self._load[end] += amount
        self._came.append((first, sorts[gone > 0]))
        for one, other, sort in hops:
            self._flow[one, sort] -= amount
            self._flow[other, sort] += amount
            self._came.append((other, np.array([sort])))
            if not self._flow[one, sort]:
                self._poorer.add(one)

    def _passed(self, one: int, other: int, price: int) -> int:
        """A sort that one kind holds and can hand to another at this price; -1 where there is none any more."""
        held = np.flatnonzero(self._flow[one])
        right = self._worth[one, held] - self._worth[other, held] == price
        return int(held[right.argmax()]) if right.any() else -1

    def _passing(self, kind: int, sorts: IntArray) -> IntArray:
        """The least it costs that a kind hands one of these sorts to each other kind, shape (kinds,)."""
        least = np.full(len(self._size), _FAR)
        for at in range(0, len(sorts), step := 1 + _AT_ONCE // len(least)):
            worth = self._worth[:, sorts[at : at + step]]
            np.minimum(least, (worth[kind] - worth).min(axis=1), out=least)
        return least


def _shortest(entering: IntArray, passing: IntArray) -> tuple[IntArray, IntArray]:
    """Bellman and Ford: the least cost of entering at each kind, and which kind passes on to it (-1: none)."""
    distance, before = entering.copy(), np.full(len(entering), -1, dtype=np.int64)
    while (shorter := relaxed(distance, before, passing)) is not None:
        distance, before = shorter
    return distance, before


def _trail(before: IntArray, end: int) -> list[int]:
    trail = [end]
    while (one := int(before[trail[-1]])) >= 0:
        trail.append(one)
    return trail[::-1]
