"""
Which domains hold replicas of each partition, and how many.

A partition of `r` replicas lies in at most `r` domains of a level, however many there are. So for each level there is
one list of pairs of a partition and a domain, in the order of both. As brokers are in depth-first order, sorting the
replicas of a partition sorts them at all levels, and the pairs form a forest: those of one level are the parents of
consecutive ones of the level below.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import BoolArray, IntArray, RackTree

_CELLS = 1 << 18  # replicas looked at in one go


@dataclass(frozen=True, slots=True, eq=False)
class DomainHoldings:
    """
    Pairs of a partition and a domain of one level that holds any of its replicas, as arrays of shape (pairs,).

    `count` are the replicas there, `first` is where the pairs below begin in the next level (brokers: their own index).
    """

    row: IntArray
    domain: IntArray
    count: IntArray
    first: IntArray

    def __len__(self) -> int:
        return len(self.row)


def holdings(tree: RackTree, placed: IntArray) -> tuple[DomainHoldings, ...]:
    """
    Pairs for each level of `tree.nodes`, from the root to the brokers.

    `placed` are positions, shape (partitions, replicas), -1 for none; a broker that is named twice counts once.
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
    """Sums of the stretches that begin at `first`, none of them empty."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    total: IntArray = np.add.reduceat(values.astype(np.int64, copy=False), first)
    return total


def blocks(count: int, width: int) -> Iterator[slice]:
    """Cut rows into stretches that are looked at in one go: the memory that a row takes grows with its `width`."""
    step = max(1, _CELLS // max(width, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
