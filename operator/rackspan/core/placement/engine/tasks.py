"""Groups of partitions that are placed under the same rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from rackspan.core.topology import BoolArray, IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Partitions under the same rules, by their row numbers.

    `rows` has the shape (partitions,). `tree` has the eligible brokers, `size` is the replication factor, `skews` are
    those of `rackspan.core.compliance.allowed_skews`, and `preferred` (brokers,) marks the brokers that should lead.
    """

    tree: RackTree
    size: int
    skews: Mapping[int, tuple[int, bool]]
    preferred: BoolArray
    rows: IntArray
