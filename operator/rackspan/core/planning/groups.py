"""Which partitions are planned for together: those with the same replication factor and the same wishes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.feasibility import checked_tree, refuse_impossible_spread
from rackspan.core.placement.model import InfeasibleError, PlacementSpec
from rackspan.core.placement.multilevel import lasting_leaders
from rackspan.core.planning.request import Problem, Request, Wish
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import IntArray, RackTree


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """
    Partitions under the same rules, as row numbers.

    `tree` says which brokers are eligible for them; `spec` has their replication factor, spread and preferred leaders;
    `preferred` (brokers,) are the brokers that should lead, whether they are online now or not.
    """

    tree: RackTree
    spec: PlacementSpec
    preferred: npt.NDArray[np.bool_]
    rows: IntArray


def grouped(request: Request, table: Partitions, chosen: npt.NDArray[np.bool_]) -> tuple[list[Group], list[Problem]]:
    """Group the `chosen` rows of a table; what cannot be done is left out of the groups and named."""
    groups, problems = [], []
    for wish, size, rows in _alike(request.wishes, table, np.flatnonzero(chosen)):
        spec = PlacementSpec(
            0, size, spread=wish.spread, include=wish.include, exclude=wish.exclude, leaders=wish.leaders
        )
        try:
            tree = checked_tree(spec, request.tree)
            refuse_impossible_spread(tree, spec)
            preferred = lasting_leaders(tree, spec.leaders)
        except InfeasibleError as error:
            topics = tuple(table.names[topic] for topic in np.unique(table.topic[rows]).tolist())
            problems.append(Problem(topics, error.reason, error.smallest_change))
        else:
            groups.append(Group(tree, spec, preferred, rows))
    return groups, problems


def _alike(wishes: Mapping[str, Wish], table: Partitions, chosen: IntArray) -> Iterator[tuple[Wish, int, IntArray]]:
    """Rows with equal wishes and equal replication factor, the wished one if there is any."""
    kinds: dict[Wish, int] = {Wish(): 0}
    of_topic = np.array(
        [kinds.setdefault(_in_common(wishes[name]), len(kinds)) if name in wishes else 0 for name in table.names],
        dtype=np.int64,
    )
    own = table.replication_factor
    for wish, kind in kinds.items():
        rows = chosen[of_topic[table.topic[chosen]] == kind]
        if wish.replication_factor is not None:
            if len(rows):
                yield wish, wish.replication_factor, rows
            continue
        for size in np.unique(own[rows]).tolist():
            yield wish, size, rows[own[rows] == size]


def _in_common(wish: Wish) -> Wish:
    return replace(wish, partitions=None, assignment=(), seed=None)
