"""
What-if: what the loss of a domain, of a broker or of several at once does to partitions.

A partition's replicas in sync outside of what is lost are what is left of it. With fewer than one it is offline, unless
an eligible leader replica is left, which leads without a loss (KIP-966). With fewer than its topic's
`min.insync.replicas`, or than all of its replicas where these are fewer, it does not take `acks=all` writes; with
exactly one it is on its last replica. The numbers say how the cluster would be, not how much worse than before: what is
offline already is offline in every case, and losing nothing is a case as well. Partitions that are offline also count
as not writable.

All partitions are looked at together. Of a level's domains a partition only has to do with those that hold replicas of
it, so the counts start from how things are without a loss, and each pair of a partition and a domain corrects them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import effective_min_insync
from rackspan.core.rack_path import domain_name
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import BoolArray, IntArray, Level, RackTree

_PIECE = 24  # bits: sums of so many in doubles are exact up to 2^29 replicas
_MASK = (1 << _PIECE) - 1


@dataclass(frozen=True, slots=True)
class Outage:
    """
    What follows from one loss.

    `offline`, `not_writable` (those offline included) and `last_replica` count partitions. `replicas` lie on what is
    lost, in sync or not, and `size_bytes` is what they hold: to be copied again unless it comes back. None where the
    size of none of them is known, or of no partition at all; where that of some is, it is a lower bound.
    """

    offline: int
    not_writable: int
    last_replica: int
    replicas: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class DomainOutage:
    """The loss of one domain; the last level is `broker`, its domains are broker ids."""

    level: str
    domain: str
    brokers: int
    outage: Outage


def min_insync_replicas(configs: Sequence[Mapping[str, str]]) -> IntArray:
    """`min.insync.replicas` per topic, Kafka's default of 1 where it is not set, shape (topics,)."""
    return np.array([int(config.get(MIN_INSYNC, 1)) for config in configs], dtype=np.int64)


def outage_of(tree: RackTree, partitions: Partitions, min_insync: IntArray, lost: Iterable[int]) -> Outage:
    """
    What the loss of some brokers at once does; none at all says how things are.

    `min_insync` is per topic. A replica on a broker that the tree does not know is lost already, and not counted. So is
    one on a broker that is not online, but for `replicas` and `size_bytes`: it can neither lead nor acknowledge.
    """
    is_lost = np.zeros(len(tree) + 1, dtype=bool)
    is_lost[tree.positions(np.fromiter(lost, dtype=np.int64))] = True
    is_lost[NONE] = False
    at = tree.positions(partitions.replicas)
    there = is_lost[at] & (at != NONE)
    stays = _online(tree, at) & ~there
    left, eligible = (np.count_nonzero(able & stays, axis=1) for able in (partitions.in_sync, partitions.eligible))
    rows, _ = np.nonzero(there)
    known = partitions.size_bytes != NONE
    sizes = partitions.size_bytes[rows][known[rows]]
    return Outage(
        offline=int(np.count_nonzero((left == 0) & (eligible == 0))),
        not_writable=int(np.count_nonzero(left < _needed(partitions, min_insync))),
        last_replica=int(np.count_nonzero(left == 1)),
        replicas=len(rows),
        size_bytes=sum(sizes.tolist()) if len(sizes) or (known.any() and not len(rows)) else None,
    )


def outages(tree: RackTree, partitions: Partitions, min_insync: IntArray) -> Iterator[DomainOutage]:
    """What the loss of each domain of each level does, and of each broker, in the tree's order."""
    at = tree.positions(partitions.replicas)
    there, online = at != NONE, _online(tree, at)
    in_sync, eligible = partitions.in_sync & online, partitions.eligible & online
    least = _needed(partitions, min_insync)
    for level in tree.nodes[1:]:
        domain = np.where(there, level.of_broker[at], NONE)
        offline, not_writable, last = _states(level, domain, in_sync, least)
        if eligible.any():
            offline = _states(level, domain, in_sync | eligible, least)[0]
        replicas = np.bincount(domain[there], minlength=len(level)).tolist()
        size_bytes = _bytes(level, domain, partitions.size_bytes)
        brokers = np.bincount(level.of_broker, minlength=len(level)).tolist()
        for number, path in enumerate(level.paths):
            counts = (int(offline[number]), int(not_writable[number]), int(last[number]))
            name = str(tree.ids[number]) if level is tree.nodes[-1] else domain_name(path)
            yield DomainOutage(level.name, name, brokers[number], Outage(*counts, replicas[number], size_bytes[number]))


def _online(tree: RackTree, at: IntArray) -> BoolArray:
    """Whether replicas at positions in the tree are on brokers that are online, in the shape of `at`."""
    found: BoolArray = np.append(tree.online, [False])[at]
    return found


def _needed(partitions: Partitions, min_insync: IntArray) -> IntArray:
    """Replicas in sync with which each partition takes `acks=all` writes, shape (partitions,)."""
    return effective_min_insync(min_insync[partitions.topic], partitions.replication_factor)


def _states(level: Level, domain: IntArray, in_sync: BoolArray, least: IntArray) -> IntArray:
    """Partitions offline, not writable and on their last replica, by the domain that is lost: shape (3, domains)."""
    total = np.count_nonzero(in_sync, axis=1)
    sums = _counted(np.zeros_like(total), total, least, 1) + np.zeros((1, len(level)), dtype=np.int64)
    columns = [np.where(in_sync[:, at], domain[:, at], NONE) for at in range(domain.shape[1])]
    for at, column in enumerate(columns):
        first = column != NONE
        held = np.zeros(len(column), dtype=np.int64)
        for other, another in enumerate(columns):
            same = column == another
            held += same
            if other < at:
                first &= ~same
        rows = np.flatnonzero(first)
        before, needed = total[rows], least[rows]
        sums += _counted(column[rows], before - held[rows], needed, len(level))
        sums -= _counted(column[rows], before, needed, len(level))
    return sums


def _counted(where: IntArray, left: IntArray, needed: IntArray, domains: int) -> IntArray:
    """Count by domain the rows that are offline, not writable and on their last replica, shape (3, domains)."""
    states = (left == 0, left < needed, left == 1)
    return np.array([np.bincount(where[state], minlength=domains) for state in states], dtype=np.int64)


def _bytes(level: Level, domain: IntArray, size_bytes: IntArray) -> Sequence[int | None]:
    """Exact sums of bytes per domain: in pieces, since a double holds 53 bits and the sum may have more."""
    known = size_bytes != NONE
    if not known.any():
        return [None] * len(level)
    sums = [0] * len(level)
    there, measured = (np.bincount(some[some != NONE], minlength=len(level)) for some in (domain, domain[known]))
    for at in range(domain.shape[1]):
        counted = known & (domain[:, at] != NONE)
        where, sizes = domain[counted, at], size_bytes[counted]
        for shift in range(0, 63, _PIECE):
            piece = np.bincount(where, weights=(sizes >> shift) & _MASK, minlength=len(level))
            sums = [total + (int(part) << shift) for total, part in zip(sums, piece.tolist(), strict=True)]
    unknown = ((there > 0) & (measured == 0)).tolist()
    return [None if none_known else total for none_known, total in zip(unknown, sums, strict=True)]
