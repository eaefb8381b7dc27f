"""Partitions that are worked on under the same rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from rackspan.core.topology import BoolArray, IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """
    Partitions under the same rules, by their row numbers.

    `rows` has the shape (partitions,). `tree` says which brokers are eligible for them, `size` is their replication
    factor, `skews` are those of `rackspan.core.compliance.allowed_skews`, `preferred` (brokers,) the brokers that
    should lead.
    """

    tree: RackTree
    size: int
    skews: Mapping[int, tuple[int, bool]]
    preferred: BoolArray
    rows: IntArray
