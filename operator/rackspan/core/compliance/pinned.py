"""Partitions with an explicit assignment: whether their replicas follow it, and the moves it takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.judging import judge
from rackspan.core.snapshot import NONE, in_row, of_width
from rackspan.core.topology import BoolArray, IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Pinned:
    """The comparison of partitions with an explicit assignment, shape (partitions,) each.

    `different`: the replicas differ from the assignment, also if only in order; `moves_of` replicas have to be copied.
    `ineligible`: the assignment names a broker that is not eligible. `unfair`: neither of these, but the assigned
    replicas are not spread fairly. That is no violation; without the assignment `moves_without` moves would fix it.
    """

    different: BoolArray
    moves_of: IntArray
    ineligible: BoolArray
    unfair: BoolArray
    moves_without: IntArray

    @property
    def broken(self) -> BoolArray:
        """Which partitions are out of compliance."""
        return self.different | self.ineligible


def judge_pinned(tree: RackTree, replicas: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> Pinned:
    """Compare partitions with the replicas assigned to them, in the same order.

    Both are broker ids, shape (partitions, replicas), padded with -1. An empty row of `wanted` means no assignment.
    """
    width = max(replicas.shape[1], wanted.shape[1])
    held, said = of_width(replicas, width), of_width(wanted, width)
    named = said != NONE
    new = named & ~in_row(said, held)
    barred = named & np.append(~tree.eligible, [False])[tree.positions(said)]
    different = named.any(axis=1) & (said != held).any(axis=1)
    ineligible = barred.any(axis=1)
    compliance = judge(tree, held)
    unfair = compliance.broken & named.any(axis=1) & ~different & ~ineligible
    return Pinned(different, new.sum(axis=1), ineligible, unfair, np.where(unfair, compliance.moves_of, 0))


def assigned(assignment: Sequence[Sequence[int]], number: IntArray) -> IntArray:
    """Return the row of an assignment for each partition number; an empty row beyond the end of the assignment."""
    rows = np.full((len(assignment) + 1, max(map(len, assignment), default=0)), NONE, dtype=np.int64)
    for at, row in enumerate(assignment):
        rows[at, : len(row)] = row
    return rows[np.minimum(number, len(assignment))]
