"""Partitions with an explicit assignment: whether they lie as it says, and what it costs them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.judging import judge
from rackspan.core.snapshot import NONE, in_row, of_width
from rackspan.core.topology import BoolArray, IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Pinned:
    """
    Partitions held against an explicit assignment, shape (partitions,) each.

    `different`: their replicas are others than it says, or in another order, and `moves_of` are to be copied for that.
    `ineligible`: it names a broker that shall hold nothing. Of the others, those that are `unfair` lie as it says and
    are not spread fairly: that is no fault, and without the assignment `moves_without` would fix it.
    """

    different: BoolArray
    moves_of: IntArray
    ineligible: BoolArray
    unfair: BoolArray
    moves_without: IntArray

    @property
    def broken(self) -> BoolArray:
        """Whether they are out of compliance."""
        return self.different | self.ineligible


def judge_pinned(tree: RackTree, replicas: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> Pinned:
    """
    Hold partitions against what is assigned to them, in the same order; a row of `wanted` that is empty says nothing.

    Both are broker ids, shape (partitions, replicas), padded with -1.
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
    """What an assignment says of partitions with these numbers, as a row each: nothing beyond its end."""
    rows = np.full((len(assignment) + 1, max(map(len, assignment), default=0)), NONE, dtype=np.int64)
    for at, row in enumerate(assignment):
        rows[at, : len(row)] = row
    return rows[np.minimum(number, len(assignment))]
