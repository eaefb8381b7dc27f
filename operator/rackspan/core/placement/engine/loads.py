"""The loads of brokers: replicas, leaders and bytes, as arrays that planning keeps up to date."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rackspan.core.topology import FloatArray, IntArray, RackTree

ByteSums = FloatArray
"""Sums of bytes: exact up to 2^53. Larger sums are rounded, whereas int64 would wrap."""


@dataclass(slots=True, eq=False)
class Loads:
    """Replicas, leaders and bytes per broker, shape (brokers,) each, in depth-first order.

    Code that moves replicas must update the loads.
    """

    replicas: IntArray
    leaders: IntArray
    size_bytes: ByteSums

    @classmethod
    def of(cls, tree: RackTree, replicas: Mapping[int, int], leaders: Mapping[int, int]) -> "Loads":
        """Return loads from counts by broker id. A broker that is missing there has none. All bytes are 0."""
        held, led = (
            np.array([counts.get(broker, 0) for broker in tree.ids.tolist()], dtype=np.int64)
            if counts
            else np.zeros(len(tree), dtype=np.int64)
            for counts in (replicas, leaders)
        )
        return cls(held, led, np.zeros(len(tree)))

    def copy(self) -> "Loads":
        """Return a copy of the loads that can be changed independently."""
        return Loads(self.replicas.copy(), self.leaders.copy(), self.size_bytes.copy())

    def add(self, placed: IntArray, size_bytes: IntArray) -> None:
        """Add partitions: rows of positions, -1 for none, the leader first; bytes of one replica, -1 if unknown."""
        self._count(placed, size_bytes, 1)

    def remove(self, placed: IntArray, size_bytes: IntArray) -> None:
        """Subtract partitions; the arguments are those of `add`."""
        self._count(placed, size_bytes, -1)

    def cover(self, placed: IntArray) -> None:
        """Raise the counts to at least the counts of these partitions, because the counts may be older."""
        own = Loads(np.zeros_like(self.replicas), np.zeros_like(self.leaders), np.zeros_like(self.size_bytes))
        own.add(placed, np.zeros(len(placed), dtype=np.int64))
        np.maximum(self.replicas, own.replicas, out=self.replicas)
        np.maximum(self.leaders, own.leaders, out=self.leaders)

    def _count(self, placed: IntArray, size_bytes: IntArray, times: int) -> None:
        row, column = np.nonzero(placed >= 0)
        brokers, count = placed[row, column], len(self.replicas)
        self.replicas += times * np.bincount(brokers, minlength=count)
        self.leaders += times * np.bincount(brokers[column == 0], minlength=count)
        self.size_bytes += times * bytes_on(placed, size_bytes, count)


def bytes_on(placed: IntArray, size_bytes: IntArray, brokers: int) -> ByteSums:
    """Return the bytes on each broker, shape (brokers,), from rows of positions and the bytes of one replica per row.

    A position of -1 means no replica. An unknown size, -1, counts as 0.
    """
    row, column = np.nonzero(placed >= 0)
    known = np.maximum(size_bytes[row], 0)
    return np.bincount(placed[row, column], weights=known, minlength=brokers).astype(np.float64)
