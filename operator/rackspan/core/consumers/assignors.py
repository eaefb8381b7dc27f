"""Rack-aware assignment (KIP-881): how many partitions the members of a consumer group could read in their own domain.

Balance comes first, locality second.

- `assign_evenly`: each member reads as many partitions as any other, as far as subscriptions allow: floor or ceiling of
  the mean if all members subscribe to the same topics. `cooperative-sticky`, `sticky` and `uniform` have this goal.
- `assign_ranges`: each topic is divided evenly among its subscribers. Topics with the same subscribers and the same
  partitions are co-partitioned: partition p of each goes to the same member. `range` has this goal.

Both are exact: no assignment that is as even has more partitions near. None of Kafka's own assignors guarantees this
optimum. The client's `range` and `cooperative-sticky` (KIP-881, Kafka 3.5) give a partition to the first member that
matches and has room, and never revise that. `range` also considers co-partitioned topics only if all of them match.
Without a previous assignment, the assignors of Kafka 4.3 never exceed the optimum. If replicas are striped over the
racks and each rack has as many members, `cooperative-sticky` reaches the optimum and `range` nearly always does. In
random groups they reach it in 98 % and 79 % of the cases. The assignors in the brokers, `uniform` and `range` of
KIP-848, ignore racks (KAFKA-19909).

Members with the same domain and subscription are of one kind. Partitions with replicas in the same domains are of one
sort. The rest is a small transport problem between sorts and kinds, solved by successive shortest paths. The price of
a member's next partition grows with the number it has, in steps larger than all locality together, so the most even
counts are the cheapest. One search serves all members with the same lowest price, so the number of searches grows with
the partitions per member, not with the partitions.

Members choose their subscriptions, so one user can make kinds as many as members. A search continues only from kinds
that became cheaper, and the price of entering at a kind is looked up again only once its cheapest sort is used up.

Both functions assign from scratch: they ignore the present assignment and do not count how many partitions would change
members. `cooperative-sticky`, `sticky` and `uniform` keep as much of the present assignment as they can.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import BoolArray, IntArray

_FAR = np.int64(1 << 60)  # the price of what is not allowed; the sum of two still fits into 64 bits
_NEVER = _FAR // 2  # more than any sum of allowed prices
_SOME = 256  # sorts per block
_AT_ONCE = 1 << 15  # prices per block: as many as fit into a processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Readers:
    """
    The members of a group and the partitions they read: n partitions of t topics, m members (at least 1) in d domains.

    `topic` (n,) is an index, `number` (n,) the partition's id, `near` (n, d) marks the domains with a replica of it.
    `domain` (m,) is the domain of each member, -1 if it is not known; `subscribed` (m, t) marks the topics it may read.
    Each topic has a subscriber, and no partition is listed twice.
    """

    topic: IntArray
    number: IntArray
    near: BoolArray
    domain: IntArray
    subscribed: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class GroupAssignment:
    """The member that reads each partition, shape (n,), and the number of partitions whose member is near."""

    owner: IntArray
    near: int


def assign_evenly(readers: Readers) -> GroupAssignment:
    """Return an assignment with the most even counts per member and, among those, the most partitions near.

    The assignment is not sticky: the present assignment has no influence.
    """
    _, subscription = _alike(readers.subscribed)
    first, kind = _alike(np.column_stack([readers.domain, subscription]))
    _, audience = _alike(readers.subscribed.T)
    one, sort = _alike(np.column_stack([audience[readers.topic], readers.near]))
    value = _near(readers.near[one], readers.domain[first]).astype(np.int64)
    may = readers.subscribed[first][:, readers.topic[one]].T
    return _assignment(readers, _dealt(sort, value, may, kind))


def assign_ranges(readers: Readers) -> GroupAssignment:
    """Return a co-partitioned assignment with the most even counts per topic and, among those, the most near."""
    owner = np.full(len(readers.topic), -1, dtype=np.int64)
    for rows, members in _copartitioned(readers):
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
    """Return whether partitions have a replica in each domain, shape (n, domains); false for unknown domains (-1)."""
    here = np.zeros((len(near), len(domain)), dtype=bool)
    known = domain >= 0
    here[:, known] = near[:, domain[known]]
    return here


def _copartitioned(readers: Readers) -> list[tuple[IntArray, IntArray]]:
    """Return the partitions of topics with the same subscribers and partition ids, each with those subscribers."""
    bundles: dict[tuple[bytes, bytes], list[int]] = {}
    order = np.lexsort((readers.number, readers.topic))
    starts = np.searchsorted(readers.topic[order], np.arange(readers.subscribed.shape[1] + 1))
    rows = np.split(order, starts[1:-1])
    for topic in np.unique(readers.topic).tolist():
        numbers = readers.number[rows[topic]]
        bundles.setdefault((readers.subscribed[:, topic].tobytes(), numbers.tobytes()), []).append(topic)
    return [
        (np.concatenate([rows[topic] for topic in topics]), np.flatnonzero(readers.subscribed[:, topics[0]]))
        for topics in bundles.values()
    ]


def _alike(rows: npt.NDArray[np.generic]) -> tuple[IntArray, IntArray]:
    """Group equal rows into kinds: return the first row of each kind, and the kind of each row."""
    if not rows.size:
        return np.arange(min(1, len(rows))), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.strides[0]))).reshape(-1)  # np.unique(axis=0) is slow for many columns
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    return first, kind


def _dealt(sort: IntArray, value: IntArray, may: BoolArray, kind: IntArray) -> IntArray:
    """Return the member that gets each item, shape (items,).

    Items of one `sort` (items,) are alike, and so are members of one `kind` (members,). `value` (sorts, kinds) is the
    value of an item for a member, `may` (sorts, kinds) whether the member may have the item.
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
    """The number of items of each sort that go to each kind of member: the most even solution, then the most valuable.

    Successive shortest paths: an item enters at one kind, which may pass another item on to make room, and so on. After
    one search, all items that can go at the lowest price are sent: a path stays shortest as long as its steps exist. If
    every member may have every item, each member gets at least the floor of the mean; that part has no price.
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
        self._came: dict[int, list[int]] = {}  # since the last search: kinds and the sorts they got more of,
        self._poorer: set[int] = set()  # kinds that have given up all their items of a sort,
        self._cut: set[int] = set()  # and kinds that get nothing more from the one before them

    def solved(self) -> IntArray:
        """Return the flow, shape (sorts, kinds)."""
        everyone = np.arange(len(self._size))
        passing = np.full((len(everyone), len(everyone)), _FAR)  # lowest price for passing an item between two kinds
        entering, first, lacking = np.full(len(everyone), _FAR), np.zeros_like(everyone), everyone
        while self._left.any():
            for kind in lacking.tolist():
                entering[kind], first[kind] = self._entering(kind)
            distance, before = _shortest(entering, passing)
            cost = distance + self._step * np.maximum(self._load // self._size - self._base + 1, 0)
            self._came, self._poorer, self._cut = {}, set(), set()
            for end in np.flatnonzero(cost == cost.min()).tolist():
                trail = _trail(before, end)
                self._send(trail, int(entering[trail[0]]), passing)
            for kind in self._came.keys() - self._poorer:
                np.minimum(passing[kind], self._passing(kind, np.array(self._came[kind])), out=passing[kind])
            for kind in self._poorer:
                passing[kind] = self._passing(kind, np.flatnonzero(self._flow[kind]))
            lacking = np.flatnonzero((entering < _FAR) & (self._left[first] == 0))
        return self._flow.T

    def _entering(self, kind: int) -> tuple[int, int]:
        """Return the lowest price at which an item can enter at a kind, and a sort that has this price."""
        waiting = self._waiting(kind)
        return (-int(self._worth[kind, waiting[0]]), int(waiting[0])) if len(waiting) else (int(_FAR), 0)

    def _waiting(self, kind: int) -> IntArray:
        """Return some of the sorts with items left, those of the highest value to a kind first."""
        while (at := int(self._next[kind])) < len(self._left):
            some: IntArray = self._best[kind, at : at + _SOME]
            left = np.flatnonzero(self._left[some])
            if len(left):
                self._next[kind] += left[0]
                return some[left]
            self._next[kind] += _SOME
        return self._best[kind, :0]

    def _send(self, trail: list[int], entering: int, passing: IntArray) -> None:
        """Send as many items as possible along a trail."""
        first, end = trail[0], trail[-1]
        sorts = self._waiting(first)
        sorts = sorts[self._worth[first, sorts] == -entering]
        if not len(sorts) or not self._cut.isdisjoint(trail):
            return
        hops = []
        for one, other in pairwise(trail):
            if (sort := self._passed(one, other, int(passing[one, other]))) < 0:
                self._cut.add(other)
                return
            hops.append((one, other, sort))
        free = self._base * int(self._size[end]) - int(self._load[end])
        room = free if free > 0 else int(self._size[end] - self._load[end] % self._size[end])
        left = self._left[sorts]
        amount = min(room, int(left.sum()), *(int(self._flow[one, sort]) for one, _, sort in hops))
        gone = np.clip(amount - np.cumsum(left) + left, 0, left)
        self._left[sorts] -= gone
        self._flow[first, sorts] += gone
        self._load[end] += amount
        self._came.setdefault(first, []).extend(sorts[gone > 0].tolist())
        for one, other, sort in hops:
            self._flow[one, sort] -= amount
            self._flow[other, sort] += amount
            self._came.setdefault(other, []).append(sort)
            if not self._flow[one, sort]:
                self._poorer.add(one)

    def _passed(self, one: int, other: int, price: int) -> int:
        """Return a sort that one kind holds and can pass to another at this price; -1 if none is left."""
        held = np.flatnonzero(self._flow[one])
        right = self._worth[one, held] - self._worth[other, held] == price
        return int(held[right.argmax()]) if right.any() else -1

    def _passing(self, kind: int, sorts: IntArray) -> IntArray:
        """Return the lowest price at which a kind passes one of these sorts to each other kind, shape (kinds,)."""
        least = np.full(len(self._size), _FAR)
        for at in range(0, len(sorts), step := 1 + _AT_ONCE // len(least)):
            worth = self._worth[:, sorts[at : at + step]]
            np.minimum(least, (worth[kind] - worth).min(axis=1), out=least)
        return least


def _shortest(entering: IntArray, passing: IntArray) -> tuple[IntArray, IntArray]:
    """Return the lowest price of reaching each kind (Bellman-Ford), and the kind that passes on to it (-1: none).

    Each round continues only from kinds that became cheaper. So kinds that no item can reach any more cost nothing.
    """
    distance, before = np.minimum(entering, _NEVER), np.full(len(entering), -1, dtype=np.int64)
    cheaper = np.flatnonzero(distance < _NEVER)
    while len(cheaper):
        through = passing[cheaper]
        through += distance[cheaper, None]
        least = through.min(axis=0)
        better = np.flatnonzero(least < distance)
        distance[better], before[better] = least[better], cheaper[through[:, better].argmin(axis=0)]
        cheaper = better
    return distance, before


def _trail(before: IntArray, end: int) -> list[int]:
    trail = [end]
    while (one := int(before[trail[-1]])) >= 0:
        trail.append(one)
    return trail[::-1]
