"""What-if analysis: the effect on partitions if a domain, a broker or several brokers at once are lost.

The in-sync replicas outside the loss are the ones that are left. If none is left, the partition is offline, unless an
eligible leader replica is left, which can lead without data loss (KIP-966). If fewer are left than the topic's
`min.insync.replicas`, or than the replication factor if that is smaller, the partition does not accept `acks=all`
writes. If exactly one is left, the partition is on its last replica. The numbers describe the cluster after the loss,
not the difference to before: a partition that is offline already is offline in every case. A loss of no broker is a
valid case. Partitions that are offline also count as not writable.

All partitions are computed together. A partition has replicas in only a few domains of a level. So the counts start
from the state without a loss, and each pair of a partition and a domain that holds replicas of it corrects them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import effective_min_insync
from rackspan.core.rack_path import domain_name
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import BoolArray, IntArray, Level, RackTree

_PIECE = 24  # bits; sums of such pieces in doubles are exact for up to 2^29 replicas
_MASK = (1 << _PIECE) - 1


@dataclass(frozen=True, slots=True)
class Outage:
    """The effect of one loss.

    `offline`, `not_writable` (which includes offline ones) and `last_replica` count partitions. `replicas` counts the
    replicas on the lost brokers, in sync or not, and `size_bytes` is their size: to copy again unless the brokers come
    back. `size_bytes` is None if the size of none of them, or of no partition, is known; a lower bound if some are.
    """

    offline: int
    not_writable: int
    last_replica: int
    replicas: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class DomainOutage:
    """The effect of losing one domain. The last level is `broker`, with broker ids as domains."""

    level: str
    domain: str
    brokers: int
    outage: Outage


def min_insync_replicas(configs: Sequence[Mapping[str, str]]) -> IntArray:
    """Return `min.insync.replicas` per topic, shape (topics,); Kafka's default of 1 if it is not set."""
    return np.array([int(config.get(MIN_INSYNC, 1)) for config in configs], dtype=np.int64)


def outage_of(tree: RackTree, partitions: Partitions, min_insync: IntArray, lost: Iterable[int]) -> Outage:
    """Return the effect of losing some brokers at once; with no `lost` brokers, the present state.

    `min_insync` is per topic. A replica on a broker that is not in the tree is lost already and is not counted. A
    replica on a broker that is not online counts only for `replicas` and `size_bytes`: it cannot lead or acknowledge.
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
    """Yield the effect of losing each domain of each level, then each broker, in the tree's order."""
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
    """Return whether the brokers at the positions `at` in the tree are online, in the shape of `at`."""
    found: BoolArray = np.append(tree.online, [False])[at]
    return found


def _needed(partitions: Partitions, min_insync: IntArray) -> IntArray:
    """Return how many in-sync replicas each partition needs to accept `acks=all` writes, shape (partitions,)."""
    return effective_min_insync(min_insync[partitions.topic], partitions.replication_factor)


def _states(level: Level, domain: IntArray, in_sync: BoolArray, least: IntArray) -> IntArray:
    """Count partitions offline, not writable and on their last replica, by the lost domain: shape (3, domains)."""
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
    """Return exact sums of bytes per domain. Sizes are summed in pieces: a sum may exceed the 53 bits of a double."""
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
