"""The domains that hold replicas of each partition, and the number of replicas in each.

A partition of `r` replicas is in at most `r` domains of a level, however many domains exist. So each level has one list
of (partition, domain) pairs, sorted by partition, then domain. Brokers are in depth-first order, so sorting the
replicas of a partition sorts them at all levels. The pairs form a forest: each pair is the parent of consecutive pairs
of the level below.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import BoolArray, IntArray, RackTree

_CELLS = 1 << 18  # replicas per block


@dataclass(frozen=True, slots=True, eq=False)
class DomainHoldings:
    """Pairs of a partition (`row`) and a domain of one level that holds replicas of it, as arrays of shape (pairs,).

    `count` is the number of replicas there. `first` is the index of the pair's first child in the level below (brokers:
    their own index).
    """

    row: IntArray
    domain: IntArray
    count: IntArray
    first: IntArray

    def __len__(self) -> int:
        return len(self.row)


def holdings(tree: RackTree, placed: IntArray) -> tuple[DomainHoldings, ...]:
    """Return the pairs for each level of `tree.nodes`, from the root to the brokers.

    `placed` are positions, shape (partitions, replicas), -1 for none. A broker that is listed twice counts once.
    """
    ordered = np.sort(placed, axis=1)
    there = ordered >= 0
    there[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    row, column = np.nonzero(there)
    domain = ordered[row, column].astype(np.int64)
    level = DomainHoldings(row, domain, np.ones(len(row), dtype=np.int64), np.arange(len(row)))
    found = [level]
    for nodes in tree.nodes[:0:-1]:
        above = nodes.parent[level.domain]
        new = np.ones(len(above), dtype=bool)
        new[1:] = (above[1:] != above[:-1]) | (level.row[1:] != level.row[:-1])
        first = np.flatnonzero(new)
        level = DomainHoldings(level.row[first], above[first], sums(level.count, first), first)
        found.append(level)
    return tuple(reversed(found))


def sums(values: npt.NDArray[np.integer] | BoolArray, first: IntArray) -> IntArray:
    """Return the sums of the slices that begin at the indices `first`; no slice is empty."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    total: IntArray = np.add.reduceat(values.astype(np.int64, copy=False), first)
    return total


def blocks(count: int, width: int) -> Iterator[slice]:
    """Cut rows into slices to process one at a time; the size shrinks with `width`, to limit the memory."""
    step = max(1, _CELLS // max(width, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
