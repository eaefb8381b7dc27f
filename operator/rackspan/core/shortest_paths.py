"""Shortest paths in a dense graph: one round of the Bellman-Ford algorithm, over all arcs at once."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import IntArray

N = TypeVar("N", bound=np.signedinteger[Any])


def relaxed(
    distance: npt.NDArray[N], before: IntArray, costs: npt.NDArray[N]
) -> tuple[npt.NDArray[N], IntArray] | None:
    """Return the distances with one more arc, and the predecessor of each node; None if no distance gets shorter.

    `distance` and `before` have the shape (nodes,). `before` is the predecessor, -1 for the first node of a path.
    `costs` (nodes, nodes) are the costs of the arcs from each node to each other node.
    """
    through = distance[:, None] + costs
    best = through.argmin(axis=0)
    least = through[best, np.arange(len(distance))]
    shorter = least < distance
    if not shorter.any():
        return None
    return np.where(shorter, least, distance), np.where(shorter, best, before)
